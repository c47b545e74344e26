// Loads the model and translates, apart from the page, which so never waits.
// In: {load}, {translate: {number, text, source, target}}, {inspect: {number, sentence, target, changes, broken, forced}}.
// Out: {progress}, {ready}, {translated}, {inspected}, {failed}.

import * as ort from './ort.wasm.bundle.min.mjs';
import { hasLoop, Model, search } from './search.js';
import { Tokenizer } from './sentencepiece.js';
import { partsOf } from './split.js';

const PROGRAM = 'ort-wasm-simd-threaded.wasm.gz';

let info = null;
let model = null;
let tokenizer = null;
const newest = { translate: 0, inspect: 0 };
const known = new Map(); // translations of sentences
const MOST_KNOWN = 2000;

async function load() {
  const described = await fetch('export.json');
  if (!described.ok) throw new Error('export.json is missing: copy the folder to the server again.');
  info = await described.json();
  const names = ['encoder.onnx', 'step.onnx', 'weights.bin.gz', 'pieces.json.gz', 'source.spm', 'target.spm', PROGRAM];
  const total = names.reduce((sum, name) => sum + info.bytes[name], 0);
  let done = 0;
  const files = {};
  const read = async (name) => {
    const reply = await fetch(name).catch(() => null);
    if (!reply?.ok) throw new Error(`${name} did not arrive: check the connection, or what blocks it, and load this page again.`);
    const chunks = [];
    for (const reader = reply.body.getReader(); ; ) {
      const { done: isOver, value } = await reader.read();
      if (isOver) break;
      chunks.push(value);
      done += value.length;
      postMessage({ progress: Math.min(done / total, 1) });
    }
    files[name] = await checked(name, new Uint8Array(await new Blob(chunks).arrayBuffer()));
  };
  await Promise.all(names.map(read));
  ort.env.wasm.numThreads = 1; // a step's products are too small to share
  ort.env.wasm.wasmBinary = files[PROGRAM].buffer;
  const pieces = JSON.parse(new TextDecoder().decode(files['pieces.json.gz']));
  tokenizer = new Tokenizer(info, pieces, files['source.spm'], files['target.spm']);
  const graphs = { encoder: files['encoder.onnx'], step: files['step.onnx'], weights: files['weights.bin.gz'] };
  model = await Model.load(ort, info, graphs);
  await search(model, tokenizer.encode('a'), info.decoding); // the first run is slow
  postMessage({ ready: { pairs: info.pairs, decoding: info.decoding, pieces: tokenizer.pieces, canScale: model.step.inputNames.includes('scale') } });
}

// The bytes of a file, if they are those that were exported; without the compression.
async function checked(name, bytes) {
  if (crypto.subtle) { // where the page may use it
    const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes));
    const hex = [...digest].map((byte) => byte.toString(16).padStart(2, '0')).join('');
    if (hex !== info.sha256[name]) throw new Error(`${name} is damaged: copy the folder to the server again.`);
  }
  if (!name.endsWith('.gz')) return bytes;
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

async function translate({ number, text, source, target }) {
  const isStale = () => number !== newest.translate;
  const limit = info.max_source_tokens;
  const count = (part) => tokenizer.encode(part, target).length;
  const started = performance.now();
  const lines = [];
  const sentences = [];
  for (const line of text.split('\n')) {
    let translated = '';
    const parts = partsOf(line, source, info.decoding.split_sentences, count, limit);
    for (const [part, gap] of parts) {
      const found = part.trim() ? await translateSentence(part, target, isStale) : { text: part };
      if (found === null) return;
      if (part.trim()) sentences.push(part);
      if (found.text || !part) translated += found.text + gap;
      postMessage({ translated: { number, text: [...lines, translated].join('\n'), count: sentences.length } });
    }
    lines.push(parts.length && !parts.at(-1)[1] ? translated.replace(/ +$/, '') : translated);
  }
  postMessage({ translated: { number, text: lines.join('\n'), sentences, ms: performance.now() - started, isLast: true } });
}

async function translateSentence(sentence, target, isStale) {
  const key = `${target}\n${sentence}`;
  if (known.has(key)) return known.get(key);
  await new Promise((resume) => setTimeout(resume)); // newer requests are heard here
  const found = await search(model, tokenizer.encode(sentence, target), info.decoding, { isStale });
  if (found === null) return null;
  const result = { text: tokenizer.decode(found[0].tokens), ids: found[0].tokens };
  if (known.size >= MOST_KNOWN) known.clear();
  known.set(key, result);
  return result;
}

