// The page: text in, translation out, and what there is to see of it.

import { changes as broken, makeBreak, showBroken } from './break.js';
import { makeHistory, showHistory } from './history.js';
import { draw, makeInside } from './inside.js';
import { fill, number as shownNumber, part, speak, text as message } from './texts.js';

const examples = [...document.querySelectorAll('#examples button')];
let pairs = null; // of languages, once the model is ready
let number = 0; // of what was asked last, a translation and a look inside
let asked = 0;
let timer = 0;
let worker = null;
let said = ['loading', 0]; // a message, its values

function say(...content) {
  said = content;
  part('status').className = '';
  part('said').textContent = message(...said);
}

function start() {
  // Browsers with popovers have all else that the page needs.
  if (typeof WebAssembly !== 'object' || !('popover' in HTMLElement.prototype)) {
    heard.failed(['old']);
    return;
  }
  worker = new Worker('worker.js', { type: 'module' });
  worker.onmessage = ({ data }) => {
    for (const [kind, content] of Object.entries(data)) heard[kind]?.(content);
  };
  worker.onerror = () => heard.failed(['missing', 'worker.js']);
  worker.postMessage({ load: true });
  const kept = navigator.serviceWorker?.register('service.js').then(() => navigator.serviceWorker.ready);
  kept?.then(() => (part('offline').hidden = false)).catch(() => {}); // private windows keep nothing
}

const heard = {
  progress(value) {
    part('progress').value = value;
    say('loading', Math.round(100 * value));
  },
  ready(content) {
    part('progress').hidden = true;
    pairs = content.pairs;
    fillDirections();
    makeInside({ ask: inspect, ...content });
    makeBreak({ ask: inspect, ...content });
    if ('history.json' in content.sha256) makeHistory().catch(() => {}); // optional
    say('ready');
    part('source').value ||= examples.find((one) => !one.parentNode.hidden)?.textContent ?? '';
    translate();
  },
  translated(content) {
    if (content.number !== number) return;
    part('target').textContent = content.text;
    if (!content.isLast) {
      if (content.count > 1) say('translating', content.count);
      return;
    }
    part('target').ariaBusy = false;
    if (content.isStrange) say('strange');
    else if (!content.sentences.length) say('empty');
    else if (content.isKnown) say('known');
    else say('took', shownNumber(content.ms / 1000, 2));
    showSentences(content.sentences);
  },
  inspected(content) {
    if (content.number !== asked) return;
    part('inside').ariaBusy = false;
    showBroken(content);
    draw(content);
  },
  failed(content) {
    delete heard.progress; // other files may still arrive
    part('progress').hidden = true;
    say(...content);
    part('status').className = 'fault';
  },
};

// The languages by their names in that of the page, and a direction.
function fillDirections() {
  const names = new Intl.DisplayNames([document.documentElement.lang], { type: 'language' });
  const show = (name, codes) => fill(part(name), codes.map((code) => [names.of(code), code]), codes[0]);
  part('direction').hidden = !pairs.length;
  show('from', [...new Set(pairs.map(([source]) => source))]);
  for (const one of examples) one.parentNode.hidden = one.lang !== part('from').value;
  show('to', pairs.filter(([source]) => source === part('from').value).map(([, target]) => target));
}

// What is shown is of an older text.
function wait() {
  asked += 1;
  part('target').ariaBusy = true;
  part('inside').ariaBusy = true;
  say('working');
}

const direction = () => [part('from').value, part('to').value];

function turn() {
  fillDirections();
  translate();
}
part('from').onchange = turn;
part('to').onchange = translate;
part('swap').onclick = () => {
  const [source, target] = direction();
  if (!pairs.some((pair) => `${pair}` === `${[target, source]}`)) return;
  part('source').value = part('target').textContent;
  part('from').value = target;
  fillDirections();
  part('to').value = source;
  translate();
};

function translate() {
  if (!pairs) return;
  number += 1;
  const [source, target] = direction();
  part('source').lang = source;
  part('target').lang = target;
  wait();
  const text = part('source').value.replaceAll('\r', '');
  worker.postMessage({ translate: { number, text, source: source || 'en', target } });
}

part('source').addEventListener('input', () => {
  clearTimeout(timer);
  timer = setTimeout(translate, 120); // ms without a key
});

for (const one of examples) {
  one.onclick = () => {
    part('source').value = one.textContent;
    translate();
  };
}

// The sentences of the text, one of which is looked into.
function showSentences(sentences) {
  if (!sentences.length) return;
  part('inside').hidden = false;
  fill(part('sentence'), sentences.map((sentence, i) => [sentence, i]), 0);
  part('which').hidden = sentences.length < 2;
  inspect();
}
part('sentence').onchange = inspect;

function inspect() {
  part('inside').ariaBusy = true;
  const changes = { beam_width: Number(part('width').value), alpha: Number(part('alpha').value) };
  const sentence = part('sentence').selectedOptions[0].textContent;
  worker.postMessage({ inspect: { number: ++asked, sentence, target: part('to').value, changes, ...broken(sentence) } });
}

part('language').onchange = () => {
  speak(part('language').value);
  say(...said);
  showHistory();
  if (pairs) turn();
};
part('language').value = navigator.language.startsWith('de') ? 'de' : 'en';
speak(part('language').value);
document.addEventListener('focusin', () => document.querySelector(':popover-open:not(:focus-within)')?.hidePopover());
start();
