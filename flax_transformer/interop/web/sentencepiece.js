// SentencePiece models as text to pieces and back: unigram and BPE, with their table of normalization.
// The same pieces as the C++ library, which rounds the scores of unigram's paths to 32 bits.

const SPACE = '\u2581';
const NORMAL = 1, UNKNOWN = 2, CONTROL = 3, USER_DEFINED = 4, UNUSED = 5, BYTE = 6;
const UNIGRAM = 1;
// Settings by their numbers in the messages of the trainer (2) and of the normalizer (3).
const SETTINGS = {
  2: { 3: 'algorithm', 24: 'isSuffix', 35: 'fallsBackToBytes' },
  3: { 2: 'charsmap', 3: 'addsPrefix', 4: 'trims', 5: 'escapes' },
};
const UNKNOWN_PENALTY = 10;
// What loses the space before it in some of Hugging Face's models, in their order.
const CLEANED = [' .', ' ?', ' !', ' ,', " ' ", " n't", " 'm", " 's", " 've", " 're"];

const encoder = new TextEncoder();
const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
const strict = new TextDecoder('utf-8', { ignoreBOM: true, fatal: true });

// The fields of a protobuf message: [number, value], where a value is a number, or the bytes of text and messages.
function* fieldsOf(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;
  const varint = () => {
    let value = 0;
    for (let shift = 1; ; shift *= 128) {
      const byte = bytes[at++];
      value += (byte & 127) * shift;
      if (byte < 128) return value;
    }
  };
  while (at < bytes.length) {
    const key = varint();
    const kind = key & 7;
    if (kind === 0) {
      yield [key >>> 3, varint()];
    } else if (kind === 2) {
      const length = varint();
      yield [key >>> 3, bytes.subarray(at, at + length)];
      at += length;
    } else if (kind === 5) {
      yield [key >>> 3, view.getFloat32(at, true)];
      at += 4;
    } else {
      throw new Error('the tokenizer is damaged');
    }
  }
}

// A double-array trie of byte strings (darts-clone), whose values are places in a block of texts that end in 0.
class Charsmap {
  constructor(bytes) {
    const [size] = new Uint32Array(bytes.slice(0, 4).buffer); // little-endian, as browsers are
    this.units = new Uint32Array(bytes.slice(4, 4 + size).buffer);
    this.texts = bytes.subarray(4 + size);
  }

  // The longest key at a place of the text: [its normal form, its length], or null.
  match(text, from) {
    const offset = (unit) => (unit >>> 10) << ((unit & 512) >>> 6);
    let node = offset(this.units[0]);
    let found = null;
    for (let i = from; i < text.length; i++) {
      node ^= text[i];
      const unit = this.units[node];
      if (unit === undefined || (unit & 0x800000ff) >>> 0 !== text[i]) break;
      node ^= offset(unit);
      if ((unit >>> 8) & 1) found = [this.units[node] & 0x7fffffff, i + 1 - from];
    }
    if (!found) return null;
    const [begin, length] = found;
    return [this.texts.subarray(begin, this.texts.indexOf(0, begin)), length];
  }
}

const lengthOfCharacter = (lead) => (lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4);

export class SentencePiece {
  constructor(bytes) {
    this.kinds = new Map(); // of pieces
    this.scores = new Map(); // of pieces that text may become
    this.longest = 1; // of them, in UTF-16 units
    this.spansWords = false;
    this.least = Infinity; // of the scores of normal pieces
    this.most = -Infinity;
    Object.assign(this, { algorithm: UNIGRAM, addsPrefix: true, trims: true, escapes: true });
    for (const [number, value] of fieldsOf(bytes)) {
      if (number === 1) this.addPiece(value);
      if (!SETTINGS[number]) continue;
      for (const [field, setting] of fieldsOf(value)) {
        if (SETTINGS[number][field]) this[SETTINGS[number][field]] = setting;
      }
    }
    this.charsmap = this.charsmap?.length ? new Charsmap(this.charsmap) : null;
    const own = [...this.kinds].filter(([, kind]) => kind === USER_DEFINED).map(([piece]) => piece);
    this.userDefined = own.sort((a, b) => b.length - a.length);
    this.userBytes = this.userDefined.map((piece) => encoder.encode(piece));
  }

