// X-ray: the requests of a session as bars in one scale, one of them whole, and the block in it.
// All of it is in the state: it reads the same with and without a kernel.

const CLASSES = { S: "S", T: "T", M: "M", U: "U", A: "A", R: "R", "@": "F", "Σ": "Y" };
const SVG_BUTTONS = ["◂", "▸"];

const many = (n) => Math.abs(n).toLocaleString("en");
const short = (n) => (n < 100 ? String(n) : n < 999950 ? `${(n / 1000).toFixed(1)}k` : `${(n / 1e6).toFixed(1)}M`);
const percent = (part, whole) => `${whole ? ((100 * part) / whole).toFixed(2) : 0}%`;
const share = (row) => (row.cached === null ? "–" : row.cached ? `${Math.round((100 * row.cached) / (row.total || 1))} %` : "cold");
const signed = (n) => (n ? `${n > 0 ? "+" : "−"}${many(n)}` : "0");

/** Neighbouring blocks of one source as one run: {source, tokens, from, to}. */
function runs(view, row) {
  const out = [];
  row.blocks.forEach(([index, tokens], at) => {
    const source = view.blocks[index][0];
    const last = out[out.length - 1];
    if (last && last.source === source) Object.assign(last, { tokens: last.tokens + tokens, to: at });
    else out.push({ source, tokens, from: at, to: at });
  });
  return out;
}

function segment(source, tokens, total, names, on) {
  const title = `${names[source] || source}, ${many(tokens)} tokens`;
  const cls = `seg ${CLASSES[source] || "F"}${on ? " on" : ""}`;
  const node = el("span", { class: cls, title }, el("i", null, source));
  node.style.width = percent(tokens, total);
  return node;
}

function bar(view, row, parts, width, names) {
  const said = parts.map((p) => `${names[p.source] || p.source} ${many(p.tokens)}`).join(", ");
  const node = el("div", { class: "stack", role: "img", "aria-label": `request ${row.label}: ${said}` });
  node.append(...parts.map((p) => segment(p.source, p.tokens, row.total, names, p.on)));
  node.style.width = width;
  return node;
}

function overview(view, names, pick) {
  const scale = view.window || Math.max(...view.rows.map((row) => row.total), 1);
  const grid = el("div", { class: "grid", "aria-hidden": "true" });
  for (const [name, at] of [["soft", view.soft], ["hard", view.hard]]) {
    if (!at) continue;
    const mark = el("span", { class: "s" }, `${name} ${short(at).replace(".0k", "k")}`);
    mark.style.left = percent(at, scale);
    grid.append(mark);
  }
  const edge = el("span", { class: "e" }, short(scale).replace(".0k", "k"));
  edge.style.right = "0";
  grid.append(edge);
  const head = el("div", { class: "xhd", "aria-hidden": "true" }, el("span", null, "tokens"), el("span", null, "cached"));
  const list = el("div", { role: "listbox", "aria-label": "Requests", tabindex: "0" });
  view.rows.forEach((row, at) => {
    if (row.mark) list.append(el("div", { class: "cmark" }, el("span", null, row.mark)));
    const track = el("div", { class: "tr" }, bar(view, row, runs(view, row), percent(row.total, scale), names));
    if (row.cached) {
      const line = el("span", { class: "cl" });
      line.style.width = percent(Math.min(row.cached, row.total), scale);
      track.append(line);
    }
    const attrs = { class: `xrow${row.next ? " next" : ""}`, role: "option", id: `ak-x${at}`, onclick: () => pick(at) };
    list.append(el("div", attrs, el("span", { class: "lb" }), track, el("span", { class: "r" }, short(row.total)), el("span", { class: "r" }, share(row))));
  });
  list.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const to = { Home: 0, End: view.rows.length - 1 }[event.key];
    if (step === undefined && to === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    pick(to === undefined ? (step > 0 ? "later" : "earlier") : to);
  });
  return { box: el("div", { class: "xr" }, grid, head, list), list };
}

