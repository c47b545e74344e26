// Translates while one types: waits for a pause, gives up the request before, and shows what the server knows.

import { ask, at, keepKey, make, showError } from './ask.js';
import { listenForMap } from './attention.js';
import { listenForFiles } from './files.js';
import { listenForCorrections, showMatches } from './learn.js';
import { listenForWords, mirror, showWords } from './words.js';

const AUTO = 'auto';
const DETECT = 'Detect language';
const MOST_TO_COMPARE = 300; // characters: of longer texts, alternatives are not shown
const FLAGS = {
  truncated: 'Cut off at its longest length.',
  repetition: 'Repeats itself.',
  untranslated: 'Unchanged.',
};
let settings = { charLimit: Infinity, frontendTimeout: 500, alternatives: 3 };
let languages = [];
let timer = 0;
let running = null; // the request that is under way
let shown = null; // { text, source, target, reply } of the translation that is shown

const hasLines = (text) => /[\r\n]/.test(text.trim());

const option = (code, name) => make('option', name, { value: code });

function nameOf(code) {
  try {
    return new Intl.DisplayNames([navigator.language, 'en'], { type: 'language' }).of(code);
  } catch {
    return languages.find((language) => language.code === code)?.name || code;
  }
}

// The targets of the chosen source; of any, if it is to be detected.
function targetsOf(source) {
  const known = languages.filter((language) => source === AUTO || language.code === source);
  return [...new Set(known.flatMap((language) => language.targets))];
}

function fillTargets() {
  const before = at('target').value;
  const targets = targetsOf(at('source').value);
  at('target').replaceChildren(...targets.map((code) => option(code, nameOf(code))));
  if (targets.includes(before)) at('target').value = before;
  showSwap();
}

// The pair the other way round, if the server has it.
function swapped() {
  const source = at('source').value === AUTO ? shown?.reply.source : at('source').value;
  return source && targetsOf(at('target').value).includes(source) ? [at('target').value, source] : null;
}

function showSwap() {
  at('swap').disabled = !swapped();
}

function swap() {
  const pair = swapped();
  if (!pair) return;
  const text = shown?.reply.text;
  at('source').value = pair[0];
  fillTargets();
  at('target').value = pair[1];
  if (text) at('text').value = text;
  changed();
}

// How an element's text is read: hyphenation, voices, fonts, and the side on which it begins.
function setLanguage(element, code) {
  element.lang = code || '';
  element.dir = 'auto';
  try {
    const locale = new Intl.Locale(code);
    element.dir = (locale.getTextInfo?.() || locale.textInfo).direction;
  } catch {
    // Unknown, or an older browser: the first letter says it.
  }
}

function showCount() {
  const count = [...at('text').value].length;
  at('count').textContent = `${count.toLocaleString()} / ${settings.charLimit.toLocaleString()}`;
  at('count').classList.toggle('over', count > settings.charLimit);
  at('clear').hidden = !count;
}

function changed() {
  showCount();
  mirror();
  clearTimeout(timer);
  timer = setTimeout(translate, at('text').value.trim() ? settings.frontendTimeout : 0);
}

function showWaiting(isWaiting) {
  at('pane').classList.toggle('waiting', isWaiting);
  at('translation').setAttribute('aria-busy', String(isWaiting));
  at('note').textContent = isWaiting ? 'Translating …' : flagged();
}

// What the server says of the translation that is shown.
function flagged() {
  const raised = Object.keys(FLAGS).filter((flag) => shown?.reply.lines.some((line) => line[flag]));
  return raised.map((flag) => FLAGS[flag]).join(' ');
}

async function translate() {
  clearTimeout(timer);
  running?.abort();
  running = new AbortController();
  const { signal } = running;
  const text = at('text').value;
  const source = at('source').value;
  const target = at('target').value;
  showError('');
  if (!text.trim()) {
    show(null);
    showWaiting(false);
    return;
  }
  showWaiting(true);
  try {
    const isShort = text.length <= MOST_TO_COMPARE && !hasLines(text);
    const alternatives = isShort ? Math.min(3, settings.alternatives) : 0;
    const body = { text, source, target, alternatives, memory: settings.suggestions };
    const { translations } = await ask('v1/translate', body, signal);
    if (!signal.aborted) show({ text, source, target, reply: translations[0] });
  } catch (error) {
    if (signal.aborted) return; // a newer request has taken its place
    showError(error.message);
    at('pane').classList.add('stale');
  }
  if (!signal.aborted) showWaiting(false);
}

