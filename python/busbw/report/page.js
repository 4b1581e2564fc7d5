// Draws the plots of the report from the data in the page: no request, no library, no text of a record as markup.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const SVG = "http://www.w3.org/2000/svg";
  const svgTags = { svg: 1, g: 1, line: 1, path: 1, text: 1, circle: 1, rect: 1 };
  const state = { view: data.views[0], columns: new Set(), placements: new Set(), size: null, turned: new Set() };
  const figures = new Map();
  const CHARACTER = 7.4; // widest mean width of a character of the labels, in pixels

  function element(tag, attributes, parent, text) {
    const made = tag in svgTags ? document.createElementNS(SVG, tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) made.setAttribute(name, value);
    if (text !== undefined) made.textContent = text;
    if (parent) parent.append(made);
    return made;
  }
  const colour = (line) => `var(--c${line.colour})`;
  const isLogarithmic = (plot) => plot.logarithmic !== state.turned.has(plot.id);
  const shown = (plot) => plot.lines.filter((line) => state.columns.has(line.column) && state.placements.has(line.placement));

  function bytes(size) {
    // A size that is round in decimal units only: 4 GB is not 3.7 GiB.
    const binary = 2 ** (10 * Math.min(4, Math.floor(Math.log2(Math.max(1, size)) / 10)));
    for (const [power, unit] of size % binary ? [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"]] : []) {
      if (size >= power && size % power === 0) return `${size / power} ${unit}`;
    }
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let power = 0;
    while (size >= 1024 && power < units.length - 1) { size /= 1024; power += 1; }
    return `${Number.isInteger(size) ? size : size.toFixed(1)} ${units[power]}`;
  }
  // What the horizontal axis says at a place: a size, or a day where the plot is over time (seconds since 1970).
  const place = (plot, at) => (plot.over === "time" ? new Date(at * 1000).toISOString().slice(0, 10) : bytes(at));
  function number(value) {
    if (value === null || value === undefined) return "-";
    return value >= 1000 ? value.toFixed(0) : value >= 100 ? value.toFixed(1) : value >= 0.1 ? value.toFixed(2) : value.toPrecision(2);
  }
  function tick(value, unit) {
    if (unit === "us" && value >= 1e6) return `${+(value / 1e6).toPrecision(6)} s`;
    if (unit === "us" && value >= 1e3) return `${+(value / 1e3).toPrecision(6)} ms`;
    return `${+value.toPrecision(6)}${unit === "us" ? " us" : unit === "times" ? " x" : ""}`;
  }

  // Axes -------------------------------------------------------------------------------------------------------------
  // Sizes as many as stand beside each other: each label has its own width and a gap.
  function ticksOfDays(low, high, room) {
    const count = Math.max(1, Math.min(6, Math.floor(room / 110)));
    return low === high ? [low] : Array.from({ length: count + 1 }, (_, i) => low + ((high - low) * i) / count);
  }
  function ticksOfSizes(low, high, x) {
    const first = Math.ceil(Math.log2(low) - 1e-9), last = Math.floor(Math.log2(high) + 1e-9);
    if (last < first) return [low];
    for (let step = 1; ; step += 1) {
      const found = [];
      for (let power = Math.ceil(first / step) * step; power <= last; power += step) found.push(2 ** power);
      const room = (a, b) => x(b) - x(a) >= ((bytes(a).length + bytes(b).length) / 2) * CHARACTER + 10;
      if (found.length < 2 || found.every((size, i) => i === 0 || room(found[i - 1], size))) return found.length ? found : [2 ** first];
    }
  }
  function ticksOfLogs(low, high, room) {
    const within = (value) => value >= low * 0.999 && value <= high * 1.001;
    let found = [];
    for (const [steps, every] of [[[1, 2, 5], 1], [[1, 3], 1], [[1], 1], [[1], 2], [[1], 3]]) {
      found = [];
      for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1) {
        if (power % every === 0) found.push(...steps.map((step) => step * 10 ** power).filter(within));
      }
      if (found.length * 26 <= room) break;
    }
    return found.length > 1 ? found : ticksOfValues(low, high, room);
  }
  function ticksOfValues(low, high, room) {
    const rough = (high - low) / Math.max(2, Math.floor(room / 44)), power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 2.5, 5, 10].map((each) => each * power).find((each) => each >= rough * 0.999);
    const found = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i += 1) found.push(+(i * step).toPrecision(12));
    return found;
  }
  function scale(low, high, from, to, logarithmic) {
    const turn = logarithmic ? Math.log : (value) => value;
    const a = turn(low), b = turn(high);
    return (value) => from + ((turn(value) - a) / (b - a || 1)) * (to - from);
  }
  // What the vertical axis spans. Bandwidths start at nothing, so that a length is an amount; ratios hold the equal.
  function span(plot, values, logarithmic) {
    const lowest = Math.min(...values), highest = Math.max(...values);
    if (logarithmic) { const grow = lowest === highest ? 2 : 1.15; return [lowest / grow, highest * grow]; }
    if (plot.id !== "ratio") return [0, highest * 1.06];
    const low = Math.min(1, lowest), high = Math.max(1, highest), pad = Math.max((high - low) * 0.08, 0.02);
    return [high / low > 1.6 ? 0 : low - pad, high + pad];
  }

  // One picture --------------------------------------------------------------------------------------------------------
  function draw(plot) {
    const figure = figures.get(plot.id), svg = figure.querySelector("svg"), logarithmic = isLogarithmic(plot);
    svg.replaceChildren();
    const width = Math.max(280, figure.clientWidth), height = Math.min(400, Math.max(260, width * 0.5));
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("height", height);
    const lines = shown(plot);
    figure.lines = lines; figure.axes = null;
    figure.querySelector(".empty").hidden = lines.length > 0;
    if (!lines.length) return;
    const values = lines.flatMap((line) => [...line.points.flatMap((p) => p.slice(1)), ...line.expected.map((p) => p[1])]).filter((v) => v > 0);
    // All pictures span all sizes that are shown, so that one stands above or beside the other at the same place.
    const sizes = state.view.plots.flatMap((each) => shown(each).flatMap((line) => line.points.map((p) => p[0])));
    const lowSize = Math.min(...sizes), highSize = Math.max(...sizes);
    const [low, high] = span(plot, values, logarithmic);
    const top = 12, bottom = height - 30;
    const levels = (logarithmic ? ticksOfLogs : ticksOfValues)(low, high, bottom - top).map((value) => ({ value, text: tick(value, plot.unit) }));
    // The longest number at the left decides where the axis stands; half of the last size stands right of its tick.
    const left = Math.max(48, 14 + CHARACTER * Math.max(0, ...levels.map((level) => level.text.length)));
    const right = 8 + (place(plot, highSize).length * CHARACTER) / 2;
    const box = { left, right: width - right, top, bottom };
    const one = lowSize === highSize, timed = plot.over === "time";
    const x = scale(one ? lowSize / 2 : lowSize, one ? highSize * 2 : highSize, box.left + 6, box.right, !timed);
    const y = scale(low, high, box.bottom, box.top, logarithmic);
    for (const { value, text } of levels) {
      element("line", { class: "grid", x1: box.left, x2: box.right, y1: y(value), y2: y(value) }, svg);
      element("text", { class: "tick-y", x: box.left - 8, y: y(value) + 4, "text-anchor": "end" }, svg, text);
    }
    if (plot.id === "ratio") element("line", { class: "equal", x1: box.left, x2: box.right, y1: y(1), y2: y(1) }, svg);
    element("line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }, svg);
    for (const size of timed ? ticksOfDays(lowSize, highSize, box.right - box.left) : ticksOfSizes(lowSize, highSize, x)) {
      element("line", { class: "axis", x1: x(size), x2: x(size), y1: box.bottom, y2: box.bottom + 4 }, svg);
      element("text", { class: "tick-x", x: x(size), y: box.bottom + 19, "text-anchor": "middle" }, svg, place(plot, size));
    }
    for (const line of lines) drawLine(svg, line, x, y);
    figure.axes = { x, y, box, cross: element("g", { class: "hover" }, svg), width, height };
  }

  function drawLine(svg, line, x, y) {
    // Figures of one size stand beside each other.
    const shift = line.points.length === 1 ? 14 * (line.column % 8) : 0;
    const band = line.points.filter((p) => p[2] > 0 && p[3] > 0), valued = line.points.filter((p) => p[1] > 0);
    if (band.length > 1) {
      const edge = [...band.map((p) => [x(p[0]), y(p[3])]), ...[...band].reverse().map((p) => [x(p[0]), y(p[2])])];
      element("path", { class: "band", d: `M${edge.map((e) => e.join(",")).join("L")}Z`, fill: colour(line) }, svg);
    } else if (band.length === 1) {
      const [p] = band;
      const at = x(p[0]) + shift;
      element("line", { class: "range", x1: at, x2: at, y1: y(p[2]), y2: y(p[3]), stroke: colour(line), "stroke-width": 6, opacity: p[1] > 0 ? 0.3 : 0.8 }, svg);
    }
    const path = (points) => `M${points.map((p) => `${x(p[0]).toFixed(1)},${y(p[1]).toFixed(1)}`).join("L")}`;
    if (line.expected.length) element("path", { class: "expected", d: path(line.expected), stroke: colour(line) }, svg);
    const dashed = line.placement === "in place" && placementsInView().length > 1;
    if (valued.length) element("path", { class: dashed ? "curve dashed" : "curve", d: path(valued), stroke: colour(line), "data-run": line.column }, svg);
    const every = Math.ceil(valued.length / 9);
    valued.forEach((p, i) => { if (i % every === 0) mark(svg, line, x(p[0]) + shift, y(p[1]), 3.6); });
  }
  // Shapes tell columns apart where colours do not: in print, and for whoever sees few colours.
  function mark(parent, line, x, y, r) {
    const shapes = [null, [[-1, -1], [1, -1], [1, 1], [-1, 1]], [[0, -1.25], [1.15, 0.9], [-1.15, 0.9]], [[0, -1.35], [1.35, 0], [0, 1.35], [-1.35, 0]],
      [[0, 1.25], [1.15, -0.9], [-1.15, -0.9]], [[-0.4, -1.3], [0.4, -1.3], [0.4, 1.3], [-0.4, 1.3]], [[-1.3, -0.4], [1.3, -0.4], [1.3, 0.4], [-1.3, 0.4]], [[-1.2, 0], [0.6, -1.1], [0.6, 1.1]]];
    const shape = shapes[line.marker % shapes.length];
    if (!shape) { element("circle", { cx: x, cy: y, r: r, fill: colour(line) }, parent); return; }
    element("path", { d: `M${shape.map(([a, b]) => `${(x + a * r).toFixed(1)},${(y + b * r).toFixed(1)}`).join("L")}Z`, fill: colour(line) }, parent);
  }

  // Hover: the nearest size, in all pictures at once --------------------------------------------------------------------
  const sizesShown = () => [...new Set(state.view.plots.flatMap((plot) => shown(plot).flatMap((line) => line.points.map((p) => p[0]))))].sort((a, b) => a - b);
  function hover(figure, clientX) {
    if (!figure.axes) return;
    const bounds = figure.querySelector("svg").getBoundingClientRect();
    const at = ((clientX - bounds.left) / bounds.width) * figure.axes.width;
    const sizes = [...new Set(figure.lines.flatMap((line) => line.points.map((p) => p[0])))];
    state.size = sizes.reduce((best, size) => (Math.abs(figure.axes.x(size) - at) < Math.abs(figure.axes.x(best) - at) ? size : best));
    state.view.plots.forEach(show);
  }
  function step(direction) {
    const sizes = sizesShown();
    if (!sizes.length) return;
    const now = sizes.indexOf(state.size);
    state.size = sizes[now < 0 ? 0 : Math.min(sizes.length - 1, Math.max(0, now + direction))];
    state.view.plots.forEach(show);
  }
  function leave() { state.size = null; state.view.plots.forEach(show); }

  function show(plot) {
    const figure = figures.get(plot.id), values = figure.querySelector(".values");
    values.replaceChildren();
    if (!figure.axes) { values.hidden = true; return; }
    const { x, y, box, cross } = figure.axes;
    cross.replaceChildren();
    const rows = state.size === null ? [] : figure.lines
      .map((line) => ({ line, p: line.points.find((p) => p[0] === state.size), e: line.expected.find((p) => p[0] === state.size) })).filter((row) => row.p);
    values.hidden = !rows.length;
    if (!rows.length) return;
    element("line", { class: "cross", x1: x(state.size), x2: x(state.size), y1: box.top, y2: box.bottom }, cross);
    element("div", { class: "soft" }, values, `${place(plot, state.size)}, ${plot.unit}`);
    const table = element("table", {}, values);
    const both = new Set(rows.map((row) => row.line.placement)).size > 1;
    const most = (p) => p[1] || p[3];
    rows.sort((a, b) => most(b.p) - most(a.p));
    for (const { line, p, e } of rows) {
      if (p[1] > 0) element("circle", { cx: x(p[0]), cy: y(p[1]), r: 4, fill: colour(line) }, cross);
      const row = element("tr", { "data-run": line.column, "data-placement": line.placement }, table);
      element("td", { class: "text", style: `color:${colour(line)}` }, row, state.view.names[line.column] + (both ? `, ${line.placement}` : ""));
      element("td", { class: "value" }, row, number(p[1]));
      const range = p[2] > 0 ? `${number(p[2])} to ${number(p[3])}` : "";
      element("td", { class: "soft" }, row, e ? `${range} expected ${number(e[1])}`.trim() : range);
    }
    const room = figure.clientWidth, at = (x(state.size) / figure.axes.width) * room;
    const top = figure.querySelector("svg").getBoundingClientRect().top - figure.getBoundingClientRect().top;
    const left = at + 14 + values.offsetWidth < room ? at + 14 : at - 14 - values.offsetWidth;
    values.style.left = `${Math.max(0, Math.min(left, room - values.offsetWidth))}px`;
    values.style.top = `${top + 8}px`;
  }

  // Controls -----------------------------------------------------------------------------------------------------------
  function toggle(parent, text, checked, changed, line, attributes) {
    const made = element("label", {}, parent);
    const box = element("input", { type: "checkbox", ...attributes }, made);
    box.checked = checked;
    box.addEventListener("change", () => { changed(box.checked); redraw(); });
    if (line) {
      const swatch = element("svg", { class: "swatch", width: 26, height: 12, viewBox: "0 0 26 12", "aria-hidden": "true" }, made);
      element("line", { x1: 0, x2: 26, y1: 6, y2: 6, stroke: colour(line), "stroke-width": 2.5 }, swatch);
      mark(swatch, line, 13, 6, 4);
    }
    element("span", {}, made, text);
  }
  const setMember = (set, member) => (on) => { if (on) set.add(member); else set.delete(member); };
  const allLines = () => state.view.plots.flatMap((plot) => plot.lines);
  const placementsInView = () => [...new Set(allLines().map((line) => line.placement))];

  function controls() {
    const runs = document.getElementById("runs"), placements = document.getElementById("placements");
    runs.replaceChildren(); placements.replaceChildren();
    const looks = new Map(allLines().map((line) => [line.column, line]));
    state.columns = new Set(looks.keys());
    for (const [column, line] of [...looks].sort((a, b) => a[0] - b[0])) {
      toggle(runs, state.view.names[column], true, setMember(state.columns, column), line, { "data-run": column });
    }
    const kinds = placementsInView();
    state.placements = new Set(kinds);
    placements.hidden = kinds.length < 2;
    for (const kind of kinds) {
      toggle(placements, kind === "in place" ? "in place (dashed)" : kind, true, setMember(state.placements, kind), null, { "data-placement": kind });
    }
  }
  function redraw() { state.view.plots.forEach(draw); state.view.plots.forEach(show); }

  function build() {
    const parent = document.getElementById("plots");
    parent.replaceChildren(); figures.clear();
    for (const plot of state.view.plots) {
      const figure = element("figure", { id: plot.id }, parent);
      const caption = element("figcaption", {}, figure);
      element("span", {}, caption, `${plot.title}, ${plot.unit}`);
      const axis = element("button", { type: "button", class: "axis-kind" }, caption);
      const say = () => { axis.textContent = isLogarithmic(plot) ? "linear axis" : "logarithmic axis"; };
      say();
      axis.addEventListener("click", () => {
        if (!state.turned.delete(plot.id)) state.turned.add(plot.id);
        say(); redraw();
      });
      const svg = element("svg", { class: "plot", role: "img", tabindex: "0", "aria-label": `${plot.title} over size` }, figure);
      element("p", { class: "empty soft", hidden: "" }, figure, "Nothing to show: all is switched off.");
      element("div", { class: "values", role: "status", hidden: "" }, figure);
      svg.addEventListener("pointermove", (event) => hover(figure, event.clientX));
      svg.addEventListener("pointerleave", leave);
      svg.addEventListener("keydown", (event) => {
        if (event.key === "ArrowRight") step(1);
        else if (event.key === "ArrowLeft") step(-1);
        else if (event.key === "Escape") leave();
        else return;
        event.preventDefault();
      });
      figures.set(plot.id, figure);
    }
    controls(); redraw();
  }

  const views = document.getElementById("view");
  data.views.forEach((view, i) => element("option", { value: i }, views, view.title));
  views.hidden = data.views.length < 2;
  views.addEventListener("change", () => { state.view = data.views[views.value]; state.size = null; build(); });
  document.getElementById("theme").addEventListener("click", () => {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });
  document.getElementById("live").hidden = false;
  build();
  new ResizeObserver(redraw).observe(document.getElementById("plots"));
})();
