// Tasks: the panel of background work, which goes on changing after its cell ended.

export default {
  render({ model, el: host }) {
    host.dataset.lmSuppressShortcuts = "true";
    const root = el("div", { class: "ak" });
    host.append(root);
    const names = ["news", "head", "notes", "todo", "asked", "cards", "tasks", "tree", "steer", "queued", "foot"];
    const page = Object.fromEntries(names.map((name) => [name, el("div", { class: "slot" })]));
    page.news.className = "vh";
    page.news.setAttribute("aria-live", "polite");
    root.append(...Object.values(page));
    page.root = root;
    const ctx = { model, page, at: performance.now(), cards: new Map() };
    ctx.send = (message) => model.send(message);
    ctx.alive = () => ctx.link.state.alive;
    ctx.link = connect(model, root, () => panel(ctx));
    const changed = () => ((ctx.at = performance.now()), ctx.link.wake(), panel(ctx));
    model.on("change:view", changed);
    const clock = setInterval(() => tick(ctx), 1000);
    panel(ctx);
    return () => {
      clearInterval(clock);
      ctx.link.stop();
      model.off("change:view", changed);
    };
  },
};

function panel(ctx) {
  const { page, model } = ctx;
  const view = model.get("view");
  slot(page.head, view.head, () => {
    const title = el("span", { class: "t" }, glyph(view.head.glyph, view.head.word), view.head.title);
    const acts = view.head.actions.map((choice) => action(choice, ctx));
    return [el("div", { class: "head" }, title, el("span", { class: "dim" }, view.head.note), el("span", { class: "sp" }), acts)];
  });
  const dead = ctx.link.state.asked && !ctx.alive();
  const lost = `Saved view, ${view.saved}. No kernel answers it, so its buttons do nothing.`;
  slot(page.notes, dead, () => [el("div", { class: "sm dim", role: "status" }, lost)]);
  slot(page.todo, view.todo, () => todo(view.todo));
  slot(page.asked, view.questions, () => view.questions.map((one) => question(one, ctx)));
  cards(ctx, view.approvals);
  slot(page.tasks, view.tasks, () => tasks(view.tasks, ctx));
  slot(page.tree, view.tree, () => (view.tree ? [el("pre", { class: "tree" }, view.tree)] : []));
  slot(page.steer, view.steer, () => (view.steer ? [steer(ctx)] : []));
  slot(page.queued, view.queued, () => queued(view.queued, ctx));
  slot(page.foot, view.foot, () => [foot(view.foot)]);
  enable(page.root, ctx.alive());
  for (const node of page.root.querySelectorAll("[data-dead] button[data-live]")) node.disabled = true;
  tick(ctx);
}
