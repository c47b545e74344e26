// The model and the search: ids in, the best hypotheses out, as the package's own search finds them.

const NEVER = -1e9; // the log-probability of what may not be chosen
const LONGEST_LOOP = 8, TIMES = 4; // tokens; how often a loop comes in a row
const LOOK_AHEAD = 4; // tokens more with which live hypotheses are compared with finished ones

export class Model {
  static async load(ort, info, files) {
    const options = { executionProviders: ['wasm'], externalData: [{ path: 'weights.bin', data: files['weights.bin.gz'] }] };
    const open = (name) => ort.InferenceSession.create(files[name], options);
    const [encoder, step] = [await open('encoder.onnx'), await open('step.onnx')];
    return Object.assign(new Model(), { ort, info, encoder, step });
  }

  ids(values, shape) {
    return new this.ort.Tensor('int64', BigInt64Array.from(values, BigInt), shape);
  }

  // The inputs that multiply parts of a graph: ones, but for what is broken: texts such as encoder/residuals/1 and
  // decoder/cross_heads/5, the graph, the input and the place in it.
  switches(graph, name, broken) {
    const { layers, encoder_layers, heads, head_dim } = this.info;
    const depth = name === 'encoder' ? encoder_layers : layers;
    const shapes = { positions: [], scale: [], residuals: [depth] };
    for (const key of ['self_heads', 'cross_heads']) shapes[key] = [depth, heads, 1, 1];
    const inputs = {};
    for (const key of graph.inputNames.filter((own) => own in shapes)) {
      const data = new Float32Array(shapes[key].reduce((a, b) => a * b, 1)).fill(1);
      for (const one of broken) {
        const [stack, input, at] = one.split('/');
        if (stack === name && input === key) data[at] = key === 'scale' ? Math.sqrt(head_dim) : 0;
      }
      inputs[key] = new this.ort.Tensor('float32', data, shapes[key]);
    }
    return inputs;
  }

  // What every step reads, an empty cache; and the encoder's attention [layers, 1, heads, S, S] and states
  // [layers + 2, 1, S, D]: embeddings, with positions, after each layer.
  async start(ids, broken) {
    const { layers, heads, head_dim } = this.info;
    const source = this.ids(ids, [1, ids.length]);
    const inputs = { source, ...this.switches(this.encoder, 'encoder', broken) };
    const { memory_keys, memory_values, ...encoded } = await this.encoder.run(inputs);
    const empty = new this.ort.Tensor('float32', new Float32Array(0), [layers, 1, heads, 0, head_dim]);
    const cache = { source, memory_keys, memory_values, keys: empty, values: empty };
    return { encoded, inputs: { ...cache, ...this.switches(this.step, 'decoder', broken) } };
  }

  async next(state, tokens, parents) {
    const shape = [tokens.length];
    const inputs = { ...state.inputs, tokens: this.ids(tokens, shape), parents: this.ids(parents, shape) };
    const found = await this.step.run(inputs);
    state.inputs.keys = found.new_keys;
    state.inputs.values = found.new_values;
    return found;
  }
}

// The log-probabilities of one row of logits.
export function logSoftmax(row) {
  let most = -Infinity; // plain loops: callbacks would take longer than the model
  for (let i = 0; i < row.length; i++) if (row[i] > most) most = row[i];
  let sum = 0;
  for (let i = 0; i < row.length; i++) sum += Math.exp(row[i] - most);
  const shift = most + Math.log(sum);
  const out = new Float32Array(row.length);
  for (let i = 0; i < row.length; i++) out[i] = row[i] - shift;
  return out;
}

export function lengthPenalty(length, { length_penalty, alpha }) {
  if (length_penalty === 'none') return 1;
  return (length_penalty === 'gnmt' ? (5 + length) / 6 : length) ** alpha;
}

// The `count` largest sums of a row's offset and its numbers: [{row, index, value}], ties to the lower row and index.
export function largest(rows, offsets, count) {
  const best = [];
  rows.forEach((values, row) => {
    for (let index = 0; index < values.length; index++) {
      const value = Math.fround(values[index] + offsets[row]);
      if (best.length === count && value <= best[count - 1].value) continue;
      let at = best.length;
      while (at > 0 && best[at - 1].value < value) at--;
      best.splice(at, 0, { row, index, value });
      if (best.length > count) best.pop();
    }
  });
  return best;
}

// Whether some ids come TIMES times in a row.
export function hasLoop(ids) {
  for (let size = 1; size <= LONGEST_LOOP; size++) {
    let equal = 0;
    for (let i = size; i < ids.length; i++) {
      equal = ids[i] === ids[i - size] ? equal + 1 : 0;
      if (equal === size * (TIMES - 1)) return true;
    }
  }
  return false;
}

// Greedy or beam search. A hypothesis has tokens, logProb, score and path, each token's row in its step; the best come
// first, and what is cut at the limit last.
//
// broken: see Model.switches; forced: ids that the translation begins with, whose gains are the model's own. isStale()
// ends the search, which then gives null. watch(step): what each step found, for pictures.
export async function search(model, ids, decoding, { isStale, watch, broken = [], forced = [] } = {}) {
  const { info } = model;
  const width = decoding.beam_width;
  let limit = decoding.max_tokens ?? ids.length + decoding.max_extra_tokens;
  if (info.max_positions) limit = Math.min(limit, info.max_positions);
  const state = await model.start(ids, broken);
  watch?.({ encoded: state.encoded });
  let live = [{ tokens: [], logProb: 0, path: [], row: 0 }];
  let done = [];
  for (let length = 1; length <= limit && live.length; length++) {
    if (isStale?.()) return null;
    const found = await model.next(state, live.map((one) => one.tokens.at(-1) ?? info.start_id), live.map((one) => one.row));
    const size = found.logits.dims[1];
    const gains = live.map((_, row) => {
      let own = logSoftmax(found.logits.data.subarray(row * size, (row + 1) * size));
      for (const id of info.banned) own[id] = NEVER;
      if (decoding.renormalize) own = logSoftmax(own);
      if (decoding.force_eos && length === limit) own.fill(NEVER)[info.eos_id] = 0;
      return own;
    });
    const must = forced[length - 1];
    const best = must === undefined
      ? largest(gains, live.map((one) => one.logProb), width === 1 ? 1 : 2 * width)
      : [{ row: 0, index: must, value: live[0].logProb + gains[0][must] }];
    const grown = best.map(({ row, index, value }) => {
      const { tokens, path } = live[row];
      return {
        tokens: [...tokens, index],
        logProb: value,
        score: value / lengthPenalty(length, decoding),
        ended: index === info.eos_id,
        path: [...path, row],
        row,
      };
    });
    done = [...done, ...grown.filter((one) => one.ended)].sort((a, b) => b.score - a.score).slice(0, width);
    live = grown.filter((one) => !one.ended).slice(0, width);
    watch?.({ grown, live, gains, found });
    const ahead = lengthPenalty(Math.min(length + LOOK_AHEAD, limit), decoding);
    if (done.length === width && live.length && done.at(-1).score >= live[0].logProb / ahead) live = [];
  }
  const ranked = [...done, ...live];
  if (decoding.pass_over === 'nothing' || hasLoop(ids)) return ranked;
  const first = ranked.find((one) => one.ended >= ranked[0].ended && !hasLoop(one.tokens)) ?? ranked[0];
  return [first, ...ranked.filter((one) => one !== first)];
}
