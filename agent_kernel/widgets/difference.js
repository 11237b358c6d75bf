// Difference: two requests beside each other: the first byte that differs, its cause, the lines.

const many = (n) => Math.abs(n).toLocaleString("en");

export default {
  render({ model, el: host }) {
    const root = el("div", { class: "ak" });
    host.append(root);
    const draw = () => root.replaceChildren(...difference(model.get("view")));
    model.on("change:view", draw);
    draw();
    return () => model.off("change:view", draw);
  },
};

function difference(view) {
  const head = el("div", { class: "head" }, el("span", { class: "t p0" }, view.title), el("span", { class: "dim" }, view.note));
  const out = [head];
  const total = view.same + view.rewritten || 1;
  const strip = el("div", { class: "strip" });
  const part = (cls, from, size, words) => {
    const node = el("span", { class: cls, title: words }, words);
    node.style.left = `${((100 * from) / total).toFixed(2)}%`;
    node.style.width = `${((100 * size) / total).toFixed(2)}%`;
    return node;
  };
  if (view.same) strip.append(part("br", 0, view.same, `same ${many(view.same)}`));
  if (view.rewritten) strip.append(part("br x", view.same, view.rewritten, `written anew ${many(view.rewritten)}${view.dollars ? ` · ${view.dollars}` : ""}`));
  const stack = el("div", { class: "stack", role: "img", "aria-label": `${many(view.same)} tokens the same, ${many(view.rewritten)} written anew` });
  for (const [cls, size] of [["T", view.same], ["R", view.rewritten]]) {
    if (!size) continue;
    const node = el("span", { class: `seg ${cls}` });
    node.style.width = `${((100 * size) / total).toFixed(2)}%`;
    stack.append(node);
  }
  strip.append(stack);
  if (view.byte !== null) {
    const flag = el("span", { class: "fb" }, `first changed byte ${many(view.byte)}`);
    flag.style.left = `${Math.min(75, (100 * view.same) / total).toFixed(2)}%`;
    strip.append(flag);
  }
  out.push(strip);
  if (view.facts.length) out.push(el("dl", { class: "kv noted" }, view.facts.flatMap(([name, line]) => [el("dt", null, name), el("dd", null, spans(line))])));
  if (view.around.length) {
    const rows = view.around.flatMap(([label, before, after]) => [el("span", { class: "dim" }, label.padEnd(8)), ` …${before}`, el("b", null, after.slice(0, 3)), after.slice(3), "\n"]);
    out.push(el("pre", { class: "code sm at" }, rows, " ".repeat(10 + view.around[1][1].length), el("b", null, `▲ ${many(view.byte)}`)));
  }
  if (view.rows.length) {
    const count = view.rows.length;
    out.push(el("details", { class: "row", open: true }, el("summary", null, chevron(), el("span", { class: "what" }, `${many(count)} changed line${count === 1 ? "" : "s"}`)), el("div", { class: "body" }, diff(view.rows))));
  }
  out.push(el("div", { class: "cmd" }, view.commands.join(" · ")));
  return out;
}
