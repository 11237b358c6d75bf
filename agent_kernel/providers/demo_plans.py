"""Demo plans: what each intent does, one generator each: calls out, results in, words at the end.

May not keep state: a plan is replayed from the turn's own results at every step.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from dataclasses import dataclass, field

from agent_kernel.core.messages import Json
from agent_kernel.providers.demo_data import (
    SCHEMA,
    SUMMARY,
    Table,
    column_of,
    count_code,
    group_code,
    load,
    measure_of,
    name_of,
    number,
    pairs_of,
    plot_code,
    table_of,
)
from agent_kernel.providers.demo_makers import Intent
from agent_kernel.providers.demo_transcript import Step, Transcript, lines_in, output, plain


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call a plan wants, and the words before it."""

    name: str
    input: Json = field(hash=False)
    words: str = ""


Plan = Generator[list[Call], list[Step], str]


@dataclass
class Scene:
    """What the plans of one prompt share: its language, and what they found."""

    transcript: Transcript
    zh: bool
    tables: dict[str, Table] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    frame: str = ""  # the variable that holds the table read last
    path: str = ""
    totals: list[tuple[str, float]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def say(self, en: str, zh: str) -> str:
        """Return the words in the prompt's language."""
        return zh if self.zh else en


def failed(scene: Scene, what: str, step: Step) -> str:
    """Return the words for a call that did not work: its own, cut short."""
    lines = [line.strip() for line in (step.text or "").splitlines() if line.strip()]
    why = " ".join(lines)[:200] or "no result"
    return scene.say(f"{what} did not work: {why}", f"{what}没有成功：{why}")


def fence(text: str, most: int = 12) -> str:
    """Return text in a code fence longer than any inside, at most `most` lines."""
    lines = text.rstrip().splitlines()
    shown = lines[:most]
    if len(lines) > most:
        shown.append(f"… {len(lines) - most} more lines")
    ticks = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    return f"{ticks}\n" + "\n".join(shown) + f"\n{ticks}"


def many(count: int, word: str) -> str:
    """Return a count with its noun."""
    return f"{count} {word}{'' if count == 1 else 's'}"


def show(scene: Scene, intent: Intent) -> Plan:
    """Read a file and say what it begins with."""
    path = intent.path
    (step,) = yield [
        Call("read", {"path": path}, scene.say(f"I read `{path}`.", f"我读取 `{path}`。"))
    ]
    if step.failed:
        return failed(scene, scene.say(f"Reading `{path}`", f"读取 `{path}` "), step)
    text = keep(scene, path, step)
    lines = lines_in(step.text or "")
    table = scene.tables.get(path)
    if table:
        columns, rows = ", ".join(table.columns), lines - 1
        return scene.say(
            f"`{path}` is a table of {many(rows, 'row')} with the columns {columns}.",
            f"`{path}` 是一个 {rows} 行的表，列为 {columns}。",
        )
    head = scene.say(f"`{path}` has {many(lines, 'line')}:", f"`{path}` 有 {lines} 行：")
    return f"{head}\n\n{fence(text)}"


def keep(scene: Scene, path: str, step: Step) -> str:
    """Remember what a read gave; returns the file's text."""
    text = plain(step.text or "")
    scene.texts[path], scene.path = text, path
    table = table_of(text, path)
    if table:
        scene.tables[path] = table
    return text


def listing(scene: Scene, intent: Intent) -> Plan:
    """List files by pattern."""
    wanted: Json = {"pattern": intent.a}
    if intent.path:
        wanted["path"] = intent.path
    (step,) = yield [Call("glob", wanted, scene.say("I list the files.", "我列出文件。"))]
    if step.failed:
        return failed(scene, scene.say("Listing", "列出文件"), step)
    paths = [line.strip() for line in (step.text or "").splitlines() if line.strip()]
    shown = fence(chr(10).join(paths), 30)
    words = (f"Files that match `{intent.a}`:", f"匹配 `{intent.a}` 的文件：")
    return f"{scene.say(*words)}\n\n{shown}"


_HIT = re.compile(r"^(.+?)[:-](\d+)[:-](.*)$")


def find(scene: Scene, intent: Intent) -> Plan:
    """Search a text, then read the first file it is in."""
    wanted: Json = {"pattern": re.escape(intent.a).replace(r"\ ", " ")}
    if intent.path:
        wanted["path"] = intent.path
    words = scene.say(f"I search for {intent.a!r}.", f"我查找“{intent.a}”。")
    (step,) = yield [Call("grep", wanted, words)]
    if step.failed:
        return failed(scene, scene.say("The search", "查找"), step)
    hits = [m for line in (step.text or "").splitlines() if (m := _HIT.match(line))]
    if not hits:
        return scene.say(f"{intent.a!r} is in no file.", f"没有文件含有“{intent.a}”。")
    # A notebook is read by cells, and the one the question stands in always holds its words.
    first = next((m for m in hits if not m[1].endswith(".ipynb")), hits[0])
    path, line, files = first[1], int(first[2]), len({m[1] for m in hits})
    from_line = {} if path.endswith(".ipynb") else {"offset": max(1, line - 5)}
    (step,) = yield [Call("read", {"path": path, **from_line, "limit": 40})]
    found = scene.say(
        f"{intent.a!r} stands on {many(len(hits), 'line')} of {many(files, 'file')}; "
        f"first `{path}`, line {line}:",
        f"“{intent.a}”出现在 {files} 个文件的 {len(hits)} 行；第一处在 `{path}` 第 {line} 行：",
    )
    return f"{found}\n\n{fence(first[3].strip())}"


def run(scene: Scene, intent: Intent) -> Plan:
    """Run a shell command and quote what it printed."""
    wanted: Json = {"command": intent.a}
    if intent.flag:
        wanted["background"] = True
    words = scene.say(f"I run `{intent.a}`.", f"我运行 `{intent.a}`。")
    (step,) = yield [Call("bash", wanted, words)]
    if intent.flag and not step.failed:
        return started(scene, intent.a, step)
    text = (step.text or "").strip()
    if not step.failed:
        text = output(text)
        head = scene.say(f"`{intent.a}` printed:", f"`{intent.a}` 的输出：")
    else:
        head = scene.say(f"`{intent.a}` did not end well:", f"`{intent.a}` 没有正常结束：")
    nothing = scene.say(f"`{intent.a}` printed nothing.", f"`{intent.a}` 没有输出。")
    return f"{head}\n\n{fence(text)}" if text else nothing


def started(scene: Scene, what: str, step: Step) -> str:
    """Return the words for background work that was started."""
    task = re.search(r'"task_id"\s*:\s*"([^"]+)"', step.text or "")
    name = f"`{task[1]}`" if task else scene.say("a task", "一个任务")
    return scene.say(
        f"`{what}` runs in the background as {name}; I answer when it ends.",
        f"`{what}` 在后台运行（{name}）；结束时我会回答。",
    )


def wait(scene: Scene, intent: Intent) -> Plan:
    """Wait in the background."""
    command = f"sleep {intent.a} && echo waited {intent.a} s"
    wanted: Json = {"command": command, "background": True, "description": f"wait {intent.a} s"}
    words = scene.say(f"I wait {intent.a} s in the background.", f"我在后台等待 {intent.a} 秒。")
    (step,) = yield [Call("bash", wanted, words)]
    if step.failed:
        return failed(scene, scene.say("Waiting", "等待"), step)
    return started(scene, command, step)


def compute(scene: Scene, intent: Intent) -> Plan:
    """Let Python work out an expression."""
    words = scene.say(f"I compute {intent.a}.", f"我计算 {intent.a}。")
    (step,) = yield [Call("python", {"code": f"print({intent.a})"}, words)]
    if step.failed:
        return failed(scene, f"{intent.a}", step)
    return f"{intent.a} = {last_line(step)}"


def code(scene: Scene, intent: Intent) -> Plan:
    """Run Python that the person wrote."""
    words = scene.say("I run your Python.", "我运行你的 Python。")
    (step,) = yield [Call("python", {"code": intent.a}, words)]
    if step.failed:
        return failed(scene, "Python", step)
    return f"{scene.say('It printed:', '输出：')}\n\n{fence(output(step.text or ''))}"


def last_line(step: Step) -> str:
    """Return the last line of a result that says something."""
    lines = [line.strip() for line in output(step.text or "").splitlines() if line.strip()]
    return lines[-1] if lines else "—"


def count(scene: Scene, intent: Intent) -> Plan:
    """Count rows, lines, words or columns of a file or a variable."""
    path, unit = intent.path, intent.a
    if unit == "files":
        return (yield from listing(scene, Intent("list", "**/*", path=path)))
    written = count_code(unit, path, intent.name)
    if written is None:
        return scene.say(f"Of what shall I count the {unit}? Name a file.", "请说明统计哪个文件。")
    words = scene.say(f"I count the {unit}.", "我来统计。")
    (step,) = yield [Call("python", {"code": written}, words)]
    what = f"`{path or intent.name}`"
    if step.failed:
        return failed(scene, scene.say(f"Counting in {what}", f"统计 {what} "), step)
    return scene.say(f"{what} has {last_line(step)} {unit}.", f"{what}：{last_line(step)} {unit}。")


def _table(scene: Scene, path: str) -> Generator[list[Call], list[Step], Table | str]:
    """The table of a file, read now when it was not read before; a text says why there is none."""
    if path not in scene.tables:
        words = scene.say(f"I look at `{path}` first.", f"我先看一下 `{path}`。")
        (step,) = yield [Call("read", {"path": path, "limit": 50}, words)]
        if step.failed:
            return failed(scene, scene.say(f"Reading `{path}`", f"读取 `{path}` "), step)
        keep(scene, path, step)
    found = scene.tables.get(path)
    return found or scene.say(f"`{path}` is no table I can read.", f"`{path}` 不是我能读的表。")


def group(scene: Scene, intent: Intent) -> Plan:
    """Add up a column by another one, with Python."""
    path = intent.path or ("" if intent.name else scene.path)
    if path:
        picked = yield from _picked(scene, intent, path)
        if isinstance(picked, str):
            return picked
        measure, by = picked
        frame, lines = name_of(path), load(path, name_of(path))
    elif intent.name:
        measure, by, frame, lines = intent.b or None, intent.by, intent.name, []
    else:
        return scene.say("Of which table? Name a CSV file.", "请说明哪个表（CSV 文件）。")
    op = intent.a if measure else "count"
    what = {"sum": "total", "mean": "average"}.get(op, op)
    about = scene.say(
        f"{what} {measure or 'rows'} by {by}", f"按 {by} 的 {measure or '行数'}（{op}）"
    )
    words = scene.say(f"With Python I compute the {about}.", f"我用 Python 计算{about}。")
    written = group_code(lines, frame, op, measure, by)
    (step,) = yield [Call("python", {"code": written}, words)]
    if step.failed:
        return failed(scene, about, step)
    scene.frame, scene.totals = frame, pairs_of(step.text or "")
    return _totals(scene, about, op, step)


def _picked(
    scene: Scene, intent: Intent, path: str
) -> Generator[list[Call], list[Step], tuple[str | None, str] | str]:
    """The two columns of a grouping, from the file's own header; a text says what is missing."""
    table = yield from _table(scene, path)
    if isinstance(table, str):
        return table
    by = column_of(intent.by, table.columns)
    if by is None:
        columns = ", ".join(table.columns)
        return scene.say(
            f"`{path}` has no column {intent.by!r}; it has {columns}.",
            f"`{path}` 没有列“{intent.by}”；它有 {columns}。",
        )
    return measure_of(intent.b, by, table), by


def _totals(scene: Scene, about: str, op: str, step: Step) -> str:
    rows = scene.totals
    if not rows:
        return f"{about}:\n\n{fence(step.text or '')}"
    lines = "\n".join(f"- {name}: {number(value)}" for name, value in rows)
    most, least = max(rows, key=lambda r: r[1]), min(rows, key=lambda r: r[1])
    end = scene.say(
        f"The largest is {most[0]} ({number(most[1])}), "
        f"the smallest {least[0]} ({number(least[1])})",
        f"最大的是 {most[0]}（{number(most[1])}），最小的是 {least[0]}（{number(least[1])}）",
    )
    if op in ("sum", "count"):
        whole = number(sum(value for _, value in rows))
        end += scene.say(f"; together {whole}", f"；合计 {whole}")
    head = about[:1].upper() + about[1:]
    return f"{head}:\n\n{lines}\n\n{end}{scene.say('.', '。')}"


def describe(scene: Scene, intent: Intent) -> Plan:
    """Say what a variable or a table is: its schema, then its summary."""
    name, lines = intent.name, []
    if intent.path:
        name = name_of(intent.path)
        lines = load(intent.path, name)
    schema = "\n".join([*lines, SCHEMA.format(name=name)])
    words = scene.say(f"I look at `{name}`.", f"我查看 `{name}`。")
    (first,) = yield [Call("python", {"code": schema}, words)]
    if first.failed:
        return failed(scene, f"`{name}`", first)
    scene.frame = name
    (second,) = yield [Call("python", {"code": SUMMARY.format(name=name)})]
    head = scene.say(f"`{name}` is this:", f"`{name}` 是：")
    out = f"{head}\n\n{fence(output(first.text or ''), 20)}"
    return out if second.failed else f"{out}\n\n{fence(output(second.text or ''), 20)}"


_EARLIER = (
    "totals",
    "total",
    "it",
    "them",
    "result",
    "results",
    "these",
    "结果",
    "合计",
    "averages",
)


def plot(scene: Scene, intent: Intent) -> Plan:
    """Draw a column, a grouping, or the totals computed before."""
    column, lines = intent.a, []
    if column.lower() in _EARLIER and scene.totals:
        series = "totals"
    else:
        frame, by, path = intent.name or scene.frame, intent.by, intent.path or scene.path
        if path and not intent.name:
            frame, lines = name_of(path), load(path, name_of(path))
            columns = scene.tables[path].columns if path in scene.tables else ()
            column = column_of(column, columns) or column
            by = (column_of(by, columns) if by else None) or by
        if not frame:
            return scene.say("Plot from which table? Name a file.", "画哪个表？请说明文件。")
        series = f"{frame}.groupby({by!r})[{column!r}].sum()" if by else _series(frame, column)
    words = scene.say(f"I plot {column}.", f"我画出 {column}。")
    (step,) = yield [Call("python", {"code": plot_code(lines, series, column)}, words)]
    if step.failed:
        return failed(scene, scene.say("The plot", "绘图"), step)
    return scene.say(f"The plot of {column}: ", f"{column} 的图：") + last_line(step)


def _series(frame: str, column: str) -> str:
    """A column as counts of its values, or, for numbers, in ten bins."""
    picked = f"{frame}[{column!r}]"
    binned = f"{picked}.value_counts(bins=10, sort=False)"
    return f'{binned} if {picked}.dtype.kind in "if" else {picked}.value_counts()'


def replace(scene: Scene, intent: Intent) -> Plan:
    """Replace a text in a file: read it, then edit it."""
    path, old, new = intent.path, intent.a, intent.b
    if not path:
        return scene.say(f"In which file shall I replace {old!r}?", f"在哪个文件里替换“{old}”？")
    words = scene.say(f"I read `{path}` before I change it.", f"修改前我先读取 `{path}`。")
    (step,) = yield [Call("read", {"path": path}, words)]
    if step.failed:
        return failed(scene, scene.say(f"Reading `{path}`", f"读取 `{path}` "), step)
    times = keep(scene, path, step).count(old)
    if times == 0:
        return scene.say(
            f"`{path}` does not hold {old!r}; I changed nothing.",
            f"`{path}` 里没有“{old}”，没有改动。",
        )
    wanted: Json = {"path": path, "old": old, "new": new}
    if times > 1:
        wanted["all"] = True
    words = scene.say(f"I replace {old!r} with {new!r}.", f"我把“{old}”替换为“{new}”。")
    (step,) = yield [Call("edit", wanted, words)]
    if step.failed:
        return failed(scene, scene.say("The replacement", "替换"), step)
    return scene.say(
        f"In `{path}` {old!r} is now {new!r} ({many(times, 'place')}).",
        f"`{path}` 中的“{old}”已替换为“{new}”（{times} 处）。",
    )


Make = Callable[[Scene, Intent], Plan]
