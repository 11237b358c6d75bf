// Dom: elements from plain data, shared by every widget. Data reaches the page as text only:
// no innerHTML, no markup from a model or a tool; a link is http, https or #, with rel=noopener.

const SVG = "http://www.w3.org/2000/svg";
const GLYPHS = {
  ok: ["ok", "M2 7.5L5.5 11 12 3.5"],
  run: ["run", "M7 1.8A5.2 5.2 0 1 1 1.8 7M7 4.2V7l2 1.6"],
  ask: ["warn", "M2 2h10v10H2zM5.2 5.6C5.2 3.4 8.8 3.4 8.8 5.6 8.8 7 7 6.8 7 8.2M7 9.6v.9"],
  risk: ["warn", "M7 1.8L13 12.4H1zM7 5.4v3.4M7 10v1"],
  stale: ["warn", "M12 4.2A5.6 5.6 0 1 0 12.6 7M12.4 1.4v3h-3"],
  err: ["err", "M3 3l8 8M11 3l-8 8"],
  lost: ["err", "M3.3 10.7A5.2 5.2 0 0 1 3 3.6M5.6 2A5.2 5.2 0 0 1 9.4 2.4M11.6 4.6A5.2 5.2 0 0 1 11.4 9.8M9.2 11.7A5.2 5.2 0 0 1 6 12.1"],
  pause: ["run", "M4.5 2.5v9M9.5 2.5v9"],
  unknown: ["off", "M3 3h8v8H3z"],
  off: ["off", "M7 1.6A5.4 5.4 0 1 0 7 12.4 5.4 5.4 0 0 0 7 1.6M3.2 3.2l7.6 7.6"],
  think: ["off", "M2.5 7h.1M7 7h.1M11.5 7h.1"],
  none: ["off", ""],
};

/** An element with attributes and children; a string child is text, null and false are left out. */
function el(tag, attrs, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attrs || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "class") node.className = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat().filter((child) => child !== null && child !== false));
  return node;
}

function svg(cls, box, path, label) {
  const node = document.createElementNS(SVG, "svg");
  node.setAttribute("class", cls);
  node.setAttribute("viewBox", `0 0 ${box} ${box}`);
  if (label) {
    node.setAttribute("role", "img");
    node.setAttribute("aria-label", label);
  } else node.setAttribute("aria-hidden", "true");
  const line = document.createElementNS(SVG, "path");
  line.setAttribute("d", path);
  line.setAttribute("stroke-linecap", "round");
  node.append(line);
  return node;
}

/** The glyph of a state; its word is its label. `tone` replaces the colour of its kind. */
function glyph(id, word, tone) {
  const [color, path] = GLYPHS[id] || GLYPHS.none;
  return svg(`g ${tone || color}`, 14, path, word);
}

const chevron = () => svg("cv", 10, "M3 1.5L7 5 3 8.5", "");

/** A line of spans [kind, text]. */
function spans(line) {
  return (line || []).map(([kind, text]) => {
    if (kind === "c") return el("code", null, text);
    if (kind === "b") return el("b", null, text);
    if (kind === "d") return el("span", { class: "dim" }, text);
    if (kind === "x") return el("span", { class: "ctl" }, text);
    return document.createTextNode(text);
  });
}

/** A path that is cut in its middle and keeps its end, or a command that is cut at its end. */
function middle(text, cut) {
  const box = el("span", { class: "mid", title: text });
  if (cut !== "middle") box.append(el("i", null, text));
  else {
    const parts = text.split("/");
    const tail = parts.length > 3 ? "/" + parts.slice(-2).join("/") : text;
    const start = text.slice(0, text.length - tail.length);
    if (start) box.append(el("i", null, start));
    box.append(el("u", null, tail));
  }
  return box;
}

/** Rows [old, new, sign, text] as a table that still reads without colour. */
function diff(rows) {
  const numbered = rows.some((row) => row[0] !== null || row[1] !== null);
  const box = el("div", { class: numbered ? "diff" : "diff nn", role: "table", "aria-label": "diff" });
  for (const [before, after, sign, text] of rows) {
    if (sign === "@") {
      box.append(el("div", { class: "h", role: "row" }, text));
      continue;
    }
    const cells = [el("span", { role: "cell" }, sign === "-" ? "−" : sign), el("span", { role: "cell" }, text)];
    const numbers = [before, after].map((n) => el("span", { role: "cell" }, n === null ? "" : String(n)));
    const cls = sign === "+" ? "a" : sign === "-" ? "d" : "";
    box.append(el("div", { class: cls, role: "row" }, numbered ? numbers : [], cells));
  }
  return box;
}

