// Watch it learn: what the checkpoints of a training made of one line.

import { html, number, part, percent, shown, svg, text } from './texts.js';

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
  part('learned-step').textContent = text('step', step, measured ? number(measured[2], 2) : '?');
  const head = history.source.map((piece) => html('th', { scope: 'col' }, html('span', {}, shown(piece))));
  const rows = history.target.map((piece, i) => {
    const cells = weights[i].map((weight) => html('td', { style: `--weight: ${Math.min(1.6, 3 * weight)}`, title: percent(weight) }));
    return html('tr', {}, html('th', { scope: 'row' }, shown(piece)), ...cells);
  });
  part('learned-map').replaceChildren(html('tr', {}, html('td'), ...head), ...rows);
  drawLosses(step);
}

// Training as a line, validation as points, the checkpoint as an upright line.
function drawLosses(step) {
  const { losses } = history;
  const [last, most] = [1, 2].map((axis) => Math.max(...losses.map((loss) => loss[axis])));
  const of = (kind) => losses.filter(([own]) => own === kind).map(([, at, loss]) => [at, most - loss]);
  const points = of('validation').map((point) => `M${point}h0`);
  const lines = { line: `M${of('train').join('L')}`, points: points.join(''), now: `M${step} 0V${most}` };
  part('losses').setAttribute('viewBox', `0 0 ${last} ${most}`);
  part('losses').replaceChildren(...Object.entries(lines).map(([kind, d]) => svg('path', { class: kind, d })));
  part('loss-most').textContent = number(most, 1);
  part('loss-last').textContent = last;
}
