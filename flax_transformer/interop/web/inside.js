// Pictures of one sentence on its way: vectors, attention, the next piece, the beam.

import { game, pick, showSwitches } from './break.js';
import { logSoftmax } from './search.js';
import { fill, html, joined, number, part, percent, picture, renew, shown, svg, text } from './texts.js';

const BARS = 10;
const SLIDERS = ['temperature', 'width', 'alpha'];
const STRIP = 64, FULL = 2; // numbers shown of a vector; the size of one in full color
const PIECE = 1.8; // rem, as in page.css
const GAP = 24, ROW = 38; // pixels of the tree, between columns and from row to row

let pieces = []; // names, by id
let seen = null; // what the worker found in the sentence
let chosen = 0; // the piece that reads
let row = []; // how much it reads of each other
export const place = { layer: -1, head: 0 }; // head 0 is the mean of all

export function makeInside(content) {
  pieces = content.pieces;
  part('width').value = content.decoding.beam_width;
  part('alpha').value = content.decoding.alpha;
  part('kind').onchange = drawAttention;
  part('depth').onchange = drawVectors;
  for (const name of SLIDERS) {
    part(name).oninput = () => {
      showSliders();
      (name === 'temperature' ? drawNext : content.ask)();
    };
  }
}

function showSliders() {
  for (const name of SLIDERS) part(`${name}-value`).textContent = part(name).value.replace('.', text('point'));
}

export function draw(content) {
  if (seen?.sentence !== content.sentence) chosen = 0;
  seen = content;
  showSliders();
  drawVectors();
  drawAttention();
  drawTree();
  drawRanked();
}

const radio = (name, checked, onchange, ariaLabel = null) => html('input', { type: 'radio', name, checked, onchange, ariaLabel });

// The vectors of the source: embedding + position = what enters the encoder, and what a layer makes of it.
function drawVectors() {
  const [embedded, input, ...layers] = seen.states.map((rows) => rows.map((values) => values.slice(0, STRIP)));
  fill(part('depth'), layers.map((_, i) => [`${i + 1} / ${layers.length}`, i]), layers.length - 1);
  const positions = input.map((values, i) => values.map((value, at) => value - embedded[i][at]));
  const columns = [embedded, positions, input, layers[part('depth').value]];
  part('vectors').tBodies[0].replaceChildren(...seen.source.map((piece, i) => {
    const strips = columns.map((rows) => html('td', {}, picture([rows[i]], FULL)));
    return html('tr', {}, html('th', { scope: 'row' }, shown(piece)), ...strips);
  }));
}

const start = '‹start›';
const kind = () => part('kind').value;
const queries = () => (kind() === 'encoder' ? seen.source : seen.target);
const keys = () => (kind() === 'self' ? [start, ...seen.target.slice(0, -1)] : seen.source);

// [layer][head][query][key], before each layer's heads their mean.
const maps = () => seen.attention[kind()].map((heads) => {
  const mean = (query, key) => heads.reduce((sum, own) => sum + own[query][key], 0) / heads.length;
  return [heads[0].map((row, query) => row.map((_, key) => mean(query, key))), ...heads];
});

export function drawAttention() {
  chosen = Math.min(chosen, queries().length - 1);
  renew(part('query'), queries().map((piece, i) => html('label', {}, radio('query', i === chosen, () => choose(i)), shown(piece))));
  choose(chosen);
  part('about-self').hidden = kind() !== 'self';
  showSwitches();
}

export function choose(query) {
  chosen = query;
  // Of decoders, the last layer but one aligns best.
  if (!maps()[place.layer]) place.layer = Math.max(maps().length - 2, 0);
  row = maps()[place.layer][place.head][query];
  drawMaps();
  const look = (i) => ({ style: `--weight: ${row[i]}`, title: percent(row[i]) });
  part('read').replaceChildren(...keys().map((piece, i) => html('span', look(i), shown(piece))));
  const best = row.map((weight, i) => [weight, i]).sort((a, b) => b[0] - a[0]).slice(0, 3);
  const read = best.map(([weight, i]) => text('share', shown(keys()[i]), percent(weight))).join(', ');
  const verb = kind() === 'encoder' ? 'reads' : 'writes';
  part('reading').textContent = text(best[0][0] ? verb : 'off', shown(queries()[query]), read);
  drawLinks();
  drawNext();
}

