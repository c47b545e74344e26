// The map of attention: what each piece of the translation attended to in the text.

import { ask, at, make, showError } from './ask.js';

// Tags in models that know many languages.
const LANGUAGE = /^(<2[^<>]+>|>>[^<>]+<<|__\w+__|[a-z]{3}_[A-Z][a-z]{3}|[a-z]{2}_[A-Z]{2})$/;
const BYTE = /^<0x([0-9A-F]{2})>$/;

// The pieces as a reader knows them: { label, pieces }, without tags of languages, bytes joined to characters.
export function readable(pieces) {
  const groups = [];
  let bytes = []; // of the character that has begun
  pieces.forEach((piece, number) => {
    const byte = BYTE.exec(piece);
    if (!byte) bytes = [];
    if (LANGUAGE.test(piece)) return;
    const value = parseInt(byte?.[1], 16);
    const isNext = byte && bytes.length && (value & 0xc0) === 0x80;
    if (isNext) {
      bytes.push(value);
      const group = groups.at(-1);
      group.pieces.push(number);
      group.label = new TextDecoder().decode(new Uint8Array(bytes));
      return;
    }
    if (byte) bytes = [value];
    const text = byte ? new TextDecoder().decode(new Uint8Array(bytes)) : piece.replaceAll('▁', ' ');
    const label = piece === '</s>' ? 'end' : text.trim() || '␣';
    groups.push({ label, pieces: [number] });
  });
  return groups;
}

// A row for each piece of the translation, a column for each piece of the text; the fuller a cell, the more attention.
function tableOf({ source, target, weights }, languages) {
  const columns = readable(source);
  const rows = readable(target);
  const table = make('table');
  const head = table.createTHead().insertRow();
  head.append(make('td'));
  for (const { label } of columns) {
    const cell = make('th', '', { scope: 'col' });
    cell.append(make('bdi', label, { lang: languages.source }));
    head.append(cell);
  }
  const body = table.createTBody();
  for (const row of rows) {
    const cells = body.insertRow();
    cells.append(make('th', row.label, { scope: 'row', lang: languages.target }));
    for (const column of columns) {
      let weight = 0; // of all pieces of the column, in the mean of the row's
      for (const t of row.pieces) for (const s of column.pieces) weight += weights[t][s] / row.pieces.length;
      const percent = Math.round(100 * weight);
      const cell = make('td', '', { title: `${row.label} ← ${column.label}: ${percent} %` });
      cell.append(square(weight, percent));
      cells.append(cell);
    }
  }
  return table;
}

// Presentation attributes, since the page allows no styles within elements.
function square(weight, percent) {
  const drawn = (tag, attributes) => {
    const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
    Object.entries(attributes).forEach(([name, value]) => element.setAttribute(name, value));
    return element;
  };
  const box = { viewBox: '0 0 1 1', preserveAspectRatio: 'none' };
  const svg = drawn('svg', { ...box, role: 'img', 'aria-label': `${percent} %` });
  svg.append(drawn('rect', { width: 1, height: 1, 'fill-opacity': Math.min(weight, 1) }));
  return svg;
}

// `shown` gives the translation that is on the page.
export function listenForMap(shown) {
  at('inside').addEventListener('toggle', async () => {
    if (!at('inside').open) return;
    const translation = shown();
    at('map').replaceChildren(make('p', 'Looking …'));
    try {
      const { text, reply, target } = translation;
      const body = { text: text.trim(), translation: reply.text.trim(), source: reply.source, target };
      const attention = await ask('v1/attention', body);
      if (translation === shown()) at('map').replaceChildren(tableOf(attention, { source: reply.source, target }));
    } catch (error) {
      if (translation !== shown()) return;
      at('map').replaceChildren();
      at('inside').open = false;
      showError(error.message);
    }
  });
}
