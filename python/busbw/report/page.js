// Draws the curves of the report from the data in the page: no request, no library, no text of a record as markup.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const SVG = "http://www.w3.org/2000/svg";
  const state = { view: data.views[0], runs: new Set(data.runs.map((_, i) => i)), placements: new Set(), size: null };
  const quantities = [
    { id: "busbw", unit: "GB/s", value: (p) => p.busbw, low: (p) => p.busbw_low, high: (p) => p.busbw_high, expected: (p) => p.expected },
    { id: "latency", unit: "us", value: (p) => p.time, low: (p) => p.time_low, high: (p) => p.time_high, expected: () => null },
  ];
  const placementNames = { out_of_place: "out of place", in_place: "in place", unknown: "placement not known" };
  const ranksDiffer = new Set(data.series.map((s) => s.ranks)).size > 1;
  // Colours stay with their run, unless there are more runs than colours: then those of one view share them out.
  const colour = (run) => `var(--c${(data.runs.length > 8 ? [...new Set(inView().map((s) => s.run))].indexOf(run) : run) % 8})`;

  function element(tag, attributes, parent, text) {
    const made = tag in svgTags ? document.createElementNS(SVG, tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) made.setAttribute(name, value);
    if (text !== undefined) made.textContent = text;
    if (parent) parent.append(made);
    return made;
  }
  const svgTags = { svg: 1, g: 1, line: 1, path: 1, text: 1, circle: 1, rect: 1, title: 1 };

  function bytes(size) {
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let power = 0;
    while (size >= 1024 && power < units.length - 1) { size /= 1024; power += 1; }
    return `${Number.isInteger(size) ? size : size.toFixed(1)} ${units[power]}`;
  }
  function number(value) {
    if (value === null || value === undefined) return "-";
    return value >= 1000 ? value.toFixed(0) : value >= 100 ? value.toFixed(1) : value >= 0.1 ? value.toFixed(2) : value.toPrecision(2);
  }
  function tick(value, unit) {
    if (unit === "us" && value >= 1e6) return `${value / 1e6} s`;
    if (unit === "us" && value >= 1e3) return `${value / 1e3} ms`;
    return `${+value.toPrecision(6)} ${unit === "us" ? "us" : ""}`.trim();
  }
  const label = (s) => [data.runs[s.run].name, s.variant, ranksDiffer && s.ranks && !data.runs[s.run].name.includes(`${s.ranks} ranks`) ? `(${s.ranks} ranks)` : null].filter(Boolean).join(" ");
  const inView = () => data.series.filter((s) => s.view === state.view);
  const shown = () => inView().filter((s) => state.runs.has(s.run) && state.placements.has(s.placement));

  // Axes -------------------------------------------------------------------------------------------------------------
  function ticksOfSizes(low, high, room) {
    const first = Math.ceil(Math.log2(low) - 1e-9), last = Math.floor(Math.log2(high) + 1e-9);
    const step = [1, 2, 5, 10].find((s) => ((last - first) / s + 1) * 52 <= room) || 10;
    const found = [];
    for (let power = Math.ceil(first / step) * step; power <= last; power += step) found.push(2 ** power);
    return found.length ? found : [low];
  }
  function ticksOfValues(low, high) {
    const found = [];
    const decades = Math.log10(high / low);
    const steps = decades > 4 ? [1] : decades > 2 ? [1, 3] : [1, 2, 5];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1) {
      for (const step of steps) {
        const value = step * 10 ** power;
        if (value >= low * 0.999 && value <= high * 1.001) found.push(value);
      }
    }
    return found;
  }
  function scale(low, high, from, to) {
    const a = Math.log(low), b = Math.log(high);
    return (value) => from + ((Math.log(value) - a) / (b - a || 1)) * (to - from);
  }

  // One picture --------------------------------------------------------------------------------------------------------
  function draw(quantity) {
    const figure = document.getElementById(quantity.id);
    const svg = figure.querySelector("svg");
    svg.replaceChildren();
    const width = Math.max(300, figure.clientWidth), height = Math.min(420, Math.max(280, width * 0.62));
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const curves = shown().map((s) => ({ s, points: s.points.filter((p) => quantity.value(p) > 0 && p.bytes > 0) })).filter((c) => c.points.length);
    figure.curves = [];
    figure.querySelector(".empty").hidden = curves.length > 0;
    if (!curves.length) return;
    const roomy = width >= 480;
    const names = roomy ? endNames(curves, Math.floor((width * 0.33 - 14) / 7.9)) : [];
    const longest = Math.max(0, ...names.map((n) => n.text.length));
    // More names than lines would run into each other; the boxes above say which colour is whose.
    const named = names.length > 0 && names.length * 15 <= height - 42;
    const right = named ? 14 + longest * 7.9 : 14;
    const all = curves.flatMap((c) => c.points);
    const values = all.flatMap((p) => [quantity.value(p), quantity.low(p), quantity.high(p), quantity.expected(p)]).filter((v) => v > 0);
    // Both pictures span all sizes that are shown, so that one stands above or beside the other at the same place.
    const sizes = shown().flatMap((s) => s.points.map((p) => p.bytes)).filter((size) => size > 0);
    const lowSize = Math.min(...sizes), highSize = Math.max(...sizes);
    const lowest = Math.min(...values), highest = Math.max(...values);
    const grow = lowest === highest ? 2 : 1.15;
    const levels = ticksOfValues(lowest / grow, highest * grow).map((value) => ({ value, text: tick(value, quantity.unit) }));
    // The numbers at the left are written to the left of the axis: the longest of them decides where it stands.
    const left = Math.max(56, 12 + 7 * Math.max(0, ...levels.map((level) => level.text.length)));
    const box = { left, right: width - right, top: 12, bottom: height - 30 };
    const x = scale(lowSize === highSize ? lowSize / 2 : lowSize, lowSize === highSize ? highSize * 2 : highSize, box.left + 4, box.right - 4);
    const y = scale(lowest / grow, highest * grow, box.bottom, box.top);
    for (const { value, text } of levels) {
      element("line", { class: "grid", x1: box.left, x2: box.right, y1: y(value), y2: y(value) }, svg);
      element("text", { x: box.left - 8, y: y(value) + 4, "text-anchor": "end" }, svg, text);
    }
    element("line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }, svg);
    for (const size of ticksOfSizes(lowSize, highSize, box.right - box.left)) {
      element("line", { class: "axis", x1: x(size), x2: x(size), y1: box.bottom, y2: box.bottom + 4 }, svg);
      element("text", { x: x(size), y: box.bottom + 19, "text-anchor": "middle" }, svg, bytes(size));
    }
    for (const { s, points } of curves) drawCurve(svg, quantity, s, points, x, y);
    if (named) drawNames(svg, names, quantity, y, box);
    const cross = element("g", { class: "hover" }, svg);
    figure.curves = curves; figure.axes = { x, y, box, cross, width, height };
  }

  function drawCurve(svg, quantity, s, points, x, y) {
    const band = points.filter((p) => quantity.low(p) > 0 && quantity.high(p) > 0);
    if (band.length > 1) {
      const edge = [...band.map((p) => [x(p.bytes), y(quantity.high(p))]), ...band.reverse().map((p) => [x(p.bytes), y(quantity.low(p))])];
      element("path", { class: "band", d: `M${edge.map((e) => e.join(",")).join("L")}Z`, fill: colour(s.run) }, svg);
    } else if (band.length === 1) {
      const [p] = band;
      element("line", { x1: x(p.bytes), x2: x(p.bytes), y1: y(quantity.low(p)), y2: y(quantity.high(p)), stroke: colour(s.run), "stroke-width": 6, opacity: 0.3 }, svg);
    }
    const path = (chosen, value) => `M${chosen.map((p) => `${x(p.bytes).toFixed(1)},${y(value(p)).toFixed(1)}`).join("L")}`;
    const expected = points.filter((p) => quantity.expected(p) > 0);
    if (expected.length) element("path", { class: "expected", d: path(expected, quantity.expected), stroke: colour(s.run) }, svg);
    const dashed = s.placement === "in_place" && inView().some((other) => other.placement !== "in_place");
    element("path", { class: dashed ? "curve dashed" : "curve", d: path(points, quantity.value), stroke: colour(s.run), "data-run": s.run }, svg);
    if (points.length <= 3) {
      for (const p of points) element("circle", { cx: x(p.bytes), cy: y(quantity.value(p)), r: 4, fill: colour(s.run) }, svg);
    }
  }

  // A name stands once per run and variant, at the end of its curve.
  function endNames(curves, room) {
    const found = new Map();
    const cut = (text) => (text.length > room ? `${text.slice(0, Math.floor(room * 0.35))}…${text.slice(-Math.floor(room * 0.65) + 1)}` : text);
    for (const { s, points } of curves) {
      const text = label(s);
      if (!found.has(text)) found.set(text, { text: cut(text), run: s.run, last: points[points.length - 1] });
    }
    return [...found.values()];
  }
  function drawNames(svg, names, quantity, y, box) {
    const placed = names.map((n) => ({ ...n, y: y(quantity.value(n.last)) })).sort((a, b) => a.y - b.y);
    for (let i = 1; i < placed.length; i += 1) placed[i].y = Math.max(placed[i].y, placed[i - 1].y + 15);
    const over = placed.length ? placed[placed.length - 1].y - box.bottom : 0;
    for (let i = placed.length - 1, limit = box.bottom; over > 0 && i >= 0; i -= 1, limit -= 15) placed[i].y = Math.min(placed[i].y, limit);
    for (const n of placed) element("text", { class: "name", x: box.right + 8, y: n.y + 4, style: `fill:${colour(n.run)}` }, svg, n.text);
  }

  // Hover: the nearest size, in both pictures at once -------------------------------------------------------------------
  function hover(figure, clientX) {
    if (!figure.axes || !figure.curves.length) return;
    const bounds = figure.querySelector("svg").getBoundingClientRect();
    const at = ((clientX - bounds.left) / bounds.width) * figure.axes.width;
    const sizes = [...new Set(figure.curves.flatMap((c) => c.points.map((p) => p.bytes)))];
    state.size = sizes.reduce((best, size) => (Math.abs(figure.axes.x(size) - at) < Math.abs(figure.axes.x(best) - at) ? size : best));
    quantities.forEach(mark);
  }
  function step(direction) {
    const sizes = [...new Set(shown().flatMap((s) => s.points.map((p) => p.bytes)))].sort((a, b) => a - b);
    if (!sizes.length) return;
    const now = sizes.indexOf(state.size);
    state.size = sizes[now < 0 ? 0 : Math.min(sizes.length - 1, Math.max(0, now + direction))];
    quantities.forEach(mark);
  }
  function leave() { state.size = null; quantities.forEach(mark); }

  function mark(quantity) {
    const figure = document.getElementById(quantity.id);
    const values = figure.querySelector(".values");
    if (!figure.axes) { values.hidden = true; return; }
    const { x, y, box, cross } = figure.axes;
    cross.replaceChildren();
    values.replaceChildren();
    const rows = state.size === null ? [] : figure.curves
      .map((c) => ({ s: c.s, p: c.points.find((p) => p.bytes === state.size) })).filter((row) => row.p);
    values.hidden = !rows.length;
    if (!rows.length) return;
    element("line", { class: "cross", x1: x(state.size), x2: x(state.size), y1: box.top, y2: box.bottom }, cross);
    element("div", { class: "soft" }, values, `${bytes(state.size)}, ${quantity.unit}`);
    const table = element("table", {}, values);
    const both = new Set(rows.map((row) => row.s.placement)).size > 1;
    rows.sort((a, b) => quantity.value(b.p) - quantity.value(a.p));
    for (const { s, p } of rows) {
      element("circle", { cx: x(p.bytes), cy: y(quantity.value(p)), r: 4, fill: colour(s.run) }, cross);
      const line = element("tr", { "data-run": s.run, "data-placement": s.placement }, table);
      element("td", { class: "text", style: `color:${colour(s.run)}` }, line, label(s) + (both ? `, ${placementNames[s.placement]}` : ""));
      element("td", { class: "value" }, line, number(quantity.value(p)));
      const range = quantity.low(p) > 0 ? `${number(quantity.low(p))} to ${number(quantity.high(p))}` : "";
      element("td", { class: "soft" }, line, quantity.expected(p) ? `${range} expected ${number(quantity.expected(p))}`.trim() : range);
    }
    const room = figure.clientWidth, at = (x(state.size) / figure.axes.width) * room;
    const top = figure.querySelector("svg").getBoundingClientRect().top - figure.getBoundingClientRect().top;
    const left = at + 14 + values.offsetWidth < room ? at + 14 : at - 14 - values.offsetWidth;
    values.style.left = `${Math.max(0, Math.min(left, room - values.offsetWidth))}px`;
    // Bandwidth leaves the lower right free, latency the upper left.
    values.style.top = `${quantity.id === "busbw" ? top + box.bottom - values.offsetHeight - 8 : top + 8}px`;
  }

  // Controls -----------------------------------------------------------------------------------------------------------
  function toggle(parent, text, checked, changed, swatch, attributes) {
    const made = element("label", {}, parent);
    const box = element("input", { type: "checkbox", ...attributes }, made);
    box.checked = checked;
    box.addEventListener("change", () => { changed(box.checked); redraw(); });
    if (swatch) element("span", { class: "swatch", style: `background:${swatch}` }, made);
    element("span", {}, made, text);
  }
  const setMember = (set, member) => (on) => { if (on) set.add(member); else set.delete(member); };

  function controls() {
    const runs = document.getElementById("runs"), placements = document.getElementById("placements");
    runs.replaceChildren(); placements.replaceChildren();
    const here = inView();
    for (const run of [...new Set(here.map((s) => s.run))]) {
      toggle(runs, data.runs[run].name, state.runs.has(run), setMember(state.runs, run), colour(run), { "data-run": run });
    }
    const kinds = [...new Set(here.map((s) => s.placement))];
    state.placements = new Set(kinds);
    placements.hidden = kinds.length < 2;
    for (const kind of kinds) {
      toggle(placements, `${placementNames[kind]}${kind === "in_place" ? " (dashed)" : ""}`, true, setMember(state.placements, kind), null, { "data-placement": kind });
    }
  }
  function redraw() { quantities.forEach(draw); quantities.forEach(mark); }

  const views = document.getElementById("view");
  for (const view of data.views) element("option", { value: view }, views, view);
  views.hidden = data.views.length < 2;
  views.addEventListener("change", () => { state.view = views.value; state.size = null; controls(); redraw(); });
  for (const { id } of quantities) {
    const figure = document.getElementById(id), svg = figure.querySelector("svg");
    svg.addEventListener("pointermove", (event) => hover(figure, event.clientX));
    svg.addEventListener("pointerleave", leave);
    svg.addEventListener("keydown", (event) => {
      if (event.key === "ArrowLeft" || event.key === "ArrowRight") { step(event.key === "ArrowLeft" ? -1 : 1); event.preventDefault(); }
      if (event.key === "Escape") leave();
    });
    svg.addEventListener("blur", leave);
  }
  document.getElementById("theme").addEventListener("click", () => {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });
  new ResizeObserver(redraw).observe(document.getElementById("plots"));
  document.getElementById("live").hidden = false;
  controls();
  redraw();
})();
