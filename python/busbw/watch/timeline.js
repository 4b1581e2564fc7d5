// Draws the calls of a recording: lanes of bars, with coarser levels made at the start so that a million stay smooth.
"use strict";
(async () => {
  const about = JSON.parse(document.getElementById("about").textContent);
  const canvas = document.getElementById("calls"), view = document.getElementById("view");
  const tall = document.getElementById("tall"), tip = document.getElementById("tip"), where = document.getElementById("where");
  const colours = ["#2f6fde", "#1a9c6b", "#c77700", "#8e44ad", "#00838f", "#b5338a", "#6d7a00", "#a0522d", "#5c6bc0", "#607d8b"];
  const HEIGHT = 18, GAP = 3, TOP = 24, FAN = 16;
  const LEVELS = 5;

  async function unpacked(text) {
    const raw = Uint8Array.from(atob(text), (each) => each.charCodeAt(0));
    const stream = new Blob([raw]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new DataView(await new Response(stream).arrayBuffer());
  }

  // Columns of a lane, little-endian: begin (f64, us), length (f32, us), wait (f32, us), number (u32), kind (u16).
  function lane(data, about) {
    const n = about.calls;
    const one = { ...about, begin: new Float64Array(n), length: new Float32Array(n), wait: new Float32Array(n), number: new Uint32Array(n), shape: new Uint16Array(n) };
    let at = about.at, begin = about.first_us;
    const jumps = new Map(about.jumps);
    for (let i = 0; i < n; i++) { begin += data.getUint32(at + 4 * i, true) / 1e3 + (jumps.get(i) || 0); one.begin[i] = begin; }
    at += 4 * n;
    for (let i = 0; i < n; i++) one.length[i] = data.getFloat32(at + 4 * i, true);
    at += 4 * n;
    for (let i = 0; i < n; i++) one.wait[i] = data.getFloat32(at + 4 * i, true);
    at += 4 * n;
    for (let i = 0; i < n; i++) one.number[i] = data.getUint32(at + 4 * i, true);
    at += 4 * n;
    for (let i = 0; i < n; i++) one.shape[i] = data.getUint16(at + 2 * i, true);
    one.levels = levels(one);
    return one;
  }

  // Each level has blocks of FAN of the one below: begin, end, share of calls, share of wait, most frequent shape.
  function levels(one) {
    const all = [];
    let below = { n: one.calls, begin: one.begin, end: null, busy: one.length, wait: one.wait, shape: one.shape };
    for (let level = 1; level < LEVELS && below.n > FAN; level++) {
      const n = Math.ceil(below.n / FAN);
      const here = { n, begin: new Float64Array(n), end: new Float64Array(n), busy: new Float64Array(n), wait: new Float64Array(n), shape: new Uint16Array(n) };
      for (let block = 0; block < n; block++) {
        const from = block * FAN, to = Math.min(below.n, from + FAN);
        let end = 0, longest = -1;
        here.begin[block] = below.begin[from];
        for (let i = from; i < to; i++) {
          end = Math.max(end, below.end ? below.end[i] : below.begin[i] + below.busy[i]);
          here.busy[block] += below.busy[i];
          here.wait[block] += below.wait[i];
          if (below.busy[i] > longest) { longest = below.busy[i]; here.shape[block] = below.shape[i]; }
        }
        here.end[block] = end;
      }
      all.push(here);
      below = here;
    }
    return all;
  }

  function first(sorted, n, value) {
    let low = 0, high = n;
    while (low < high) { const middle = (low + high) >> 1; sorted[middle] < value ? (low = middle + 1) : (high = middle); }
    return low;
  }

  let data;
  try {
    data = await unpacked(document.getElementById("data").textContent.trim());
  } catch (error) {
    tip.textContent = "This browser cannot unpack the calls: it needs DecompressionStream (Chromium 80, Firefox 113, Safari 16.4).";
    return;
  }
  const lanes = about.lanes.map((each) => lane(data, each));
  const span = Math.max(about.span_us, 1);
  let from = 0, to = span, queued = false;
  tall.style.height = `${TOP + lanes.length * (HEIGHT + GAP)}px`;

  function names() { return Math.min(190, Math.max(86, view.clientWidth * 0.24)); }
  // Where it is narrow, what tells lanes apart: the rank and the communicator's number at the end.
  function fitted(paint, name, width) {
    const fits = (each) => paint.measureText(each).width <= width;
    if (fits(name)) return name;
    const short = name.replace(/, communicator (\d+)$/, ", c$1");
    const end = short.slice(short.lastIndexOf(","));
    let kept = short.length - end.length;
    if (fits(short)) return short;
    while (kept > 1 && !fits(`${short.slice(0, kept)}\u2026${end}`)) kept -= 1;
    return `${short.slice(0, kept)}\u2026${end}`;
  }
  function time(us) {
    const width = to - from;
    return width < 5e3 ? `${us.toFixed(1)} us` : width < 5e6 ? `${(us / 1e3).toFixed(2)} ms` : `${(us / 1e6).toFixed(3)} s`;
  }

  let drawn = 0;
  function draw() {
    queued = false;
    const style = getComputedStyle(document.documentElement), ratio = devicePixelRatio || 1;
    const width = view.clientWidth, height = Math.min(view.clientHeight, TOP + lanes.length * (HEIGHT + GAP));
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio);
      canvas.style.width = `${width}px`; canvas.style.height = `${height}px`;
    }
    const paint = canvas.getContext("2d"), left = names(), scale = (width - left) / (to - from);
    const ground = style.getPropertyValue("--ground"), text = style.getPropertyValue("--text"), soft = style.getPropertyValue("--soft");
    paint.setTransform(ratio, 0, 0, ratio, 0, 0);
    paint.fillStyle = ground; paint.fillRect(0, 0, width, height);
    paint.font = "12px system-ui,sans-serif"; paint.textBaseline = "middle";
    drawn = 0;
    const scrolled = view.scrollTop;
    lanes.forEach((one, row) => {
      const y = TOP + row * (HEIGHT + GAP) - scrolled;
      if (y + HEIGHT < TOP || y > height) return;
      paint.fillStyle = style.getPropertyValue("--lane"); paint.fillRect(left, y, width - left, HEIGHT);
      bars(paint, one, y, left, scale, width, style.getPropertyValue("--wait"));
      paint.fillStyle = ground; paint.fillRect(0, y, left, HEIGHT);
      paint.fillStyle = text; paint.save(); paint.beginPath(); paint.rect(0, y, left - 6, HEIGHT); paint.clip();
      paint.fillText(fitted(paint, one.name, left - 10), 4, y + HEIGHT / 2); paint.restore();
    });
    paint.fillStyle = ground; paint.fillRect(0, 0, width, TOP);
    paint.fillStyle = soft; paint.strokeStyle = style.getPropertyValue("--line");
    const steps = Math.max(1, Math.floor((width - left) / 130));
    for (let i = 0; i <= steps; i++) {
      const x = left + ((width - left) * i) / steps;
      paint.beginPath(); paint.moveTo(x, TOP - 5); paint.lineTo(x, height); paint.stroke();
      if (i < steps) paint.fillText(time(from + ((to - from) * i) / steps), x + 3, TOP / 2);
    }
    where.textContent = `${time(from)} to ${time(to)}`;
    document.documentElement.dataset.drawn = String(drawn);
  }

  function bars(paint, one, y, left, scale, width, wait) {
    // The finest level that draws no more bars than there are pixels, twice over.
    let level = -1, low = first(one.begin, one.calls, from), high = first(one.begin, one.calls, to);
    while (high - low > 2 * (width - left) && level + 1 < one.levels.length) {
      level++;
      low = first(one.levels[level].begin, one.levels[level].n, from); high = first(one.levels[level].begin, one.levels[level].n, to);
    }
    const here = level < 0 ? null : one.levels[level];
    for (let i = Math.max(0, low - 1); i < high; i++) {
      const begin = here ? here.begin[i] : one.begin[i], end = here ? here.end[i] : begin + one.length[i];
      if (end < from) continue;
      const x = Math.max(left, left + (begin - from) * scale), right = Math.min(width, left + (end - from) * scale);
      const wide = Math.max(right - x, 1), busy = here ? here.busy[i] : one.length[i], waits = here ? here.wait[i] : one.wait[i];
      paint.globalAlpha = here ? Math.max(0.25, Math.min(1, busy / Math.max(end - begin, 1e-3))) : 1;
      paint.fillStyle = colours[about.shapes[here ? here.shape[i] : one.shape[i]].colour % colours.length];
      paint.fillRect(x, y, wide, HEIGHT);
      drawn++;
      paint.globalAlpha = 1;
      if (waits > 0) {
        // Of a call the wait is its first part; of a block its share is a height.
        paint.fillStyle = wait;
        const part = Math.min(1, waits / Math.max(here ? busy : one.length[i], 1e-3));
        here ? paint.fillRect(x, y + HEIGHT * (1 - part), wide, HEIGHT * part) : paint.fillRect(x, y + HEIGHT - 5, Math.max(1, wide * part), 5);
      }
    }
  }

  function redraw() { if (!queued) { queued = true; requestAnimationFrame(draw); } }
  function zoom(factor, at) {
    const middle = at === undefined ? (from + to) / 2 : at, width = Math.max(1, Math.min(span, (to - from) * factor));
    from = Math.max(0, Math.min(span - width, middle - (middle - from) * (width / (to - from))));
    to = from + width;
    redraw();
  }
  function move(part) {
    const width = to - from;
    from = Math.max(0, Math.min(span - width, from + part * width)); to = from + width;
    redraw();
  }
  function moment(event) {
    const left = names();
    return from + ((event.clientX - canvas.getBoundingClientRect().left - left) / (view.clientWidth - left)) * (to - from);
  }
  canvas.addEventListener("wheel", (event) => {
    if (event.shiftKey) return;
    event.preventDefault(); zoom(event.deltaY > 0 ? 1.25 : 0.8, moment(event));
  }, { passive: false });
  let held = null;
  canvas.addEventListener("pointerdown", (event) => { held = event.clientX; canvas.setPointerCapture(event.pointerId); });
  canvas.addEventListener("pointerup", () => { held = null; });
  canvas.addEventListener("pointermove", (event) => {
    if (held !== null) { move((held - event.clientX) / (view.clientWidth - names())); held = event.clientX; return; }
    const row = Math.floor((event.clientY - canvas.getBoundingClientRect().top + view.scrollTop - TOP) / (HEIGHT + GAP));
    say(lanes[row], moment(event));
  });
  function say(one, at) {
    if (!one || !(at >= 0)) return;
    const i = first(one.begin, one.calls, at) - 1;
    if (i < 0 || at > one.begin[i] + Math.max(one.length[i], (to - from) / 500)) { tip.textContent = `${one.name}: nothing at ${time(at)}`; return; }
    const shape = about.shapes[one.shape[i]];
    tip.textContent = `${one.who}, communicator ${one.name.split(" ").pop()}: ${shape.text}, number ${one.number[i]}, at ${one.begin[i].toFixed(1)} us for ${one.length[i].toFixed(1)} us` +
      (one.wait[i] > 0 ? `, of which ${one.wait[i].toFixed(1)} us waiting for a later rank` : "");
  }
  document.getElementById("in").onclick = () => zoom(0.5);
  document.getElementById("out").onclick = () => zoom(2);
  document.getElementById("left").onclick = () => move(-0.4);
  document.getElementById("right").onclick = () => move(0.4);
  document.getElementById("all").onclick = () => { from = 0; to = span; redraw(); };
  view.addEventListener("keydown", (event) => {
    const act = { "+": () => zoom(0.5), "-": () => zoom(2), ArrowLeft: () => move(-0.2), ArrowRight: () => move(0.2) }[event.key];
    if (act) { event.preventDefault(); act(); }
  });
  view.addEventListener("scroll", redraw);
  addEventListener("resize", redraw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);

  const legend = document.getElementById("legend");
  about.kinds.forEach((kind) => {
    const item = document.createElement("span"), mark = document.createElement("i");
    mark.style.background = colours[kind.colour % colours.length]; item.append(mark, kind.name); legend.append(item);
  });
  const item = document.createElement("span"), mark = document.createElement("i");
  mark.style.background = "var(--wait)"; item.append(mark, "wait for a later rank"); legend.append(item);
  draw();
  document.documentElement.dataset.ready = "yes";
})();
