'use strict';
const takes = JSON.parse(document.getElementById('data').textContent);
const byId = id => document.getElementById(id);
const sky = byId('sky'), pen = sky.getContext('2d'), time = byId('time');
const SUN = '#ffd166', PLANET = '#8ecae6', MODEL = '#ef476f';
let take = takes[0], frame = 0, playing = null, scale = 1, middle = [0, 0];

function choose() {
  take = takes[+byId('which').value];
  time.max = take.true.length - 1;
  const xs = take.true.flat().map(p => p[0]);
  const ys = take.true.flat().map(p => p[1]);
  const low = [Math.min(...xs), Math.min(...ys)];
  const high = [Math.max(...xs), Math.max(...ys)];
  middle = [0, 1].map(k => (low[k] + high[k]) / 2);
  const size = Math.max(high[0] - low[0], high[1] - low[1]);
  scale = 0.8 * sky.width / (size || 1);
  // Where the model has gone on by itself for a while.
  show(Math.floor((take.start + take.true.length) / 2));
}

const at = p => [
  sky.width / 2 + scale * (p[0] - middle[0]),
  sky.height / 2 - scale * (p[1] - middle[1]),
];

// What the model says of a frame: by itself where that is shown and begun.
function said(n) {
  return byId('alone').checked && n >= take.start ? take.alone[n]
    : take.one_step[n];
}

function line(points, colour, dash) {
  pen.beginPath();
  pen.setLineDash(dash);
  points.forEach((p, n) => n ? pen.lineTo(...at(p)) : pen.moveTo(...at(p)));
  pen.strokeStyle = colour;
  pen.stroke();
  pen.setLineDash([]);
}

function arrow(from, by, colour, head = true) {
  const [x, y] = at(from), dx = by[0], dy = -by[1];
  const size = Math.hypot(dx, dy), turn = Math.atan2(dy, dx);
  pen.strokeStyle = colour;
  pen.lineWidth = 2.5;
  pen.beginPath();
  pen.moveTo(x, y);
  pen.lineTo(x + dx, y + dy);
  if (head && size > 4) for (const side of [2.6, -2.6]) {
    pen.moveTo(x + dx, y + dy);
    pen.lineTo(x + dx + 9 * Math.cos(turn + side),
      y + dy + 9 * Math.sin(turn + side));
  }
  pen.stroke();
  pen.lineWidth = 1.5;
}

// AU / year^2, of the body in a frame; null at both ends of the film.
function acceleration(body, n, next) {
  if (n < 1 || n + 1 >= take.true.length || !next) return null;
  const path = next === take.true ? take.true : take.seen;
  return [0, 1].map(k => (next[n + 1][body][k] - 2 * path[n][body][k]
    + path[n - 1][body][k]) / take.years ** 2);
}

function arrows(body) {
  const most = Math.max(...take.true.map((_, n) => {
    const a = acceleration(body, n, take.true);
    return a ? Math.hypot(...a) : 0;
  }));
  const size = 0.16 * sky.width / (most || 1);
  for (const [next, colour] of [[take.true, PLANET], [take.one_step, MODEL]]) {
    const a = acceleration(body, frame, next);
    if (a) arrow(take.true[frame][body], a.map(v => v * size), colour);
  }
}

// Longest arrow, in parts of the largest true force.
const LONGEST = 3;

// Forces on a body from all of its places, and strong ones from where it is.
function forces(body) {
  const size = 0.13 * sky.width;
  for (const [all, colour] of [[take.force, PLANET], [take.told_force, MODEL]]) {
    all.forEach((vectors, n) => {
      const by = vectors[body];
      if (by[0] === null) return;
      const long = Math.hypot(...by), cut = Math.min(1, LONGEST / long);
      arrow(take.true[n][body], by.map(v => v * cut * size),
        n === frame ? colour : colour + '50', cut === 1);
    });
  }
}

// Root mean square over bodies and coordinates in each frame, in bins.
function errors(path) {
  return path.map((bodies, n) => {
    const parts = bodies.flatMap((p, body) => p.map((v, k) =>
      v === null || n < 2 ? null : (v - take.true[n][body][k]) / take.width));
    if (parts.includes(null)) return null;
    return Math.sqrt(parts.reduce((sum, v) => sum + v * v, 0) / parts.length);
  });
}