function strip(view, row, chosen, names, choose) {
  const parts = [];
  row.blocks.forEach(([index, tokens], at) => {
    const source = view.blocks[index][0];
    const last = parts[parts.length - 1];
    const tiny = tokens < row.total / 600;
    if (last && last.source === source && last.tiny && tiny && at !== chosen && !last.on) last.tokens += tokens;
    else parts.push({ source, tokens, tiny, on: at === chosen });
  });
  const box = el("div", { class: "strip", tabindex: "0", role: "group", "aria-label": "Blocks in the order sent: arrows pick one" });
  const cached = row.cached || 0;
  if (cached) box.append(bracket("br", 0, cached / row.total, `cached ${many(cached)}`));
  const fresh = row.total - cached;
  const words = row.next ? `not sent yet ${many(fresh)}` : `written anew ${many(fresh)}${row.dollars ? ` · ${row.dollars}` : ""}`;
  if (fresh > 0) box.append(bracket("br x", cached / row.total, fresh / row.total, words));
  box.append(bar(view, row, parts, "100%", names));
  if (row.broken) {
    const flag = el("span", { class: "fb" }, `first changed byte ${many(row.broken.byte)}`);
    flag.style.left = percent(Math.min(row.broken.at, row.total * 0.75), row.total);
    box.append(flag);
  }
  box.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    choose(Math.min(row.blocks.length - 1, Math.max(0, chosen + step)));
  });
  box.addEventListener("click", (event) => {
    const wide = box.getBoundingClientRect();
    const goal = ((event.clientX - wide.left) / wide.width) * row.total;
    let sum = 0;
    choose(Math.max(0, row.blocks.findIndex(([, tokens]) => (sum += tokens) >= goal)));
  });
  return box;
}

function bracket(cls, from, size, words) {
  const node = el("span", { class: cls, title: words }, words);
  node.style.left = percent(from, 1);
  node.style.width = percent(size, 1);
  return node;
}

/** Sums by source: {blocks, tokens, cached, gone, layers}. */
function sums(view, row) {
  const out = {};
  for (const [index, tokens, cached, , goes] of row ? row.blocks : []) {
    const block = view.blocks[index];
    const sum = (out[block[0]] ||= { blocks: 0, tokens: 0, cached: 0, gone: 0, layers: [] });
    sum.blocks += 1;
    sum.tokens += tokens;
    sum.cached += cached;
    if (!goes) continue;
    sum.gone += tokens;
    if (!sum.layers.includes(block[4])) sum.layers.push(block[4]);
  }
  return out;
}

function table(view, row, before) {
  const now = sums(view, row), was = sums(view, before);
  const none = { blocks: 0, tokens: 0, cached: 0, gone: 0, layers: [] };
  const all = { blocks: 0, tokens: 0, cached: 0, gone: 0, layers: [] };
  let since = 0;
  const body = el("tbody");
  const line = (cls, first, sum, change, layers) => {
    const cells = [
      ["", first], ["opt", many(sum.blocks)], ["", many(sum.tokens)],
      ["opt", `${row.total ? ((100 * sum.tokens) / row.total).toFixed(1) : "0.0"} %`], ["", many(sum.cached)],
      ...(before ? [["", signed(change)]] : []), ["", many(sum.gone)], ["opt", layers],
    ];
    body.append(el("tr", { class: cls || null }, cells.map(([kind, cell]) => el("td", { class: kind || null }, cell))));
  };
  for (const [letter, name] of view.sources) {
    if (!now[letter] && !was[letter]) continue;
    const sum = now[letter] || none;
    const change = sum.tokens - (was[letter] || none).tokens;
    for (const key of ["blocks", "tokens", "cached", "gone"]) all[key] += sum[key];
    since += change;
    line("", [el("span", { class: `key ${CLASSES[letter] || "F"}` }, el("i", null, letter)), name], sum, change, sum.layers.join(", "));
  }
  line("sum", row.next ? "next request" : `request ${row.label}`, all, since, "");
  const heads = [["", "source"], ["opt", "blocks"], ["", "tokens"], ["opt", "share"], ["", "cached"], ...(before ? [["", `since ${before.label}`]] : []), ["", "would go"], ["opt", "by layer"]];
  return el("table", { class: "n" }, el("thead", null, el("tr", null, heads.map(([cls, words]) => el("th", { class: cls || null }, words)))), body);
}

function pairs(rows) {
  return el("dl", { class: "kv" }, rows.flatMap(([name, value]) => [el("dt", null, name), el("dd", null, value)]));
}

