// Watch it learn: what the checkpoints of a training made of one line.

import { html, part, shown, svg, text } from './texts.js';

const WIDTH = 320, HEIGHT = 150; // of the picture of losses
const PAUSE = 900; // ms between checkpoints

let history = null;

export async function makeHistory() {
  history = await (await fetch('history.json')).json();
  const slider = part('checkpoint');
  slider.max = history.checkpoints.length - 1;
  let timer = 0;
  const pause = () => {
    timer = clearInterval(timer);
  };
  slider.oninput = showHistory;
  part('learn').onclick = () => {
    if (timer) return pause();
    if (slider.value === slider.max) slider.value = 0;
    showHistory();
    timer = setInterval(() => {
      slider.stepUp();
      showHistory();
      if (slider.value === slider.max) pause();
    }, PAUSE);
  };
  showHistory();
  part('learning').hidden = false;
}

export function showHistory() {
  if (!history) return;
  const { step, text: translation, weights } = history.checkpoints[part('checkpoint').value];
  const measured = history.losses.filter(([, at]) => at <= step).at(-1);
  part('lesson').textContent = history.line;
  part('learned').textContent = translation || '∅';
  part('learned-step').textContent = text('step', step, measured ? measured[2].toFixed(2) : '?');
  const head = history.source.map((piece) => html('th', { scope: 'col' }, html('span', {}, shown(piece))));
  const rows = history.target.map((piece, i) => {
    const cells = weights[i].map((weight) => html('td', { style: `--weight: ${Math.min(1.6, 3 * weight)}`, title: `${Math.round(100 * weight)} %` }));
    return html('tr', {}, html('th', { scope: 'row' }, shown(piece)), ...cells);
  });
  part('learned-map').replaceChildren(html('tr', {}, html('td'), ...head), ...rows);
  drawLosses(step);
}

// Training as a line, validation as points, the checkpoint as an upright line.
function drawLosses(step) {
  const { losses } = history;
  const [last, most] = [1, 2].map((axis) => Math.max(...losses.map((loss) => loss[axis])));
  const place = ([, at, loss]) => [(WIDTH * at) / last, HEIGHT * (1 - loss / most)];
  const of = (kind) => losses.filter(([own]) => own === kind).map(place);
  const line = svg('path', { d: `M${of('train').join('L')}` });
  const points = of('validation').map(([cx, cy]) => svg('circle', { cx, cy, r: 4 }));
  const x = (WIDTH * step) / last;
  const labels = [[-8, 0, most.toFixed(1)], [-8, HEIGHT, 0], [WIDTH, HEIGHT + 20, last]];
  const texts = labels.map(([x, y, label]) => svg('text', { x, y, 'text-anchor': 'end' }, label));
  part('losses').replaceChildren(line, ...points, svg('path', { class: 'now', d: `M${x} 0V${HEIGHT}` }), ...texts);
}
