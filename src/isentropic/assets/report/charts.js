"use strict";
(() => {
  const source = document.getElementById("rp-data");
  if (!source) return;
  const data = JSON.parse(source.textContent), root = document.getElementById("rp");
  const at = (id) => document.getElementById("rp-" + id);
  const state = { axis: "rollouts", hidden: new Set() };
  const SVG = "http://www.w3.org/2000/svg", HEIGHT = 250, CLEAR = 6, EDGE = { left: 46, right: 12, top: 8, bottom: 38 };

  function make(tag, attributes = {}, ...children) {
    const svg = ["svg", "path", "line", "rect", "text", "g", "circle", "title"].includes(tag);
    const made = svg ? document.createElementNS(SVG, tag) : document.createElement(tag);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }
  function ticks(low, high, about) {
    const rough = (high - low || 1) / about, base = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 2.5, 5, 10].map((factor) => base * factor).find((size) => size >= rough);
    const found = [];
    for (let i = Math.ceil(low / step - 1e-9); i <= high / step + 1e-9; i++) found.push(Number((i * step).toPrecision(12)));
    return found;
  }
  const UNITS = [[1e9, "G"], [1e6, "M"], [1e3, "k"]];
  function short(value) {
    const [size, unit] = UNITS.find(([size]) => Math.abs(value) >= size * 10 || (size > 1e3 && Math.abs(value) >= size)) || [1, ""];
    return String(Number((value / size).toPrecision(4))).replace("-", "−") + unit;
  }
  const digits = (value) => String(Number(value.toPrecision(3))).replace("-", "−");

  function draw(chart, box) {
    const axis = chart.lines[state.axis] ? state.axis : Object.keys(chart.lines)[0];
    const lines = chart.lines[axis].filter((line) => !state.hidden.has(line.group));
    const width = Math.max(box.clientWidth, 240), inner = { right: width - EDGE.right, bottom: HEIGHT - EDGE.bottom };
    const values = lines.flatMap((line) => [...line.point, ...line.low, ...line.high, ...line.seeds.flat()]).concat(chart.bands.map((band) => band.high));
    const places = lines.flatMap((line) => line.place);
    let bottom = Math.min(...values, Infinity), top = Math.max(...values, -Infinity);
    if (!lines.length) [bottom, top] = [0, 1];
    bottom = Math.min(0, bottom);
    top += (top - bottom || 1) * 0.04;
    const first = places.length ? Math.min(...places) : 0, last = places.length ? Math.max(...places) : 1;
    const x = (place) => EDGE.left + ((place - first) / (last - first || 1)) * (inner.right - EDGE.left);
    const y = (value) => inner.bottom - ((value - bottom) / (top - bottom)) * (inner.bottom - EDGE.top);
    const path = (line, column) => line.place.map((place, i) => `${i ? "L" : "M"}${x(place).toFixed(1)} ${y(column[i]).toFixed(1)}`).join("");
    const svg = make("svg", { class: lines.length > CLEAR ? "plot many" : "plot", viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", tabindex: 0, "aria-label": chart.alt[axis] || chart.title });
    for (const tick of ticks(bottom, top, 5)) {
      svg.append(make("line", { class: "rule", x1: EDGE.left, x2: inner.right, y1: y(tick), y2: y(tick) }), make("text", { x: EDGE.left - 6, y: y(tick) + 4, "text-anchor": "end" }, short(tick)));
    }
    for (const tick of ticks(first, last, width > 420 ? 6 : 4)) svg.append(make("text", { x: x(tick), y: inner.bottom + 16, "text-anchor": "middle" }, short(tick)));
    svg.append(make("line", { class: "axis", x1: EDGE.left, x2: inner.right, y1: inner.bottom, y2: inner.bottom }), make("text", { x: (EDGE.left + inner.right) / 2, y: HEIGHT - 4, "text-anchor": "middle" }, data.axes[axis]));
    for (const band of chart.bands) {
      svg.append(make("rect", { class: "target", x: EDGE.left, width: inner.right - EDGE.left, y: y(band.high), height: y(band.low) - y(band.high) }), make("path", { class: "aim", d: `M${EDGE.left} ${y(band.target)}H${inner.right}` }), make("text", { x: inner.right - 4, y: y(band.high) - 4, "text-anchor": "end" }, `target ${digits(band.target)} ± 20 %`));
    }
    for (const line of lines) {
      const group = make("g", { class: `g${line.group}`, "data-group": line.group });
      if (line.low.length) group.append(make("path", { class: "wide", d: path(line, line.high) + line.place.map((_, i) => line.place.length - 1 - i).map((i) => `L${x(line.place[i]).toFixed(1)} ${y(line.low[i]).toFixed(1)}`).join("") + "Z" }));
      for (const seed of line.seeds) group.append(make("path", { class: "thin", d: path(line, seed) }));
      group.append(make("path", { class: "line", d: path(line, line.point) }));
      if (line.place.length <= 20) line.place.forEach((place, i) => group.append(make("circle", { class: "mark", cx: x(place), cy: y(line.point[i]), r: 3.2 })));
      svg.append(group);
    }
    const cross = make("line", { class: "cross", y1: EDGE.top, y2: inner.bottom, visibility: "hidden" });
    svg.append(cross);
    if (!lines.length) svg.append(make("text", { x: width / 2, y: HEIGHT / 2, "text-anchor": "middle" }, "all groups are hidden"));
    box.replaceChildren(svg);
    follow(svg, cross, lines, x, (pixel) => first + ((pixel - EDGE.left) / (inner.right - EDGE.left)) * (last - first), box.nextElementSibling, width, [first, last]);
  }

  /** A cross under the pointer, or moved by arrow keys, and the groups' values there. */
  function follow(svg, cross, lines, x, place, readout, width, [first, last]) {
    let here = null;
    function show(where) {
      here = Math.min(Math.max(where, first), last);
      cross.setAttribute("visibility", "visible");
      cross.setAttribute("x1", x(here)); cross.setAttribute("x2", x(here));
      readout.replaceChildren(make("span", {}, `at ${short(Math.round(here))}: `), ...lines.filter((line) => here >= line.place[0] && here <= line.place.at(-1)).map((line) => {
        let i = line.place.findIndex((one) => one >= here);
        if (i > 0 && here - line.place[i - 1] < line.place[i] - here) i -= 1;
        const interval = line.low.length ? ` [${digits(line.low[i])}, ${digits(line.high[i])}]` : "";
        return make("span", { class: `g${line.group}` }, make("b", {}, data.groups[line.group]), ` ${digits(line.point[i])}${interval}; `);
      }));
    }
    const hide = () => { cross.setAttribute("visibility", "hidden"); readout.replaceChildren(); };
    svg.addEventListener("pointermove", (event) => show(place((event.offsetX / svg.clientWidth) * width)));
    svg.addEventListener("pointerleave", hide);
    svg.addEventListener("blur", hide);
    svg.addEventListener("keydown", (event) => {
      const step = (last - first) / 50, moves = { ArrowLeft: (here ?? last) - step, ArrowRight: (here ?? first - step) + step, Home: first, End: last };
      if (event.key in moves) { event.preventDefault(); show(moves[event.key]); }
      if (event.key === "Escape") hide();
    });
  }

  const boxes = data.charts.map((chart) => {
    const box = make("div"), files = chart.files[state.axis] || Object.values(chart.files)[0];
    const link = (kind) => make("a", { href: `${files}.${kind}`, "aria-label": `${chart.title} as ${kind.toUpperCase()}` }, kind.toUpperCase());
    const caption = make("figcaption", {}, chart.title, make("span", { class: "files no-print" }, link("png"), " ", link("svg")));
    at("charts").append(make("figure", { class: "chart" }, caption, box, make("p", { class: "readout", "aria-live": "polite" })));
    return [chart, box];
  });
  const redraw = () => boxes.forEach(([chart, box]) => draw(chart, box));
  function light(group) {
    root.className = group === null ? "" : `lit-${group}`;
    for (const one of at("charts").querySelectorAll("g[data-group]")) one.classList.toggle("on", one.dataset.group === group);
  }

  for (const [key, name] of Object.entries(data.axes)) {
    if (!data.charts.some((chart) => chart.lines[key])) continue;
    const input = make("input", { type: "radio", name: "rp-axis", value: key, ...(key === state.axis ? { checked: "" } : {}) });
    at("axes").append(make("label", {}, input, name));
  }
  at("controls").hidden = false;
  at("axes").addEventListener("change", (event) => { state.axis = event.target.value; redraw(); });
  at("groups").addEventListener("change", (event) => {
    const group = Number(event.target.value);
    if (event.target.checked) state.hidden.delete(group); else state.hidden.add(group);
    document.querySelectorAll(`.dot-row[data-group="${group}"], tr[data-group="${group}"]`).forEach((row) => row.classList.toggle("off", !event.target.checked));
    redraw();
  });
  for (const [on, off] of [["pointerover", "pointerout"], ["focusin", "focusout"]]) {
    for (const place of [at("groups"), ...document.querySelectorAll(".dots-all")]) {
      place.addEventListener(on, (event) => { const one = event.target.closest("[data-group]"); light(one && !state.hidden.has(Number(one.dataset.group)) ? one.dataset.group : null); });
      place.addEventListener(off, () => light(null));
    }
  }
  let known = 0;
  new ResizeObserver(() => { const width = at("charts").clientWidth; if (width !== known) { known = width; redraw(); } }).observe(at("charts"));
  addEventListener("beforeprint", redraw);
  redraw();
})();