// The errors of all frames, with a bar at this one.
function curve() {
  const box = byId('curve'), ink = box.getContext('2d');
  const [wide, high, edge] = [box.width, box.height, 34];
  const both = [errors(take.one_step), errors(take.alone)];
  const most = Math.max(1, ...both.flat().filter(v => v !== null));
  const x = n => edge + (wide - 2 * edge) * n / (take.true.length - 1);
  const y = v => high - edge - (high - 2 * edge) * v / most;
  ink.clearRect(0, 0, wide, high);
  ink.lineWidth = 1.5;
  ink.strokeStyle = '#ffffff60';
  ink.strokeRect(edge, edge, wide - 2 * edge, high - 2 * edge);
  ink.fillStyle = '#ffffffc0';
  ink.font = '20px system-ui, sans-serif';
  ink.fillText(`error, up to ${most.toPrecision(2)} bins`, edge, edge - 10);
  both.forEach((values, k) => {
    ink.beginPath();
    let joined = false;
    values.forEach((v, n) => {
      if (v === null) return;
      ink[joined ? 'lineTo' : 'moveTo'](x(n), y(v));
      joined = true;
    });
    ink.setLineDash(k ? [] : [4, 6]);
    ink.strokeStyle = MODEL;
    ink.lineWidth = k ? 3 : 2;
    ink.stroke();
  });
  ink.setLineDash([]);
  ink.strokeStyle = SUN;
  ink.beginPath();
  ink.moveTo(x(frame), edge);
  ink.lineTo(x(frame), high - edge);
  ink.stroke();
  const shown = both.map(values => values[frame]);
  const texts = ['next position', 'by itself'].map((name, k) =>
    shown[k] === null ? '' : `${name} ${shown[k].toFixed(2)}`);
  byId('off').textContent = texts.filter(Boolean).join(', ');
}

function show(n) {
  frame = n;
  time.value = n;
  pen.clearRect(0, 0, sky.width, sky.height);
  pen.lineWidth = 1.5;
  const bodies = take.true[0].length;
  for (let body = 0; body < bodies; body++) {
    const sun = body === bodies - 1, colour = sun ? SUN : PLANET;
    line(take.true.map(f => f[body]), colour + '40', []);
    line(take.true.slice(0, n + 1).map(f => f[body]), colour, []);
    const from = byId('alone').checked ? take.start : 2;
    const path = [];
    for (let k = Math.min(from, n + 1); k <= n; k++) path.push(said(k)[body]);
    line(path, MODEL, [5, 5]);
    pen.fillStyle = colour;
    pen.beginPath();
    pen.arc(...at(take.true[n][body]), sun ? 9 : 6, 0, 7);
    pen.fill();
    if (n >= 1) {
      pen.strokeStyle = MODEL;
      pen.lineWidth = 2.5;
      pen.beginPath();
      pen.arc(...at(said(n)[body]), sun ? 13 : 10, 0, 7);
      pen.stroke();
      pen.lineWidth = 1.5;
    }
    if (byId('arrows').checked && !sun) arrows(body);
    if (byId('forces')?.checked && !sun) forces(body);
  }
  const alone = byId('alone').checked && n >= take.start;
  byId('when').textContent = `frame ${n}, ${(n * take.years).toFixed(2)} years`
    + (alone ? ', by itself' : '');
  curve();
}

function play() {
  if (playing) {
    clearInterval(playing);
    playing = null;
  } else {
    playing = setInterval(() => show((frame + 1) % take.true.length), 160);
  }
  byId('play').textContent = playing ? 'Pause' : 'Play';
}

byId('play').onclick = play;
byId('which').onchange = choose;
time.oninput = () => show(+time.value);
for (const id of ['alone', 'arrows', 'forces']) {
  if (byId(id)) byId(id).onchange = () => show(frame);
}
document.onkeydown = event => {
  if (event.key === ' ' && event.target === document.body) {
    event.preventDefault();
    play();
  }
};
choose();
// #system,frame in the address shows that at once, with arrows; of forces,
// where there are some.
const wanted = location.hash.slice(1).split(',').map(Number);
if (location.hash && wanted.length === 2 && takes[wanted[0]]) {
  byId('which').value = wanted[0];
  byId(byId('forces') ? 'forces' : 'arrows').checked = true;
  choose();
  show(Math.min(wanted[1], take.true.length - 1));
}
