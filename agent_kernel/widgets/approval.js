// Approval: one card alone, for a call whose turn is not on the page.

export default {
  render({ model, el: host }) {
    const root = el("div", { class: "ak" });
    host.dataset.lmSuppressShortcuts = "true";
    host.append(root);
    const news = el("div", { class: "vh", "aria-live": "polite" });
    const slot = el("div");
    root.append(news, slot);
    let kept = {};
    let key = "";
    const draw = () => {
      const card = model.get("view");
      const mine = `${card.id} ${card.nonce} ${card.hash}`;
      if (mine !== key) kept = {};
      if (mine !== key && !card.answered) news.textContent = card.title;
      key = mine;
      const ctx = { send: (message) => model.send(message), alive: () => link.state.alive, kept };
      slot.replaceChildren(approvalCard(card, ctx), ...inactive(link.state));
    };
    const link = connect(model, root, draw);
    const changed = () => (link.wake(), draw());
    model.on("change:view", changed);
    draw();
    return () => (link.stop(), model.off("change:view", changed));
  },
};

function inactive(state) {
  if (state.alive || !state.asked) return [];
  return [el("div", { class: "sm dim" }, "No kernel answers, so the buttons do nothing. The commands above work after resume.")];
}
