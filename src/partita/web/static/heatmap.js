// The heat map of an asset: bins that the server counted, drawn on a canvas. The URL holds the view and the selection.
(() => {
  "use strict";
  const map = document.getElementById("map");
  if (!map) return;
  const canvas = map.querySelector("canvas"), buffer = document.createElement("canvas");
  const tip = document.getElementById("tip");
  const readout = document.getElementById("readout");
  const partitionCount = document.getElementById("map-count");
  // The marks by number: names, labels and SVG shapes; and their numbers, the worst first. partita.status.states has them.
  const MARKS = map.dataset.states.split(","), LABELS = map.dataset.labels.split(",");
  const SHAPES = map.dataset.shapes.split("|").map((path) => path && new Path2D(path));
  const WORST_FIRST = map.dataset.worstFirst.split(",").map(Number), MISSING = Number(map.dataset.missing);
  const TOP_MARGIN = 20, MAX_HEIGHT = 440, MAX_CELL = 26, MIN_STACK_HEIGHT = 13, MIN_SHAPE_HEIGHT = 4, LIST_DELAY = 150;
  let bins = null, colours = null, layout = null, anchor = null, drag = null;
  let requestNumber = 0, hasProblem = false, isFrameRequested = false, listTimer = null;
  // The cell that the arrow keys move, and its coordinates on the map; no coordinates until the user has moved it.
  let cursor = [0, 0], cursorPoint = null;

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

  // --- requests

  // Fetch JSON, or return an object with an error message; asof.js then checks whether the server answers at all.
  async function fetchJson(path, params) {
    let message = "the server doesn't answer";
    try {
      const response = await fetch(`${path}?${params}`, { headers: { Accept: "application/json" } });
      const isJson = (response.headers.get("content-type") || "").startsWith("application/json");
      if (isJson && response.ok) return await response.json();
      message = isJson ? (await response.json()).error.message : await response.text();
      if (isJson && response.status !== 401) return { error: message };
    } catch {
      // A network error: the message says that the server doesn't answer.
    }
    document.dispatchEvent(new Event("partita:lost"));
    return { error: message };
  }
  function showProblem(text) {
    hasProblem = true;
    readout.textContent = text;
  }
  async function load() {
    const number = ++requestNumber;
    const params = query();
    params.set("columns", Math.max(20, Math.min(240, Math.floor((map.clientWidth - 120) / 5))));
    params.set("rows", Math.floor((MAX_HEIGHT - TOP_MARGIN) / 7));
    const heatmap = await fetchJson("/api/heatmap", params);
    if (number !== requestNumber) return;
    if (heatmap.error) return showProblem(heatmap.error);
    if (hasProblem) readout.textContent = "";
    hasProblem = false;
    bins = heatmap;
    if (cursorPoint) cursor = cellOf(cursorPoint);
    cursor = [clamp(cursor[0], 0, columns() - 1), clamp(cursor[1], 0, rows() - 1)];
    const noun = bins.partitions === 1 ? "partition" : "partitions";
    partitionCount.textContent = `${bins.partitions.toLocaleString("en")} ${noun} shown`;
    map.dataset.view = bins.view;
    map.dataset.cells = bins.cells.length;
    if (document.activeElement === map) describeCursor();
    draw();
  }
  const columns = () => bins.across.labels.length;
  const rows = () => bins.down.labels.length;
  const countsAt = (column, row) => bins.mixes[bins.cells[row * columns() + column]];
  const clamp = (n, low, high) => Math.max(low, Math.min(high, n));

  // The coordinates that a rectangle of cells covers: first and last across, first and last down.
  function cellBox(column, row, column2 = column, row2 = row) {
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
  const cellOf = (point) => [bins.across, bins.down].map(({ first, step }, i) => Math.floor((point[i] - first) / step));
  function moveCursor(cell) {
    cursor = cell;
    cursorPoint = middle(cellBox(...cell));
  }
  // The view in the URL; the bins of it may not have been received yet.
  function currentView() {
    const whole = numbers(bins.whole);
    return (box("view") || whole).map((n, i) => clamp(n, whole[i & 2], whole[(i & 2) + 1]));
  }

  // --- drawing

  function readColours() {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(`--${name}`).trim();
    colours = { marks: MARKS.map(colour) };
    for (const name of ["ink", "quiet", "none", "panel", "focus"]) colours[name] = colour(name);
  }

  // Draw the bins into a buffer; cursor and selection are drawn over a copy of it.
  function draw() {
    if (!bins) return;
    readColours();
    const pen = buffer.getContext("2d");
    pen.font = "12px system-ui, 'DejaVu Sans', sans-serif";
    const widest = Math.max(...bins.down.labels.map((label) => pen.measureText(truncate(label)).width), 20);
    const left = Math.ceil(Math.min(widest, map.clientWidth * 0.25, 200)) + 10;
    const width = map.clientWidth;
    const cellWidth = Math.max(2, Math.min(MAX_CELL, (width - left - 2) / columns()));
    const cellHeight = Math.max(6, Math.min(MAX_CELL, Math.floor((MAX_HEIGHT - TOP_MARGIN) / rows())));
    const ratio = window.devicePixelRatio || 1;
    layout = { left, cellWidth, cellHeight, width, ratio, height: TOP_MARGIN + cellHeight * rows() + 2 };
    for (const target of [buffer, canvas]) {
      target.width = Math.round(width * ratio);
      target.height = Math.round(layout.height * ratio);
    }
    // Set as properties: the content security policy forbids style attributes.
    canvas.style.width = `${width}px`;
    canvas.style.height = `${layout.height}px`;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, layout.height);
    drawLabels(pen);
    for (let row = 0; row < rows(); row++)
      for (let column = 0; column < columns(); column++) {
        const countsIndex = bins.cells[row * columns() + column];
        if (!countsIndex) continue;
        // Whole pixels, because neighbours would blend at fractional edges.
        const [x, y] = corner(column, row).map(Math.round);
        drawBin(pen, bins.mixes[countsIndex], x, y, Math.round(corner(column + 1, row)[0]) - x, layout.cellHeight);
      }
    show();
  }
  function show() {
    if (!bins) return;
    const pen = canvas.getContext("2d");
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, canvas.width, canvas.height);
    pen.drawImage(buffer, 0, 0);
    pen.setTransform(layout.ratio, 0, 0, layout.ratio, 0, 0);
    drawOverlay(pen);
  }
  // Show once per frame, however often the pointer moves.
  function requestShow() {
    if (!isFrameRequested) requestAnimationFrame(() => { isFrameRequested = false; show(); });
    isFrameRequested = true;
  }
  const corner = (column, row) => [layout.left + column * layout.cellWidth, TOP_MARGIN + row * layout.cellHeight];
  const truncate = (label) => (label.length > 30 ? `${label.slice(0, 29)}…` : label);

  function drawLabels(pen) {
    pen.fillStyle = colours.quiet;
    pen.font = "12px system-ui, 'DejaVu Sans', sans-serif";
    pen.textBaseline = "middle";
    pen.textAlign = "right";
    const every = Math.ceil(14 / layout.cellHeight);
    for (let row = 0; row < rows(); row += every)
      pen.fillText(truncate(bins.down.labels[row]), layout.left - 6, TOP_MARGIN + (row + 0.5) * layout.cellHeight, layout.left - 8);
    pen.textAlign = "left";
    let nextFree = 0;
    for (let column = 0; column < columns(); column++) {
      const text = bins.across.labels[column].split(" to ")[0];
      const x = layout.left + column * layout.cellWidth;
      const width = pen.measureText(text).width;
      if (x < nextFree || x + width > layout.width) continue;
      pen.fillText(text, x + 1, TOP_MARGIN / 2);
      nextFree = x + width + 14;
    }
  }

  function drawBin(pen, counts, x, y, w, h) {
    // Bins of many partitions touch: gaps would hide the few partitions that differ.
    const hasMany = bins.across.step > 1 || bins.down.step > 1;
    const gap = hasMany ? 0 : w > 5 ? 1 : w > 3 ? 0.5 : 0;
    if (hasMany) h += 1;
    const total = counts.reduce((sum, n) => sum + n, 0);
    const onlyMark = counts.indexOf(total);
    if (onlyMark >= 0) return drawMark(pen, onlyMark, x, y, w - gap, h - 1);
    // Several marks are stacked, the worst at the bottom and high enough for its shape, the others at least a pixel. In
    // a low bin of many partitions a shape would cover most of the bin, so the worst mark is only two pixels high.
    let bottom = y + h - 1;
    let minHeight = hasMany && h < MIN_STACK_HEIGHT ? 2 : clamp(Math.min(w, h / 2), MIN_SHAPE_HEIGHT, h - 1);
    for (const number of WORST_FIRST) {
      if (!counts[number]) continue;
      const top = Math.max(y, bottom - Math.max(minHeight, ((h - 1) * counts[number]) / total));
      drawMark(pen, number, x, top, w - gap, bottom - top);
      bottom = top;
      minHeight = 1;
      if (bottom <= y) break;
    }
  }

  // Draw a mark in a rectangle: its shape over a faint ground if there is room, else its plain colour.
  function drawMark(pen, number, x, y, w, h) {
    const shape = h >= MIN_SHAPE_HEIGHT ? SHAPES[number] : null;
    pen.fillStyle = number === MISSING ? colours.none : colours.marks[number];
    pen.globalAlpha = shape && number !== MISSING ? 0.22 : 1;
    pen.fillRect(x, y, w, h);
    pen.globalAlpha = 1;
    if (!shape) return;
    const path = new Path2D();
    // The dot of a missing partition stays a circle with a radius of at least a pixel; other shapes fill the rectangle.
    const side = Math.max(9, Math.min(w, h));
    const isDot = number === MISSING;
    const matrix = isDot ? [side, 0, 0, side, x + (w - side) / 2, y + (h - side) / 2] : [w, 0, 0, h, x, y];
    path.addPath(shape, new DOMMatrix(matrix));
    pen.fillStyle = colours.marks[number];
    pen.fill(path, "evenodd");
  }

  function drawOverlay(pen) {
    const selection = drag ? cellBox(...drag.from, ...drag.to) : box("selected");
    if (selection) {
      const [x0, x1, y0, y1] = selection;
      const c0 = clamp((x0 - bins.across.first) / bins.across.step, 0, columns());
      const c1 = clamp((x1 + 1 - bins.across.first) / bins.across.step, 0, columns());
      const r0 = clamp((y0 - bins.down.first) / bins.down.step, 0, rows());
      const r1 = clamp((y1 + 1 - bins.down.first) / bins.down.step, 0, rows());
      if (c1 > c0 && r1 > r0) drawFrame(pen, c0, r0, c1 - c0, r1 - r0, colours.ink, 2);
    }
    if (document.activeElement === map) drawFrame(pen, cursor[0], cursor[1], 1, 1, colours.focus, 3);
    for (const button of document.querySelectorAll('[data-do="selection"], [data-do="clear"]')) button.disabled = !box("selected");
  }
  function drawFrame(pen, column, row, width, height, colour, lineWidth) {
    const [x, y] = corner(column, row);
    pen.strokeStyle = colours.panel;
    pen.lineWidth = lineWidth + 2;
    pen.strokeRect(x - 1, y - 1, width * layout.cellWidth + 1, height * layout.cellHeight + 1);
    pen.strokeStyle = colour;
    pen.lineWidth = lineWidth;
    pen.strokeRect(x - 1, y - 1, width * layout.cellWidth + 1, height * layout.cellHeight + 1);
  }

  // --- text

  // The name of a cell's partitions, and how many of them have each mark.
  function describeCell(column, row) {
    const lines = [bins.down.labels[row], bins.across.labels[column]].filter((text) => text && text !== "+0");
    const name = bins.names[row * columns() + column] || lines.join(", ");
    const counts = countsAt(column, row);
    const parts = LABELS.map((label, i) => (counts[i] ? `${counts[i].toLocaleString("en")} ${label}` : "")).filter(Boolean);
    return [name || "the whole asset", parts.join(", ") || "no partition"];
  }
  function describeCursor() {
    const [name, parts] = describeCell(...cursor);
    readout.textContent = `${name}: ${parts}`;
  }

  // --- actions

  // The Back button returns to the view before a jump; steps of zooming and panning are not in the history.
  function setView(view, isJump = true) {
    anchor = null;
    change("view", view, isJump);
    load().then(refreshTable);
  }
  // Zoom about a point that stays in its place: the cursor if the user has moved it, else the middle of the selection or
  // of the view.
  function zoom(factor, center = cursorPoint || middle(box("selected") || currentView())) {
    const whole = numbers(bins.whole), view = currentView();
    const next = [0, 1].flatMap((axis) => {
      const [low, high] = [view[axis * 2], view[axis * 2 + 1]];
      const [first, last] = [whole[axis * 2], whole[axis * 2 + 1]];
      const size = Math.max(1, Math.round((high - low + 1) * factor));
      const share = clamp((center[axis] - low) / (high - low + 1), 0, 1);
      const start = clamp(Math.round(center[axis] - share * size), first, Math.max(first, last - size + 1));
      return [start, Math.min(last, start + size - 1)];
    });
    setView(next.join() === whole.join() ? null : next, false);
  }
  function select(selection) {
    change("selected", selection, false);
    show();
    clearTimeout(listTimer);
    listTimer = setTimeout(refreshList, LIST_DELAY);
  }
  const fetchPart = (path, id) =>
    htmx.ajax("GET", `${path}?${query()}`, { source: id, target: id, swap: "innerMorph" });
  const refreshList = () => fetchPart("/asset/partitions", "#list");
  function refreshTable() {
    if (document.getElementById("summary").open) fetchPart("/asset/summary", "#summary-table");
  }
  async function open(column, row) {
    const total = countsAt(column, row).reduce((sum, n) => sum + n, 0);
    const selection = cellBox(column, row);
    if (total > 1) return setView(selection);
    if (!total) return;
    const params = query();
    params.set("selected", selection.join(","));
    params.set("limit", 1);
    params.delete("after");
    params.delete("before");
    const page = await fetchJson("/api/partitions", params);
    if (page.error) return showProblem(page.error);
    if (page.rows.length) location.assign(`/partition?${new URLSearchParams({ asset: bins.asset, key: page.rows[0].key })}`);
  }
  function pan(dx, dy) {
    const whole = numbers(bins.whole), view = currentView();
    const next = [dx, dy].flatMap((direction, axis) => {
      const [low, high] = [view[axis * 2], view[axis * 2 + 1]];
      const step = clamp(direction * Math.ceil((high - low + 1) / 4), whole[axis * 2] - low, whole[axis * 2 + 1] - high);
      return [low + step, high + step];
    });
    if (next.join() === view.join()) return;
    cursorPoint = [cursorPoint[0] + dx * bins.across.step, cursorPoint[1] + dy * bins.down.step];
    setView(next, false);
  }

  function cellAt(event) {
    const rect = canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - rect.left - layout.left) / layout.cellWidth);
    const row = Math.floor((event.clientY - rect.top - TOP_MARGIN) / layout.cellHeight);
    return column < 0 || row < 0 || column >= columns() || row >= rows() ? null : [column, row];
  }
  canvas.addEventListener("pointermove", (event) => {
    const cell = bins && cellAt(event);
    tip.hidden = !cell;
    if (!cell) return;
    if (drag) {
      drag.to = cell;
      requestShow();
    }
    tip.textContent = describeCell(...cell).join("\n");
    const rect = map.getBoundingClientRect();
    const x = event.clientX - rect.left, y = event.clientY - rect.top;
    tip.style.left = `${Math.min(x + 14, Math.max(0, rect.width - tip.offsetWidth - 4))}px`;
    tip.style.top = `${y + 16}px`;
  });
  canvas.addEventListener("pointerleave", () => (tip.hidden = true));
  canvas.addEventListener("pointerdown", (event) => {
    const cell = bins && cellAt(event);
    if (!cell || event.button) return;
    canvas.setPointerCapture(event.pointerId);
    drag = { from: cell, to: cell };
    moveCursor(cell);
  });
  // The browser cancels a touch that scrolls the page.
  canvas.addEventListener("pointercancel", () => {
    drag = null;
    tip.hidden = true;
    show();
  });
  canvas.addEventListener("pointerup", () => {
    if (!drag) return;
    const { from, to } = drag;
    drag = null;
    moveCursor(to);
    describeCursor();
    select(cellBox(...from, ...to));
  });
  canvas.addEventListener("dblclick", (event) => {
    const cell = bins && cellAt(event);
    if (cell) open(...cell);
  });
  canvas.addEventListener("wheel", (event) => {
    const cell = bins && cellAt(event);
    if (!cell || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    zoom(event.deltaY < 0 ? 0.5 : 2, middle(cellBox(...cell)));
  }, { passive: false });

  const MOVES = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1], Home: [-1e9, 0], End: [1e9, 0], PageUp: [0, -10], PageDown: [0, 10] };
  const ACTIONS = {
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
      const cell = [clamp(next[0], 0, columns() - 1), clamp(next[1], 0, rows() - 1)];
      const isBeyondEdge = Math.abs(move[0] + move[1]) === 1 && next.join() !== cell.join();
      if (event.shiftKey) anchor ||= cursor;
      else anchor = null;
      moveCursor(cell);
      if (anchor) select(cellBox(...anchor, ...cursor));
      else if (isBeyondEdge) pan(...move);
      describeCursor();
      show();
    } else if (event.key === "Enter") open(...cursor);
    else if (KEYS[event.key]) ACTIONS[KEYS[event.key]]();
    else return;
    event.preventDefault();
  });
  map.addEventListener("focus", () => { if (bins) { describeCursor(); show(); } });
  map.addEventListener("blur", show);
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-do]");
    if (button && bins) ACTIONS[button.dataset.do]();
  });

  // --- the rest of the page

  // Keep the page of the list in the URL.
  document.getElementById("list").addEventListener("click", (event) => {
    const link = event.target.closest(".pager a[href]");
    if (!link) return;
    const params = query(), linkParams = new URL(link.href).searchParams;
    for (const name of ["after", "before"]) linkParams.has(name) ? params.set(name, linkParams.get(name)) : params.delete(name);
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
  document.addEventListener("partita:theme", () => { draw(); drawLegend(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { draw(); drawLegend(); });
  new ResizeObserver(() => { if (bins && map.clientWidth !== layout.width) load(); }).observe(map);
  function drawLegend() {
    readColours();
    for (const key of document.querySelectorAll("canvas.key")) {
      const pen = key.getContext("2d");
      pen.clearRect(0, 0, 14, 14);
      drawMark(pen, Number(key.dataset.mark), 1, 1, 12, 12);
    }
  }
  drawLegend();
  load();
})();
