// Translates while one types: waits for a pause, gives up the request before, and shows what the server knows.
'use strict';

const at = (id) => document.getElementById(id);
const AUTO = 'auto';
let settings = { charLimit: Infinity, frontendTimeout: 500, alternatives: 3 };
let languages = [];
let timer = 0;
let running = null; // the request that is under way
let shown = null; // { text, source, target, reply } of the translation that is shown

async function ask(path, body, signal) {
  const headers = { 'Content-Type': 'application/json' };
  if (at('key').value) headers.Authorization = `Bearer ${at('key').value}`;
  const response = await fetch(path, { method: 'POST', headers, body: JSON.stringify(body), signal });
  const found = await response.json();
  if (!response.ok) throw new Error(found.error || `The server answered ${response.status}`);
  return found;
}

function option(code, name) {
  const element = document.createElement('option');
  element.value = code;
  element.textContent = name;
  return element;
}

const nameOf = (code) => {
  try {
    return new Intl.DisplayNames([navigator.language, 'en'], { type: 'language' }).of(code);
  } catch {
    return languages.find((each) => each.code === code)?.name || code;
  }
};

// The targets of the chosen source; of any, if it is to be detected.
function targetsOf(source) {
  const of = languages.filter((each) => source === AUTO || each.code === source);
  return [...new Set(of.flatMap((each) => each.targets))];
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

function showError(message) {
  at('error').textContent = message;
  at('error').hidden = !message;
}

function showCount() {
  const count = [...at('text').value].length;
  at('count').textContent = `${count} / ${settings.charLimit}`;
  at('count').className = count > settings.charLimit ? 'over' : '';
}

function changed() {
  showCount();
  clearTimeout(timer);
  timer = setTimeout(translate, settings.frontendTimeout);
}

async function translate() {
  clearTimeout(timer);
  running?.abort();
  const [text, source, target] = [at('text').value, at('source').value, at('target').value];
  showError('');
  if (!text.trim()) {
    running = null;
    show(null);
    return;
  }
  running = new AbortController();
  const { signal } = running;
  at('translation').classList.add('waiting');
  at('translation').setAttribute('aria-busy', 'true');
  try {
    const body = { text, source, target, alternatives: Math.min(3, settings.alternatives) };
    const { translations } = await ask('v1/translate', body, signal);
    show({ text, source, target, reply: translations[0] });
  } catch (error) {
    if (signal.aborted) return; // a newer request has taken its place
    show(null);
    showError(error instanceof TypeError ? 'The server cannot be reached.' : error.message);
  } finally {
    if (!signal.aborted) {
      at('translation').classList.remove('waiting');
      at('translation').removeAttribute('aria-busy');
    }
  }
}

function show(found) {
  shown = found;
  const reply = found?.reply;
  at('translation').textContent = reply?.text || '';
  at('translation').classList.remove('waiting');
  at('detected').textContent = found?.source === AUTO ? `Detected: ${nameOf(reply.source)}` : '';
  const flags = { truncated: 'cut off at its longest length', repetition: 'repeats itself', untranslated: 'unchanged' };
  const said = Object.keys(flags).filter((flag) => reply?.lines.some((line) => line[flag]));
  at('note').textContent = said.map((flag) => flags[flag]).join(', ');
  const others = reply?.alternatives || [];
  at('others').hidden = !others.length;
  at('alternatives').replaceChildren(...others.map((text) => {
    const item = document.createElement('li');
    item.append(button(text, () => choose(text)));
    return item;
  }));
  showOrigin();
  showSwap();
}

function button(text, click) {
  const element = document.createElement('button');
  element.type = 'button';
  element.textContent = text;
  element.addEventListener('click', click);
  return element;
}

// Puts an alternative in place of the translation, and the translation among the alternatives.
function choose(text) {
  const { reply } = shown;
  const others = [reply.text, ...reply.alternatives.filter((each) => each !== text)];
  show({ ...shown, reply: { ...reply, text, alternatives: others, lines: [], isChosen: true } });
  at('translation').focus();
}

const wordsOf = (text) => text.split(/\s+/).filter(Boolean);

// The words of the first line; which source word one comes from is asked when one is chosen.
function showOrigin() {
  const reply = shown?.reply;
  const isOneLine = reply && !reply.isChosen && !/[\r\n]/.test(shown.text.trim());
  at('origin').hidden = !isOneLine;
  at('map').replaceChildren();
  at('show-map').setAttribute('aria-expanded', 'false');
  if (!isOneLine) return;
  at('words').replaceChildren(...wordsOf(reply.text).map((word, index) => button(word, () => trace(index))));
  at('source-words').replaceChildren(...wordsOf(shown.text).map((word) => {
    const element = document.createElement('span');
    element.textContent = word;
    return element;
  }));
}

async function trace(index) {
  const found = shown;
  try {
    if (!found.alignment) {
      const body = { text: found.text.trim(), source: found.reply.source, target: found.target, alignment: true };
      found.alignment = (await ask('v1/translate', body)).translations[0].lines[0].alignment;
    }
  } catch (error) {
    showError(error.message);
    return;
  }
  if (found !== shown) return;
  const sources = found.alignment.filter((pair) => pair[1] === index).map((pair) => pair[0]);
  [...at('words').children].forEach((word, i) => word.setAttribute('aria-pressed', String(i === index)));
  [...at('source-words').children].forEach((word, i) => word.classList.toggle('marked', sources.includes(i)));
}

async function toggleMap() {
  const isOpen = at('show-map').getAttribute('aria-expanded') === 'true';
  at('show-map').setAttribute('aria-expanded', String(!isOpen));
  if (isOpen) {
    at('map').replaceChildren();
    return;
  }
  const found = shown;
  try {
    const { text, reply, target } = found;
    const body = { text: text.trim(), translation: reply.text, source: reply.source, target };
    const attention = await ask('v1/attention', body);
    if (found === shown) at('map').replaceChildren(tableOf(attention));
  } catch (error) {
    showError(error.message);
  }
}

// A row for each piece of the translation, a column for each piece of the text; the fuller a cell, the more attention.
function tableOf({ source, target, weights }) {
  const table = document.createElement('table');
  const cell = (row, tag, text, scope) => {
    const element = document.createElement(tag);
    element.textContent = text.replaceAll('▁', ' ').trim() || text;
    if (scope) element.scope = scope;
    row.append(element);
    return element;
  };
  const head = table.createTHead().insertRow();
  cell(head, 'td', '');
  source.forEach((piece) => cell(head, 'th', piece, 'col'));
  const body = table.createTBody();
  target.forEach((piece, t) => {
    const row = body.insertRow();
    cell(row, 'th', piece, 'row');
    weights[t].forEach((weight, s) => {
      const percent = Math.round(100 * weight);
      const element = cell(row, 'td', '');
      element.title = `${piece} ← ${source[s]}: ${percent} %`;
      element.append(square(weight));
    });
  });
  return table;
}

// Presentation attributes, since the page allows no styles within elements.
function square(weight) {
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  svg.setAttribute('viewBox', '0 0 1 1');
  svg.setAttribute('width', '100%');
  svg.setAttribute('height', '20');
  svg.setAttribute('preserveAspectRatio', 'none');
  svg.setAttribute('role', 'img');
  svg.setAttribute('aria-label', `${Math.round(100 * weight)} %`);
  const rectangle = document.createElementNS('http://www.w3.org/2000/svg', 'rect');
  rectangle.setAttribute('width', '1');
  rectangle.setAttribute('height', '1');
  rectangle.setAttribute('fill-opacity', String(weight));
  svg.append(rectangle);
  return svg;
}

async function copy(text, element) {
  const label = element.textContent;
  try {
    await navigator.clipboard.writeText(text);
    element.textContent = 'Copied';
  } catch {
    element.textContent = 'Cannot copy here';
  }
  setTimeout(() => { element.textContent = label; }, 1500);
}

// The text goes after #, which browsers send to no server.
function link() {
  const fields = new URLSearchParams({ source: at('source').value, target: at('target').value, q: at('text').value });
  return `${location.origin}${location.pathname}#${fields}`;
}

function readLink() {
  const fields = new URLSearchParams(location.hash.slice(1));
  const choose = (id, value) => {
    if ([...at(id).options].some((each) => each.value === value)) at(id).value = value;
  };
  choose('source', fields.get('source'));
  fillTargets();
  choose('target', fields.get('target'));
  if (fields.get('q')) {
    at('text').value = fields.get('q');
    translate();
  }
  showCount();
}

async function start() {
  try {
    [settings, languages] = await Promise.all(
      ['frontend/settings', 'languages'].map(async (path) => (await fetch(path)).json()),
    );
  } catch {
    showError('The server cannot be reached.');
    return;
  }
  at('key-row').hidden = !settings.keyRequired;
  languages = languages.filter((each) => each.targets.length);
  const sources = languages.map((each) => option(each.code, nameOf(each.code)));
  if (languages.length > 1) sources.unshift(option(AUTO, 'Detect the language'));
  at('source').replaceChildren(...sources);
  fillTargets();
  at('target').value = settings.language.target.code;
  readLink();
  addEventListener('hashchange', readLink);
  at('text').addEventListener('input', changed);
  at('text').addEventListener('keydown', (event) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) translate();
  });
  at('source').addEventListener('change', () => { fillTargets(); changed(); });
  at('target').addEventListener('change', () => { showSwap(); changed(); });
  at('key').addEventListener('change', translate);
  at('swap').addEventListener('click', swap);
  at('copy').addEventListener('click', (event) => copy(shown?.reply.text || '', event.target));
  at('share').addEventListener('click', (event) => copy(link(), event.target));
  at('show-map').addEventListener('click', toggleMap);
}

start();
