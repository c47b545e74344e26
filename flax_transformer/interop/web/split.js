// Lines as the parts that a model translates: sentences, and long ones in pieces, with the white space between them.

// Ends of a part: after a sentence, but rather not after 3., z. B. and Dr., a clause, a word; never within 10:30.
const STOP = String.raw`[.!?…]+['")\]»”’]*\s+|[。！？]\s*`;
const SEAMS = [
  String.raw`(?<![.!?…])(?<!\d)(?<!(?<![\p{L}\p{N}_])[\p{L}\p{N}_])(?<!\b[A-Z][a-z])(?:${STOP})`,
  String.raw`(?<![.!?…])(?:${STOP})`,
  String.raw`[,;:]\s+|[，；：、]\s*`,
  String.raw`\s+`,
];
// After these a sentence goes on, whatever the browser's own rules say.
const GOES_ON = {
  en: /(^|[\s(])(Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr|vs|etc|e\.g|i\.e|a\.m|p\.m|No|approx|vol)\.\s+$/u,
  de: /(^|[\s(])(Hr|Fr|Dr|Prof|St|Nr|bzw|usw|ca|z\. ?B|d\. ?h|u\. ?a|z\. ?Hd|Fa|inkl|exkl|zzgl|\d{1,3})\.\s+$/u,
};

// [[sentence, the white space after it]]; what is before the first is a sentence of nothing.
export function sentencesOf(line, language) {
  const segments = [...new Intl.Segmenter(language, { granularity: 'sentence' }).segment(line)].map((s) => s.segment);
  const joined = [];
  for (const segment of segments) {
    const before = joined.at(-1);
    if (before !== undefined && GOES_ON[language]?.test(before)) joined[joined.length - 1] += segment;
    else joined.push(segment);
  }
  const parts = [];
  for (const piece of joined) {
    const text = piece.trim();
    const at = text ? piece.indexOf(text) : piece.length;
    if (parts.length) parts.at(-1)[1] += piece.slice(0, at);
    else if (at) parts.push(['', piece.slice(0, at)]);
    if (text) parts.push([text, piece.slice(at + text.length)]);
  }
  return parts;
}

// A text in parts of at most `limit` tokens by `count`, cut after sentences, else clauses, words, anywhere.
export function splitLong(text, count, limit) {
  if (count(text) <= limit) return [text];
  return cut(text, count, limit, SEAMS).map((part) => part.trim()).filter(Boolean);
}

function cut(text, count, limit, seams) {
  const characters = [...text];
  if (count(text) <= limit || characters.length === 1) return [text];
  if (!seams.length) {
    const middle = characters.length >> 1;
    const halves = [characters.slice(0, middle), characters.slice(middle)];
    return halves.flatMap((half) => cut(half.join(''), count, limit, []));
  }
  const pieces = text.match(new RegExp(`.*?(?:${seams[0]})|.+`, 'gsu'));
  const parts = pieces.flatMap((piece) => cut(piece, count, limit, seams.slice(1)));
  const out = parts.slice(0, 1);
  for (const part of parts.slice(1)) {
    if (count(out.at(-1) + part) <= limit) out[out.length - 1] += part;
    else out.push(part);
  }
  return out;
}

export function partsOf(line, language, splitsSentences, count, limit) {
  if (!line.trim()) return [];
  const sentences = splitsSentences ? sentencesOf(line, language) : [[line, '']];
  return sentences.flatMap(([sentence, gap]) => {
    const pieces = sentence ? splitLong(sentence, count, limit) : [''];
    return pieces.map((piece, i) => [piece, i < pieces.length - 1 ? ' ' : gap]);
  });
}
