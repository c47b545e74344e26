// Break it and see: parts of the model that are off, pieces that the reader forces, and a game of guessing them.

import { choose, drawAttention, place } from './inside.js';
import { html, joined, part, percent, renew, shown, text } from './texts.js';

const SWITCHES = ['heads', 'positions', 'scale', 'residuals'];

const off = new Map(); // choices by their messages
let forced = [];
let seen = null;
export let game = null; // a game of guessing, while it goes on
let ask = null;

// What the worker is to change in this sentence.
export function changes(sentence) {
  if (seen?.sentence !== sentence) forced = [];
  return { broken: [...off.values()].flatMap((one) => one.inputs), forced };
}

// What a switch turns off, by what is chosen in the pictures: a message with its values; see Model.switches.
function choice(id) {
  const { layer, head } = place;
  const kind = part('kind').value;
  const stack = kind === 'encoder' ? kind : 'decoder';
  if (id === 'residuals') return { message: [`off-${stack}`, layer + 1], inputs: [`${stack}/${id}/${layer}`] };
  if (id !== 'heads') return { message: [`off-${id}`], inputs: [`encoder/${id}/0`, `decoder/${id}/0`] };
  const heads = head ? [head] : Array.from({ length: seen.heads }, (_, i) => i + 1);
  return {
    message: [`off-${id}-${kind}`, heads.join(', '), layer + 1],
    inputs: heads.map((one) => `${stack}/${kind === 'cross' ? kind : 'self'}_heads/${layer * seen.heads + one - 1}`),
  };
}

export function makeBreak(content) {
  ask = content.ask;
  part('scaled').hidden = !content.canScale;
  for (const id of SWITCHES) {
    part(id).onchange = () => {
      const own = choice(id);
      const key = `${own.message}`;
      if (!off.delete(key)) off.set(key, own);
      ask();
    };
  }
  part('repair').onclick = () => {
    off.clear();
    forced = [];
    ask();
  };
  part('play').onclick = () => {
    part('score').textContent = '';
    play(game ? null : { count: 0, hits: 0 });
  };
}

function play(value) {
  game = value;
  part('play').ariaPressed = Boolean(game);
  if (game) part('kind').value = 'cross';
  choose(0);
  drawAttention();
}

// Forces a piece, or guesses it.
export function pick(step, id, probabilities) {
  if (!game) {
    forced = [...seen.tokens.slice(0, step), id];
    ask();
    return;
  }
  const own = seen.tokens[step];
  game.count += 1;
  game.hits += id === own;
  const shares = [id, own].map((token) => percent(probabilities[token]));
  part('score').textContent = text('guess', shares[0], shown(seen.target[step]), shares[1], game.hits, game.count);
  if (step + 1 < seen.target.length) return choose(step + 1);
  play(null);
}

export function showSwitches() {
  for (const id of SWITCHES) {
    const { message } = choice(id);
    part(id).checked = off.has(`${message}`);
    part(`${id}-name`).textContent = text(...message);
  }
}

export function showBroken(content) {
  if (game && content.text !== seen.text) part('play').click();
  seen = content;
  const chips = [...off].map(([key, { message }]) => [text('without', text(...message)), () => off.delete(key)]);
  if (forced.length) chips.push([text('forced', joined(seen.target.slice(0, forced.length))), () => (forced = [])]);
  if (!chips.length && part('bar').contains(document.activeElement)) part('heads').focus({ preventScroll: true });
  renew(part('chips'), chips.map(([name, mend]) => html('button', { type: 'button', onclick: () => { mend(); ask(); } }, `${name} ×`)));
  part('whole').textContent = content.plain;
  part('broken').textContent = chips.length ? content.text : '';
  part('verdict').textContent = text(content.text === content.plain ? 'same' : 'differs');
  for (const id of ['bar', 'compared']) part(id).hidden = !chips.length;
}
