"use strict";
// Data reach the page as text nodes and attributes, or as HTML that `hardem_jax.show.html` has escaped.
const read = (id) => JSON.parse(document.getElementById(id).textContent);
const at = (id) => document.getElementById(id), root = document.documentElement;
const about = read("about"), all = read("all");
const ROW = 62, LISTED = 20;
const state = { shown: [], open: -1, run: 0, other: -1, step: null, share: false, picked: [] };
const COMPARING = ["one", "first", "second"];
let current = null, lacking = null;
// Questions left out have the numbers after those of the others, and are read when they are asked for.
const left = (index) => (lacking = lacking || read("left"))[index - all.length];

function make(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [event, call] of Object.entries(value)) node.addEventListener(event, call);
    else if (name === "p") node.style.setProperty("--p", value.toFixed(4));
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}
const percent = (p) => p >= 0.9995 ? "100" : p >= 0.0995 ? (100 * p).toFixed(0) : p >= 0.0005 ? (100 * p).toFixed(1) : p > 0 ? "<0.1" : "0";

// --- the list: only rows in sight are in the document ---

function filter() {
  const words = at("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const number = (id, other) => at(id).value === "" ? other : Number(at(id).value);
  const least = number("least", 0), most = number("most", Infinity);
  const outcome = at("outcome") ? at("outcome").value : "";
  const which = at("which") ? at("which").value : "";
  state.shown = [];
  if (which) {
    for (let index = all.length; index < all.length + about.listed; index++) {
      const [id, why, question] = left(index);
      if (which !== "*" && Number(which) !== why) continue;
      const text = `${id} ${question} ${about.leftOut[why][0]}`.toLowerCase();
      if (words.every((word) => text.includes(word))) state.shown.push(index);
    }
  } else all.forEach(([id, question, answer, size, right], index) => {
    if (size < least || size > most) return;
    const mine = right[state.run], other = right[state.other];
    if (outcome === "right" && mine !== 1) return;
    if (outcome === "wrong" && mine !== 0) return;
    if (outcome === "one" && !(mine === 1 && other === 0 || mine === 0 && other === 1)) return;
    if (outcome === "first" && !(mine === 1 && other === 0)) return;
    if (outcome === "second" && !(mine === 0 && other === 1)) return;
    if (words.length) {
      const text = `${id} ${question} ${answer}`.toLowerCase();
      if (!words.every((word) => text.includes(word))) return;
    }
    state.shown.push(index);
  });
  const order = at("order").value;
  if (order && !which) state.shown.sort((a, b) => (order === "up" ? 1 : -1) * (all[a][3] - all[b][3]) || a - b);
  const count = (n) => n.toLocaleString("en"), lost = about.leftOut.reduce((sum, [, n]) => sum + n, 0);
  const some = state.shown.length === (which ? lost : all.length) ? "" : `${count(state.shown.length)} of `;
  const rest = lost && !which ? `, ${count(lost)} left out of the split` : "";
  const cut = which && about.listed < lost ? `; the first ${count(about.listed)} are in this file (--count)` : "";
  at("counted").textContent = which ? `${some}${count(lost)} questions left out of the split${cut}` : `${some}${count(all.length)} questions${rest}`;
  rows();
  if (!state.shown.length) at("question").replaceChildren(back(), ...nothing());
  else if (at("question").querySelector(".none") && state.open >= 0) open(state.open, false);
}

function mark(right, name) {
  if (right === null || right === undefined) return null;
  const sign = make("span", { class: right ? "right" : "wrong" }, right ? "✓" : "✗");
  return name ? make("span", { class: "outcome", title: `${name}: ${right ? "right" : "wrong"}` }, sign, ` ${name}`) : sign;
}

// A row for a question left out: the reason stands for its answer.
function unanswered(index) {
  const [id, why, question] = left(index);
  return [id, question || id, about.leftOut[why][0], 0, []];
}

function rows() {
  const box = at("list"), body = at("rows");
  body.style.height = `${ROW * state.shown.length}px`;
  const first = Math.max(0, Math.floor(box.scrollTop / ROW) - 5);
  const last = Math.min(state.shown.length, first + Math.ceil((box.clientHeight || 800) / ROW) + 10);
  const nodes = [];
  for (let place = first; place < last; place++) {
    const index = state.shown[place], out = index >= all.length;
    const [id, question, answer, size, right] = out ? unanswered(index) : all[index];
    const marks = right.map((one, run) => run === state.run || run === state.other ? mark(one, about.runs.length > 1 ? about.runs[run].name : "") : null);
    nodes.push(make("a", { class: "row", href: `#q=${index}`, style: `top:${ROW * place}px`, title: id,
      tabindex: "-1", "aria-current": index === state.open ? "true" : null,
      on: { click: (event) => { event.preventDefault(); document.body.dataset.view = "question"; open(index); } } },
      make("bdi", { class: "what" }, question),
      make("span", { class: "sub" }, ...marks, out || !about.answers ? null : make("span", { class: "size" }, `|Z| ${size.toLocaleString("en")}`), make("bdi", { class: "gold" }, answer))));
  }
  if (!nodes.length) nodes.push(...nothing());
  body.replaceChildren(...nodes);
}

const nothing = () => [make("p", { class: "none" }, "No question is left by these filters."), make("p", { class: "none" }, make("button", { type: "button", on: { click: clear } }, "Clear the filters"))];
function clear() {
  for (const id of ["search", "least", "most", "outcome", "which"]) if (at(id)) at(id).value = "";
  filter();
  if (all.length) open(state.open >= 0 && state.open < all.length ? state.open : 0, false);
}

function reveal() {
  const place = state.shown.indexOf(state.open), box = at("list");
  if (place < 0) return;
  if (ROW * place < box.scrollTop) box.scrollTop = ROW * place;
  else if (ROW * (place + 1) > box.scrollTop + box.clientHeight) box.scrollTop = ROW * (place + 1) - box.clientHeight;
}

// --- a question ---

// The browser's Back leads to what was open before, if it is to be remembered as a place of its own.
function open(index, place = true) {
  const moved = place && state.open >= 0;
  state.open = index;
  current = index < all.length ? read("q" + index) : null;
  state.picked = [];
  if (current) {
    prepare(index);
    const steps = moments();
    if (!steps.includes(state.step)) state.step = steps.length ? preferred(steps) : null;
    draw();
  } else at("question").replaceChildren(...excuse(index));
  at("question").scrollTop = 0;
  rows();
  reveal();
  remember(moved);
}

// Training steps at which the shown run or the one next to it says something of the question.
function moments() {
  return [...new Set([...stepsOf(state.run), ...stepsOf(state.other)])].sort((a, b) => a - b);
}

function preferred(steps) {
  const known = steps.filter((step) => said(state.run, step) && said(state.run, step).correct !== undefined);
  return known.length ? known[known.length - 1] : steps[steps.length - 1];
}

// Of another run the same step, or else its nearest one before, or its first.
function nearest(run) {
  const steps = stepsOf(run);
  if (!steps.length) return null;
  const before = steps.filter((step) => step <= state.step);
  const step = before.length ? before[before.length - 1] : steps[0];
  return { step, ...said(run, step) };
}

const ofRun = (run) => (current.runs || [])[run] || {};
const stepsOf = (run) => Object.keys(ofRun(run)).map(Number).sort((a, b) => a - b);
const said = (run, step) => ofRun(run)[step];

// As `hardem_jax.show.record.Record.strength` has it.
function strength(places, one) {
  if (!one) return 0.35 + 0.5 * places.length / Math.max(1, current.z.length);
  return Math.min(1, places.reduce((sum, z) => sum + (chance(one, z) || 0), 0));
}

// P(z | x), or what it is of the sum over Z; null if the model did not read z.
function chance(one, z) {
  const p = one.p[z];
  return p === null || !state.share ? p : one.sum > 0 ? Math.min(1, p / one.sum) : 0;
}

// On a phone, which shows either the list or a question.
function view(name, place = true) {
  document.body.dataset.view = name;
  rows();
  reveal();
  remember(place);
}
const back = () => make("p", { class: "phone" }, make("button", { class: "back", type: "button", on: { click: () => view("list") } }, "← Questions"),
  make("button", { class: "previous", type: "button", on: { click: () => next(-1) } }, "Previous"), make("button", { class: "next", type: "button", on: { click: () => next(1) } }, "Next"));

function excuse(index) {
  const [id, question, reason] = unanswered(index);
  return [back(), make("h2", { dir: "auto" }, question), make("p", { class: "facts" }, make("span", {}, "Left out: ", make("bdi", { class: "gold" }, reason)), make("bdi", { class: "id" }, id)),
    make("p", { class: "soft" }, about.leftOut[left(index)[1]][2] ? "Models do not read it, and scores count it as wrong." : "Models do not read it, and scores do not count it.")];
}

function draw() {
  const [id, question, answer, size] = all[state.open], now = nearest(state.run);
  // What had the focus keeps it, as another node; a button may be off now.
  const box = at("question"), focused = box.contains(document.activeElement) ? document.activeElement.dataset.focus : null;
  const nodes = [
    back(),
    make("h2", { dir: "auto" }, question),
    make("p", { class: "facts" }, make("span", {}, "Answer ", make("bdi", { class: "gold" }, answer || (about.answers ? "none" : "unknown"))),
      about.answers ? make("span", {}, `|Z| ${size.toLocaleString("en")}`) : null, make("bdi", { class: "id" }, id))];
  const runs = [state.run, state.other].filter((run) => run >= 0 && about.runs[run]);
  if (runs.length) nodes.push(make("div", { class: "runs" }, ...runs.map(verdict)));
  if (now && moments().length > 1) nodes.push(stepper());
  if (about.runs.length) shade(now);
  frame(now || { z: -1 });
  tabulate(runs, now);
  nodes.push(current.node, legend(runs));
  const scrolled = box.scrollTop;
  box.replaceChildren(...nodes);
  box.scrollTop = scrolled;
  if (focused) {
    const same = [...box.querySelectorAll("[data-focus]")].find((node) => node.dataset.focus === focused && !node.disabled);
    (same || box.querySelector(".stepper input") || box).focus({ preventScroll: true });
  }
  light();
}

function verdict(run) {
  const one = nearest(run), name = make("b", {}, about.runs[run].name);
  if (!one) return make("section", {}, name, make("p", {}, "says nothing of this question"));
  const which = (about.runs[run].moments.find(([step]) => step === one.step) || [])[1];
  const shown = one.answer || "no answer";
  const where = !about.answers ? "" : one.z !== -1 ? ", in Z" : ", not in Z";
  return make("section", {}, make("p", { class: "head" }, name, make("span", { class: "soft" }, ` step ${one.step.toLocaleString("en")}${which ? ` (${which})` : ""}`)),
    one.correct === undefined ? null : make("p", {}, mark(one.correct), ` ${one.correct ? "right" : "wrong"}: `, make("bdi", { class: "gold" }, shown)),
    one.chance > 0 || one.z >= 0 ? make("p", {}, make("span", { class: "soft" }, `most likely, ${percent(one.chance)} %${where}`), ...(one.prediction === one.answer ? [] : [": ", make("bdi", {}, one.prediction ? make("code", {}, one.prediction) : "no answer")])) : make("p", { class: "soft" }, "no prediction"));
}

function stepper() {
  const steps = moments(), place = Math.max(0, steps.indexOf(state.step));
  const range = make("input", { type: "range", min: 0, max: steps.length - 1, step: 1, value: place, "aria-label": "Training step", "data-focus": "step",
    "aria-valuetext": `step ${steps[place]}`, on: { input: (event) => go(steps[Number(event.target.value)]) } });
  return make("div", { class: "stepper" },
    make("button", { type: "button", "aria-label": "Step before", "data-focus": "before", disabled: place === 0, on: { click: () => move(-1) } }, "◀"),
    range,
    make("button", { type: "button", "aria-label": "Step after", "data-focus": "after", disabled: place === steps.length - 1, on: { click: () => move(1) } }, "▶"),
    make("output", {}, `step ${steps[place].toLocaleString("en")}, ${place + 1} of ${steps.length}`));
}

function go(step) {
  state.step = step;
  draw();
  remember();
}
function move(by) {
  if (!current) return;
  const steps = moments(), place = steps.indexOf(state.step) + by;
  if (steps.length && steps[place] !== undefined) go(steps[place]);
}

// The solutions of a set, which is written as the digits of a bit mask.
function members(digits) {
  const found = [];
  [...digits].reverse().forEach((digit, place) => {
    for (let bit = 0; bit < 4; bit++) if (parseInt(digit, 16) >> bit & 1) found.push(4 * place + bit);
  });
  return found;
}
// Those that a part of the text or the table, or a row of the list, stands for.
const places = (node, name) => node.dataset.of ? [Number(node.dataset.of)] : current.sets[node.dataset[name]];

// What is read and the list of solutions, as `hardem_jax.show.html` has drawn them.
function prepare(index) {
  const node = current.node = make("div", {});
  node.innerHTML = at("h" + index).textContent;
  current.sets = current.sets.map(members);
  for (const part of node.querySelectorAll("mark")) part.tabIndex = 0;
  for (const row of node.querySelectorAll("[data-of]")) row.dataset.focus = `z ${row.dataset.of}`;
  const over = (event) => {
    const row = event.target.closest("[data-of]");
    light(row ? places(row) : null);
  };
  for (const event of ["mouseover", "focusin"]) node.addEventListener(event, over);
  for (const event of ["mouseleave", "focusout"]) node.addEventListener(event, () => light());
  const chosen = (event) => {
    const part = event.target.closest("[data-p],[data-of]");
    if (part) pick(places(part, "p"));
  };
  node.addEventListener("click", chosen);
  node.addEventListener("keydown", (event) => { if (event.key === "Enter") chosen(event); });
  const size = all[index][3], known = current.all.toLocaleString("en");
  const label = `${size > current.all ? `${known} of ${size.toLocaleString("en")}` : known} solution${size === 1 && current.all === 1 ? "" : "s"}`;
  const list = node.querySelector(".list"), empty = about.answers ? "Z is empty: no solution gives the answer." : "Z is unknown, as the answer is.";
  if (list) list.before(make("p", { class: "label" }, label));
  else node.append(make("p", { class: "label" }, "Solutions"), make("p", { class: "note" }, empty));
}

// Where the prediction is read: a part that z is shaded by, or one that predictions outside of Z name.
function frame(one) {
  for (const part of current.node.querySelectorAll("[data-p],[data-said]")) {
    const inZ = one.z >= 0 && part.dataset.p && places(part, "p").includes(one.z);
    const outside = one.at !== undefined && (part.dataset.said || "").split(" ").includes(String(one.at));
    part.classList.toggle("said", inZ || outside);
  }
}

function shade(one) {
  for (const part of current.node.querySelectorAll("[data-p]")) {
    const own = places(part, "p"), few = own.slice(0, 4).map((z) => `z${current.z[z]}`).join(", ") + (own.length > 4 ? ", …" : "");
    part.style.setProperty("--p", strength(own, one).toFixed(4));
    part.title = one ? `${few}: ${percent(strength(own, one))} %` : few;
  }
}

// Rows are solutions, the most likely first; columns are training steps, as in the paper's Table 4.
function tabulate(runs, now) {
  const table = current.node.querySelector(".list table");
  if (!table) return;
  for (const old of table.querySelectorAll("thead, .chance")) old.remove();
  const columns = runs.flatMap((run) => stepsOf(run).map((step) => [run, step, said(run, step)]));
  if (!columns.length) return;
  const rows = [...table.querySelectorAll("[data-of]")], likely = (row) => now ? now.p[row.dataset.of] || 0 : 0;
  rows.sort((a, b) => likely(b) - likely(a) || a.dataset.of - b.dataset.of);
  rows.forEach((row, place) => table.tBodies[place < LISTED ? 0 : 1].append(row));
  for (const [run, step, one] of columns) for (const row of rows) {
    const z = Number(row.dataset.of), p = chance(one, z), title = p === null ? "not read by the model" : `${about.runs[run].name}, step ${step}: ${(100 * p).toPrecision(3)} %`;
    row.append(make("td", { class: `chance${one.z === z ? " predicted" : ""}`, p: p || 0, title }, p === null ? "–" : percent(p)));
  }
  const head = make("thead", {}), groups = runs.map((run) => [run, columns.filter(([own]) => own === run).length]).filter(([, n]) => n);
  if (runs.length > 1) head.append(make("tr", {}, make("th", { colspan: 3 }), ...groups.map(([run, n]) => make("th", { colspan: n, class: "group" }, about.runs[run].name))));
  head.append(make("tr", {}, make("th", { colspan: 3 }, `${state.share ? "share of the sum over Z" : "P(z | x)"} in %, by training step`), ...columns.map(([run, step]) => {
    const which = (about.runs[run].moments.find(([own]) => own === step) || [])[1];
    return make("th", { class: `chance${nearest(run).step === step ? " here" : ""}`, scope: "col" },
      make("button", { type: "button", "data-focus": `run ${run} step ${step}`, on: { click: () => go(step) } }, step.toLocaleString("en")), which ? make("small", {}, which) : null);
  })));
  table.prepend(head);
}

function legend(runs) {
  const texts = [], left = current.all - current.z.length, cut = all[state.open][3] - current.all;
  if (runs.some(nearest)) texts.push(`Shade: ${state.share ? "share of the sum over Z" : "probability"}. Frame: the model's prediction.`);
  else texts.push("No model was asked: shades say how many solutions share a part.");
  const name = runs.length > 1 ? ` (${about.runs[runs[0]].name})` : "";
  const framed = current.node.querySelector(".said") ? [make("span", { class: "said" }, "Dashed"), `: where it is read${name}. `] : [];
  if (left > 0) texts.push(`${left.toLocaleString("en")} less likely or later solutions are not in this file (--solutions).`);
  if (cut > 0) texts.push(`${cut.toLocaleString("en")} others of Z are not in the data, which hold the first ${current.all.toLocaleString("en")}.`);
  const [first, ...rest] = current.z.length ? texts : [""];
  return make("p", { class: "note" }, `${first} `, ...framed, rest.join(" "));
}

function pick(numbers) {
  state.picked = state.picked.join() === numbers.join() ? [] : numbers;
  light();
}
function light(numbers) {
  const wanted = new Set(numbers || state.picked);
  for (const node of document.querySelectorAll("#question [data-z], #question [data-of]"))
    node.classList.toggle("hot", wanted.size > 0 && places(node, "z").some((z) => wanted.has(z)));
}

// --- where one is, in the address, so that it can be sent to others ---

let own = "";
function remember(place = false) {
  const words = [`q=${state.open}`];
  if (document.body.dataset.view === "question") words.push("view=question");
  if (state.step !== null) words.push(`step=${state.step}`);
  if (about.runs.length > 1) words.push(`run=${state.run}`, `other=${state.other}`);
  if (state.share) words.push("shade=share");
  const chosen = root.getAttribute("theme");
  if (chosen) words.push(`theme=${chosen}`);
  own = "#" + words.join("&");
  if (location.hash === own) return;
  if (place) location.assign(own);
  else location.replace(own);
}
function recall() {
  const words = new Map(location.hash.slice(1).split("&").map((word) => word.split("=")));
  const number = (name, most, other) => { const n = parseInt(words.get(name), 10); return n >= 0 && n < most ? n : other; };
  if (["dark", "light"].includes(words.get("theme"))) root.setAttribute("theme", words.get("theme"));
  state.run = number("run", about.runs.length, 0);
  state.other = number("other", about.runs.length, about.runs.length > 1 && !words.has("other") ? 1 : -1);
  state.step = number("step", Infinity, null);
  if (at("run")) at("run").value = String(state.run);
  if (at("other")) compare(state.run);
  state.share = words.get("shade") === "share";
  if (at("shade")) at("shade").value = state.share ? "share" : "";
  document.body.dataset.view = words.get("view") === "question" ? "question" : "list";
  const wanted = number("q", all.length + about.listed, -1);
  // A question that the filter hides is in no row.
  if (at("which") && wanted >= 0 && (wanted >= all.length) !== (at("which").value !== "")) at("which").value = wanted >= all.length ? "*" : "";
  filter();
  return wanted;
}

function theme() {
  const chosen = root.getAttribute("theme"), dark = chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.setAttribute("theme", dark ? "light" : "dark");
  remember();
}
function changed() {
  const before = state.run;
  if (at("run")) state.run = Number(at("run").value);
  if (at("other")) {
    state.other = at("other").value === "" ? -1 : Number(at("other").value);
    compare(before);
  }
  filter();
  if (state.open >= 0 && state.shown.length) open(state.open, false);
}
// A run stands next to another one, not to itself: where it was asked for, the two change places.
function compare(before) {
  if (state.other === state.run) state.other = before === state.run ? -1 : before;
  at("other").value = state.other < 0 ? "" : String(state.other);
  for (const option of at("outcome").options) option.disabled = state.other < 0 && COMPARING.includes(option.value);
  if (at("outcome").selectedOptions[0].disabled) at("outcome").value = "";
}
function share(yes) {
  state.share = yes;
  at("shade").value = yes ? "share" : "";
  if (current) draw();
  remember();
}
function help() {
  at("help").showModal();
}
function next(by) {
  if (!state.shown.length) return;
  const place = state.shown.indexOf(state.open);
  const wanted = place < 0 ? 0 : Math.min(state.shown.length - 1, Math.max(0, place + by));
  open(state.shown[wanted]);
}

at("filters").addEventListener("submit", (event) => event.preventDefault());
for (const id of ["search", "least", "most"]) at(id).addEventListener("input", () => { at("list").scrollTop = 0; filter(); });
if (at("shade")) at("shade").addEventListener("change", () => share(at("shade").value === "share"));
for (const id of ["run", "other", "outcome", "order"]) if (at(id)) at(id).addEventListener("change", changed);
if (at("which")) at("which").addEventListener("change", () => { at("list").scrollTop = 0; filter(); if (state.shown.length) open(state.shown[0]); });
at("theme").addEventListener("click", theme);
at("keys").addEventListener("click", help);
at("close").addEventListener("click", () => at("help").close());
at("fold").addEventListener("click", () => at("fold").setAttribute("aria-expanded", String(document.body.classList.toggle("unfolded"))));
at("list").addEventListener("scroll", rows, { passive: true });
addEventListener("resize", rows);
addEventListener("hashchange", () => { if (location.hash !== own) { const index = recall(); if (index >= 0) open(index, false); } });
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
  if (event.key === "Escape") {
    if (typing) event.target.blur();
    else { state.picked = []; light(); view("list", false); }
    return;
  }
  if (typing || at("help").open) return;
  const inList = event.target === at("list");
  const keys = { j: () => next(1), k: () => next(-1), ArrowLeft: () => move(-1), ArrowRight: () => move(1), t: theme,
    "/": () => at("search").focus(), "?": help, Enter: inList ? () => view("question") : null,
    ArrowDown: inList ? () => next(1) : null, ArrowUp: inList ? () => next(-1) : null,
    s: () => { if (at("shade")) share(!state.share); },
    o: () => { if (at("run")) { at("run").value = String((state.run + 1) % about.runs.length); changed(); } } };
  if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
});

const wanted = recall();
performance.mark("list");
if (wanted >= 0 || all.length) open(wanted >= 0 ? wanted : 0);
performance.mark("question");
