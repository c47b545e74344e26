// Pictures of one sentence on its way: vectors, attention, the next piece, the beam.

import { logSoftmax } from './search.js';
import { fill, html, part, picture, shown, svg, text } from './texts.js';

const BARS = 10;
const MEAN = 'mean';
const STRIP = 64, FULL = 2; // numbers shown of a vector; the size of one in full color
const COLUMN = 150, ROW = 26, LETTER = 8; // pixels of the tree

let pieces = []; // names, by id
let seen = null; // what the worker found in the sentence
let chosen = 0; // the piece that reads
let row = []; // how much it reads of each other
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
  for (const name of ['kind', 'layer', 'head']) part(name).onchange = drawAttention;
  part('depth').onchange = drawVectors;
  for (const [name, digits, changed] of [['temperature', 1, drawNext], ['width', 0, content.ask], ['alpha', 1, content.ask]]) {
    const show = () => {
      part(`${name}-value`).textContent = Number(part(name).value).toFixed(digits);
    };
    part(name).oninput = () => { show(); changed(); };
    show();
  }
  part('query').onkeydown = (event) => {
    const move = { ArrowRight: 1, ArrowLeft: -1, Home: -chosen, End: queries().length - 1 - chosen }[event.key];
    if (move === undefined) return;
    event.preventDefault();
    choose(Math.min(Math.max(chosen + move, 0), queries().length - 1));
    part('query').children[chosen].focus();
  };
  new ResizeObserver(() => seen && drawLinks()).observe(part('query'));
}

export function draw(content) {
  if (seen?.sentence !== content.sentence) chosen = 0;
  seen = content;
  drawVectors();
  drawAttention();
  drawTree();
  drawRanked();
}

const numbers = (count) => Array.from({ length: count }, (_, i) => [i + 1, i]);

// The vectors of the source: embedding + position = what enters the encoder, and what a layer makes of it.
function drawVectors() {
  const [embedded, input, ...layers] = seen.states.map((rows) => rows.map((values) => values.slice(0, STRIP)));
  fill(part('depth'), numbers(layers.length), layers.length - 1);
  const positions = input.map((values, i) => values.map((value, at) => value - embedded[i][at]));
  const columns = [embedded, positions, input, layers[part('depth').value]];
  part('vectors').tBodies[0].replaceChildren(...seen.source.map((piece, i) => {
    const strips = columns.map((rows) => html('td', {}, picture([rows[i]], FULL)));
    return html('tr', {}, html('th', { scope: 'row' }, shown(piece)), ...strips);
  }));
}

const start = '‹start›';
const queries = () => ({ encoder: seen.source, cross: seen.target, self: seen.target })[part('kind').value];
const keysOf = (kind) => (kind === 'self' ? [start, ...seen.target.slice(0, -1)] : seen.source);

const allWeights = () => seen.attention[part('kind').value]; // [layer][head][query][key]

// The rows [query][key] of the chosen layer and head.
function weights() {
  const layer = allWeights()[part('layer').value];
  const head = part('head').value;
  if (head !== MEAN) return layer[head];
  return layer[0].map((row, query) => row.map((_, key) => layer.reduce((sum, own) => sum + own[query][key], 0) / layer.length));
}

function drawAttention() {
  const layers = allWeights().length;
  // Of decoders, the last layer but one aligns best.
  fill(part('layer'), numbers(layers), Math.max(layers - 2, 0));
  fill(part('head'), [[text('mean'), MEAN], ...numbers(seen.heads)], MEAN);
  chosen = Math.min(chosen, queries().length - 1);
  part('query').replaceChildren(...queries().map((piece, i) => {
    const look = () => choose(i);
    return html('button', { type: 'button', onclick: look, onmouseenter: look }, shown(piece));
  }));
  part('read').replaceChildren(...keysOf(part('kind').value).map((piece) => html('span', {}, shown(piece))));
  drawMaps();
  choose(chosen);
}