// All that the pictures show of one sentence.
async function inspect({ number, sentence, target, changes, broken, forced }) {
  const isStale = () => number !== newest.inspect;
  const ids = tokenizer.encode(sentence, target).slice(-info.max_source_tokens);
  const steps = [];
  let encoder = null;
  const decoding = { ...info.decoding, ...changes };
  const watch = (seen) => (seen.encoder ? (encoder = seen.encoder) : steps.push(seen));
  const found = await search(model, ids, decoding, { isStale, watch, broken, forced });
  if (found === null) return;
  const [best] = found;
  const name = (id) => tokenizer.pieces[id] || (id === info.eos_id ? '</s>' : '');
  const nameOfSource = (id) => tokenizer.names.get(id) ?? { [info.eos_id]: '</s>', [info.unk_id]: '<unk>' }[id] ?? tagOf(id);
  const tree = treeOf(steps, found, name);
  const path = steps.slice(0, best.tokens.length).map((step, i) => ({
    gains: step.gains[best.path[i]],
    cross: rowOf(step.found.cross_attention, best.path[i]),
    self: rowOf(step.found.self_attention, best.path[i]),
  }));
  postMessage({
    inspected: {
      number,
      sentence,
      source: ids.map(nameOfSource),
      target: best.tokens.map(name),
      tokens: best.tokens,
      plain: known.get(`${target}\n${sentence}`)?.text ?? '',
      text: tokenizer.decode(best.tokens),
      encoder: layersOf(encoder),
      path,
      tree,
      heads: info.heads,
      decoding,
      hypotheses: found.map((one) => ({ text: tokenizer.decode(one.tokens), score: one.score, logProb: one.logProb, length: one.tokens.length, ended: Boolean(one.ended) })),
      looped: hasLoop(best.tokens),
    },
  });
}

const tagOf = (id) => Object.entries(info.languages).find(([, own]) => own === id)?.[0] ?? '';

// [layer][head] -> a row of attention, of one hypothesis in [L, N, H, 1, S].
function rowOf({ data, dims: [layers, rows, heads, , size] }, row) {
  return Array.from({ length: layers }, (_, layer) =>
    Array.from({ length: heads }, (_, head) => {
      const at = ((layer * rows + row) * heads + head) * size;
      return Array.from(data.slice(at, at + size));
    }),
  );
}

// [layer][head][query] -> a row of attention, of [L, 1, H, S, S].
function layersOf({ data, dims: [layers, , heads, size] }) {
  return Array.from({ length: layers }, (_, layer) =>
    Array.from({ length: heads }, (_, head) =>
      Array.from({ length: size }, (_, query) => {
        const at = ((layer * heads + head) * size + query) * size;
        return Array.from(data.slice(at, at + size));
      }),
    ),
  );
}

// The hypotheses of each step, in its order: [{piece, parent (number in the step before), gain, state}].
function treeOf(steps, found, name) {
  const best = found[0];
  let greedy = 0; // the row of greedy search's hypothesis; -1: pruned
  return steps.map(({ grown, live, length }, step) => {
    const before = step ? steps[step - 1] : null;
    const first = grown.find((one) => one.row === greedy); // of its row, the most probable
    greedy = live.indexOf(first);
    return grown.map((one) => ({
      piece: name(one.tokens.at(-1)),
      parent: before ? before.grown.indexOf(before.live[one.row]) : -1,
      gain: one.gains.at(-1),
      logProb: one.logProb,
      score: one.score,
      state: one.ended ? 'ended' : live.length && !live.includes(one) ? 'pruned' : 'live',
      isBest: best.tokens.length >= length && one.tokens.every((token, i) => token === best.tokens[i]),
      isGreedy: one === first,
    }));
  });
}

onmessage = async ({ data }) => {
  try {
    if (data.load) await load();
    for (const [kind, run] of [['translate', translate], ['inspect', inspect]]) {
      if (!data[kind]) continue;
      newest[kind] = data[kind].number;
      if (kind === 'translate') newest.inspect = 0; // pictures wait
      await run(data[kind]);
    }
  } catch (error) {
    postMessage({ failed: error.message ?? String(error) });
  }
};
