// The page: text in, translation out, and what there is to see of it.

import { changes as broken, makeBreak, pick, showBroken } from './break.js';
import { draw, makeInside } from './inside.js';
import { part, speak, text as message } from './texts.js';

const EXAMPLE = { en: 'Do you want some tea?', de: 'Möchtest du etwas Tee?' };
const WAIT = 120; // ms without a key before a text is translated

// A small module that is valid only where WebAssembly has SIMD.
const SIMD = new Uint8Array([
  0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11,
]);

let pairs = [];
let number = 0;
let timer = 0;
let worker = null;
let isReady = false;

function say(text, isFault = false) {
  part('said').textContent = text;
  part('status').classList.toggle('fault', isFault);
}

function start() {
  if (typeof WebAssembly !== 'object' || !WebAssembly.validate(SIMD) || typeof DecompressionStream !== 'function') {
    part('progress').hidden = true;
    say(message('old'), true);
    return;
  }
  worker = new Worker('worker.js', { type: 'module' });
  worker.onmessage = ({ data }) => {
    for (const [kind, content] of Object.entries(data)) heard[kind]?.(content);
  };
  worker.onerror = (event) => heard.failed(event.message || 'worker.js did not start: load this page again.');
  worker.postMessage({ load: true });
  keepOffline();
}

const heard = {
  progress(value) {
    part('progress').value = value;
    say(value < 1 ? message('loading', Math.round(100 * value)) : message('starting'));
  },
  ready(content) {
    isReady = true;
    part('progress').hidden = true;
    pairs = content.pairs;
    fillDirections();
    makeInside({ ask: inspect, pick, ...content });
    makeBreak({ ask: inspect, ...content });
    say(message('ready'));
    if (!part('source').value) part('source').value = EXAMPLE[part('from').value] ?? '';
    translate();
  },
  translated(content) {
    if (content.number !== number) return;
    part('target').textContent = content.text;
    if (!content.isLast) {
      if (content.count > 1) say(message('translating', content.count));
      return;
    }
    part('target').classList.remove('waiting');
    say(content.text.trim() ? message('took', (content.ms / 1000).toFixed(2)) : message('ready'));
    showSentences(content.sentences);
  },
  inspected(content) {
    draw(content);
    showBroken(content);
  },
  failed(message) {
    part('progress').hidden = true;
    say(message, true);
  },
};

function fillDirections() {
  const names = new Intl.DisplayNames([document.documentElement.lang], { type: 'language' });
  const fill = (select, codes) => {
    select.replaceChildren(...codes.map((code) => new Option(names.of(code) ?? code, code)));
  };
  const sources = [...new Set(pairs.map(([source]) => source))];
  part('direction').hidden = !pairs.length;
  fill(part('from'), sources);
  fillTargets();
  function fillTargets() {
    fill(part('to'), pairs.filter(([source]) => source === part('from').value).map(([, target]) => target));
    const language = part('to').value;
    part('source').lang = part('from').value;
    part('target').lang = language;
  }
  part('from').onchange = () => { fillTargets(); translate(); };
  part('to').onchange = translate;
  part('swap').onclick = () => {
    const [source, target] = [part('from').value, part('to').value];
    if (!pairs.some(([own, other]) => own === target && other === source)) return;
    part('source').value = part('target').textContent;
    part('from').value = target;
    fillTargets();
    part('to').value = source;
    translate();
  };
}

function translate() {
  if (!isReady) return;
  number += 1;
  part('target').classList.add('waiting');
  const text = part('source').value.replaceAll('\r', '');
  worker.postMessage({ translate: { number, text, source: part('from').value || 'en', target: part('to').value } });
}

part('source').addEventListener('input', () => {
  clearTimeout(timer);
  timer = setTimeout(translate, WAIT);
});

// The sentences of the text, one of which is looked into.
function showSentences(sentences) {
  part('inside').hidden = !sentences.length;
  if (!sentences.length) return;
  const select = part('sentence');
  const chosen = Math.min(Math.max(select.selectedIndex, 0), sentences.length - 1);
  select.replaceChildren(...sentences.map((sentence) => new Option(sentence.length > 60 ? `${sentence.slice(0, 60)} …` : sentence, sentence)));
  select.selectedIndex = chosen;
  part('which').hidden = sentences.length < 2;
  inspect();
}
part('sentence').onchange = () => inspect();

let asked = 0;
function inspect() {
  const changes = { beam_width: Number(part('width').value), alpha: Number(part('alpha').value) };
  const sentence = part('sentence').value;
  worker.postMessage({ inspect: { number: ++asked, sentence, target: part('to').value, changes, ...broken(sentence) } });
}

async function keepOffline() {
  if (!navigator.serviceWorker) return; // pages from a file or a plain host's address have none
  try {
    await navigator.serviceWorker.register('service.js');
    await navigator.serviceWorker.ready;
    part('offline').textContent = message('offline');
  } catch {
    part('offline').textContent = message('online');
  }
}

part('language').onchange = () => {
  const [from, to] = [part('from').value, part('to').value];
  speak(part('language').value);
  if (!isReady) return;
  fillDirections();
  part('from').value = from;
  part('from').onchange();
  part('to').value = to;
  translate();
};
part('language').value = navigator.language.startsWith('de') ? 'de' : 'en';
speak(part('language').value);
start();