  addPiece(bytes) {
    const { 1: name = [], 2: score = 0, 3: kind = NORMAL } = Object.fromEntries(fieldsOf(bytes));
    const piece = decoder.decode(Uint8Array.from(name));
    this.kinds.set(piece, kind);
    if (kind === NORMAL || kind === USER_DEFINED || kind === UNUSED) {
      this.scores.set(piece, score);
      this.longest = Math.max(this.longest, piece.length);
      this.spansWords ||= piece.lastIndexOf(SPACE) > 0;
    }
    if (kind === NORMAL) {
      this.least = Math.min(this.least, score);
      this.most = Math.max(this.most, score);
    }
  }

  normalize(text) {
    const bytes = encoder.encode(text);
    const space = this.escapes ? SPACE : ' ';
    let normal = '';
    for (let at = 0; at < bytes.length; ) {
      const own = this.userBytes.find((piece) => piece.every((byte, i) => bytes[at + i] === byte));
      const size = own?.length ?? lengthOfCharacter(bytes[at]);
      const [part, length] = (!own && this.charsmap?.match(bytes, at)) || [bytes.subarray(at, at + size), size];
      at += length;
      normal += decoder.decode(part);
    }
    if (this.trims) normal = normal.replace(/^ +/, '').replace(/ +/g, ' ');
    normal = normal.replaceAll(' ', space);
    while (this.trims && normal.endsWith(space)) normal = normal.slice(0, -1);
    if (!(this.trims ? normal : text) || !this.addsPrefix) return normal;
    return this.isSuffix ? normal + space : space + normal;
  }

  // The pieces of a text. What is in no piece becomes the pieces of its bytes, or stays as one piece of its own.
  encode(text) {
    const normal = this.normalize(text.replace(/\p{Surrogate}/gu, '?'));
    const pieces = [];
    let afterUnknown = false;
    for (const piece of this.algorithm === UNIGRAM ? this.bestPath(normal) : this.merged(normal)) {
      const isUnknown = !this.scores.has(piece);
      if (isUnknown && this.fallsBackToBytes) {
        for (const byte of encoder.encode(piece)) {
          pieces.push(`<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`);
        }
      } else if (isUnknown && afterUnknown) {
        pieces[pieces.length - 1] += piece;
      } else {
        pieces.push(piece);
      }
      afterUnknown = isUnknown;
    }
    return pieces;
  }

  // Unigram: the most probable pieces (Viterbi).
  bestPath(text) {
    const unknown = Math.fround(this.least - UNKNOWN_PENALTY);
    const best = new Float32Array(text.length + 1).fill(-Infinity, 1);
    const begins = [];
    const offer = (from, to, score) => {
      if (score <= best[to]) return;
      best[to] = score;
      begins[to] = from;
    };
    for (let from = 0; from < text.length; ) {
      const width = text.codePointAt(from) > 0xffff ? 2 : 1;
      let hasCharacter = false;
      for (let to = from + 1; to <= Math.min(from + this.longest, text.length); to++) {
        const piece = text.slice(from, to);
        const score = this.scores.get(piece);
        const kind = score === undefined ? UNUSED : this.kinds.get(piece);
        if (kind === UNUSED) continue;
        const own = kind === USER_DEFINED ? encoder.encode(piece).length * this.most - 0.1 : score;
        offer(from, to, own + best[from]);
        if (to === from + width) hasCharacter = true;
      }
      if (!hasCharacter) offer(from, from + width, Math.fround(unknown + best[from]));
      from += width;
    }
    const pieces = [];
    for (let to = text.length; to > 0; to = begins[to]) pieces.push(text.slice(begins[to], to));
    return pieces.reverse();
  }

  // BPE. Words are apart, which is far faster for long texts, unless a piece holds parts of two.
  merged(text) {
    const words = this.spansWords ? [text] : text.split(/(?=\u2581)/);
    return words.flatMap((word) => this.mergedWord(word));
  }

