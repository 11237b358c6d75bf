"""Plots: pictures of a load as matplotlib Figures, drawn from tables alone.

May not use pyplot: a Figure belongs to whoever asked for it. Each has its words in `fig.alt`.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from agent_kernel.frames.compactions import rows_of
from agent_kernel.frames.frames import Frames
from agent_kernel.frames.lanes import SOURCES, lanes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

# Okabe and Ito's palette, told apart by colour-blind people; one colour a source everywhere.
COLOURS: Mapping[str, str] = {
    "system": "#999999",
    "prompts": "#0072B2",
    "assistant": "#009E73",
    "tool_results": "#E69F00",
    "attachments": "#CC79A7",
    "summary": "#56B4E9",
    "unexplained": "#D9D9D9",
    "input": "#0072B2",
    "cache_write_5m": "#E69F00",
    "cache_write_1h": "#D55E00",
    "cache_read": "#56B4E9",
}
_MARKERS = {
    "cold": ("o", "#000000"),
    "expired": ("X", "#D55E00"),
    "prefix_change": ("v", "#CC79A7"),
    "model_switch": ("s", "#009E73"),
    "compaction": ("|", "#0072B2"),
}


def _canvas(ax: Axes | None, width: float = 8.0, height: float = 4.0) -> tuple[Figure, Axes]:
    if ax is not None:
        whole = ax.get_figure(root=True)
        assert whole is not None, "these axes have no figure"
        return whole, ax
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("install agent-kernel[plots] to draw") from error
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.add_subplot()


def _told(figure: Figure, alt: str) -> Figure:
    """Give a picture its words, and what a notebook shows of it without pyplot."""
    figure.alt = alt  # type: ignore[attr-defined]
    figure._repr_png_ = partial(png, figure)  # type: ignore[attr-defined]
    return figure


def png(figure: Figure, dpi: int = 100) -> bytes:
    """Return a picture as a PNG file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    out = io.BytesIO()
    FigureCanvasAgg(figure)
    figure.savefig(out, format="png", dpi=dpi)
    return out.getvalue()


def _legend(figure: Figure, axes: Axes, ax: Axes | None, columns: int) -> None:
    """Put the legend below a picture of its own, and inside axes that somebody gave."""
    handles, labels = axes.get_legend_handles_labels()
    labels = [label.replace("_", " ") for label in labels]
    if ax is not None:
        axes.legend(handles, labels, fontsize=7, ncols=2)
    elif handles:
        figure.legend(handles, labels, fontsize=8, loc="outside lower center", ncols=columns)


def _thousands(axis: Axis) -> None:
    axis.set_major_formatter(lambda value, _position: f"{value:,.0f}")


def context(f: Frames, session: str, ax: Axes | None = None) -> Figure:
    """Draw what the main agent's calls of a session carried, by source, with its compactions."""
    figure, axes = _canvas(ax)
    steps = [s for lane in f.load.once(lanes) if _main(lane, session) for s in lane.steps]
    at = range(1, len(steps) + 1)
    layers = {"system": [step.system for step in steps]}
    layers |= {name: [step.by_source[name] for step in steps] for name in SOURCES}
    whole = [step.placed.call.context for step in steps]
    summed = [sum(values) for values in zip(*layers.values(), strict=True)] or []
    layers["unexplained"] = [max(0, a - b) for a, b in zip(whole, summed, strict=True)]
    colours = [COLOURS[name] for name in layers]
    if steps:
        axes.stackplot(at, *layers.values(), labels=list(layers), colors=colours, linewidth=0)
        axes.plot(at, whole, color="#000000", linewidth=0.8, label="context on the wire")
    peak = max(whole, default=0)
    bounds = _boundaries(f, session, [step.placed.rec.seq or 0 for step in steps])
    for place, kind in bounds:
        axes.axvline(place, color="#000000", linestyle=":", linewidth=0.8)
        axes.text(place, peak * 1.1, f" {kind}", va="top", fontsize=8)
    axes.set(xlabel="call", ylabel="tokens", title=f"Context of session {session[:8]}")
    axes.set(xlim=(1, max(2, len(steps))), ylim=(0, peak * 1.12 or 1))
    _thousands(axes.yaxis)
    _legend(figure, axes, ax, 5)
    said = f"Context of {len(steps)} calls, largest {peak:,} tokens, {len(bounds)} compactions."
    return _told(figure, said)


def _main(lane: Any, session: str) -> bool:
    return bool(lane.session == session and lane.agent == "main")


def _boundaries(f: Frames, session: str, seqs: list[int]) -> list[tuple[float, str]]:
    return [
        (sum(one < (row["seq"] or 0) for one in seqs) + 0.5, str(row["kind"]))
        for row in f.load.once(rows_of)
        if row["session_id"] == session
    ]


