'use strict';
const data = JSON.parse(document.getElementById('data').textContent);
const $ = (id) => document.getElementById(id);
const canvas = $('map'), context = canvas.getContext('2d');
const {x, y, ids} = data.nodes;
const {u, v, label, kind, line, metres, error, crossings} = data.edges;
const TRUE = 0, UNUSED = 4;
const NEW_NAMES = ['within 45° of its label', '45° to 90° off',
  'more than 90° off', 'no bearing: loop or no direction'];
const groups = [
  {name: 'True edge, used', color: '--true', on: true},
  ...NEW_NAMES.map((name, k) => ({
    name: 'New edge, ' + name,
    color: ['--fits', '--askew', '--away', '--none'][k], on: true})),
  {name: 'True edge, never used', color: '--unused', on: false},
];
const view = {scale: 1, x: 0, y: 0};  // Screen = world * scale + offset.
let width = 0, height = 0, hover = null, chosen = -1, queued = false;

// Group of an edge: 0 true, 1 to 4 new by direction error, 5 unused.
const groupOf = kind.map((k, e) => k === 0 ? 0 : k === 2 ? 5 :
  error[e] === null ? 4 : error[e] <= 45 ? 1 : error[e] <= 90 ? 2 : 3);

// Where the curve of an edge bends: its label's direction, or nowhere.
const NORTH = [1, 1, 0, -1, -1, -1, 0, 1], EAST = [0, 1, 1, 1, 0, -1, -1, -1];
function bend(e) {
  const a = u[e], b = v[e];
  if (kind[e] !== 1 || !$('bend').checked || label[e] > 7) {
    return [(x[a] + x[b]) / 2, (y[a] + y[b]) / 2];
  }
  return [x[a] + data.bend[0] * EAST[label[e]],
    y[a] - data.bend[1] * NORTH[label[e]]];
}
function point(e, t) {
  const [cx, cy] = bend(e), s = 1 - t;
  return [s * s * x[u[e]] + 2 * s * t * cx + t * t * x[v[e]],
    s * s * y[u[e]] + 2 * s * t * cy + t * t * y[v[e]]];
}

// One path a group, in metres.
let paths = [];
function build() {
  paths = groups.map(() => new Path2D());
  for (let e = 0; e < u.length; e++) follow(paths[groupOf[e]], e);
}
function follow(path, e) {
  path.moveTo(x[u[e]], y[u[e]]);
  if (kind[e] === 1) path.quadraticCurveTo(...bend(e), x[v[e]], y[v[e]]);
  else path.lineTo(x[v[e]], y[v[e]]);
}