function show(translation) {
  shown = translation;
  const reply = shown?.reply;
  at('pane').classList.remove('stale');
  const isDetected = shown?.source === AUTO && at('source').value === AUTO;
  if (at('source').options[0]?.value === AUTO) {
    at('source').options[0].textContent = isDetected ? `Auto: ${nameOf(reply.source)}` : DETECT;
  }
  const source = reply?.source || at('source').value; // of AUTO nothing is known
  for (const id of ['text', 'mirror']) setLanguage(at(id), source === AUTO ? '' : source);
  for (const id of ['translation', 'alternatives', 'corrected']) setLanguage(at(id), shown?.target);
  const others = reply?.alternatives || [];
  at('others').hidden = !others.length;
  at('alternatives').replaceChildren(...others.map((text) => {
    const item = make('li');
    const button = make('button', text, { type: 'button' });
    button.addEventListener('click', () => choose(text));
    item.append(button);
    return item;
  }));
  at('inside').open = false;
  at('inside').hidden = !reply || hasLines(shown.text);
  for (const id of ['copy', 'share']) at(id).disabled = !reply;
  showWords(shown);
  showMatches(shown);
  showSwap();
}

// Puts an alternative in place of the translation, and the translation among the alternatives.
function choose(text) {
  const { reply } = shown;
  const others = [reply.text, ...reply.alternatives.filter((other) => other !== text)];
  show({ ...shown, reply: { ...reply, text, alternatives: others, lines: [] } });
  showWaiting(false);
  at('translation').focus();
}

async function copy(text, button) {
  const label = button.querySelector('span');
  const before = label.textContent;
  try {
    await navigator.clipboard.writeText(text);
    label.textContent = 'Copied';
  } catch {
    label.textContent = 'Cannot copy here';
  }
  setTimeout(() => { label.textContent = before; }, 1500);
}

// The text goes after #, which browsers send to no server.
function link() {
  const fields = new URLSearchParams({ source: at('source').value, target: at('target').value, q: at('text').value });
  return `${location.origin}${location.pathname}#${fields}`;
}

function readLink() {
  const fields = new URLSearchParams(location.hash.slice(1));
  const select = (id, value) => {
    if ([...at(id).options].some((other) => other.value === value)) at(id).value = value;
  };
  select('source', fields.get('source'));
  fillTargets();
  select('target', fields.get('target'));
  if (fields.get('q')) at('text').value = fields.get('q');
  showCount();
  mirror();
  if (at('text').value.trim()) translate(); // what a reload has kept, too
}

function listen() {
  addEventListener('hashchange', readLink);
  at('text').addEventListener('input', changed);
  at('text').addEventListener('keydown', (event) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) translate();
  });
  at('source').addEventListener('change', () => { fillTargets(); changed(); });
  at('target').addEventListener('change', () => { showSwap(); changed(); });
  at('again').addEventListener('click', translate);
  at('swap').addEventListener('click', swap);
  at('clear').addEventListener('click', () => { at('text').value = ''; changed(); at('text').focus(); });
  at('copy').addEventListener('click', () => copy(shown.reply.text, at('copy')));
  at('share').addEventListener('click', () => copy(link(), at('share')));
  listenForFiles(settings);
  listenForMap(() => shown);
  listenForCorrections(settings, () => shown, translate);
  listenForWords();
}

async function start() {
  showError('');
  try {
    [settings, languages] = await Promise.all(
      ['frontend/settings', 'languages'].map(async (path) => (await fetch(path)).json()),
    );
  } catch {
    showError('The server cannot be reached.');
    at('again').addEventListener('click', start, { once: true });
    return;
  }
  at('key-row').hidden = !settings.keyRequired;
  languages = languages.filter((language) => language.targets.length);
  const sources = languages.map((language) => option(language.code, nameOf(language.code)));
  if (languages.length > 1) sources.unshift(option(AUTO, DETECT));
  at('source').replaceChildren(...sources);
  fillTargets();
  at('target').value = settings.language.target.code;
  show(null);
  keepKey(translate);
  listen();
  readLink();
}

start();
