// The map of an asset: bins that the server counted, on a canvas. The URL holds what is looked at and selected.
(() => {
  "use strict";
  const map = document.getElementById("map");
  if (!map) return;
  const canvas = map.querySelector("canvas"), drawn = document.createElement("canvas");
  const tip = document.getElementById("tip");
  const readout = document.getElementById("readout");
  const count = document.getElementById("map-count");
  // The states by number, their labels, and their numbers from the worst on: as partita.status.states defines them.
  const STATES = map.dataset.states.split(","), WORDS = map.dataset.labels.split(",");
  const WORST = map.dataset.worstFirst.split(",").map(Number);
  const TOP = 20, MOST_HEIGHT = 440, MOST_CELL = 26, HIGH = 13, LIST_AFTER = 150;
  let bins = null, colours = null, shape = null, anchor = null, drag = null;
  let asking = 0, isWrong = false, isDue = false, waiting = null;
  // The cell that keys move, and where on the map it is: null until somebody has put it there.
  let cursor = [0, 0], point = null;

  // --- the URL

  const query = () => new URLSearchParams(location.search);
  const numbers = (text) => text.split(",").map(Number);
  const box = (name) => (query().get(name) ? numbers(query().get(name)) : null);
  function change(name, value, push) {
    const params = query();
    params.delete("after");
    params.delete("before");
    if (value) params.set(name, value.join(","));
    else params.delete(name);
    history[push ? "pushState" : "replaceState"](null, "", `${location.pathname}?${params}`);
  }

  // --- what the server says

  // What is asked for as JSON, or an error in words; the head of the page looks whether the server is there at all.
  async function ask(path, params) {
    let said = "the server doesn't answer";
    try {
      const answer = await fetch(`${path}?${params}`, { headers: { Accept: "application/json" } });
      const isJson = (answer.headers.get("content-type") || "").startsWith("application/json");
      if (isJson && answer.ok) return await answer.json();
      said = isJson ? (await answer.json()).error.message : await answer.text();
      if (isJson && answer.status !== 401) return { error: said };
    } catch {
      // Whatever was in the way of an answer: nothing of it has come.
    }
    document.dispatchEvent(new Event("partita:lost"));
    return { error: said };
  }
  function complain(text) {
    isWrong = true;
    readout.textContent = text;
  }
  async function load() {
    const mine = ++asking;
    const params = query();
    params.set("columns", Math.max(20, Math.min(240, Math.floor((map.clientWidth - 120) / 5))));
    params.set("rows", Math.floor((MOST_HEIGHT - TOP) / 7));
    const found = await ask("/api/heatmap", params);
    if (mine !== asking) return;
    if (found.error) return complain(found.error);
    if (isWrong) readout.textContent = "";
    isWrong = false;
    bins = found;
    if (point) cursor = cellOf(point);
    cursor = [clamp(cursor[0], 0, columns() - 1), clamp(cursor[1], 0, rows() - 1)];
    const word = bins.partitions === 1 ? "partition" : "partitions";
    count.textContent = `${bins.partitions.toLocaleString("en")} ${word} shown`;
    map.dataset.view = bins.view;
    map.dataset.cells = bins.cells.length;
    if (document.activeElement === map) speak();
    draw();
  }
  const columns = () => bins.across.labels.length;
  const rows = () => bins.down.labels.length;
  const mixAt = (column, row) => bins.mixes[bins.cells[row * columns() + column]];
  const clamp = (n, low, high) => Math.max(low, Math.min(high, n));

  function places(column, row, column2 = column, row2 = row) {
    const whole = numbers(bins.whole);
    const [c0, c1] = [Math.min(column, column2), Math.max(column, column2)];
    const [r0, r1] = [Math.min(row, row2), Math.max(row, row2)];
    return [
      Math.max(whole[0], bins.across.first + c0 * bins.across.step),
      Math.min(whole[1], bins.across.first + (c1 + 1) * bins.across.step - 1),
      Math.max(whole[2], bins.down.first + r0 * bins.down.step),
      Math.min(whole[3], bins.down.first + (r1 + 1) * bins.down.step - 1),
    ];
  }

  const middle = ([x0, x1, y0, y1]) => [(x0 + x1) / 2, (y0 + y1) / 2];
  const cellOf = (at) => [bins.across, bins.down].map((line, axis) => Math.floor((at[axis] - line.first) / line.step));
  function put(cell) {
    cursor = cell;
    point = middle(places(...cell));
  }
  // The view that was asked for last; its answer may still be on its way.
  function viewed() {
    const whole = numbers(bins.whole);
    return (box("view") || whole).map((n, at) => clamp(n, whole[at & 2], whole[(at & 2) + 1]));
  }

  // --- drawing

  function palette() {
    const style = getComputedStyle(document.documentElement);
    const of = (name) => style.getPropertyValue(`--${name}`).trim();
    colours = { states: STATES.map(of), ink: of("ink"), quiet: of("quiet"), none: of("none"), panel: of("panel"), focus: of("focus") };
  }

  // The map is drawn aside, and what changes by the moment over a copy of it.
  function draw() {
    if (!bins) return;
    palette();
    const pen = drawn.getContext("2d");
    pen.font = "12px system-ui, 'DejaVu Sans', sans-serif";
    const widest = Math.max(...bins.down.labels.map((label) => pen.measureText(cut(label)).width), 20);
    const left = Math.ceil(Math.min(widest, map.clientWidth * 0.25, 200)) + 10;
    const width = map.clientWidth;
    const cell = Math.max(2, Math.min(MOST_CELL, (width - left - 2) / columns()));
    const tall = Math.max(6, Math.min(MOST_CELL, Math.floor((MOST_HEIGHT - TOP) / rows())));
    const ratio = window.devicePixelRatio || 1;
    shape = { left, cell, tall, width, ratio, height: TOP + tall * rows() + 2 };
    for (const one of [drawn, canvas]) {
      one.width = Math.round(width * ratio);
      one.height = Math.round(shape.height * ratio);
    }
    // A property of the object, not an attribute: the policy forbids those.
    canvas.style.width = `${width}px`;
    canvas.style.height = `${shape.height}px`;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, shape.height);
    labels(pen);
    for (let row = 0; row < rows(); row++)
      for (let column = 0; column < columns(); column++) {
        const which = bins.cells[row * columns() + column];
        if (!which) continue;
        // On whole points, or neighbours would shine through each other's edges.
        const [x, y] = corner(column, row).map(Math.round);
        bin(pen, bins.mixes[which], x, y, Math.round(corner(column + 1, row)[0]) - x, shape.tall);
      }
    show();
  }
  function show() {
    if (!bins) return;
    const pen = canvas.getContext("2d");
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, canvas.width, canvas.height);
    pen.drawImage(drawn, 0, 0);
    pen.setTransform(shape.ratio, 0, 0, shape.ratio, 0, 0);
    overlay(pen);
  }
  // Once for each frame, however often the pointer moves in it.
  function showSoon() {
    if (!isDue) requestAnimationFrame(() => { isDue = false; show(); });
    isDue = true;
  }
  const corner = (column, row) => [shape.left + column * shape.cell, TOP + row * shape.tall];
  const cut = (label) => (label.length > 30 ? `${label.slice(0, 29)}…` : label);

  function labels(pen) {
    pen.fillStyle = colours.quiet;
    pen.font = "12px system-ui, 'DejaVu Sans', sans-serif";
    pen.textBaseline = "middle";
    pen.textAlign = "right";
    const every = Math.ceil(14 / shape.tall);
    for (let row = 0; row < rows(); row += every)
      pen.fillText(cut(bins.down.labels[row]), shape.left - 6, TOP + (row + 0.5) * shape.tall, shape.left - 8);
    pen.textAlign = "left";
    let free = 0;
    for (let column = 0; column < columns(); column++) {
      const text = bins.across.labels[column].split(" to ")[0];
      const at = shape.left + column * shape.cell;
      const room = pen.measureText(text).width;
      if (at < free || at + room > shape.width) continue;
      pen.fillText(text, at + 1, TOP / 2);
      free = at + room + 14;
    }
  }

  function bin(pen, mix, x, y, w, h) {
    // Bins of many partitions touch: gaps would say more than the few that aren't like the rest.
    const many = bins.across.step > 1 || bins.down.step > 1;
    const gap = many ? 0 : w > 5 ? 1 : w > 3 ? 0.5 : 0;
    if (many) h += 1;
    const total = mix.reduce((sum, n) => sum + n, 0);
    const only = mix.indexOf(total);
    if (only >= 0) return mark(pen, only, x, y, w - gap, h - 1);
    // Several states: from below, the worst first. Its part is high enough for its shape, any other a point at least.
    // In low bins of many that would be most of a bin that is mostly something else: there it is seen, and no more.
    let bottom = y + h - 1, least = many && h < HIGH ? 2 : clamp(Math.min(w, h / 2), 4, h - 1);
    for (const state of WORST) {
      if (!mix[state]) continue;
      const top = Math.max(y, bottom - Math.max(least, ((h - 1) * mix[state]) / total));
      part(pen, state, x, top, w - gap, bottom - top);
      bottom = top;
      least = 1;
      if (bottom <= y) break;
    }
  }
  function part(pen, state, x, y, w, h) {
    if (h >= 4) return mark(pen, state, x, y, w, h);
    pen.fillStyle = state === 3 ? colours.none : colours.states[state];
    pen.fillRect(x, y, w, h);
  }

  // Each state has a shape of its own, so that none is told by colour alone.
  function mark(pen, state, x, y, w, h) {
    const colour = colours.states[state];
    const path = (...points) => {
      pen.beginPath();
      points.forEach(([px, py], at) => pen[at ? "lineTo" : "moveTo"](x + px * w, y + py * h));
    };
    pen.lineWidth = Math.max(1, Math.min(w, h) / 8);
    pen.fillStyle = pen.strokeStyle = colour;
    if (state === 0) {
      pen.fillRect(x, y, w, h);
      return;
    }
    pen.globalAlpha = state === 3 ? 1 : 0.22;
    pen.fillStyle = state === 3 ? colours.none : colour;
    pen.fillRect(x, y, w, h);
    pen.globalAlpha = 1;
    pen.fillStyle = colour;
    if (state === 1) path([0, 0], [1, 1], [0, 1]), pen.fill();
    else if (state === 2) path([0.5, 0.08], [0.95, 0.95], [0.05, 0.95]), pen.fill();
    else if (state === 3) {
      const r = Math.max(1, Math.min(w, h) / 9);
      pen.beginPath(), pen.arc(x + w / 2, y + h / 2, r, 0, 7), pen.fill();
    } else if (state === 4) path([0.15, 0.15], [0.85, 0.85]), pen.stroke(), path([0.85, 0.15], [0.15, 0.85]), pen.stroke();
    else if (state === 5) path([0.15, 0.08], [0.92, 0.5], [0.15, 0.92]), pen.fill();
    else if (state === 6) pen.strokeRect(x + 1, y + 1, w - 2, h - 2), path([0.5, 0.25], [0.5, 0.75]), pen.stroke();
    else pen.beginPath(), pen.ellipse(x + w / 2, y + h / 2, w / 3, h / 3, 0, 0, 7), pen.stroke();
  }

  function overlay(pen) {
    const chosen = drag ? places(...drag.from, ...drag.to) : box("selected");
    if (chosen) {
      const [x0, x1, y0, y1] = chosen;
      const c0 = clamp((x0 - bins.across.first) / bins.across.step, 0, columns());
      const c1 = clamp((x1 + 1 - bins.across.first) / bins.across.step, 0, columns());
      const r0 = clamp((y0 - bins.down.first) / bins.down.step, 0, rows());
      const r1 = clamp((y1 + 1 - bins.down.first) / bins.down.step, 0, rows());
      if (c1 > c0 && r1 > r0) frame(pen, c0, r0, c1 - c0, r1 - r0, colours.ink, 2);
    }
    if (document.activeElement === map) frame(pen, cursor[0], cursor[1], 1, 1, colours.focus, 3);
    for (const button of document.querySelectorAll('[data-do="selection"], [data-do="clear"]')) button.disabled = !box("selected");
  }
  function frame(pen, column, row, wide, high, colour, thick) {
    const [x, y] = corner(column, row);
    pen.strokeStyle = colours.panel;
    pen.lineWidth = thick + 2;
    pen.strokeRect(x - 1, y - 1, wide * shape.cell + 1, high * shape.tall + 1);
    pen.strokeStyle = colour;
    pen.lineWidth = thick;
    pen.strokeRect(x - 1, y - 1, wide * shape.cell + 1, high * shape.tall + 1);
  }

  // --- words

  function said(column, row) {
    const lines = [bins.down.labels[row], bins.across.labels[column]].filter((text) => text && text !== "+0");
    const name = bins.names[row * columns() + column] || lines.join(", ");
    const mix = mixAt(column, row);
    const parts = STATES.map((_, state) => (mix[state] ? `${mix[state].toLocaleString("en")} ${WORDS[state]}` : "")).filter(Boolean);
    return [name || "the whole asset", parts.join(", ") || "no partition"];
  }
  function speak() {
    const [name, parts] = said(...cursor);
    readout.textContent = `${name}: ${parts}`;
  }

  // --- what people do

  // Back leads from a leap to where it began; steps of a zoom or a move aren't kept.
  function setView(view, isLeap = true) {
    anchor = null;
    change("view", view, isLeap);
    load().then(refreshTable);
  }
  // About a point of the map, which stays where it is: the cursor if somebody put it there, the selection, the middle.
  function zoom(factor, about = point || middle(box("selected") || viewed())) {
    const whole = numbers(bins.whole), now = viewed();
    const next = [0, 1].flatMap((axis) => {
      const [low, high] = [now[axis * 2], now[axis * 2 + 1]];
      const [first, last] = [whole[axis * 2], whole[axis * 2 + 1]];
      const size = Math.max(1, Math.round((high - low + 1) * factor));
      const share = clamp((about[axis] - low) / (high - low + 1), 0, 1);
      const start = clamp(Math.round(about[axis] - share * size), first, Math.max(first, last - size + 1));
      return [start, Math.min(last, start + size - 1)];
    });
    setView(next.join() === whole.join() ? null : next, false);
  }
  function select(chosen) {
    change("selected", chosen, false);
    show();
    clearTimeout(waiting);
    waiting = setTimeout(refreshList, LIST_AFTER);
  }
  const fetchPart = (path, id) =>
    htmx.ajax("GET", `${path}?${query()}`, { source: id, target: id, swap: "innerMorph" });
  const refreshList = () => fetchPart("/asset/partitions", "#list");
  function refreshTable() {
    if (document.getElementById("summary").open) fetchPart("/asset/summary", "#summary-table");
  }
  async function open(column, row) {
    const mix = mixAt(column, row);
    const total = mix.reduce((sum, n) => sum + n, 0);
    const at = places(column, row);
    if (total > 1) return setView(at);
    if (!total) return;
    const params = query();
    params.set("selected", at.join(","));
    params.set("limit", 1);
    params.delete("after");
    params.delete("before");
    const found = await ask("/api/partitions", params);
    if (found.error) return complain(found.error);
    if (found.rows.length) location.assign(`/partition?${new URLSearchParams({ asset: bins.asset, key: found.rows[0].key })}`);
  }
  function pan(dx, dy) {
    const whole = numbers(bins.whole), now = viewed();
    const next = [dx, dy].flatMap((by, axis) => {
      const [low, high] = [now[axis * 2], now[axis * 2 + 1]];
      const step = clamp(by * Math.ceil((high - low + 1) / 4), whole[axis * 2] - low, whole[axis * 2 + 1] - high);
      return [low + step, high + step];
    });
    if (next.join() === now.join()) return;
    point = [point[0] + dx * bins.across.step, point[1] + dy * bins.down.step];
    setView(next, false);
  }

  function cellAt(event) {
    const rect = canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - rect.left - shape.left) / shape.cell);
    const row = Math.floor((event.clientY - rect.top - TOP) / shape.tall);
    return column < 0 || row < 0 || column >= columns() || row >= rows() ? null : [column, row];
  }
  canvas.addEventListener("pointermove", (event) => {
    const at = bins && cellAt(event);
    tip.hidden = !at;
    if (!at) return;
    if (drag) {
      drag.to = at;
      showSoon();
    }
    tip.textContent = said(...at).join("\n");
    const rect = map.getBoundingClientRect();
    const x = event.clientX - rect.left, y = event.clientY - rect.top;
    tip.style.left = `${Math.min(x + 14, Math.max(0, rect.width - tip.offsetWidth - 4))}px`;
    tip.style.top = `${y + 16}px`;
  });
  canvas.addEventListener("pointerleave", () => (tip.hidden = true));
  canvas.addEventListener("pointerdown", (event) => {
    const at = bins && cellAt(event);
    if (!at || event.button) return;
    canvas.setPointerCapture(event.pointerId);
    drag = { from: at, to: at };
    put(at);
  });
  // A finger that scrolls the page selects nothing.
  canvas.addEventListener("pointercancel", () => {
    drag = null;
    tip.hidden = true;
    show();
  });
  canvas.addEventListener("pointerup", () => {
    if (!drag) return;
    const { from, to } = drag;
    drag = null;
    put(to);
    speak();
    select(places(...from, ...to));
  });
  canvas.addEventListener("dblclick", (event) => {
    const at = bins && cellAt(event);
    if (at) open(...at);
  });
  canvas.addEventListener("wheel", (event) => {
    const at = bins && cellAt(event);
    if (!at || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    zoom(event.deltaY < 0 ? 0.5 : 2, middle(places(...at)));
  }, { passive: false });

  const MOVES = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1], Home: [-1e9, 0], End: [1e9, 0], PageUp: [0, -10], PageDown: [0, 10] };
  const DOES = {
    in: () => zoom(0.5),
    out: () => zoom(2),
    whole: () => setView(null),
    clear: () => { anchor = null; select(null); },
    selection: () => box("selected") && setView(box("selected")),
  };
  const KEYS = { "+": "in", "=": "in", "-": "out", "0": "whole", z: "selection", Escape: "clear" };
  map.addEventListener("keydown", (event) => {
    if (!bins || event.ctrlKey || event.metaKey || event.altKey) return;
    const move = MOVES[event.key];
    if (move) {
      const next = [cursor[0] + move[0], cursor[1] + move[1]];
      const held = [clamp(next[0], 0, columns() - 1), clamp(next[1], 0, rows() - 1)];
      const isOver = Math.abs(move[0] + move[1]) === 1 && next.join() !== held.join();
      if (event.shiftKey) anchor ||= cursor;
      else anchor = null;
      put(held);
      if (anchor) select(places(...anchor, ...cursor));
      else if (isOver) pan(...move);
      speak();
      show();
    } else if (event.key === "Enter") open(...cursor);
    else if (KEYS[event.key]) DOES[KEYS[event.key]]();
    else return;
    event.preventDefault();
  });
  map.addEventListener("focus", () => { if (bins) { speak(); show(); } });
  map.addEventListener("blur", show);
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-do]");
    if (button && bins) DOES[button.dataset.do]();
  });

  // --- the rest of the page

  // Which page of the list is shown belongs into the URL too.
  document.getElementById("list").addEventListener("click", (event) => {
    const link = event.target.closest(".pager a[href]");
    if (!link) return;
    const params = query(), asked = new URL(link.href).searchParams;
    for (const name of ["after", "before"]) asked.has(name) ? params.set(name, asked.get(name)) : params.delete(name);
    history.replaceState(null, "", `${location.pathname}?${params}`);
  });
  document.getElementById("summary").addEventListener("toggle", refreshTable);
  function refresh() {
    load();
    refreshList();
    refreshTable();
  }
  window.addEventListener("popstate", refresh);
  document.addEventListener("partita:newer", refresh);
  document.addEventListener("partita:theme", () => { draw(); legend(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { draw(); legend(); });
  new ResizeObserver(() => { if (bins && map.clientWidth !== shape.width) load(); }).observe(map);
  function legend() {
    palette();
    for (const key of document.querySelectorAll("canvas.key")) {
      const pen = key.getContext("2d");
      pen.clearRect(0, 0, 14, 14);
      mark(pen, Number(key.dataset.mark), 1, 1, 12, 12);
    }
  }
  legend();
  load();
})();
