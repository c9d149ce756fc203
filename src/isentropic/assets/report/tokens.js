"use strict";
(() => {
  const data = JSON.parse(document.getElementById("tk-data").textContent);
  const sheets = data.sheets.filter((sheet) => sheet.answers.length);
  const at = (id) => document.getElementById("tk-" + id);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const state = { sheet: 0, step: null, group: null, answer: "all", mode: "surprisal", place: 0, card: 0 };

  // Colours: one-hue ramps and blue against orange, which the colour-blind tell apart; text is black or white on each.
  const RAMPS = {
    amber: [["#fbf8f1", "#fde0a6", "#f2a93b", "#b8600b", "#5c2a00"], ["#20252a", "#4a3210", "#8f5a12", "#e09b35", "#ffe2a8"]],
    blue: [["#f6f9fb", "#c3ddf0", "#6aaed6", "#2171b5", "#08306b"], ["#20252a", "#173a57", "#2b6ea6", "#6db3e3", "#d9efff"]],
    praise: [["#f4f3ef", "#bcd9ef", "#5aa5d8", "#0b5a94"], ["#262b30", "#1d4565", "#2f7db8", "#a5d8ff"]],
    blame: [["#f4f3ef", "#fbd3a4", "#e58a2e", "#8a3d00"], ["#262b30", "#5a3812", "#b96a14", "#ffc58a"]],
  };
  const SETS = [
    ["+↑", "positive surprising (L+): praise spreads the policy, entropy rises", "praise", 1],
    ["+↓", "positive expected (U+): praise sharpens it, entropy falls", "blame", 0.45],
    ["−↓", "negative surprising (L−): blame takes away the unusual, entropy falls", "blame", 1],
    ["−↑", "negative expected (U−): blame of the usual, entropy rises", "praise", 0.45],
    ["0", "neutral: advantage 0, nothing is learnt", "praise", 0],
    ["?", "advantage or entropy not logged", "praise", 0],
  ];
  const SIDES = {
    low: ["lo", "low: the ratio fell to the lower limit, blame stops", "blame", 0.55],
    high: ["hi", "high: the ratio rose to the upper limit, praise stops", "praise", 0.65],
    ceiling: ["dc", "ceiling: blame of a ratio far above 1 stops (dual clip)", "blame", 1],
  };
  const MODES = {
    surprisal: { name: "Surprisal", ramp: "amber", says: "Surprisal, −log p in nats: how unexpected the token was to the policy that wrote it." },
    entropy: { name: "Entropy", ramp: "blue", says: "Entropy in nats: how open the choice was before the token was written." },
    advantage: { name: "Advantage", signed: true, says: "Advantage after credit rules, as it stands in the loss: blue praises (+), orange blames (−)." },
    weight: { name: "Weight", signed: true, says: "What credit rules multiplied the advantage with: blue above 1 (lifted), orange below 1 (damped)." },
    quadrant: { name: "Quadrant", says: "Sign of the advantage before rules, and whether the surprisal is above the entropy; arrows say where the update sends entropy." },
    clipped: { name: "Clipped side", says: "Where a limit of the importance ratio acts on the token." },
  };

  const value = (column, place) => (Array.isArray(column) ? column[place] : column) ?? null;
  const all = (column) => (Array.isArray(column) ? column : [column]).filter((x) => x !== null && x !== undefined);
  const element = (tag, attributes = {}, ...children) => {
    const made = document.createElement(tag);
    for (const [key, one] of Object.entries(attributes)) if (one !== null && one !== false) made.setAttribute(key, one);
    made.append(...children);
    return made;
  };
  const number = (x, digits = 3) => (x === null ? "not logged" : String(Number(x.toPrecision(digits))).replace("-", "−"));
  const signed = (x) => (x > 0 ? "+" : "") + number(x);
  const shown = (text) => (text === "" ? "◌" : text.replace(/\n/g, "↵").replace(/\t/g, "⇥").replace(/^ +$/, (s) => "␣".repeat(s.length)));
  const plural = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;

  // ---- what each token is
  const columns = { surprisal: (a) => a.surprisal, entropy: (a) => a.entropy, advantage: (a) => a.credit, weight: (a) => a.weight };
  const everything = sheets.flatMap((sheet) => sheet.answers);
  // The largest of each mode but for the last half per cent; of weights, of the logarithm and on either side of 1.
  function most(mode, size) {
    const sizes = everything.flatMap((a) => all(columns[mode](a)).map(size)).filter((x) => x > 0).sort((x, y) => x - y);
    return sizes[Math.max(0, Math.ceil(sizes.length * 0.995) - 1)] || (mode === "weight" ? Math.log(2) : 1);
  }
  const log = (x) => Math.log(Math.abs(x) || 0.01);
  const top = { weight: [most("weight", (x) => -log(x)), most("weight", log)] };
  for (const mode of ["surprisal", "entropy", "advantage"]) top[mode] = most(mode, Math.abs);
  const rulesOn = (answer, place) => Object.keys(answer.touched || {}).filter((rule) => answer.touched[rule].includes(place));
  const sidesOn = (answer, place) => Object.keys(answer.clipped || {}).filter((side) => answer.clipped[side].includes(place));
  function deed(answer, place) {
    if (answer.dropped.includes(place)) return "dropped";
    const weight = value(answer.weight, place);
    if (weight !== null && Math.abs(weight - 1) > 1e-3) return Math.abs(weight) > 1 ? "lifted" : "damped";
    return rulesOn(answer, place).length ? "tied" : "";
  }
  const MARK = { dropped: "✕", lifted: "▲", damped: "▼", tied: "◆", "": "" };
  const acted = (answer, place) => deed(answer, place) !== "" || sidesOn(answer, place).length > 0;
  const known = (mode) => (mode === "clipped" ? everything.some((a) => a.clipped) :
    mode === "quadrant" ? everything.some((a) => /[0-4]/.test(a.quadrant)) : everything.some((a) => all(columns[mode](a)).length));

  // ---- colours
  const rgb = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
  function along(name, share) {
    const stops = RAMPS[name][dark.matches ? 1 : 0], x = Math.min(Math.max(share, 0), 1) * (stops.length - 1);
    const low = Math.min(Math.floor(x), stops.length - 2), one = rgb(stops[low]), two = rgb(stops[low + 1]);
    return one.map((c, i) => Math.round(c + (two[i] - c) * (x - low)));
  }
  function light([r, g, b]) {
    const [x, y, z] = [r, g, b].map((c) => ((c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  }
  const css = (colour) => `rgb(${colour.join(" ")})`;
  const share = (mode, x) => (mode === "weight" ? log(x) / top.weight[log(x) > 0 ? 1 : 0] : x / top[mode]);
  function paint(answer, place) {
    if (state.mode === "quadrant") { const set = SETS[answer.quadrant[place] ?? 5]; return [along(set[2], set[3]), set[0]]; }
    if (state.mode === "clipped") { const side = SIDES[sidesOn(answer, place)[0]]; return side ? [along(side[2], side[3]), side[0]] : [along("praise", 0), ""]; }
    const x = value(columns[state.mode](answer), place), mode = MODES[state.mode];
    if (x === null) return [along("praise", 0), "?"];
    if (!mode.signed) return [along(mode.ramp, Math.sqrt(share(state.mode, x))), ""];
    const s = share(state.mode, x), sign = state.mode === "advantage" ? (x > 0 ? "+" : x < 0 ? "−" : "") : "";
    return [along(s < 0 ? "blame" : "praise", state.mode === "advantage" ? Math.sqrt(Math.abs(s)) : Math.abs(s)), sign];
  }
  function dress(token) {
    const [colour, sign] = paint(token.answer, token.place), mark = MARK[deed(token.answer, token.place)];
    token.style.backgroundColor = css(colour);
    token.style.color = light(colour) > 0.179 ? "#000" : "#fff";
    token.style.setProperty("--hatch", light(colour) > 0.179 ? "rgb(0 0 0 / .3)" : "rgb(255 255 255 / .4)");
    token.style.setProperty("--lift", "currentcolor");
    token.style.setProperty("--damp", "currentcolor");
    token.dataset.marks = sign + mark;
  }

  // ---- choosing
  const sheet = () => sheets[state.sheet];
  const steps = () => [...new Set(sheet().answers.map((a) => a.step))];
  const ofStep = () => sheet().answers.filter((a) => a.step === state.step);
  const groups = () => [...new Set(ofStep().map((a) => a.group))];
  const ofGroup = () => ofStep().filter((a) => a.group === state.group);
  function options(id, entries, chosen) {
    at(id).replaceChildren(...entries.map(([key, text]) => element("option", { value: key, selected: String(key) === String(chosen) ? "" : null }, text)));
    at(id).disabled = entries.length < 2;
  }
  const clip = (text, length = 60) => (text.length > length ? "…" + text.slice(-length) : text);
  /** Of some keys, that whose answers have most tokens acted on; the last of equals, or the first. */
  function busiest(keys, belongs, first = false) {
    const done = (key) => sheet().answers.filter((a) => belongs(a, key)).reduce((sum, a) => sum + a.texts.filter((_, place) => acted(a, place)).length, 0);
    return keys.map((key) => [done(key), key]).reduce((best, one) => (one[0] > best[0] || (one[0] === best[0] && !first) ? one : best))[1];
  }
  function settle() {
    if (!steps().includes(state.step)) state.step = busiest(steps(), (a, step) => a.step === step);
    if (!groups().includes(state.group)) state.group = busiest(groups(), (a, group) => a.step === state.step && a.group === group);
    const answers = ofGroup();
    if (state.answer !== "all" && !answers[state.answer]) state.answer = "all";
    options("sheet", sheets.map((one, i) => [i, one.name]), state.sheet);
    options("step", steps().map((step) => [step, step === null ? "not given" : step + (sheet().reasons[step] ? ` (${sheet().reasons[step]})` : "")]), state.step);
    options("group", groups().map((group) => [group, clip(ofStep().find((a) => a.group === group).prompt || `group ${group}`)]), state.group);
    options("answer", [["all", `all ${answers.length}`], ...answers.map((a, i) => [i, `${i + 1}: ${verdict(a)}, reward ${number(a.reward)}`])], state.answer);
    at("prompt-text").textContent = answers[0].prompt || "not logged";
    at("prompt").querySelector("summary").replaceChildren("Prompt ", element("code", {}, clip((answers[0].prompt || "").replace(/\s+/g, " "), 40)));
    at("notes").replaceChildren(...said().map((note) => element("li", {}, note)));
  }
  function said() {
    const told = [...sheet().notes], answers = sheet().answers;
    if (answers.some((a) => a.derived)) told.push("This file is of an older format: weights were worked out from advantages, where most tokens of an answer have the same, and which rule acted is not logged.");
    const missing = Object.keys(MODES).filter((mode) => !known(mode)).map((mode) => MODES[mode].name.toLowerCase());
    if (missing.length) told.push(`Not logged, and so not shown: ${missing.join(", ")}.`);
    if (answers.every((a) => a.ratio === 1)) told.push("Every importance ratio is 1: these answers were learnt from before the policy had moved, so no limit is met.");
    if (sheets.length > 1 && state.answer === "all") told.push(`Choose one answer to see it ${data.kind === "Method" ? "under all methods" : "in the other runs that gave it too"}.`);
    for (const one of data.sheets) if (!one.answers.length) told.push(`${one.name}: ${one.notes.join(" ")}`);
    return told;
  }
  const verdict = (answer) => (answer.correct === null || answer.correct === undefined ? "not judged" : answer.correct ? "right" : "wrong");

  // ---- drawing
  function row(answer, name, index) {
    const list = element("div", { class: "tk-row", role: "listbox", "aria-orientation": "horizontal", "aria-label": name });
    const read = new Map(answer.observed || []);
    answer.texts.forEach((text, place) => {
      if (read.has(place)) list.append(element("span", { class: "tk-observed", role: "presentation", title: "observed, not written" }, read.get(place)));
      const done = deed(answer, place), sides = sidesOn(answer, place);
      const label = `${text.trim() || (text ? "space" : "part of a character")}${done ? ", " + done : ""}${sides.length ? ", clipped " + sides.join(" ") : ""}`;
      const token = element("span", { class: `tk ${done}`, role: "option", tabindex: -1, "aria-selected": "false", "aria-label": label }, shown(text));
      Object.assign(token, { answer, place, card: index });
      dress(token);
      list.append(token);
      if (/\n/.test(text)) list.append(element("i", { "aria-hidden": "true" }));
    });
    if (list.querySelector(".tk")) list.querySelector(".tk").tabIndex = 0;
    return list;
  }
  function card(answer, name, index) {
    const right = verdict(answer), mean = all(answer.surprisal), facts = [element("b", {}, name)];
    facts.push(element("span", { class: right }, (right === "right" ? "✓ " : right === "wrong" ? "✗ " : "") + right));
    facts.push(`reward ${number(answer.reward)}`, plural(answer.texts.length, "token"));
    if (!Array.isArray(answer.estimate) && answer.estimate !== null) facts.push(`advantage ${signed(answer.estimate)}`);
    if (answer.truncated) facts.push("cut off");
    return element("div", { class: "tk-card" }, element("p", {}, ...facts.map((f) => (typeof f === "string" ? element("span", {}, f) : f))), row(answer, name, index));
  }
  /** The same answer of another sheet: of equal ones, that of the same place among them. */
  function twin(other, answer) {
    const same = (a) => a.step === answer.step && a.group === answer.group && a.prompt === answer.prompt && a.texts.join("\n") === answer.texts.join("\n");
    return other.answers.filter(same)[sheet().answers.filter(same).indexOf(answer)];
  }
  function draw() {
    settle();
    const answers = ofGroup(), chosen = state.answer === "all" ? answers : [answers[state.answer]];
    const others = state.answer === "all" ? [] : sheets.filter((one) => one !== sheet()).map((one) => [one.name, twin(one, chosen[0])]).filter(([, a]) => a);
    at("answers").replaceChildren(...chosen.map((a, i) => card(a, (others.length ? sheet().name + ", answer " : "Answer ") + (answers.indexOf(a) + 1), i)));
    at("others").replaceChildren(...(others.length ? [element("h3", {}, data.kind === "Method" ? "The same answer under other methods" : "The same answer in other runs"), ...others.map(([name, a], i) => card(a, name, chosen.length + i))] : []));
    const count = {};
    let tokens = 0;
    for (const a of chosen) a.texts.forEach((_, place) => { tokens += 1; const what = [deed(a, place), sidesOn(a, place).length ? "clipped" : ""]; for (const w of what) if (w) count[w] = (count[w] || 0) + 1; });
    const deeds = Object.entries(count).map(([what, n]) => `${n} ${what}`).join(", ");
    const rules = [...new Set(chosen.flatMap((a) => Object.entries(a.touched || {}).filter(([, places]) => places.length).map(([rule]) => rule)))];
    at("facts").textContent = `${plural(tokens, "token")} in ${plural(chosen.length, "answer")}: ` + (deeds ? deeds + (rules.length ? ` (by ${rules.join(", ")})` : "") : "no rule or limit acted on any") + ".";
    at("next").disabled = !deeds;
    legend();
    select(tokensShown()[0], false);
  }
  function legend() {
    const mode = MODES[state.mode], parts = [element("p", {}, mode.says)];
    const swatch = ([sign, text, ramp, s]) => { const c = along(ramp, s), b = element("b", {}, sign); b.style.background = css(c); b.style.color = light(c) > 0.179 ? "#000" : "#fff"; return element("li", {}, b, text); };
    if (state.mode === "quadrant") parts.push(element("ul", { class: "tk-swatches" }, ...SETS.map(swatch)));
    else if (state.mode === "clipped") parts.push(element("ul", { class: "tk-swatches" }, ...Object.values(SIDES).map(swatch), swatch(["", "no limit acts", "praise", 0])));
    else {
      const ends = mode.signed ? [-1, -0.5, 0, 0.5, 1] : [0, 0.25, 0.5, 0.75, 1];
      const bar = element("i", { role: "img", "aria-label": `colour scale of ${mode.name.toLowerCase()}` });
      const colour = (s) => css(mode.signed ? along(s < 0 ? "blame" : "praise", Math.abs(s)) : along(mode.ramp, s));
      bar.style.background = `linear-gradient(90deg, ${Array.from({ length: 17 }, (_, i) => colour(mode.signed ? i / 8 - 1 : i / 16)).join(",")})`;
      const text = (s) => (state.mode === "weight" ? "×" + number(Math.exp(s * top.weight[s > 0 ? 1 : 0]), 3) : mode.signed ? signed(Number((s * Math.abs(s) * top[state.mode]).toPrecision(2))) : number(s * s * top[state.mode], 2));
      const ticks = element("div", { "aria-hidden": "true" });
      ends.forEach((s, i) => { const t = element("span", {}, (i === ends.length - 1 && !mode.signed ? "≥ " : "") + text(s)); t.style.left = `${(mode.signed ? (s + 1) / 2 : s) * 100}%`; ticks.append(t); });
      parts.push(element("div", { class: "tk-ramp" }, bar, ticks));
    }
    at("legend").replaceChildren(...parts);
  }
  function recolour() { document.querySelectorAll(".tk").forEach(dress); legend(); }

  // ---- one token
  const tokensShown = () => [...document.querySelectorAll("#tk-app .tk")];
  let selected = null;
  function select(token, focus = true) {
    if (!token) return at("detail").replaceChildren();
    if (selected) selected.setAttribute("aria-selected", "false");
    for (const one of token.parentNode.querySelectorAll("[tabindex='0']")) one.tabIndex = -1;
    token.tabIndex = 0;
    token.setAttribute("aria-selected", "true");
    selected = token;
    describe(token);
    if (focus) { token.focus({ preventScroll: true }); token.scrollIntoView({ block: "nearest", inline: "nearest" }); }
  }
  function describe({ answer, place }) {
    const s = value(answer.surprisal, place), weight = value(answer.weight, place), ratio = value(answer.ratio, place), done = deed(answer, place);
    const before = value(answer.estimate, place), after = value(answer.credit, place), rules = rulesOn(answer, place), sides = sidesOn(answer, place);
    const pairs = [["Surprisal", s === null ? "not logged" : `${number(s)} nats (p ${number(Math.exp(-s), 2)})`], ["Entropy", value(answer.entropy, place) === null ? "not logged" : number(value(answer.entropy, place)) + " nats"]];
    pairs.push(["Advantage", before === null ? (after === null ? "not logged" : `${signed(after)} after rules`) : weight === null || weight === 1 ? signed(before) : `${signed(before)} × ${number(weight)} = ${signed(after)}`]);
    pairs.push(["Ratio", ratio === null ? "not logged" : number(ratio) + (answer.limits.low !== undefined ? ` in ${number(value(answer.limits.low, place))} to ${number(value(answer.limits.high, place))}` : "")]);
    pairs.push(["Quadrant", SETS[answer.quadrant[place] ?? 5][1].split(":")[0], "wide"]);
    const list = element("dl", {}, ...pairs.flatMap(([term, text, wide]) => [element("dt", {}, term), element("dd", { class: wide }, text)]));
    const by = rules.length === 1 ? ` by ${rules[0]}` : rules.length ? ` after ${rules.join(" and ")} acted on it` : "", deeds = [];
    if (done === "dropped") deeds.push(`✕ Dropped${by}: it leaves the loss, and the count that the loss is divided by.`);
    if (done === "lifted" || done === "damped") deeds.push(`${MARK[done]} ${done === "lifted" ? "Lifted" : "Damped"}${by}: it counts ${number(weight)} times.`);
    if (done === "tied") deeds.push(`◆ Tied${by}: it pays for moving.`);
    for (const side of sides) deeds.push(`Clipped ${SIDES[side] ? SIDES[side][1] : side}.`);
    at("detail").replaceChildren(element("h3", {}, `“${shown(answer.texts[place])}”`), element("p", {}, `token ${place + 1} of ${answer.texts.length}`), list, ...deeds.map((d) => element("p", { class: "deeds" }, d)));
  }
  function vertical(token, way) {
    const here = token.getBoundingClientRect(), middle = here.left + here.width / 2;
    let best = null, line = null;
    for (const one of tokensShown()) {
      const box = one.getBoundingClientRect(), gap = (box.top - here.top) * way;
      if (gap < here.height / 2) continue;
      if (line === null || gap < line - 2) { line = gap; best = null; }
      if (gap > line + 2) continue;
      const off = Math.abs(box.left + box.width / 2 - middle);
      if (!best || off < best.off) best = { one, off };
    }
    return best && best.one;
  }
  function next(way) {
    const tokens = tokensShown(), start = Math.max(tokens.indexOf(selected), 0);
    for (let i = 1; i <= tokens.length; i++) {
      const token = tokens[(start + way * i + tokens.length * 2) % tokens.length];
      if (acted(token.answer, token.place)) return token;
    }
    return null;
  }
  function press(event) {
    const token = event.target.closest(".tk");
    if (!token || event.ctrlKey || event.metaKey || event.altKey) return;
    const line = [...token.parentNode.querySelectorAll(".tk")], place = line.indexOf(token);
    const moves = { ArrowRight: () => line[place + 1], ArrowLeft: () => line[place - 1], ArrowUp: () => vertical(token, -1), ArrowDown: () => vertical(token, 1), Home: () => line[0], End: () => line.at(-1), n: () => next(1), p: () => next(-1) };
    const move = moves[event.key] || moves[event.key.toLowerCase()];
    if (!move) return;
    event.preventDefault();
    const to = move();
    if (to) select(to);
  }

  // ---- start
  if (!sheets.length) return;
  at("app").hidden = false;
  for (const [key, mode] of Object.entries(MODES)) {
    const there = known(key), input = element("input", { type: "radio", name: "tk-mode", value: key, disabled: there ? null : "", checked: key === state.mode ? "" : null });
    at("modes").append(element("label", { title: there ? null : "not logged" }, input, mode.name, ...(there ? [] : [element("span", { class: "hidden" }, " (not logged)")])));
  }
  at("modes").addEventListener("change", (event) => { state.mode = event.target.value; recolour(); });
  at("sheet").addEventListener("change", (event) => { state.sheet = Number(event.target.value); draw(); });
  at("step").addEventListener("change", (event) => { state.step = steps().find((step) => String(step) === event.target.value); draw(); });
  at("group").addEventListener("change", (event) => { state.group = event.target.value; draw(); });
  at("answer").addEventListener("change", (event) => { state.answer = event.target.value === "all" ? "all" : Number(event.target.value); draw(); });
  at("next").addEventListener("click", () => select(next(1)));
  at("app").addEventListener("keydown", press);
  at("app").addEventListener("click", (event) => { const token = event.target.closest(".tk"); if (token) select(token); });
  at("app").addEventListener("focusin", (event) => { if (event.target.closest(".tk") && event.target !== selected) select(event.target, false); });
  at("answers").addEventListener("pointerover", (event) => { const token = event.target.closest(".tk"); if (token && event.pointerType === "mouse") describe(token); });
  at("answers").addEventListener("pointerleave", () => selected && describe(selected));
  dark.addEventListener("change", recolour);
  at("sheet-name").textContent = data.kind;
  if (everything.some((a) => a.texts.length > 150) || (data.kind === "Method" && sheets.length > 1)) {
    settle();
    state.answer = busiest(ofGroup().map((_, i) => i), (a, i) => a === ofGroup()[i], true);
  }
  draw();
})();
