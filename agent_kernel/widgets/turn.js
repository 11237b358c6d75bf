// Turn: one turn, live or saved. It redraws only what changed, and moves neither focus nor scroll.

export default {
  render({ model, el: host }) {
    host.dataset.lmSuppressShortcuts = "true";
    const root = el("div", { class: "ak" });
    host.append(root);
    const page = frame(root);
    const ctx = { model, page, at: performance.now(), rows: new Map(), cards: new Map(), queued: false };
    ctx.send = (message) => model.send(message);
    ctx.alive = () => ctx.link.state.alive;
    ctx.link = connect(model, root, () => draw(ctx));
    const changed = () => {
      ctx.at = performance.now();
      ctx.link.wake();
      if (ctx.queued) return;
      ctx.queued = true;
      queueMicrotask(() => ((ctx.queued = false), draw(ctx)));
    };
    const names = ["change:view", "change:past", "change:items"];
    for (const name of names) model.on(name, changed);
    const clock = setInterval(() => tick(ctx), 1000);
    draw(ctx);
    return () => {
      clearInterval(clock);
      ctx.link.stop();
      for (const name of names) model.off(name, changed);
    };
  },
};

function frame(root) {
  const names = ["news", "head", "notes", "todo", "list", "cards", "asked", "tasks", "steer", "queued", "foot"];
  const page = Object.fromEntries(names.map((name) => [name, el("div", { class: "slot" })]));
  page.news.className = "vh";
  page.news.setAttribute("aria-live", "polite");
  root.append(...Object.values(page));
  page.root = root;
  return page;
}

function draw(ctx) {
  const { page, model } = ctx;
  const view = model.get("view");
  const waits = [...view.approvals, ...view.questions];
  const acts = view.head || view.tasks.length || waits.some((card) => !card.answered);
  const offers = acts || view.notes.some((one) => one.actions.length);
  slot(page.head, view.head, () => head(view.head, ctx));
  const dead = ctx.link.state.asked && !ctx.alive() && offers ? view.saved : "";
  slot(page.notes, [view.notes, dead], () => [...(dead ? [unplugged(dead)] : []), ...view.notes.map((n) => note(n, ctx))]);
  slot(page.todo, view.todo, () => todo(view.todo));
  list(ctx, [...model.get("past"), ...model.get("items")]);
  cards(ctx, view.approvals);
  slot(page.asked, view.questions, () => view.questions.map((one) => question(one, ctx)));
  slot(page.tasks, view.tasks, () => tasks(view.tasks, ctx));
  slot(page.steer, view.steer, () => (view.steer ? [steer(ctx)] : []));
  slot(page.queued, view.queued, () => queued(view.queued, ctx));
  slot(page.foot, [view.phases, view.footer], () => {
    const steps = view.phases ? [el("div", { class: "foot" }, view.phases)] : [];
    return [...steps, foot(view.footer)];
  });
  enable(page.root, ctx.alive());
  for (const node of page.root.querySelectorAll("[data-dead] button[data-live]")) node.disabled = true;
  tick(ctx);
}

function head(data, ctx) {
  const title = el("span", { class: "t" }, glyph(data.glyph, data.word), data.title);
  const buttons = data.actions.map((choice) => action(choice, ctx));
  const quiet = el("span", { class: "dim", "data-quiet": data.quiet });
  const parts = [title, el("span", { class: "dim" }, data.note), quiet, el("span", { class: "sp" })];
  return [el("div", { class: "head" }, parts, el("span", { class: "hb" }, buttons))];
}

function note(data, ctx) {
  const lines = data.lines.map((line, at) => [at ? el("br") : null, spans(line)]).flat(2);
  const tone = data.word === "replayed" ? "off" : undefined;
  const box = el("div", { class: "note", role: data.role }, glyph(data.glyph, data.word, tone), el("div", null, lines));
  const acts = data.actions.map((choice) => action(choice, ctx, choice.type === "log" ? "lite" : null));
  const typed = data.commands.length ? [el("span", { class: "cmd" }, data.commands.join(" · "))] : [];
  const under = acts.length || typed.length ? el("div", { class: "acts under" }, acts, typed) : null;
  return el("div", { class: "noted" }, box, under);
}