export function choose(query) {
  chosen = query;
  row = weights()[query];
  const keys = keysOf(part('kind').value);
  [...part('query').children].forEach((button, i) => {
    button.setAttribute('aria-pressed', i === query);
    button.tabIndex = i === query ? 0 : -1;
  });
  [...part('read').children].forEach((key, i) => {
    key.style.setProperty('--weight', row[i].toFixed(3));
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
  const frame = part('links').getBoundingClientRect();
  const from = part('query').children[chosen]?.getBoundingClientRect();
  if (!from) return;
  const lines = row.map((weight, i) => {
    const to = part('read').children[i].getBoundingClientRect();
    const [x1, x2] = [to, from].map((box) => box.left + box.width / 2 - frame.left);
    // Pieces may stand in several rows: lines go from the edge of the picture.
    return svg('path', { d: `M${x1} 0 C${x1} 24 ${x2} 24 ${x2} 48`, 'stroke-width': 8 * weight, opacity: 0.15 + weight });
  });
  part('links').replaceChildren(...lines.filter((_, i) => row[i] > 0.02));
}

// A small map of every head of every layer: rows read, columns are read.
function drawMaps() {
  const isChosen = (layer, head) => part('layer').value === String(layer) && [String(head), MEAN].includes(part('head').value);
  const maps = allWeights().map((heads, layer) => {
    const buttons = heads.map((rows, head) => {
      const name = text('map', layer + 1, head + 1);
      const onclick = () => {
        part('layer').value = layer;
        part('head').value = head;
        drawAttention();
      };
      return html('button', { type: 'button', title: name, 'aria-pressed': isChosen(layer, head), onclick }, picture(rows));
    });
    return [html('span', {}, text('layer', layer + 1)), ...buttons];
  });
  part('maps').style.setProperty('--heads', seen.heads);
  part('maps').replaceChildren(...maps.flat());
}

// The bars of the ten most probable pieces where the chosen one is written.
function drawNext() {
  const step = part('kind').value === 'encoder' ? 0 : chosen;
  const before = seen.target.slice(0, step).join('').replaceAll('\u2581', ' ').trim();
  part('so-far').textContent = before ? `“${before}”` : text('nothing');
  const probabilities = logSoftmax(seen.gains[step].map((gain) => gain / Number(part('temperature').value))).map(Math.exp);
  const order = [...probabilities.keys()].sort((a, b) => probabilities[b] - probabilities[a]).slice(0, BARS);
  if (isGame) order.sort((a, b) => ((pieces[a] ?? '') < (pieces[b] ?? '') ? -1 : 1));
  part('next').replaceChildren(...order.map((id) => {
    const percent = 100 * probabilities[id];
    const name = pieces[id] || '</s>';
    const value = isGame ? '?' : `${percent < 0.1 ? '< 0.1' : percent.toFixed(1)} %`;
    const labels = [shown(name), value].map((label) => html('span', {}, label));
    const look = { style: `--share: ${isGame ? 0 : percent}%`, class: !isGame && name === seen.target[step] ? 'best' : '' };
    return html('li', {}, html('button', { type: 'button', ...look, onclick: () => pick(step, id, probabilities) }, ...labels));
  }));
}

const label = (one) => `${one.isGreedy ? '★ ' : ''}${shown(one.piece)} ${Math.round(100 * Math.exp(one.gain))} %`;

// Columns are steps, rows are ranks; each hypothesis hangs on the one that it goes on from.
function drawTree() {
  const { tree } = seen;
  const rows = Math.max(...tree.map((step) => step.length));
  const [width, height] = [COLUMN * (tree.length + 0.7), ROW * (rows + 1)];
  for (const [key, value] of Object.entries({ viewBox: `0 0 ${width} ${height}`, width, height })) part('tree').setAttribute(key, value);
  const place = (step, rank) => [COLUMN * (step + 0.5), ROW * (rank + 1)];
  const lines = [];
  const texts = [svg('text', { x: 4, y: ROW + 4 }, start)];
  tree.forEach((step, number) => step.forEach((one, rank) => {
    const [x, y] = place(number, rank);
    const [fromX, fromY] = one.parent < 0 ? [52, ROW] : place(number - 1, one.parent);
    const begin = one.parent < 0 ? fromX : fromX + Math.min(LETTER * label(tree[number - 1][one.parent]).length, COLUMN - 20);
    const kind = one.isBest ? 'best' : one.state;
    const title = text('hypothesis', shown(one.piece), one.logProb.toFixed(2), one.score.toFixed(3));
    lines.push(svg('path', { class: kind, d: `M${begin} ${fromY} C${begin + 20} ${fromY} ${x - 20} ${y} ${x} ${y}` }));
    texts.push(svg('text', { class: kind, x: x + 3, y: y + 4 }, label(one), svg('title', {}, title)));
  }));
  part('tree').replaceChildren(...lines.sort((a, b) => a.classList.contains('best') - b.classList.contains('best')), ...texts);
}

function drawRanked() {
  part('ranked').tBodies[0].replaceChildren(...seen.hypotheses.map((one, i) => {
    const cells = [one.text + (one.ended ? '' : ' …'), one.logProb.toFixed(2), one.tokens.length, one.score.toFixed(3)];
    return html('tr', { class: i ? '' : 'best' }, ...cells.map((cell) => html('td', {}, cell)));
  }));
}
