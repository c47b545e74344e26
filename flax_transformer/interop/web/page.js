// The page: text in, translation out, and what there is to see of it.

import { draw, makeInside } from './inside.js';

const part = (name) => document.getElementById(name);
const EXAMPLE = { en: 'Do you want some tea?', de: 'Möchtest du etwas Tee?' };
const WAIT = 120; // ms without a key before a text is translated
const names = new Intl.DisplayNames(['en'], { type: 'language' });

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
    say('This browser lacks WebAssembly with SIMD, or decompression; any of the last three years has both: update it.', true);
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
    say(value < 1 ? `Loading the model: ${Math.round(100 * value)} %` : 'Starting the model …');
  },
  ready(content) {
    isReady = true;
    part('progress').hidden = true;
    pairs = content.pairs;
    fillDirections();
    makeInside({ ask: inspect, ...content });
    say('Ready.');
    if (!part('source').value) part('source').value = EXAMPLE[part('from').value] ?? '';
    translate();
  },
  translated(content) {
    if (content.number !== number) return;
    part('target').textContent = content.text;
    if (!content.isLast) {
      if (content.count > 1) say(`Translating: ${content.count} sentences so far …`);
      return;
    }
    part('target').classList.remove('waiting');
    say(content.text.trim() ? `Translated in ${(content.ms / 1000).toFixed(2)} s.` : 'Ready.');
    showSentences(content.sentences);
  },
  inspected: draw,
  failed(message) {
    part('progress').hidden = true;
    say(message, true);
  },
};

function fillDirections() {
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
  worker.postMessage({ inspect: { number: ++asked, sentence: part('sentence').value, target: part('to').value, changes } });
}

async function keepOffline() {
  if (!navigator.serviceWorker) return; // pages from a file or a plain host's address have none
  try {
    await navigator.serviceWorker.register('service.js');
    await navigator.serviceWorker.ready;
    part('offline').textContent = 'From now on it works without a connection.';
  } catch {
    part('offline').textContent = 'This browser keeps nothing for use without a connection.';
  }
}

start();
