// Stepper: what the loop does next, the exact call or request, and the buttons that do it.

export default {
  render({ model, el: host }) {
    const root = el("div", { class: "ak" });
    host.dataset.lmSuppressShortcuts = "true";
    host.append(root);
    const news = el("div", { class: "vh", "aria-live": "polite" });
    const slot = el("div");
    root.append(news, slot);
    let kept = {}, key = "";
    const draw = () => {
      const view = model.get("view");
      if (view.key !== key) {
        kept = {};
        news.textContent = view.next;
      }
      key = view.key;
      slot.replaceChildren(...stepper(view, kept, (message) => model.send(message)));
      enable(root, link.state.alive && !view.done);
      const dead = !link.state.alive && link.state.asked && !view.done;
      if (dead) slot.append(el("div", { class: "sm dim" }, "No kernel answers, so the buttons do nothing. The commands work after resume."));
    };
    const link = connect(model, root, draw);
    const changed = () => (link.wake(), draw());
    model.on("change:view", changed);
    draw();
    return () => (link.stop(), model.off("change:view", changed));
  },
};

function stepper(view, kept, send) {
  const title = el("span", { class: "t" }, glyph(view.done ? "off" : "pause", view.done ? "over" : "stopped before the next action"), view.next);
  const head = el("div", { class: "head" }, title, el("span", { class: "sp" }));
  if (view.stopped) head.append(el("span", { class: "sm dim" }, "stopped by ", el("code", null, view.stopped)));
  const out = [head];
  for (const call of view.calls) {
    out.push(exact(call.shown, true, () => {}, false));
  }
  if (view.facts.length) out.push(el("dl", { class: "kv noted" }, view.facts.flatMap(([name, line]) => [el("dt", null, name), el("dd", null, spans(line))])));
  const said = el("div", { class: "sm dim", role: "status" });
  const press = (message) => {
    send({ key: view.key, ...message });
    for (const node of acts.parentNode.querySelectorAll("button[data-live]")) { node.dataset.sent = "1"; node.disabled = true; }
    said.textContent = "Sent.";
  };
  const more = el("div", { class: "noted", hidden: true });
  const acts = el("div", { class: "acts" });
  const call = view.calls[0];
  const run = button(view.verb, { class: "pri" }, () => press({ type: "step" }));
  acts.append(run);
  if (call) {
    const field = (what, label, text, use, message) => {
      const node = button(`${what}…`, { "aria-expanded": "false" }, () => {
        const close = more.dataset.what === what;
        more.dataset.what = close ? "" : what;
        more.hidden = close;
        for (const each of acts.querySelectorAll("[aria-expanded]")) each.setAttribute("aria-expanded", String(!close && each === node));
        more.replaceChildren(...(close ? [] : [writer(label, kept, what, text, use, (value) => press(message(value)))]));
      });
      return node;
    };
    acts.append(
      field("Edit", "The call that runs instead; it is judged and may be asked again", call.text, "Use this input", (text) => ({ type: "edit", call: call.short, text })),
      button("Skip", {}, () => press({ type: "skip", call: call.short })),
      field("Answer", "Result the model will read instead, marked as written by you", "", "Use this answer", (text) => ({ type: "answer", call: call.short, text })),
    );
  }
  const lite = [button("Run to end of turn", { class: "lite" }, () => press({ type: "continue" })), button("Stop", { class: "lite" }, () => press({ type: "stop" }))];
  acts.append(el("span", { class: "sp" }), el("span", { class: "hb" }, lite));
  if (!view.done) out.push(acts, more, said);
  if (view.request.length) {
    const rows = el("pre", null, view.request.map(([name, size, words]) => `${name.padEnd(10)}${size.padStart(15)}  ${words}`).join("\n"));
    out.push(el("details", { class: "row" }, el("summary", null, chevron(), el("span", { class: "what" }, "Exact request, as it would be sent"), el("span", { class: "meta" }, view.size)), el("div", { class: "body" }, rows)));
  }
  out.push(el("div", { class: "cmd" }, view.commands.map((line, at) => (at ? line.replace(/^%agent /, "") : line)).join(" · ")));
  return out;
}

function writer(label, kept, what, text, use, done) {
  const area = el("textarea", { rows: 3, spellcheck: "false", "aria-label": label, onkeydown: leave });
  area.value = kept[what] ?? text;
  area.addEventListener("input", () => (kept[what] = area.value));
  return el("div", null, el("div", { class: "sm dim" }, label), area, el("div", { class: "acts under" }, button(use, {}, () => done(area.value))));
}
