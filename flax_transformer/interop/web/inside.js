// Pictures of one sentence on its way: attention, the next piece, the beam.

import { logSoftmax } from './search.js';
import { part, text } from './texts.js';

const SVG = 'http://www.w3.org/2000/svg';
const BARS = 10;
const MEAN = 'mean';
const COLUMN = 150, ROW = 26, LETTER = 7; // pixels of the tree

let pieces = []; // names, by id
let seen = null; // what the worker found in the sentence
let chosen = 0; // the piece that reads
let isGame = false;
let pick = null;

export function play(value) {
  isGame = value;
  document.body.classList.toggle('playing', value);
  if (value) part('kind').value = 'cross';
  chosen = 0;
  drawAttention();
}

export function makeInside(content) {
  ({ pieces, pick } = content);
  part('width').value = content.decoding.beam_width;
  part('alpha').value = content.decoding.alpha;
  showValues();
  for (const name of ['kind', 'layer', 'head']) {
    part(name).onchange = () => {
      if (name === 'kind') chosen = 0;
      drawAttention();
    };
  }
  part('temperature').oninput = () => { showValues(); drawNext(); };
  for (const name of ['width', 'alpha']) part(name).oninput = () => { showValues(); content.ask(); };
  part('query').onkeydown = (event) => {
    const move = { ArrowRight: 1, ArrowLeft: -1, Home: -chosen, End: queries().length - 1 - chosen }[event.key];
    if (move === undefined) return;
    event.preventDefault();
    choose(Math.min(Math.max(chosen + move, 0), queries().length - 1));
    part('query').children[chosen].focus();
  };
  new ResizeObserver(() => seen && drawLinks()).observe(part('query'));
}

function showValues() {
  for (const name of ['temperature', 'alpha']) part(`${name}-value`).textContent = Number(part(name).value).toFixed(1);
  part('width-value').textContent = part('width').value;
}

export function draw(content) {
  if (seen?.sentence !== content.sentence) chosen = 0;
  seen = content;
  drawAttention();
  drawTree();
  drawRanked();
}

// Pieces as people read them: the sign of a space becomes a small one.
export const shown = (piece) => piece.replaceAll('\u2581', '·') || '∅';

const start = '‹start›';
const queries = () => ({ encoder: seen.source, cross: seen.target, self: seen.target })[part('kind').value];
const keysOf = (kind) => (kind === 'self' ? [start, ...seen.target.slice(0, -1)] : seen.source);

function allWeights() {
  const kind = part('kind').value;
  if (kind === 'encoder') return seen.encoder;
  const size = kind === 'self' ? seen.target.length : seen.source.length;
  const [first] = seen.path;
  return first[kind].map((heads, layer) =>
    heads.map((_, head) =>
      seen.path.map((step) => [...step[kind][layer][head], ...Array(size).fill(0)].slice(0, size))));
}

// The rows [query][key] of the chosen layer and head.
function weights() {
  const layer = allWeights()[part('layer').value];
  const head = part('head').value;
  if (head !== MEAN) return layer[head];
  return layer[0].map((row, query) => row.map((_, key) => layer.reduce((sum, own) => sum + own[query][key], 0) / layer.length));
}

function fill(select, options, fallback) {
  const before = select.value;
  select.replaceChildren(...options.map(([text, value]) => new Option(text, value)));
  select.value = options.some(([, value]) => String(value) === before) ? before : fallback;
}

function drawAttention() {
  const layers = part('kind').value === 'encoder' ? seen.encoder.length : seen.path[0].cross.length;
  const numbers = (count) => Array.from({ length: count }, (_, i) => [i + 1, i]);
  // Of decoders, the last layer but one aligns best.
  fill(part('layer'), numbers(layers), Math.max(layers - 2, 0));
  fill(part('head'), [[text('mean'), MEAN], ...numbers(seen.heads)], MEAN);
  chosen = Math.min(chosen, queries().length - 1);
  const buttons = queries().map((piece, i) => {
    const button = document.createElement('button');
    button.type = 'button';
    button.textContent = shown(piece);
    button.onclick = () => choose(i);
    button.onmouseenter = () => choose(i);
    return button;
  });
  part('query').replaceChildren(...buttons);
  part('read').replaceChildren(...keysOf(part('kind').value).map((piece) => {
    const key = document.createElement('span');
    key.textContent = shown(piece);
    return key;
  }));
  drawMaps();
  choose(chosen);
}

export function choose(query) {
  chosen = query;
  const row = weights()[query];
  const keys = keysOf(part('kind').value);
  [...part('query').children].forEach((button, i) => {
    button.setAttribute('aria-pressed', i === query);
    button.tabIndex = i === query ? 0 : -1;
  });
  [...part('read').children].forEach((key, i) => {
    key.style.setProperty('--weight', row[i].toFixed(3));
    key.classList.toggle('much', row[i] > 0.5);
    key.title = `${(100 * row[i]).toFixed(1)} %`;
  });
  const best = row.map((weight, i) => [weight, i]).sort((a, b) => b[0] - a[0]).slice(0, 3);
  const read = best.map(([weight, i]) => `${shown(keys[i])} (${Math.round(100 * weight)} %)`).join(', ');
  const verb = part('kind').value === 'encoder' ? 'reads' : 'writes';
  part('reading').textContent = text(verb, shown(queries()[query]), read);
  drawLinks();
  drawNext();
}