function block(view, row, chosen, names) {
  const line = row.blocks[chosen];
  if (!line) return el("div");
  const [index, tokens, cached, age] = line;
  const [source, words, seq, facts] = view.blocks[index];
  const size = `${many(tokens)} tokens${row.counted ? "" : ", estimated"}`;
  const rows = facts.filter(([name]) => name === "Event" || name === "Source");
  rows.push(["Size", size]);
  if (age >= 0) rows.push(["Age", age ? `${age} request${age === 1 ? "" : "s"}` : "new in this request"]);
  rows.push(["Cached", row.cached === null ? "not sent yet" : cached >= tokens ? "yes" : cached ? `${many(cached)} tokens of it` : "no"]);
  rows.push(...facts.filter(([name]) => name !== "Event" && name !== "Source"));
  const title = el("div", { class: "h3" }, `Block ${chosen + 1} of ${row.blocks.length}: ${names[source] || source}`);
  const what = el("p", { class: "sm" }, el("code", null, words));
  const command = seq === null ? [] : [el("div", { class: "cmd" }, `%agent where ${seq}`)];
  return el("div", null, title, what, pairs(rows), command);
}

function why(row, before) {
  if (!row.broken) return el("div", null, el("div", { class: "h3" }, "What broke the cache"), el("p", { class: "sm" }, "Nothing: it begins with the bytes of the one before."));
  const { byte, where, cause } = row.broken;
  const pad = (text) => String(text).padEnd(5);
  const piece = (label, [head, tail]) => [el("span", { class: "dim" }, pad(label)), ` …${head}`, el("b", null, tail.slice(0, 3)), tail.slice(3), "\n"];
  const code = el("pre", { class: "code sm at" }, piece(before ? before.label : "", row.broken.before), piece(row.label, row.broken.after), " ".repeat(7 + row.broken.after[0].length), el("b", null, `▲ ${many(byte)}`));
  return el("div", null, el("div", { class: "h3" }, "What broke the cache"), el("p", { class: "sm" }, `Byte ${many(byte)}, in ${where}: ${cause}.`), code);
}

export default {
  render({ model, el: host }) {
    const root = el("div", { class: "ak" });
    host.dataset.lmSuppressShortcuts = "true";
    host.append(root);
    let at = -1, chosen = 0;
    const draw = () => {
      const view = model.get("view");
      if (!view.rows || !view.rows.length) return root.replaceChildren(el("p", null, "No request yet."));
      const names = Object.fromEntries(view.sources);
      if (at < 0 || at >= view.rows.length) at = view.selected;
      const body = el("div");
      const slider = el("input", { type: "range", min: 1, max: view.rows.length, "aria-label": "Request" });
      const label = el("span", { class: "lbl nw" });
      const pick = (to) => {
        const wanted = to === "later" ? at + 1 : to === "earlier" ? at - 1 : to;
        at = Math.min(view.rows.length - 1, Math.max(0, wanted));
        chosen = largest(view.rows[at]);
        show();
      };
      const { box, list } = overview(view, names, pick);
      const choose = (to) => { chosen = to; show(); body.querySelector(".strip").focus(); };
      const show = () => {
        const row = view.rows[at], before = view.rows[at - 1];
        [...list.querySelectorAll(".xrow")].forEach((node, n) => {
          node.classList.toggle("sel", n === at);
          node.setAttribute("aria-selected", String(n === at));
          node.querySelector(".lb").textContent = `${n === at ? "▸" : ""}${view.rows[n].label}`;
        });
        list.setAttribute("aria-activedescendant", `ak-x${at}`);
        slider.value = String(at + 1);
        slider.setAttribute("aria-valuetext", `request ${row.label}, ${at + 1} of ${view.rows.length}`);
        const sent = view.rows.filter((each) => !each.next).length;
        label.textContent = row.next ? "next request, not sent" : `request ${row.label}, ${at + 1} of ${sent} sent`;
        body.replaceChildren(
          strip(view, row, chosen, names, choose), table(view, row, before),
          el("div", { class: "two" }, block(view, row, chosen, names), why(row, before)),
        );
      };
      slider.addEventListener("input", () => pick(Number(slider.value) - 1));
      const step = (words, sign, to) => el("button", { type: "button", "aria-label": words, onclick: () => pick(to) }, sign);
      const slide = el("div", { class: "slide" }, step("Earlier request", SVG_BUTTONS[0], "earlier"), slider, step("Later request", SVG_BUTTONS[1], "later"), label);
      const note = view.left_out ? `the last ${view.rows.length}, ${many(view.left_out)} before are left out` : "in the order sent; the line under a bar came from the cache";
      const head = el("div", { class: "head" }, el("span", { class: "t p0" }, "Context, request by request"), el("span", { class: "dim" }, note));
      root.replaceChildren(head, box, slide, body);
      pick(at);
    };
    model.on("change:view", draw);
    draw();
    return () => model.off("change:view", draw);
  },
};

function largest(row) {
  let best = 0;
  row.blocks.forEach(([, tokens], at) => { if (tokens > row.blocks[best][1]) best = at; });
  return best;
}