function css(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name);
}
function arrow(e, size) {
  const [ax, ay] = point(e, 0.62), [bx, by] = point(e, 0.66);
  const angle = Math.atan2(by - ay, bx - ax);
  context.beginPath();
  for (const turn of [2.6, 0, -2.6]) {
    const far = turn ? size : size * 0.6;
    context.lineTo(bx + far * Math.cos(angle + turn),
      by + far * Math.sin(angle + turn));
  }
  context.fill();
}
function trace(e) {
  context.beginPath();
  follow(context, e);
  context.stroke();
}
function draw() {
  queued = false;
  const ratio = devicePixelRatio || 1, px = 1 / view.scale;
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.clearRect(0, 0, canvas.width, canvas.height);
  context.setTransform(view.scale * ratio, 0, 0, view.scale * ratio,
    view.x * ratio, view.y * ratio);
  context.lineCap = 'round';
  const zoomed = Math.min(Math.max(Math.sqrt(view.scale * 4), 0.6), 3);
  for (const g of [UNUSED + 1, TRUE, 1, 2, 3, 4]) {
    if (!groups[g].on) continue;
    context.strokeStyle = context.fillStyle = css(groups[g].color);
    context.globalAlpha = g === TRUE ? 0.55 : 0.75;
    context.lineWidth = (g === TRUE ? 0.9 : 1.15) * zoomed * px;
    if (g === UNUSED + 1) context.setLineDash([4 * px, 4 * px]);
    context.stroke(paths[g]);
    context.setLineDash([]);
  }
  context.globalAlpha = 1;
  if (view.scale > 0.5) details(px);
  if (route) drawRoute(px);
  if (chosen >= 0) highlightNode(px);
  if (hover && hover.edge !== undefined) {
    context.strokeStyle = context.fillStyle = css('--mark');
    context.lineWidth = 3.5 * px;
    trace(hover.edge);
    arrow(hover.edge, 11 * px);
    dot(u[hover.edge], 4 * px);
  }
  scaleBar();
}
function details(px) {
  const left = -view.x * px, top = -view.y * px;
  const right = left + width * px, low = top + height * px;
  for (let e = 0; e < u.length; e++) {
    const n = u[e];
    if (!groups[groupOf[e]].on || x[n] < left - 300 || x[n] > right + 300 ||
        y[n] < top - 300 || y[n] > low + 300) continue;
    context.fillStyle = css(groups[groupOf[e]].color);
    arrow(e, 6 * px);
  }
  context.fillStyle = css('--ink');
  for (let n = 0; n < x.length; n++) {
    if (x[n] >= left && x[n] <= right && y[n] >= top && y[n] <= low) {
      dot(n, 2.4 * px);
    }
  }
}
function dot(n, radius) {
  context.beginPath();
  context.arc(x[n], y[n], radius, 0, 7);
  context.fill();
}
function highlightNode(px) {
  context.lineWidth = 3 * px;
  for (const e of out[chosen] || []) {
    context.strokeStyle = context.fillStyle = css(groups[groupOf[e]].color);
    trace(e);
    arrow(e, 10 * px);
  }
  context.strokeStyle = context.fillStyle = css('--mark');
  dot(chosen, 5 * px);
  context.lineWidth = 2 * px;
  context.beginPath();
  context.arc(x[chosen], y[chosen], 11 * px, 0, 7);
  context.stroke();
}
// The edges of the route that is shown, as far as this map has them.
let route = null;
function drawRoute(px) {
  context.lineWidth = 4 * px;
  for (const e of route.edges) {
    const color = groupOf[e] === TRUE ? '--mark' : groups[groupOf[e]].color;
    context.strokeStyle = context.fillStyle = css(color);
    trace(e);
    arrow(e, 11 * px);
  }
  context.strokeStyle = context.fillStyle = css('--mark');
  dot(route.ends[0], 7 * px);
  context.lineWidth = 3 * px;
  context.beginPath();
  context.arc(x[route.ends[1]], y[route.ends[1]], 10 * px, 0, 7);
  context.stroke();
}
function scaleBar() {
  const most = 130 / view.scale, unit = 10 ** Math.floor(Math.log10(most));
  const long = [5, 2, 1].find((k) => k * unit <= most) * unit;
  $('scale').style.width = long * view.scale + 'px';
  $('scale').textContent = long >= 1000 ? long / 1000 + ' km' : long + ' m';
}
function redraw() {
  if (!queued) { queued = true; requestAnimationFrame(draw); }
}

function resize() {
  const wide = canvas.clientWidth, tall = canvas.clientHeight;
  const ratio = devicePixelRatio || 1, first = !width;
  const size = [Math.round(wide * ratio), Math.round(tall * ratio)];
  if (canvas.width === size[0] && canvas.height === size[1] && !first) return;
  [canvas.width, canvas.height] = size;  // This clears it.
  view.x += (wide - width) / 2;
  view.y += (tall - height) / 2;
  [width, height] = [wide, tall];
  if (first) home();
  draw();
}
const [west, east] = [Math.min(...x), Math.max(...x)];
const [top_, low_] = [Math.min(...y), Math.max(...y)];
function home() { fit(west, east, top_, low_); }
function fit(west, east, top_, low_) {
  const side = width > 640 ? 310 : 0, pad = 30;
  const above = side ? 0 : $('side').offsetHeight + 14;
  const room = [width - side - 2 * pad, height - above - 2 * pad];
  view.scale = Math.max(Math.min(room[0] / (east - west || 1),
    room[1] / (low_ - top_ || 1)), 1e-3);
  view.x = side + (width - side) / 2 - view.scale * (west + east) / 2;
  view.y = above + (height - above) / 2 - view.scale * (top_ + low_) / 2;
  redraw();
}
function pan(right, down) {
  view.x += right;
  view.y += down;
  redraw();
}
function zoomAt(px, py, factor) {
  const scale = Math.min(Math.max(view.scale * factor, 1e-3), 40);
  view.x = px - (px - view.x) * scale / view.scale;
  view.y = py - (py - view.y) * scale / view.scale;
  view.scale = scale;
  redraw();
}
const zoom = (factor) => zoomAt(width / 2, height / 2, factor);

// The node or, away from nodes, the edge within 7 pixels of a place.
function under(px, py) {
  const wx = (px - view.x) / view.scale, wy = (py - view.y) / view.scale;
  let best = null, least = 7 / view.scale;
  for (let n = 0; n < x.length && view.scale > 0.12; n++) {
    const d = Math.hypot(x[n] - wx, y[n] - wy);
    if (d < least) { least = d; best = {node: n}; }
  }
  if (best) return best;
  // A curve lies between its ends and the point that it bends to.
  const far = (at, ...ends) => Math.min(...ends) - at > least ||
    at - Math.max(...ends) > least;
  for (let e = 0; e < u.length; e++) {
    const [cx, cy] = bend(e);
    if (!groups[groupOf[e]].on || far(wx, x[u[e]], cx, x[v[e]]) ||
        far(wy, y[u[e]], cy, y[v[e]])) continue;
    let [ax, ay] = point(e, 0);
    for (let k = 1; k <= 16; k++) {
      const [bx, by] = point(e, k / 16), dx = bx - ax, dy = by - ay;
      const t = Math.min(Math.max(((wx - ax) * dx + (wy - ay) * dy) /
        (dx * dx + dy * dy || 1), 0), 1);
      const d = Math.hypot(ax + t * dx - wx, ay + t * dy - wy);
      if (d < least) { least = d; best = {edge: e}; }
      ax = bx; ay = by;
    }
  }
  return best;
}

