// Parts: what the turn and the task panel both show: cards, tasks, queued words, steering, the foot.

const QUIET = 30;

/** Make the children of a place anew only when its data changed. */
function slot(place, data, make) {
  const key = JSON.stringify(data ?? null);
  if (place.akKey === key) return;
  place.akKey = key;
  place.replaceChildren(...(data ? make() : []));
}

function action(choice, ctx, cls) {
  return button(choice.label, { class: cls || null }, () => ctx.send({ type: choice.type, ...choice.send }));
}

function todo(items) {
  if (!items.length) return [];
  const done = items.filter((item) => item.status === "done").length;
  const mark = { done: ["ok", "done"], active: ["run", "active"] };
  const rows = items.map((item) => {
    const [id, word] = mark[item.status] || ["unknown", "pending"];
    const blocked = item.blocked ? el("span", { class: "dim" }, ` waits for ${item.blocked}`) : null;
    return el("li", null, glyph(id, word), " ", item.text, blocked);
  });
  const what = el("span", { class: "what" }, "Todo");
  const meta = el("span", { class: "meta" }, `${done} of ${items.length} done`);
  const body = el("div", { class: "body" }, el("ul", { class: "plain" }, rows));
  return [el("details", { class: "row", open: true }, el("summary", null, chevron(), what, meta), body)];
}

// ---- cards, tasks, steering, foot ----------------------------------------------------------------

function cards(ctx, approvals) {
  const place = ctx.page.cards;
  const seen = new Set();
  approvals.forEach((card, at) => {
    const id = `${card.id} ${card.nonce} ${card.hash}`;
    const key = JSON.stringify(card);
    seen.add(id);
    let held = ctx.cards.get(id);
    if (!held) {
      held = { kept: {}, key: "" };
      ctx.cards.set(id, held);
      if (!card.answered) ctx.page.news.textContent = card.title;
    }
    if (held.key !== key) {
      const made = approvalCard(card, { send: ctx.send, alive: ctx.alive, kept: held.kept });
      if (card.answered) made.dataset.dead = "";
      held.node?.replaceWith(made);
      Object.assign(held, { key, node: made });
    }
    if (place.children[at] !== held.node) place.insertBefore(held.node, place.children[at] || null);
  });
  for (const [id, held] of ctx.cards) {
    if (seen.has(id)) continue;
    held.node.remove();
    ctx.cards.delete(id);
  }
}

function tasks(rows, ctx) {
  return rows.map((task) => {
    const clock = el("span", { class: "r e", "data-clock": task.ticking ? task.seconds : null });
    clock.textContent = task.seconds === null ? "unknown" : seconds(task.seconds);
    const label = el("span", { class: "lab", title: task.label }, el("b", null, task.kind), ` ${task.label}`);
    const press = button(task.action === "cancel" ? "Cancel" : "Output", {}, () => ctx.send({ type: task.action, task: task.id }));
    const tail = task.tail.length ? el("div", { class: "tail" }, task.tail.join("\n")) : null;
    const words = task.line.length ? el("div", { class: "tx sm" }, spans(task.line)) : null;
    const id = el("code", { class: "id", title: task.id }, task.id.slice(-6));
    const size = el("span", { class: "r k" }, task.size || "–");
    return el("div", { class: "task" }, glyph(task.glyph, task.word), id, label, clock, size, press, tail, words);
  });
}

/** Words of the person that no request has read yet: each may be edited or taken back until then. */
function queued(items, ctx) {
  return items.map((item) => {
    const field = ctx.page.root.querySelector(".steer input");
    const edit = () => {
      ctx.send({ type: "unqueue", item: item.seq });
      if (!field) return;
      field.value = item.text;
      field.focus();
    };
    const acts = [
      field ? button("Edit", { class: "lite" }, edit) : null,
      button("Remove", { class: "lite" }, () => ctx.send({ type: "unqueue", item: item.seq })),
    ];
    const words = el("span", null, el("span", { class: "dim" }, "waits to be read: "), item.text, " ");
    return el("div", { class: "said" }, words, acts);
  });
}

/** A question of the model: a button an option (boxes and one button when several may be chosen),
    and a line for own words. */
function question(data, ctx) {
  const attrs = { class: "card", role: "group", "aria-label": `Question${data.answered ? ", inactive" : ""}` };
  const said = el("div", { class: "sm dim", role: "status" });
  const box = el("div", attrs);
  const answer = (more) => {
    ctx.send({ type: "answer", id: data.id, nonce: data.nonce, ...more });
    for (const node of box.querySelectorAll("button[data-live]")) node.dataset.sent = "1";
    enable(box, false);
    said.textContent = "Sent.";
  };
  const words = data.kind === "plan" ? "Why not, or what to change" : "Or in your own words";
  const field = el("input", { type: "text", "aria-label": words, placeholder: words, onkeydown: leave });
  const picks = [];
  const options = data.options.map((option, at) => {
    if (!data.multiple) return button(option, {}, () => answer({ picks: [at] }));
    const tick = el("input", { type: "checkbox" });
    picks.push(tick);
    return el("label", null, tick, " ", option);
  });
  const chosen = () => picks.flatMap((tick, at) => (tick.checked ? [at] : []));
  const send = () => {
    if (field.value.trim() || chosen().length) answer({ picks: chosen(), text: field.value });
  };
  const press = data.kind === "plan" ? "Not yet" : "Answer";
  const free = el("span", { class: "why" }, field, button(press, {}, send));
  const text = el("div", null);
  fillProse(text, data.blocks, false);
  const head = el("div", { class: "head" }, el("span", { class: "t" }, glyph(data.glyph, data.word), data.title));
  box.append(head, text, el("div", { class: "acts" }, options, free), said);
  box.append(el("div", { class: "cmd" }, data.commands.join(" · ")));
  if (data.answered) box.dataset.dead = "";
  return box;
}

function steer(ctx) {
  const words = "Add to this turn; read at the next step";
  const field = el("input", { type: "text", "aria-label": "Add to this turn", placeholder: words });
  const send = () => {
    const text = field.value.trim();
    if (!text) return;
    ctx.send({ type: "steer", text });
    field.value = "";
  };
  field.addEventListener("keydown", (event) => {
    leave(event);
    if (event.key === "Enter" && !event.isComposing && ctx.alive()) send();
  });
  return el("div", { class: "steer" }, field, button("Send", {}, send));
}

function foot(parts) {
  const words = parts.map((part, at) => el("span", null, at < parts.length - 1 ? `${part} ·` : part));
  return el("div", { class: "foot" }, words.flatMap((word, at) => (at ? [" ", word] : [word])));
}

/** Advance clocks of what runs; they stand still without a kernel. */
function tick(ctx) {
  const passed = ctx.alive() ? (performance.now() - ctx.at) / 1000 : 0;
  for (const node of ctx.page.root.querySelectorAll("[data-clock]")) {
    node.textContent = seconds(Number(node.dataset.clock) + passed);
  }
  for (const node of ctx.page.root.querySelectorAll("[data-quiet]")) {
    const still = Number(node.dataset.quiet) + passed;
    node.textContent = still >= QUIET ? `quiet for ${Math.floor(still)} s` : "";
  }
}