function drawLinks() {
  const lines = row.map((weight, i) => {
    const [from, to] = [i + 0.5, chosen + 0.5];
    return svg('path', { d: `M0 ${from} C50 ${from} 50 ${to} 100 ${to}`, 'stroke-width': 8 * weight, opacity: 0.15 + weight });
  });
  const height = Math.max(row.length, queries().length);
  part('links').setAttribute('viewBox', `0 0 100 ${height}`);
  part('links').style.height = `${height * PIECE}rem`;
  part('links').replaceChildren(...lines.filter((_, i) => row[i] > 0.02));
}

// A map of every head of every layer: rows read columns. The first column marks the chosen row.
function drawMaps() {
  const all = maps();
  const names = all[0].map((_, head) => text(head ? 'head' : 'mean', head));
  const rows = all.map((heads, layer) => {
    const title = text('layer', layer + 1, all.length);
    const labels = heads.map((weights, head) => {
      const change = () => {
        Object.assign(place, { layer, head });
        drawAttention();
      };
      const input = radio('map', layer === place.layer && head === place.head, change, `${title}, ${names[head]}`);
      return html('label', {}, input, picture(weights.map((own, i) => [i === chosen ? -1 : 0, ...own])));
    });
    return [html('span', {}, title), ...labels];
  });
  part('maps').style = `--heads: ${names.length}`;
  renew(part('maps'), [html('span'), ...names.map((name) => html('span', {}, name)), ...rows.flat()]);
}

// The bars of the ten most probable pieces where the chosen one is written.
function drawNext() {
  const step = kind() === 'encoder' ? 0 : chosen;
  const before = joined(seen.target.slice(0, step));
  part('so-far').textContent = before ? text('quoted', before) : text('nothing');
  const probabilities = logSoftmax(seen.gains[step].map((gain) => gain / Number(part('temperature').value))).map(Math.exp);
  const order = [...probabilities.keys()].sort((a, b) => probabilities[b] - probabilities[a]).slice(0, BARS);
  if (game) order.sort((a, b) => ((pieces[a] ?? '') < (pieces[b] ?? '') ? -1 : 1));
  renew(part('next'), order.map((id) => {
    const name = pieces[id] || '</s>';
    const labels = [shown(name), game ? '?' : percent(probabilities[id])].map((label) => html('span', {}, label));
    const button = html('button', { type: 'button', onclick: () => pick(step, id, probabilities) }, ...labels);
    if (!game) button.style = `--share: ${100 * probabilities[id]}%`;
    if (!game && name === seen.target[step]) button.className = 'best';
    return html('li', {}, button);
  }));
}

// Columns are steps, rows are ranks; each hypothesis hangs on the one that it goes on from.
function drawTree() {
  const tree = part('tree');
  const lines = [];
  let x = 4;
  const column = (texts) => {
    tree.append(...texts);
    const ends = texts.map((own) => x + own.getBBox().width + 4);
    x = Math.max(...ends) + GAP;
    return ends;
  };
  tree.replaceChildren();
  let ends = column([svg('text', { x, y: ROW / 2 }, start)]);
  for (const step of seen.tree) {
    const kinds = step.map((one) => (one.isBest ? 'best' : one.state));
    step.forEach(({ parent }, rank) => {
      const [from, to] = [parent, rank].map((row) => ROW * (row + 0.5));
      const [left, edge] = [ends[parent], x - GAP];
      lines.push(svg('path', { class: kinds[rank], d: `M${left} ${from} H${edge} C${edge + 16} ${from} ${edge + 12} ${to} ${x - 4} ${to}` }));
    });
    ends = column(step.map((one, rank) => {
      const y = ROW * (rank + 0.5);
      const name = `${one.isGreedy ? '★ ' : ''}${shown(one.piece)}${one.state === 'ended' ? ` → ${number(one.score, 3)}` : ''}`;
      const below = svg('tspan', { x, dy: 14 }, number(one.logProb, 2));
      return svg('text', { class: kinds[rank], x, y }, name, below);
    }));
  }
  tree.prepend(...lines);
  const height = ROW * Math.max(...seen.tree.map((step) => step.length));
  tree.setAttribute('viewBox', `0 0 ${x} ${height}`);
  tree.style.width = `${x}px`;
}

function drawRanked() {
  part('ranked').tBodies[0].replaceChildren(...seen.hypotheses.map((one, i) => {
    const cells = [one.text + (one.ended ? '' : ' …'), number(one.logProb, 2), one.tokens.length, number(one.score, 3)];
    return html('tr', { className: i ? '' : 'best' }, ...cells.map((cell) => html('td', {}, cell)));
  }));
  const [best] = seen.hypotheses;
  const key = best.text === seen.greedy.text ? 'greedy-same' : 'greedy-other';
  part('greedy').textContent = text(key, seen.greedy.text, number(seen.greedy.score, 3), number(best.score, 3));
}
