// The words of the text and of its translation: how sure the model is of them, and which come from which.

import { ask, at, make, showError } from './ask.js';

const SPACES = /((?:[^\S\ufeff]|[\x1c-\x1f\x85])+)/; // where Python's split() parts words
const LINE_ENDS = /(\r\n|\r|\n)/;
// Of 400 sentences of Tatoeba by `everyday`, 11 % of the words are below; 73 % of these are not in the reference.
const UNSURE = 0.3;

let shown = null; // the translation whose words are shown
let words = []; // of it: { line, index, element }
let chosen = -1;

// Puts a text into an element, each word in one of its own. Gives the words; blank lines are not counted.
function fill(parent, text) {
  const filled = [];
  let line = -1;
  parent.replaceChildren();
  for (const part of text.split(LINE_ENDS)) {
    if (part.trim()) line += 1;
    let index = 0;
    for (const piece of part.split(SPACES)) {
      if (SPACES.test(piece) || !piece) {
        parent.append(piece);
      } else {
        const element = make('span', piece);
        parent.append(element);
        filled.push({ line, index, element });
        index += 1;
      }
    }
  }
  return filled;
}

// Lies under the text, gives it its height, and marks its words.
export function mirror() {
  at('mirror').textContent = `${at('text').value}\u200b`; // a last line end has height, too
}

export function showWords(translation) {
  shown = translation;
  chosen = -1;
  mirror();
  const reply = shown?.reply;
  words = fill(at('translation'), reply?.text || '');
  let unsure = 0;
  for (const word of words) {
    word.sure = reply.lines[word.line]?.word_quality?.[word.index];
    if (word.sure < UNSURE) {
      word.element.classList.add('unsure');
      unsure += 1;
    }
  }
  at('origin').textContent = reply?.lines.length ? 'Choose a word to see where it comes from.' : '';
  showVerdict(reply?.lines || [], unsure);
}

// By colour and in words.
function showVerdict(lines, unsure) {
  const doubtful = lines.filter((line) => line.doubtful).length;
  const counted = `${unsure} ${unsure === 1 ? 'word' : 'words'}, underlined`;
  const verdict = [];
  if (doubtful && lines.length > 1) verdict.push(`${doubtful} of ${lines.length} lines are doubtful.`);
  if (doubtful && lines.length === 1) verdict.push('Doubtful: check it.');
  if (unsure) verdict.push(`The model is unsure of ${counted}.`);
  at('verdict').textContent = verdict.join(' ');
  at('verdict').classList.toggle('doubtful', doubtful > 0);
}

async function choose(number) {
  const translation = shown;
  if (!translation?.reply.lines.length || !words[number]) return;
  chosen = number;
  const { line, index, element, sure } = words[number];
  words.forEach((word, i) => word.element.classList.toggle('chosen', i === number));
  element.scrollIntoView({ block: 'nearest' });
  at('origin').textContent = `${element.textContent} ← …`;
  try {
    const { text, target, reply } = translation;
    const body = { text, source: reply.source, target, alignment: true };
    translation.lines ||= (await ask('v1/translate', body)).translations[0].lines;
  } catch (error) {
    showError(error.message);
    return;
  }
  if (translation !== shown || number !== chosen) return;
  const pairs = translation.lines[line]?.alignment || [];
  const origins = pairs.filter((pair) => pair[1] === index).map((pair) => pair[0]);
  const sources = fill(at('mirror'), translation.text);
  const marked = sources.filter((word) => word.line === line && origins.includes(word.index));
  at('mirror').append('\u200b');
  marked.forEach((word) => word.element.classList.add('marked'));
  const from = marked.map((word) => word.element.textContent).join(' ') || 'no word';
  const share = sure === undefined ? '' : `; probably right: ${Math.round(100 * sure)} %`;
  at('origin').textContent = `${element.textContent} ← ${from}${share}`;
}

export function listenForWords() {
  at('translation').addEventListener('click', (event) => {
    choose(words.findIndex((word) => word.element === event.target));
  });
  at('translation').addEventListener('keydown', (event) => {
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -1, ArrowDown: 1 };
    if (!(event.key in steps) || event.ctrlKey || event.metaKey || event.altKey || !words.length) return;
    event.preventDefault();
    const isReversed = at('translation').dir === 'rtl' && event.key.match(/Left|Right/);
    const next = chosen + steps[event.key] * (isReversed ? -1 : 1);
    choose(Math.max(0, Math.min(next, words.length - 1)));
  });
}