def waterfall(f: Frames, ax: Axes | None = None) -> Figure:
    """Draw the dollars of the load by every rule, from counting every line to the estimate."""
    figure, axes = _canvas(ax, 8.0, 4.5)
    rows = f.columns("reconcile")
    labels = [
        f"{rule}\n= {equals}" if equals else rule
        for rule, equals in zip(rows["rule"], rows["equals"], strict=True)
    ]
    usd = rows["usd"]
    places = list(range(len(usd)))[::-1]
    best = len(usd) - 2
    colours = [
        "#0072B2" if n == best else "#56B4E9" if n > best else "#BBBBBB" for n in range(len(usd))
    ]
    axes.barh(places, usd, color=colours)
    note = f.totals()["output_note"]
    low, high = usd[-1] - note["usd_low"], note["usd_high"] - usd[-1]
    for place, value in zip(places, usd, strict=True):
        edge = value + max(0.0, high) if place == 0 else value
        axes.text(edge, place, rf"  \${value:,.2f}", va="center", fontsize=8)
    axes.errorbar(
        [usd[-1]],
        [places[-1]],
        xerr=[[max(0.0, low)], [max(0.0, high)]],
        color="#000000",
        capsize=3,
    )
    axes.set_yticks(places, labels, fontsize=7)
    axes.margins(x=0.25)
    axes.set(xlabel="US dollars", title="One ledger, counted by different rules")
    said = "; ".join(f"{rule}: ${v:,.2f}" for rule, v in zip(rows["rule"], usd, strict=True))
    return _told(figure, f"Dollars by rule: {said}.")


def cache(f: Frames, session: str, ax: Axes | None = None) -> Figure:
    """Draw what each main call of a session read from and wrote to the prompt cache, in order.

    A pause longer than the cache lives is a grey band with its length.
    """
    figure, axes = _canvas(ax)
    calls = _calls(f, session)
    at, pauses = _spread(calls)
    floor = [0] * len(calls)
    for name in ("cache_read", "cache_write_5m", "cache_write_1h", "input"):
        values = [row[name] or 0 for row in calls]
        axes.bar(at, values, 1.0, bottom=floor, color=COLOURS[name], label=name)
        floor = [a + b for a, b in zip(floor, values, strict=True)]
    counts: dict[str, int] = {}
    for event, (marker, colour) in _MARKERS.items():
        hits = [n for n, row in enumerate(calls) if row["cache_event"] == event]
        counts[event] = len(hits)
        places, tops = [at[n] for n in hits], [floor[n] for n in hits]
        if hits:
            axes.scatter(places, tops, marker=marker, color=colour, label=event, zorder=3)
    top = max(floor, default=0) * 1.15 or 1
    free = -1.0
    for begin, end, seconds in pauses:
        axes.axvspan(begin, end, color="#000000", alpha=0.12, linewidth=0)
        if begin > free:  # no label over another
            axes.text(begin, top, _length(seconds), fontsize=7, va="bottom")
            free = begin + at[-1] / 15
    axes.set(xlabel="calls in order; grey: a pause longer than the cache lives", ylabel="tokens")
    axes.set_ylim(0, top)
    axes.set_title(f"Prompt cache of session {session[:8]}", pad=18)
    axes.set_xticks([])
    _thousands(axes.yaxis)
    _legend(figure, axes, ax, 5)
    told = ", ".join(f"{count} {event}" for event, count in counts.items() if count)
    return _told(
        figure,
        f"Cache reads and writes of {len(calls)} calls with {len(pauses)} long pauses: "
        f"{told or 'all hits'}.",
    )


def _spread(calls: list[dict[str, Any]]) -> tuple[list[float], list[tuple[float, float, float]]]:
    """Return each call's place, and (begin, end, seconds) of each pause over the cache's life."""
    band = max(2.0, len(calls) / 40)
    places, pauses, at = [], [], 0.0
    for number, row in enumerate(calls):
        before = calls[number - 1] if number else None
        if before is not None:
            gap = (row["time_first"] - before["time_first"]) / 1000
            if gap > (3600 if before["cache_write_1h"] else 300):
                pauses.append((at + 0.5, at + 0.5 + band, gap))
                at += band
        at += 1.0
        places.append(at)
    return places, pauses