function drawLinks() {
  const svg = part('links');
  const frame = svg.getBoundingClientRect();
  const from = part('query').children[chosen]?.getBoundingClientRect();
  if (!from) return;
  const lines = weights()[chosen].map((weight, i) => {
    const to = part('read').children[i].getBoundingClientRect();
    const [x1, x2] = [to, from].map((box) => box.left + box.width / 2 - frame.left);
    // Pieces may stand in several rows: lines go from the edge of the picture.
    return node('path', { d: `M${x1} 0 C${x1} 24 ${x2} 24 ${x2} 48`, 'stroke-width': 8 * weight, opacity: Math.min(1, 0.15 + weight) });
  });
  svg.replaceChildren(...lines.filter((_, i) => weights()[chosen][i] > 0.02));
}

// A small map of every head of every layer: rows read, columns are read.
function drawMaps() {
  const maps = allWeights().flatMap((heads, layer) => heads.map((rows, head) => {
    const button = document.createElement('button');
    const canvas = document.createElement('canvas');
    button.type = 'button';
    button.setAttribute('aria-label', `Layer ${layer + 1}, head ${head + 1}`);
    button.title = `layer ${layer + 1}, head ${head + 1}`;
    const isChosen = () => part('layer').value === String(layer) && [String(head), MEAN].includes(part('head').value);
    button.setAttribute('aria-pressed', isChosen());
    button.onclick = () => {
      part('layer').value = layer;
      part('head').value = head;
      drawAttention();
    };
    canvas.width = rows[0].length;
    canvas.height = rows.length;
    const context = canvas.getContext('2d');
    rows.forEach((row, y) => row.forEach((weight, x) => {
      context.fillStyle = `rgba(34, 102, 204, ${weight})`;
      context.fillRect(x, y, 1, 1);
    }));
    button.append(canvas);
    return button;
  }));
  part('maps').style.setProperty('--heads', seen.heads);
  part('maps').replaceChildren(...maps);
}

// The bars of the ten most probable pieces where the chosen one is written.
function drawNext() {
  const step = part('kind').value === 'encoder' ? 0 : chosen;
  const { gains } = seen.path[step];
  const before = seen.target.slice(0, step).join('').replaceAll('\u2581', ' ').trim();
  part('so-far').textContent = before ? `“${before}”` : text('nothing');
  const probabilities = logSoftmax(gains.map((gain) => gain / Number(part('temperature').value))).map(Math.exp);
  const order = [...probabilities.keys()].sort((a, b) => probabilities[b] - probabilities[a]).slice(0, BARS);
  if (isGame) order.sort((a, b) => ((pieces[a] ?? '') < (pieces[b] ?? '') ? -1 : 1));
  part('next').replaceChildren(...order.map((id) => {
    const [item, button] = [document.createElement('li'), document.createElement('button')];
    const percent = 100 * probabilities[id];
    const name = pieces[id] || '</s>';
    button.style.setProperty('--share', `${isGame ? 0 : percent}%`);
    button.onclick = () => pick(step, id, probabilities);
    item.classList.toggle('best', !isGame && name === seen.target[step]);
    const [piece, value] = [document.createElement('span'), document.createElement('span')];
    piece.textContent = shown(name);
    value.textContent = isGame ? '?' : `${percent < 0.1 ? '< 0.1' : percent.toFixed(1)} %`;
    button.append(piece, value);
    item.append(button);
    return item;
  }));
}

function node(name, attributes, text) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

const label = (one) => `${one.isGreedy ? '★ ' : ''}${shown(one.piece)} ${Math.round(100 * Math.exp(one.gain))} %`;

// Columns are steps, rows are ranks; each hypothesis hangs on the one that it goes on from.
function drawTree() {
  const svg = part('tree');
  const { tree } = seen;
  const rows = Math.max(...tree.map((step) => step.length));
  const [width, height] = [COLUMN * (tree.length + 0.7), ROW * (rows + 1)];
  svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
  svg.setAttribute('width', width);
  svg.setAttribute('height', height);
  const place = (step, rank) => [COLUMN * (step + 0.5), ROW * (rank + 1)];
  const lines = [];
  const texts = [node('text', { x: 4, y: ROW + 4 }, start)];
  tree.forEach((step, number) => step.forEach((one, rank) => {
    const [x, y] = place(number, rank);
    const [fromX, fromY] = one.parent < 0 ? [52, ROW] : place(number - 1, one.parent);
    const begin = one.parent < 0 ? fromX : fromX + LETTER * label(tree[number - 1][one.parent]).length + 8;
    const kind = one.isBest ? 'best' : one.state;
    lines.push(node('path', { class: kind, d: `M${begin} ${fromY} C${begin + 20} ${fromY} ${x - 20} ${y} ${x} ${y}` }));
    const text = node('text', { class: kind, x: x + 3, y: y + 4 }, label(one));
    text.append(node('title', {}, `${shown(one.piece)}: log-probability ${one.logProb.toFixed(2)}, score ${one.score.toFixed(3)}, ${kind}`));
    texts.push(text);
  }));
  svg.replaceChildren(...lines.sort((a, b) => a.classList.contains('best') - b.classList.contains('best')), ...texts);
}

function drawRanked() {
  const rows = seen.hypotheses.map((one) => {
    const row = document.createElement('tr');
    for (const text of [one.text + (one.ended ? '' : ' …'), one.logProb.toFixed(2), one.length, one.score.toFixed(3)]) {
      const cell = document.createElement('td');
      cell.textContent = text;
      row.append(cell);
    }
    return row;
  });
  part('ranked').tBodies[0].replaceChildren(...rows);
}