  // Neighbors are joined, the best piece first, then the leftmost.
  mergedWord(text) {
    const parts = [];
    for (let at = 0; at < text.length; at += parts.at(-1).length) {
      const own = this.userDefined.find((piece) => text.startsWith(piece, at));
      parts.push(own ?? String.fromCodePoint(text.codePointAt(at)));
    }
    const halves = new Map(); // of pieces that are only steps on the way to others
    const scoreOfPair = (left) => {
      const pair = parts.slice(left, left + 2);
      const piece = pair.join('');
      if (!this.scores.has(piece) || pair.some((own) => this.kinds.get(own) === USER_DEFINED)) return -Infinity;
      if (this.kinds.get(piece) === UNUSED) halves.set(piece, pair);
      return this.scores.get(piece);
    };
    const scores = parts.slice(1).map((_, left) => scoreOfPair(left));
    for (;;) {
      let best = 0;
      for (let i = 1; i < scores.length; i++) if (scores[i] > scores[best]) best = i;
      if (!(scores[best] > -Infinity)) break;
      parts.splice(best, 2, parts[best] + parts[best + 1]);
      scores.splice(best, 1);
      for (const left of [best - 1, best]) if (left in scores) scores[left] = scoreOfPair(left);
    }
    const whole = (piece) => (halves.has(piece) ? halves.get(piece).flatMap(whole) : [piece]);
    return parts.flatMap(whole);
  }

  decode(pieces) {
    let text = '';
    let bytes = [];
    let begins = true; // a space would be the prefix that encoding adds
    const flush = () => {
      text += textOf(bytes);
      bytes = [];
    };
    for (let piece of pieces) {
      const kind = this.kinds.get(piece);
      if (kind === BYTE) {
        bytes.push(Number.parseInt(piece.slice(3, 5), 16));
        continue;
      }
      flush();
      if (text) begins = false;
      if (kind === CONTROL) continue;
      if (kind === undefined || kind === UNKNOWN) {
        text += piece;
        continue;
      }
      if (begins && (this.addsPrefix || this.trims) && piece.startsWith(SPACE)) {
        piece = piece.slice(1);
        begins = this.trims;
      }
      text += piece.replaceAll(SPACE, ' ');
    }
    flush();
    return text;
  }
}

// The text of bytes, with U+FFFD for each byte that is not UTF-8.
function textOf(bytes) {
  let text = '';
  for (let at = 0; at < bytes.length; ) {
    const length = lengthOfCharacter(bytes[at]);
    try {
      text += strict.decode(new Uint8Array(bytes.slice(at, at + length)));
      at += length;
    } catch {
      text += '\ufffd';
      at += 1;
    }
  }
  return text;
}

// Text to a model's ids and back, as an export describes them.
export class Tokenizer {
  constructor(info, pieces, source, target) {
    this.info = info;
    this.pieces = pieces.target;
    this.ids = new Map(Object.entries(pieces.source));
    const tags = Object.entries(info.languages).map(([tag, id]) => [`→${tag}`, id]);
    const named = [...tags, ['</s>', info.eos_id], ['<unk>', info.unk_id], ...this.ids];
    this.names = new Map(named.map(([piece, id]) => [id, piece]));
    this.source = new SentencePiece(source);
    this.target = new SentencePiece(target);
  }

  // The ids of a line, into a language if the model knows several; then EOS.
  encode(line, language) {
    const tag = this.info.languages[language];
    const prefix = tag === undefined ? this.info.prefix : [tag];
    const ids = this.source.encode(line).map((piece) => this.ids.get(piece) ?? this.info.unk_id);
    return [...prefix, ...ids, this.info.eos_id];
  }

  decode(ids) {
    const text = this.target.decode(ids.map((id) => this.pieces[id] ?? '').filter(Boolean));
    const line = text.replace(/[\u2581\n\r\v\f\x1c-\x1e\x85\u2028\u2029]/g, ' ');
    const stripped = this.info.strips ? line.trim() : line;
    if (!this.info.cleans) return stripped;
    return CLEANED.reduce((cleaned, spaced) => cleaned.replaceAll(spaced, spaced.trim()), stripped);
  }
}