const out = [], into = [];
for (let e = 0; e < u.length; e++) {
  if (kind[e] === 2) continue;
  (out[u[e]] ||= []).push(e);
  (into[v[e]] ||= []).push(e);
}
const count = (list) => (list || []).length;
function add(parent, tag, fields) {
  return parent.appendChild(Object.assign(document.createElement(tag), fields));
}
function text(parent, tag, content, bold) {
  if (bold) add(add(parent, tag), 'b', {textContent: content});
  else add(parent, tag, {textContent: content});
}
function showTip(px, py) {
  const tip = $('tip');
  if (!hover) { tip.style.display = 'none'; return; }
  tip.replaceChildren();
  if (hover.node !== undefined) {
    const n = hover.node;
    text(tip, 'div', 'Node ' + ids[n], true);
    text(tip, 'div', `${count(out[n])} edges out, ${count(into[n])} in`);
  } else {
    const e = hover.edge;
    text(tip, 'div', groups[groupOf[e]].name, true);
    text(tip, 'div', `${ids[u[e]]} → ${ids[v[e]]}`);
    text(tip, 'div', `label ${data.labels[label[e]]}, ${metres[e]} m` +
      (error[e] === null ? '' : `, bearing off by ${error[e]}°`));
    if (kind[e] === 1) text(tip, 'div', `crosses ${crossings[e]} other edges`);
    if (line[e]) text(tip, 'div', `first used by line ${line[e]}`);
  }
  tip.style.display = 'block';
  const w = tip.offsetWidth, h = tip.offsetHeight;
  tip.style.left = Math.min(px + 14, width - w - 8) + 'px';
  tip.style.top = (py + 18 + h > height ? py - h - 12 : py + 18) + 'px';
}

function choose(n, move) {
  chosen = n;
  $('chosen').replaceChildren();
  $('edges').replaceChildren();
  if (n >= 0) {
    text($('chosen'), 'div', 'Node ' + ids[n], true);
    for (const e of out[n] || []) {
      const onclick = () => choose(v[e], true);
      const button = add(add($('edges'), 'li'), 'button', {onclick});
      const spot = add(button, 'span', {className: 'dot'});
      spot.style.background = `var(${groups[groupOf[e]].color})`;
      button.append(`${data.labels[label[e]]} → ${ids[v[e]]}`);
    }
    if (!count(out[n])) text($('edges'), 'li', 'no edges out');
  }
  if (n >= 0 && move) {
    view.scale = Math.max(view.scale, 0.8);
    view.x = (width > 640 ? (width + 310) / 2 : width / 2) - x[n] * view.scale;
    view.y = height / 2 - y[n] * view.scale;
  }
  redraw();
}
const FATES = ['It reaches its destination by streets that exist.',
  'A direction of it is no street; a new edge stands for it, if any fits.',
  'It takes streets that exist, and ends elsewhere.',
  'It takes streets that exist, and is cut off at the greatest length.'];
const NAMES = ['valid', 'no street', 'ends elsewhere', 'cut off'];
function showRoute(r) {
  route = r && {...r, edges: []};
  $('moves').replaceChildren();
  $('fate').textContent = r ? `From ${ids[r.ends[0]]} (dot) to ${
    ids[r.ends[1]]} (ring). ${FATES[r.class]}` : '';
  if (!r) return redraw();
  const seen = [...r.ends];
  let n = r.ends[0];
  for (const move of r.moves) {
    const e = (out[n] || []).find((edge) => label[edge] === move);
    const isNew = e === undefined || groupOf[e] !== TRUE;
    const after = e === undefined ? ': no edge' :
      ` → ${ids[v[e]]}${isNew ? ', a new edge' : ''}`;
    const item = add($('moves'), 'li', {
      textContent: data.labels[move] + after});
    if (isNew) item.style.color = 'var(--away)';
    if (e === undefined) break;
    route.edges.push(e);
    seen.push(n = v[e]);
  }
  const [wide, tall] = [x, y].map((axis) => seen.map((node) => axis[node]));
  fit(Math.min(...wide), Math.max(...wide), Math.min(...tall),
    Math.max(...tall));
}
function search() {
  const wanted = $('find').value.trim();
  $('hits').replaceChildren();
  if (!wanted) return;
  const found = [];
  for (let n = 0; n < ids.length && found.length < 6; n++) {
    if (ids[n].startsWith(wanted)) found.push(n);
  }
  for (const n of found) {
    const onclick = () => choose(n, true);
    add(add($('hits'), 'li'), 'button', {textContent: ids[n], onclick});
  }
  if (!found.length) text($('hits'), 'li', 'no such node');
  return ids.indexOf(wanted) >= 0 ? ids.indexOf(wanted) : found[0];
}

