// Card: one approval. It shows the exact text, and no button works before what it covers was shown.

const REASON = "Reason, the model reads it";

function heading(card) {
  const title = el("span", { class: "t" }, glyph(card.glyph, card.word), card.title);
  if (card.path) title.append(" ", middle(card.path, "middle"));
  return el(
    "div",
    { class: "head" },
    title,
    card.note ? el("span", { class: "dim" }, card.note) : null,
    el("span", { class: "sp" }),
    card.stale ? null : el("span", { class: "sm dim" }, spans(card.asked)),
  );
}

/** The text, whole or in three parts; `opened()` is called when the middle was shown. */
function exact(shown, open, opened, inert) {
  if (!shown.hidden) return el("pre", { class: "code" }, spans(shown.head));
  const count = shown.hidden.toLocaleString("en");
  const label = (on) => `${on ? "Fold" : "Show"} ${count} ${on ? "" : "more "}characters`;
  const hint = el("span", { class: "dim" }, inert ? "" : "Allow works after that.");
  const part = el("pre", { hidden: true }, spans(shown.middle));
  const toggle = el("button", { type: "button", "aria-expanded": "false" }, label(false));
  const set = (on) => {
    part.hidden = !on;
    toggle.setAttribute("aria-expanded", String(on));
    toggle.textContent = label(on);
    if (!on) return;
    hint.textContent = "";
    opened();
  };
  toggle.addEventListener("click", () => set(part.hidden));
  if (open) set(true);
  const bar = el("div", { class: "foldbar" }, toggle, hint);
  return el("div", { class: "code" }, el("pre", null, spans(shown.head)), bar, part, el("pre", null, spans(shown.tail)));
}

/** A long diff with its middle folded, in the same manner. */
function exactDiff(rows, open, opened) {
  if (rows.length <= 60) return diff(rows);
  const hidden = rows.length - 45;
  const part = el("div", { hidden: true }, diff(rows.slice(30, -15)));
  const hint = el("span", { class: "dim" }, "Allow works after that.");
  const toggle = el("button", { type: "button", "aria-expanded": "false" }, `Show ${hidden} more lines`);
  const show = () => {
    part.hidden = false;
    toggle.setAttribute("aria-expanded", "true");
    toggle.disabled = true;
    hint.textContent = "";
    opened();
  };
  toggle.addEventListener("click", show);
  if (open) show();
  return el("div", null, diff(rows.slice(0, 30)), el("div", { class: "foldbar" }, toggle, hint), part, diff(rows.slice(-15)));
}

/** The card. `ctx` is {send, alive(), kept}: `kept` carries what was typed and opened over redraws. */
function approvalCard(card, ctx) {
  const kept = ctx.kept;
  const box = el("div", {
    class: card.stale ? "card stale" : "card",
    role: "group",
    "aria-label": `Approval, ${card.tool}${card.answered ? ", inactive" : ""}`,
  });
  const said = el("div", { class: "sm dim", role: "status" });
  const answer = (type, more) => {
    ctx.send({ type, id: card.id, nonce: card.nonce, hash: card.hash, ...more });
    for (const node of box.querySelectorAll("button[data-live]")) node.dataset.sent = "1";
    enable(box, false);
    said.textContent = "Sent. The kernel checks it once more before anything runs.";
  };
  const folded = (card.shown && card.shown.hidden > 0) || card.diff.length > 60;
  const allow = [];
  const opened = () => {
    kept.opened = true;
    for (const node of allow) if (!card.stale) delete node.dataset.blocked;
    enable(box, ctx.alive() && !card.answered);
  };
  box.append(heading(card));
  if (card.stale) box.append(el("div", null, card.stale));
  const acts = choices(card, ctx, answer, allow, folded && !kept.opened);
  if (card.diff.length) box.append(exactDiff(card.diff, kept.opened, opened));
  if (card.shown) box.append(exact(card.shown, kept.opened, opened, card.answered));
  if (card.bullets.length) box.append(el("ul", null, card.bullets.map((line) => el("li", null, spans(line)))));
  if (card.answered) box.append(el("div", { class: "sm dim" }, "Never answered, so it never ran."));
  box.append(...acts, said);
  if (!card.stale) box.append(el("div", { class: "cmd" }, card.commands.join(" · ")));
  enable(box, ctx.alive() && !card.answered);
  return box;
}

function choices(card, ctx, answer, allow, blocked) {
  const kept = ctx.kept;
  const more = el("div", { hidden: true });
  const acts = el("div", { class: "acts" });
  for (const choice of card.choices) {
    const press = {
      rules: () => toggle(more, "rules", () => ruleList(card, answer)),
      edit: () => toggle(more, "edit", () => editor(card, kept, answer)),
    }[choice.type];
    const send = () => answer(choice.type, choice.send);
    const node = button(choice.label, { class: choice.primary ? "pri" : null }, press || send);
    if (press) node.setAttribute("aria-expanded", "false");
    if (choice.type === "approve" || choice.type === "rules") {
      allow.push(node);
      if (blocked || card.stale) node.dataset.blocked = "1";
    }
    acts.append(node);
  }
  const reason = el("input", { type: "text", "aria-label": REASON, placeholder: REASON, onkeydown: leave });
  reason.value = kept.reason || "";
  reason.addEventListener("input", () => (kept.reason = reason.value));
  const deny = button("Deny", {}, () => answer("deny", { reason: reason.value }));
  acts.append(el("span", { class: "why" }, reason, deny));
  return [acts, more];
}

/** Open `made` under the buttons, or close it when it is what stands open. */
function toggle(box, what, make) {
  const close = box.dataset.what === what;
  box.hidden = close;
  box.dataset.what = close ? "" : what;
  box.replaceChildren(...(close ? [] : [make()]));
  const head = box.previousElementSibling;
  for (const node of head.querySelectorAll("[aria-expanded]")) {
    const mine = node.textContent.startsWith(what === "edit" ? "Edit" : "Allow rule");
    node.setAttribute("aria-expanded", String(mine && !close));
  }
}

function ruleList(card, answer) {
  const rows = card.rules.map((rule) =>
    el("li", null, button("Allow", {}, () => answer("approve", { scope: "rule", rule })), " ", el("code", null, rule)),
  );
  const words = "Allow this call, and until the kernel ends every call that the rule covers:";
  return el("div", null, el("div", { class: "sm dim" }, words), el("ul", { class: "plain" }, rows));
}

function editor(card, kept, answer) {
  const area = el("textarea", { rows: 4, spellcheck: "false", "aria-label": "The text that would run", onkeydown: leave });
  area.value = kept.text ?? card.edit.text;
  area.addEventListener("input", () => (kept.text = area.value));
  const send = () => answer("edit", { field: card.edit.field, text: area.value });
  const words = el("span", { class: "sm dim" }, "The edited text is judged and asked again.");
  return el("div", null, area, el("div", { class: "acts under" }, button("Use this text", {}, send), words));
}
