// Loads the model and translates, so that the page never waits.
// In: {load}, {translate: {number, text, source, target}}, {inspect: {number, sentence, target, changes, broken, forced}}.
// Out: {progress}, {ready}, {translated}, {inspected}, {failed: [message of index.html, its values]}.

import * as ort from './ort.wasm.bundle.min.mjs';
import { Model, search } from './search.js';
import { Tokenizer } from './sentencepiece.js';
import { partsOf } from './split.js';

const PROGRAM = 'ort-wasm-simd-threaded.wasm.gz';

let info = null;
let model = null;
let tokenizer = null;
const newest = { translate: 0, inspect: 0 };
const known = new Map(); // translations of sentences

class Fault extends Error {}

async function fetched(name) {
  const reply = await fetch(name).catch(() => null);
  if (reply?.ok) return reply;
  throw new Fault('missing', { cause: name });
}

async function load() {
  info = await (await fetched('export.json')).json();
  const names = ['encoder.onnx', 'step.onnx', 'weights.bin.gz', 'pieces.json.gz', 'source.spm', 'target.spm', PROGRAM];
  const total = names.reduce((sum, name) => sum + info.bytes[name], 0);
  let done = 0;
  const files = {};
  const count = (chunk, out) => {
    done += chunk.length;
    postMessage({ progress: done / total });
    out.enqueue(chunk);
  };
  const read = async (name) => {
    const stream = (await fetched(name)).body.pipeThrough(new TransformStream({ transform: count }));
    files[name] = await checked(name, await bytesOf(stream));
  };
  await Promise.all(names.map(read));
  ort.env.wasm.numThreads = 1; // a step's products are too small to share
  ort.env.wasm.wasmBinary = files[PROGRAM].buffer;
  const pieces = JSON.parse(new TextDecoder().decode(files['pieces.json.gz']));
  tokenizer = new Tokenizer(info, pieces, files['source.spm'], files['target.spm']);
  model = await Model.load(ort, info, files);
  await search(model, tokenizer.encode('a'), info.decoding); // the first run is slow
  const canScale = model.step.inputNames.includes('scale');
  postMessage({ ready: { ...info, pieces: tokenizer.pieces, canScale } });
}

// The bytes of a file, if they are those that were exported, decompressed.
async function checked(name, bytes) {
  if (crypto.subtle) { // on https and localhost
    const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes));
    const hex = [...digest].map((byte) => byte.toString(16).padStart(2, '0')).join('');
    if (hex !== info.sha256[name]) throw new Fault('damaged', { cause: name });
  }
  if (!name.endsWith('.gz')) return bytes;
  return bytesOf(new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip')));
}

const bytesOf = async (stream) => new Uint8Array(await new Response(stream).arrayBuffer());

async function translate({ number, text, source, target }) {
  const isStale = () => number !== newest.translate;
  const limit = info.max_source_tokens;
  const count = (part) => tokenizer.encode(part, target).length;
  const started = performance.now();
  const before = known.size;
  const lines = [];
  const sentences = [];
  let isStrange = false; // most of a sentence is in no piece that the model knows
  for (const line of text.split('\n')) {
    let translated = '';
    const parts = partsOf(line, source, info.decoding.split_sentences, count, limit);
    for (const [part, gap] of parts) {
      const found = part.trim() ? await translateSentence(part, target, isStale) : { text: part };
      if (found === null) return;
      if (part.trim()) sentences.push(part);
      isStrange ||= found.isStrange;
      if (found.text || !part) translated += found.text + gap;
      postMessage({ translated: { number, text: [...lines, translated].join('\n'), count: sentences.length } });
    }
    lines.push(parts.length && !parts.at(-1)[1] ? translated.replace(/ +$/, '') : translated);
  }
  const about = { isStrange, isKnown: known.size === before, ms: performance.now() - started, isLast: true };
  postMessage({ translated: { number, text: lines.join('\n'), sentences, ...about } });
}

