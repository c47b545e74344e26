// The page's texts and elements. All texts are in index.html, German ones as data-de and data-de-label.

export const part = (name) => document.getElementById(name);

// A message, its {} replaced by the values.
export function text(key, ...values) {
  return values.reduce((message, value) => message.replace('{}', () => value), part(`say-${key}`).textContent);
}

export function speak(language) {
  for (const one of document.querySelectorAll('[data-de]')) {
    one.dataset.en ??= one.innerHTML;
    one.innerHTML = one.dataset[language];
  }
  for (const one of document.querySelectorAll('[data-de-label]')) {
    one.dataset.enLabel ??= one.ariaLabel;
    one.ariaLabel = one.dataset[`${language}Label`];
  }
  document.documentElement.lang = language;
  document.title = document.querySelector('h1').textContent;
}

export const number = (value, digits) => value.toFixed(digits).replace('.', text('point'));

// A share of 1.
export const percent = (share) => `${share < 0.001 ? `< ${number(0.1, 1)}` : number(100 * share, share < 0.1 ? 1 : 0)}\u00a0%`;

// What pieces say.
export const joined = (pieces) => pieces.join('').replaceAll('\u2581', ' ').trim();

// Pieces as people read them: the sign of a space becomes a small one.
export const shown = (piece) => piece.replaceAll('\u2581', '·') || '∅';

// New options [label, value] of a select; it keeps its value if that is among them.
export function fill(select, options, fallback) {
  const before = select.value;
  select.replaceChildren(...options.map(([label, value]) => new Option(label, value)));
  select.value = options.some(([, value]) => String(value) === before) ? before : fallback;
}

// New children; the focus stays at its place.
export function renew(parent, children) {
  const all = () => [...parent.querySelectorAll('button, input')];
  const at = all().indexOf(document.activeElement);
  parent.replaceChildren(...children);
  all()[at]?.focus();
}

export function html(name, properties, ...children) {
  const element = Object.assign(document.createElement(name), properties);
  element.append(...children);
  return element;
}

export function svg(name, attributes, ...children) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

const POSITIVE = [59, 130, 246], NEGATIVE = [234, 88, 12]; // seen on light and dark

// A pixel for each number of the rows, in full color where it is `most` or more.
export function picture(rows, most = 1) {
  const [width, height] = [rows[0].length, rows.length];
  const canvas = html('canvas', { width, height });
  const pixels = new ImageData(width, height);
  rows.flat().forEach((value, i) => {
    pixels.data.set(value < 0 ? NEGATIVE : POSITIVE, 4 * i);
    pixels.data[4 * i + 3] = (255 * Math.abs(value)) / most;
  });
  canvas.getContext('2d').putImageData(pixels, 0, 0);
  return canvas;
}