function seconds(value) {
  if (value < 99.95) return `${Math.max(0, value).toFixed(1)} s`;
  const whole = Math.round(value);
  const pad = (n) => String(n).padStart(2, "0");
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${pad(whole % 60)} s`;
  return `${Math.floor(whole / 3600)} h ${pad(Math.floor((whole % 3600) / 60))} min`;
}

// ---- Markdown: the tree of markdown.py as elements ----------------------------------------------

function inline(nodes) {
  return nodes.map((node) => {
    const kind = node[0];
    if (kind === "t") return document.createTextNode(node[1]);
    if (kind === "c") return el("code", null, node[1]);
    if (kind === "br") return el("br");
    if (kind === "a") return link(node[1], inline(node[2]));
    return el({ b: "strong", i: "em", s: "del" }[kind] || "span", null, inline(node[1]));
  });
}

function link(href, children) {
  if (!/^(https?:\/\/|#)/i.test(href)) return el("span", null, children);
  return el("a", { href, rel: "noopener noreferrer", target: "_blank" }, children);
}

function prose(node) {
  switch (node.b) {
    case "p":
      return el("p", null, inline(node.in));
    case "h":
      return el(`h${Math.min(6, node.level + 2)}`, null, inline(node.in));
    case "code":
      return el("pre", { class: "code" }, el("code", null, node.text));
    case "ul":
    case "ol": {
      const items = node.items.map((item) => el("li", null, item.map(prose)));
      return el(node.b, { start: node.b === "ol" && node.start !== 1 ? node.start : null }, items);
    }
    case "quote":
      return el("blockquote", null, node.blocks.map(prose));
    case "table": {
      const cell = (tag, right) => (nodes, at) => el(tag, { class: right[at] ? "r" : null }, inline(nodes));
      const rows = node.rows.map((row) => el("tr", null, row.map(cell("td", node.right))));
      const head = el("tr", null, node.head.map(cell("th", node.right)));
      return el("div", { class: "wide" }, el("table", { class: "df" }, el("thead", null, head), el("tbody", null, rows)));
    }
    default:
      return el("hr");
  }
}

/** Fill `box` with blocks, keeping the elements of blocks that did not change. */
function fillProse(box, blocks, streaming) {
  box.querySelectorAll(".caret").forEach((caret) => caret.remove());
  blocks.forEach((block, at) => {
    const key = JSON.stringify(block);
    const old = box.children[at];
    if (old && old.akKey === key) return;
    const made = prose(block);
    made.akKey = key;
    if (old) old.replaceWith(made);
    else box.append(made);
  });
  while (box.children.length > blocks.length) box.lastElementChild.remove();
  if (streaming) {
    const last = box.lastElementChild;
    const at = last && last.tagName === "P" ? last : box;
    at.append(el("span", { class: "caret", "aria-hidden": "true" }));
  }
}

// ---- The kernel: a button works only while one answers ------------------------------------------

/** Tell whether a kernel answers: a ping asks it, at first and when its comm changes; any change of
    the model proves it too. */
function connect(model, root, changed) {
  const state = { alive: false, asked: false };
  const wake = () => {
    if (state.alive) return;
    state.alive = true;
    enable(root, true);
    changed();
  };
  const heard = (message) => message && message.type === "pong" && wake();
  let timer = 0;
  const ask = () => {
    Object.assign(state, { alive: false, asked: false });
    enable(root, false);
    clearTimeout(timer);
    timer = setTimeout(() => {
      state.asked = true;
      if (!state.alive) changed();
    }, 1500);
    model.send({ type: "ping" });
  };
  model.on("msg:custom", heard);
  model.on("comm_live_update", ask);
  ask();
  const stop = () => {
    clearTimeout(timer);
    model.off("msg:custom", heard);
    model.off("comm_live_update", ask);
  };
  return { state, wake, stop };
}

/** A button that sends `message`; it is dead without a kernel or while `blocked`. */
function button(label, attrs, press) {
  return el("button", { type: "button", "data-live": "", ...attrs, onclick: press }, label);
}

function enable(root, alive) {
  for (const node of root.querySelectorAll("button[data-live]")) {
    node.disabled = !alive || node.dataset.blocked === "1" || node.dataset.sent === "1";
  }
}

/** Escape leaves a text field and decides nothing. */
function leave(event) {
  if (event.key !== "Escape") return;
  event.stopPropagation();
  event.target.blur();
}
