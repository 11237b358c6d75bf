// Compaction: before and after in one scale, what was hidden, what it cost; Undo and Recall.

const CLASSES = { S: "S", T: "T", M: "M", U: "U", A: "A", R: "R", "@": "F", "Σ": "Y" };
const many = (n) => Math.abs(n).toLocaleString("en");
const signed = (n) => (n ? `${n > 0 ? "+" : "−"}${many(n)}` : "0");

export default {
  render({ model, el: host }) {
    const root = el("div", { class: "ak" });
    host.dataset.lmSuppressShortcuts = "true";
    host.append(root);
    const slot = el("div");
    root.append(slot);
    const kept = {};
    const draw = () => {
      const view = model.get("view");
      slot.replaceChildren(...card(view, kept, (message) => model.send(message)));
      enable(root, link.state.alive && view.live);
    };
    const link = connect(model, root, draw);
    const changed = () => (link.wake(), draw());
    model.on("change:view", changed);
    draw();
    return () => (link.stop(), model.off("change:view", changed));
  },
};

function card(view, kept, send) {
  const title = el("span", { class: "t" }, glyph(view.glyph, view.word), view.title);
  const head = el("div", { class: "head" }, title, el("span", { class: "dim" }, view.note), el("span", { class: "sp" }));
  const more = el("div", { class: "noted", hidden: true });
  const out = [head];
  if (view.live) {
    const recall = button("Recall…", { "aria-expanded": "false" }, () => {
      more.hidden = !more.hidden;
      recall.setAttribute("aria-expanded", String(!more.hidden));
      more.replaceChildren(...(more.hidden ? [] : [finder(view, kept, send)]));
    });
    const undo = button("Undo", {}, () => {
      send({ type: "undo", id: view.id });
      undo.dataset.sent = "1";
      undo.disabled = true;
    });
    head.append(el("span", { class: "hb" }, recall, undo));
    out.push(more);
  }
  if (view.undone) out.push(el("div", { class: "sm" }, "Undone later: what it hid is seen by the model again."));
  if (view.rows.length) out.push(bars(view), table(view));
  if (view.pairs.length) out.push(el("dl", { class: "kv noted" }, view.pairs.flatMap(([name, line]) => [el("dt", null, name), el("dd", null, spans(line))])));
  for (const fold of view.folds) out.push(folded(fold));
  out.push(el("div", { class: "cmd" }, view.commands.join(" · ")));
  return out;
}

function finder(view, kept, send) {
  const field = el("input", { type: "text", "aria-label": "Text of what was hidden", placeholder: "Text of what was hidden", onkeydown: leave });
  field.value = kept.text || "";
  field.addEventListener("input", () => (kept.text = field.value));
  return el("div", { class: "acts" }, el("span", { class: "why" }, field, button("Find", {}, () => send({ type: "recall", id: view.id, text: field.value }))));
}

function bars(view) {
  const scale = Math.max(view.before, view.after, 1);
  const box = el("div", { class: "ba" });
  for (const [name, at, total] of [["before", 2, view.before], ["after", 3, view.after]]) {
    const parts = view.rows.filter((row) => row[at]);
    const said = parts.map((row) => `${row[1]} ${many(row[at])}`).join(", ");
    const stack = el("div", { class: "stack", role: "img", "aria-label": `${name}: ${said}` });
    stack.style.width = `${((100 * total) / scale).toFixed(2)}%`;
    for (const row of parts) {
      const part = el("span", { class: `seg ${CLASSES[row[0]] || "F"}`, title: `${row[1]}, ${many(row[at])} tokens` }, el("i", null, row[0]));
      part.style.width = `${((100 * row[at]) / (total || 1)).toFixed(2)}%`;
      stack.append(part);
    }
    box.append(el("span", null, name), stack, el("span", { class: "r" }, many(total)));
  }
  return box;
}

function table(view) {
  const head = [["", "source"], ["", "before"], ["", "after"], ["", "change"], ["opt", "events hidden"]];
  const row = (cls, first, before, after, hidden) =>
    el("tr", { class: cls || null }, el("td", null, first), el("td", null, many(before)), el("td", null, many(after)), el("td", null, signed(after - before)), el("td", { class: "opt" }, many(hidden)));
  const key = (letter, name) => [el("span", { class: `key ${CLASSES[letter] || "F"}` }, el("i", null, letter)), name];
  const body = view.rows.map(([letter, name, before, after, hidden]) => row("", key(letter, name), before, after, hidden));
  const hidden = view.rows.reduce((sum, each) => sum + each[4], 0);
  body.push(row("sum", "tokens", view.before, view.after, hidden));
  return el("table", { class: "n" }, el("thead", null, el("tr", null, head.map(([cls, words]) => el("th", { class: cls || null }, words)))), el("tbody", null, body));
}

function folded({ title, meta, rows, line }) {
  const body = el("div", { class: "body" });
  if (rows) {
    const cells = rows.map(([what, seq, tokens]) => el("tr", null, el("td", { class: "wrap" }, el("code", null, what)), el("td", null, seq), el("td", null, tokens)));
    const head = el("tr", null, ["event", "seq", "tokens"].map((words) => el("th", null, words)));
    body.append(el("table", { class: "n" }, el("thead", null, head), el("tbody", null, cells)));
  } else body.append(el("pre", { class: "sm" }, spans(line)));
  return el("details", { class: "row" }, el("summary", null, chevron(), el("span", { class: "what" }, title), el("span", { class: "meta" }, meta)), body);
}