const pointers = new Map();
let moved = 0;
canvas.onpointerdown = (event) => {
  canvas.setPointerCapture(event.pointerId);
  pointers.set(event.pointerId, [event.clientX, event.clientY]);
  moved = 0;
};
canvas.onpointermove = (event) => {
  const old = pointers.get(event.pointerId), now = [event.clientX, event.clientY];
  if (!old) {
    hover = under(...now);
    canvas.classList.toggle('hit', !!hover);
    showTip(...now);
    redraw();
    return;
  }
  const others = [...pointers].filter(([id]) => id !== event.pointerId);
  pointers.set(event.pointerId, now);
  moved += Math.hypot(now[0] - old[0], now[1] - old[1]);
  hover = null;
  showTip();
  if (others.length) {
    const [ax, ay] = others[0][1];
    const before = Math.hypot(old[0] - ax, old[1] - ay) || 1;
    zoomAt((ax + now[0]) / 2, (ay + now[1]) / 2,
      Math.hypot(now[0] - ax, now[1] - ay) / before);
  } else {
    canvas.classList.add('drag');
    pan(now[0] - old[0], now[1] - old[1]);
  }
};
canvas.onpointerup = canvas.onpointercancel = (event) => {
  pointers.delete(event.pointerId);
  canvas.classList.remove('drag');
  if (moved > 4 || event.type === 'pointercancel') return;
  const hit = under(event.clientX, event.clientY);
  choose(hit ? hit.node ?? u[hit.edge] : -1, false);
};
canvas.onpointerleave = () => { hover = null; showTip(); redraw(); };
canvas.addEventListener('wheel', (event) => {
  event.preventDefault();
  const step = event.deltaMode === 1 ? 18 : 1;
  zoomAt(event.clientX, event.clientY, Math.exp(-event.deltaY * step * 0.0016));
}, {passive: false});
canvas.ondblclick = (event) => zoomAt(event.clientX, event.clientY, 2);
addEventListener('keydown', (event) => {
  if (event.target === $('find')) {
    if (event.key === 'Enter') { const n = search(); if (n >= 0) choose(n, true); }
    if (event.key === 'Escape') { $('find').value = ''; search(); canvas.focus(); }
    return;
  }
  const act = {
    '+': () => zoom(1.4), '=': () => zoom(1.4), '-': () => zoom(1 / 1.4),
    '0': home, 'Escape': () => choose(-1),
    '/': () => $('find').focus(),
    'ArrowLeft': () => pan(60, 0), 'ArrowRight': () => pan(-60, 0),
    'ArrowUp': () => pan(0, 60), 'ArrowDown': () => pan(0, -60),
  }[event.key];
  if (act && !event.ctrlKey && !event.metaKey) { event.preventDefault(); act(); }
});
$('in').onclick = () => zoom(1.6);
$('out').onclick = () => zoom(1 / 1.6);
$('home').onclick = home;
$('find').oninput = search;
data.routes.forEach((r, k) => add($('route'), 'option', {value: k,
  textContent: `Line ${r.line}, ${r.moves.length} directions: ${
    NAMES[r.class]}`}));
$('route').onchange = (event) => showRoute(data.routes[event.target.value]);
$('bend').onchange = () => { build(); redraw(); };

groups.forEach((group, g) => {
  const row = add($('legend'), 'label', {className: 'row'});
  const box = add(row, 'input', {type: 'checkbox', checked: group.on});
  box.onchange = () => { group.on = box.checked; redraw(); };
  const swatch = add(row, 'span', {className: 'swatch'});
  swatch.style.borderColor = `var(${group.color})`;
  if (g === UNUSED + 1) swatch.style.borderTopStyle = 'dashed';
  text(row, 'span', group.name);
  const number = groupOf.reduce((sum, k) => sum + (k === g), 0);
  text(row, 'b', number.toLocaleString('en'));
});
build();
resize();
new ResizeObserver(resize).observe(canvas);
matchMedia('(prefers-color-scheme: dark)').onchange = redraw;
if (location.hash.length > 1) {
  const n = ids.indexOf(decodeURIComponent(location.hash.slice(1)));
  if (n >= 0) choose(n, true);
}
draw();
document.body.dataset.ready = String(u.length);