function unplugged(when) {
  const words = [el("b", null, `Saved view, ${when}.`), " No kernel answers it, so its buttons do nothing. To act again: "];
  const box = el("div", null, words, el("code", { class: "nw" }, "%agent resume"));
  return el("div", { class: "note noted", role: "status" }, glyph("off", "inactive"), box);
}

// ---- rows ----------------------------------------------------------------------------------------

function list(ctx, items) {
  const place = ctx.page.list;
  const seen = new Set();
  items.forEach((item, at) => {
    seen.add(item.key);
    let row = ctx.rows.get(item.key);
    if (!row || row.akKind !== shape(item)) {
      row?.remove();
      row = make(item);
      row.akKind = shape(item);
      ctx.rows.set(item.key, row);
    }
    const key = JSON.stringify(item);
    if (row.akKey !== key) fill(row, item);
    row.akKey = key;
    if (place.children[at] !== row) place.insertBefore(row, place.children[at] || null);
  });
  for (const [key, row] of ctx.rows) {
    if (seen.has(key)) continue;
    row.remove();
    ctx.rows.delete(key);
  }
}

const folds = (item) => item.kind === "group" || Object.keys(item.body || {}).length > 0;
const shape = (item) => (["text", "note"].includes(item.kind) ? item.kind : folds(item) ? "fold" : "flat");

function make(item) {
  if (item.kind === "text") return el("div", { class: "ans", "aria-live": item.streaming ? "polite" : null });
  if (item.kind === "note") return el("div", { class: "said" });
  if (!folds(item)) return el("div", { class: "row flat" });
  const row = el("details", { class: "row" }, el("summary"), el("div", { class: "body" }));
  row.open = Boolean(item.open);
  row.firstChild.addEventListener("click", () => (row.akTouched = true));
  return row;
}

function fill(row, item) {
  if (item.kind === "text") return fillProse(row, item.blocks, item.streaming);
  if (item.kind === "note") return row.replaceChildren(el("span", { class: "dim" }, `${item.word}: `), ...spans(item.line));
  if (row.tagName !== "DETAILS") return row.replaceChildren(...summary(item));
  if (!row.akTouched) row.open = Boolean(item.open);
  row.firstChild.replaceChildren(chevron(), ...summary(item));
  const content = item.kind === "group" ? item.items.map(inner) : body(item.body, item);
  row.lastChild.className = item.kind === "thinking" ? "body sm dim" : "body";
  row.lastChild.replaceChildren(...content);
}

function inner(item) {
  const row = make(item);
  fill(row, item);
  return row;
}

function summary(item) {
  const what = el("span", { class: "what" });
  if (item.kind === "call") what.append(el("b", null, item.name), " ", item.arg ? middle(item.arg, item.cut) : "");
  else what.append(el("span", null, item.name || item.word));
  const took = item.seconds === null ? "" : seconds(item.seconds);
  const clock = el("span", { class: "s", "data-clock": item.ticking ? item.seconds : null }, took);
  const dot = took && item.size ? " · " : "";
  const meta = el("span", { class: "meta" }, clock, el("span", { class: "dot" }, dot), el("span", { class: "k" }, item.size || ""));
  return [glyph(item.glyph, item.word), what, meta];
}

function body(data, item) {
  const out = [];
  if (data.code) out.push(el("pre", { class: "code" }, spans(data.code)));
  if (data.diff) out.push(diff(data.diff));
  if (data.error) out.push(el("pre", null, data.error));
  if (data.text) out.push(el(item.kind === "thinking" ? "div" : "pre", { class: "kept" }, data.text));
  if (data.tail) out.push(el("div", { class: "tail o" }, data.tail.join("\n")));
  if (data.more) out.push(el("div", { class: "sm dim" }, `… ${data.more}`));
  for (const line of data.notes || []) out.push(el("div", { class: "sm dim" }, spans(line)));
  return out;
}