async function translateSentence(sentence, target, isStale) {
  const key = `${target}\n${sentence}`;
  if (known.has(key)) return known.get(key);
  await new Promise((resume) => setTimeout(resume)); // newer requests are heard here
  const ids = tokenizer.encode(sentence, target);
  const found = await search(model, ids, info.decoding, { isStale });
  if (found === null) return null;
  const unknown = ids.filter((id) => id === info.unk_id || tokenizer.names.get(id)?.startsWith('<0x'));
  const result = { text: tokenizer.decode(found[0].tokens), isStrange: 2 * unknown.length > ids.length };
  known.set(key, result);
  return result;
}

// All that the pictures show of one sentence.
async function inspect({ number, sentence, target, changes, broken, forced }) {
  const isStale = () => number !== newest.inspect;
  const ids = tokenizer.encode(sentence, target).slice(-info.max_source_tokens);
  const steps = [];
  let encoded = null;
  const decoding = { ...info.decoding, ...changes };
  const watch = (seen) => (seen.encoded ? (encoded = seen.encoded) : steps.push(seen));
  const found = await search(model, ids, decoding, { isStale, watch, broken, forced });
  if (found === null) return;
  const [best] = found;
  const withText = (one) => ({ ...one, text: tokenizer.decode(one.tokens) });
  const [greedy] = await search(model, ids, { ...decoding, beam_width: 1 }, { broken, forced });
  const name = (id) => tokenizer.pieces[id] || (id === info.eos_id ? '</s>' : '');
  // The decoder's weights [layer][head][query][key], 0 for pieces that come later.
  const written = (kind, size) => {
    const rows = best.path.map((row, step) => rowsOf(steps[step].found[`${kind}_attention`], row));
    const padded = ([weights]) => [...weights, ...Array(size - weights.length).fill(0)];
    return rows[0].map((heads, layer) => heads.map((_, head) => rows.map((step) => padded(step[layer][head]))));
  };
  postMessage({
    inspected: {
      number,
      sentence,
      source: ids.map((id) => tokenizer.names.get(id)),
      target: best.tokens.map(name),
      tokens: best.tokens,
      plain: known.get(`${target}\n${sentence}`)?.text ?? '',
      text: tokenizer.decode(best.tokens),
      greedy: withText(greedy),
      states: rowsOf(encoded.states, 0),
      attention: { encoder: rowsOf(encoded.attention, 0), cross: written('cross', ids.length), self: written('self', best.tokens.length) },
      gains: best.path.map((row, step) => steps[step].gains[row]),
      tree: treeOf(steps, best, greedy, name),
      heads: info.heads,
      hypotheses: found.map(withText),
    },
  });
}

// One row of each layer's, of a tensor [layers, rows, ...], as arrays in arrays.
function rowsOf({ data, dims }, row) {
  const nested = (axis, at) => {
    if (axis === dims.length) return data[at];
    return Array.from({ length: dims[axis] }, (_, i) => nested(axis + 1, at * dims[axis] + i));
  };
  return nested(0, 0).map((rows) => rows[row]);
}

// The hypotheses of each step, in its order: with piece, parent (number in the step before) and state.
function treeOf(steps, best, greedy, name) {
  const leadsTo = (one, whole) => one.tokens.every((token, i) => token === whole.tokens[i]);
  return steps.map(({ grown, live }, step) => {
    const before = steps[step - 1];
    return grown.map((one) => ({
      ...one,
      piece: name(one.tokens.at(-1)),
      parent: before ? before.grown.indexOf(before.live[one.row]) : 0,
      state: one.ended ? 'ended' : live.length && !live.includes(one) ? 'pruned' : 'live',
      isBest: leadsTo(one, best),
      isGreedy: leadsTo(one, greedy),
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
    const failed = error instanceof Fault ? [error.message, error.cause] : ['failed', error.message ?? error];
    postMessage({ failed });
  }
};
