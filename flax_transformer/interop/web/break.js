// Break it and see: parts of the model that are off, pieces that the reader forces, and a game of guessing them.

import { choose, play } from './inside.js';
import { part, shown, text } from './texts.js';

const SWITCHES = ['heads', 'positions', 'scale', 'residuals'];

const off = new Set(); // see Model.switches
let forced = [];
let seen = null;
let game = null;
let ask = null;

// What the worker is to change in this sentence.
export function changes(sentence) {
  if (seen?.sentence !== sentence) forced = [];
  return { broken: [...off], forced };
}

// The names in `off` of a switch, given what is chosen under "What attends to what".
function names(id) {
  const [kind, layer, head] = ['kind', 'layer', 'head'].map((name) => part(name).value);
  const stack = kind === 'encoder' ? kind : 'decoder';
  if (id === 'residuals') return [`${stack}/${id}/${layer}`];
  if (id !== 'heads') return [`encoder/${id}/0`, `decoder/${id}/0`];
  const heads = head === 'mean' ? [...Array(seen.heads).keys()] : [Number(head)];
  return heads.map((one) => `${stack}/${kind === 'cross' ? kind : 'self'}_heads/${layer * seen.heads + one}`);
}

export function makeBreak(content) {
  ask = content.ask;
  part('scaled').hidden = !content.canScale;
  for (const id of SWITCHES) {
    part(id).onchange = () => {
      for (const name of names(id)) off[part(id).checked ? 'add' : 'delete'](name);
      ask();
    };
  }
  for (const id of ['kind', 'layer', 'head']) part(id).addEventListener('change', show);
  part('repair').onclick = () => {
    off.clear();
    forced = [];
    ask();
  };
  part('play').onclick = () => {
    game = game ? null : { count: 0, hits: 0, sum: 0 };
    part('score').textContent = '';
    play(Boolean(game));
  };
}

// Forces a piece, or guesses it.
export function pick(step, id, probabilities) {
  if (!game) {
    forced = [...seen.tokens.slice(0, step), id];
    ask();
    return;
  }
  const own = seen.tokens[step];
  const percent = (token) => Math.round(100 * probabilities[token]);
  game.count += 1;
  game.hits += id === own;
  game.sum += percent(id);
  const mean = Math.round(game.sum / game.count);
  part('score').textContent = text('guess', percent(id), shown(seen.target[step]), percent(own), game.hits, game.count, mean);
  if (step + 1 < seen.target.length) return choose(step + 1);
  game = null;
  play(false);
}

function show() {
  for (const id of SWITCHES) part(id).checked = names(id).every((name) => off.has(name));
}

export function showBroken(content) {
  if (game && content.text !== seen.text) part('play').click();
  seen = content;
  show();
  const isBroken = off.size || forced.length;
  part('repair').disabled = !isBroken;
  part('broken').textContent = isBroken ? text('broken', content.text, content.plain) : '';
}
