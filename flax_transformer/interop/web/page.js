// The page: text in, translation out, and what there is to see of it.

import { changes as broken, makeBreak, pick, showBroken } from './break.js';
import { makeHistory, showHistory } from './history.js';
import { draw, makeInside } from './inside.js';
import { fill, part, speak, text as message } from './texts.js';

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
let said = ['starting']; // a message, its values

function say(...content) {
  said = content;
  part('status').classList.remove('fault');
  part('said').textContent = message(...said);
}

function start() {
  if (typeof WebAssembly !== 'object' || !WebAssembly.validate(SIMD) || typeof DecompressionStream !== 'function') {
    heard.failed(['old']);
    return;
  }
  worker = new Worker('worker.js', { type: 'module' });
  worker.onmessage = ({ data }) => {
    for (const [kind, content] of Object.entries(data)) heard[kind]?.(content);
  };
  worker.onerror = () => heard.failed(['missing', 'worker.js']);
  worker.postMessage({ load: true });
  keepOffline().catch(() => {}); // private windows keep nothing
}

const heard = {
  progress(value) {
    part('progress').value = value;
    if (value < 1) say('loading', Math.round(100 * value));
    else say('starting');
  },
  ready(content) {
    isReady = true;
    part('progress').hidden = true;
    pairs = content.pairs;
    fillDirections();
    makeInside({ ask: inspect, pick, ...content });
    makeBreak({ ask: inspect, ...content });
    if (content.hasHistory) makeHistory().catch(() => {}); // the rest works without it
    say('ready');
    if (!part('source').value) part('source').value = EXAMPLE[part('from').value] ?? '';
    translate();
  },
  translated(content) {
    if (content.number !== number) return;
    part('target').textContent = content.text;
    if (!content.isLast) {
      if (content.count > 1) say('translating', content.count);
      return;
    }
    part('target').classList.remove('waiting');
    if (content.isStrange) say('strange');
    else if (content.text.trim()) say('took', (content.ms / 1000).toFixed(2));
    else say('ready');
    showSentences(content.sentences);
  },
  inspected(content) {
    draw(content);
    showBroken(content);
  },
  failed(content) {
    if (worker && !isReady) worker.onmessage = null; // other files may still arrive
    part('progress').hidden = true;
    say(...content);
    part('status').classList.add('fault');
  },
};

// The languages by their names in that of the page, and a direction.
function fillDirections(from = pairs[0]?.[0], to) {
  const names = new Intl.DisplayNames([document.documentElement.lang], { type: 'language' });
  const show = (name, codes, chosen) => fill(part(name), codes.map((code) => [names.of(code), code]), codes[0], chosen);
  part('direction').hidden = !pairs.length;
  show('from', [...new Set(pairs.map(([source]) => source))], from);
  show('to', pairs.filter(([source]) => source === from).map(([, target]) => target), to);
}

const direction = () => [part('from').value, part('to').value];

function turn(from, to) {
  fillDirections(from, to);
  translate();
}
part('from').onchange = () => turn(...direction());
part('to').onchange = translate;
part('swap').onclick = () => {
  const [source, target] = direction();
  if (!pairs.some(([own, other]) => own === target && other === source)) return;
  part('source').value = part('target').textContent;
  turn(target, source);
};

function translate() {
  if (!isReady) return;
  number += 1;
  const [source, target] = direction();
  part('source').lang = source;
  part('target').lang = target;
  part('target').classList.add('waiting');
  const text = part('source').value.replaceAll('\r', '');
  worker.postMessage({ translate: { number, text, source: source || 'en', target } });
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
  const chosen = Math.max(select.selectedIndex, 0);
  const options = sentences.map((sentence) => new Option(sentence, sentence));
  select.replaceChildren(...options);
  select.selectedIndex = Math.min(chosen, sentences.length - 1);
  part('which').hidden = sentences.length < 2;
  inspect();
}
part('sentence').onchange = inspect;

let asked = 0;
function inspect() {
  const changes = { beam_width: Number(part('width').value), alpha: Number(part('alpha').value) };
  const sentence = part('sentence').value;
  worker.postMessage({ inspect: { number: ++asked, sentence, target: part('to').value, changes, ...broken(sentence) } });
}

async function keepOffline() {
  if (!navigator.serviceWorker) return; // pages from a file or a plain host's address have none
  await navigator.serviceWorker.register('service.js');
  await navigator.serviceWorker.ready;
  part('offline').hidden = false;
}

part('language').onchange = () => {
  speak(part('language').value);
  say(...said);
  showHistory();
  if (isReady) turn(...direction());
};
part('language').value = navigator.language.startsWith('de') ? 'de' : 'en';
speak(part('language').value);
start();