def _length(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def _calls(f: Frames, session: str) -> list[dict[str, Any]]:
    return [
        row
        for row in f.load.rows("calls")
        if row["session_id"] == session and row["agent_id"] == "main" and row["time_first"]
    ]


def carry(f: Frames, session: str | None = None, top: int = 20, ax: Axes | None = None) -> Figure:
    """Draw the dearest tool results: dollars when they were written, and at every later read."""
    figure, axes = _canvas(ax, 8.0, 5.0)
    items = [
        (item.first_usd + item.later_usd, item, lane.session)
        for lane in f.load.once(lanes)
        for item in lane.items
        if item.source == "tool_results" and (session is None or lane.session == session)
    ]
    items.sort(key=lambda one: -one[0])
    names = {(row["session_id"], row["tool_use_id"]): _label(row) for row in f.load.rows("tools")}
    chosen = items[:top][::-1]
    places = range(len(chosen))
    first = [item.first_usd for _, item, _ in chosen]
    later = [item.later_usd for _, item, _ in chosen]
    axes.barh(places, first, color=COLOURS["cache_write_5m"], label="first write")
    axes.barh(places, later, left=first, color=COLOURS["cache_read"], label="later reads")
    said = [names.get((name, item.block["tool_use_id"]), "") for _, item, name in chosen]
    axes.set_yticks(places, said, fontsize=7)
    axes.set(xlabel="US dollars", title="What tool results cost after they were read")
    axes.legend(fontsize=8, loc="lower right")
    total = sum(usd for usd, _, _ in items)
    return _told(
        figure, f"The {len(chosen)} dearest of {len(items)} results, ${total:,.2f} in all."
    )


def _label(row: dict[str, Any]) -> str:
    last = str(row["path"]).rsplit("/", 1)[-1] if row["path"] else ""
    return f"{row['name']} {last}".strip().replace("$", r"\$")[:48]


def compaction(f: Frames, compaction_id: str, ax: Axes | None = None) -> Figure:
    """Draw what became of the tokens a compaction met, by fate; facts in use and lost below."""
    figure, axes = _canvas(ax)
    rows = f.load.rows("compaction_items")
    mine = [row for row in rows if row["compaction_id"] == compaction_id]
    fates: dict[str, int] = {}
    for row in mine:
        fates[row["fate"]] = fates.get(row["fate"], 0) + row["tokens"]
    order = sorted(fates, key=lambda fate: -fates[fate])
    palette = {"kept": "#009E73", "reinjected": "#56B4E9", "summarised": "#0072B2"}
    axes.bar(
        order, [fates[name] for name in order], color=[palette.get(n, "#D55E00") for n in order]
    )
    lost = [
        row["value"]
        for row in f.load.rows("facts")
        if row["compaction_id"] == compaction_id and row["lost"]
    ]
    below = ", ".join(lost[:8]) or "none"
    axes.set_xlabel(f"lost and used again: {below}".replace("$", r"\$"), fontsize=7, wrap=True)
    axes.set(ylabel="tokens, estimated", title=f"Compaction {compaction_id[:8]}")
    told = ", ".join(f"{fates[name]:,} tokens {name}" for name in order) or "nothing"
    return _told(figure, f"A compaction met {told}; {len(lost)} facts used later were lost.")


def compare(f: Frames, by: str = "model") -> Figure:
    """Draw, by model, harness or agent_kind, dollars per call, the context and the hit share."""
    groups: dict[str, list[dict[str, Any]]] = {}
    harness = dict(
        zip(f.columns("sessions")["session_id"], f.columns("sessions")["harness"], strict=True)
    )
    for row in f.load.rows("calls"):
        key = harness.get(row["session_id"]) if by == "harness" else row[by]
        groups.setdefault(str(key).replace("$", r"\$"), []).append(row)
    names = sorted(groups, key=lambda name: -len(groups[name]))[:8]
    figure, axes = _canvas(None, 9.0, 3.2)
    figure.delaxes(axes)
    panels = (
        (
            "mean cost of a call",
            "US dollars",
            [_mean([r["usd_recorded"] for r in groups[n]]) for n in names],
        ),
        ("largest context", "tokens", [max(r["context"] for r in groups[n]) for n in names]),
        ("calls that hit the cache", "%", [100 * _hits(groups[n]) for n in names]),
    )
    for number, (title, unit, values) in enumerate(panels, 1):
        panel = figure.add_subplot(1, 3, number)
        panel.barh(range(len(names)), values, color="#0072B2")
        panel.set_yticks(range(len(names)), names if number == 1 else [""] * len(names), fontsize=7)
        panel.invert_yaxis()
        panel.set_title(title, fontsize=9)
        panel.tick_params(axis="x", labelsize=7)
        panel.locator_params(axis="x", nbins=4)
        if unit == "%":
            panel.set_xlim(0, 100)
        panel.set_xlabel(unit, fontsize=8)
        if unit == "tokens":
            _thousands(panel.xaxis)
    return _told(figure, f"{len(names)} values of {by} compared: {', '.join(names)}.")


def _mean(values: list[Any]) -> float:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else 0.0


def _hits(rows: list[dict[str, Any]]) -> float:
    told = [row["cache_event"] == "hit" for row in rows if row["cache_event"] != "cold"]
    return sum(told) / len(told) if told else 0.0


PICTURES: dict[str, Callable[..., Figure]] = {
    "context": context,
    "waterfall": waterfall,
    "cache": cache,
    "carry": carry,
    "compaction": compaction,
    "compare": compare,
}
