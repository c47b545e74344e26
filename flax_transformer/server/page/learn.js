// Corrects translations: the server remembers and learns them. Shows what it remembers, and takes it back.

import { ask, at, make, showError } from './ask.js';

let shownNow = () => null; // the translation that is shown
let changed = () => {}; // called when the memory has changed
let newest = 0; // version of what was learned

const percent = (share) => `${Math.round(100 * share)} %`;

async function attempt(work) {
  showError('');
  try {
    await work();
  } catch (error) {
    showError(error.message);
  }
}

function edit(isOpen) {
  at('correction').hidden = !isOpen;
  at('translation').hidden = isOpen;
  if (isOpen) {
    at('corrected').value = shownNow().reply.text.trim();
    at('corrected').focus();
  }
}

// A pair for each line, if both sides have as many; else the whole texts are one.
function pairsOf(text, translation) {
  const sides = [text, translation].map((side) => side.split('\n').map((line) => line.trim()).filter(Boolean));
  const [texts, translations] = sides;
  if (texts.length !== translations.length) return [{ text, translation }];
  return texts.map((line, number) => ({ text: line, translation: translations[number] }));
}

async function use() {
  const { text, target, reply } = shownNow();
  const pairs = pairsOf(text, at('corrected').value);
  await ask('v1/memory', { pairs, source: reply.source, target });
  edit(false);
  await list();
  at('lesson').textContent = 'Remembered. The model learns from it now.';
  changed();
}

async function list() {
  const { pairs, version, learned } = await ask('v1/memory', null, undefined, 'GET');
  newest = learned;
  at('memory').hidden = !pairs.length;
  at('memory-count').textContent = `${pairs.length}${learned < version ? ', the newest not learned yet' : ''}`;
  at('memory-pairs').replaceChildren(...pairs.map(({ number, text, translation, source, target }) => {
    const item = make('li');
    item.append(make('span', text, { lang: source, dir: 'auto' }), make('span', translation, { lang: target, dir: 'auto' }));
    const button = make('button', 'Take back', { type: 'button', ariaLabel: `Take back: ${translation}` });
    button.addEventListener('click', () => attempt(async () => {
      await ask(`v1/memory/${number}`, null, undefined, 'DELETE');
      await list();
      changed();
    }));
    item.append(button);
    return item;
  }));
}

// What the memory has that is like the text, and whether the translation comes from it.
export function showMatches(shown) {
  edit(false);
  at('correct').disabled = !shown;
  at('lesson').textContent = shown?.reply.version ? `Version ${shown.reply.version} of what was learned.` : '';
  if (shown && shown.reply.version !== newest) attempt(list);
  const matches = shown?.reply.memory || [];
  at('matches').hidden = !matches.length;
  at('matches-list').replaceChildren(...matches.map(({ similarity, text, translation }) => {
    const item = make('li');
    item.append(make('b', percent(similarity)), make('span', text), make('span', translation));
    return item;
  }));
}

// `current` gives the translation that is shown; `retranslate` asks for it again.
export function listenForCorrections(settings, current, retranslate) {
  shownNow = current;
  changed = retranslate;
  at('correct').hidden = !settings.suggestions;
  if (!settings.suggestions) return;
  at('correct').addEventListener('click', () => edit(true));
  at('use').addEventListener('click', () => attempt(use));
  at('cancel').addEventListener('click', () => edit(false));
  at('corrected').addEventListener('keydown', (event) => {
    if (event.key === 'Escape') edit(false);
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) attempt(use);
  });
  if (!settings.keyRequired || at('key').value) attempt(list);
  at('key').addEventListener('change', () => attempt(list));
}
