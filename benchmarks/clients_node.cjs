// The calls of deepl-node, for clients.py: prints what each gave.

const fs = require('fs');
const deepl = require('deepl-node');

const given = JSON.parse(process.argv[2]);
const { source, target } = given;
const line = given.text.replace('\n', ' ');
const asks = new deepl.DeepLClient('a key', { serverUrl: given.url });

async function say(call, work) {
  try {
    const got = (await work()) ?? null;
    console.log(`{"call": ${JSON.stringify(call)}, "got": ${JSON.stringify(got)}}`);
    return got;
  } catch (error) {
    console.log(`{"call": ${JSON.stringify(call)}, "fault": ${JSON.stringify(String(error))}}`);
    return null;
  }
}

async function main() {
  const translate = async (text, options) => (await asks.translateText(text, source, target, options)).text;
  const codes = (languages) => languages.map(({ code }) => code);
  await say('source languages', async () => codes(await asks.getSourceLanguages()));
  await say('target languages', async () => codes(await asks.getTargetLanguages()));
  await say('glossary languages', async () => (await asks.getGlossaryLanguagePairs()).length);
  await say('usage', async () => (await asks.getUsage()).character.count);
  await say('text', () => translate(line));
  await say('list', async () => (await asks.translateText([line, 'The cat runs.'], null, target)).map(({ text }) => text));
  for (const splitSentences of ['off', 'on', 'nonewlines']) {
    await say(`splitSentences ${splitSentences}`, () => translate(given.text, { splitSentences }));
  }
  await say('preserveFormatting', () => translate('The dog sleeps', { preserveFormatting: true }));
  const tagged = '<p>The <b>dog</b> sleeps, <x id="1"></x> says.</p>';
  await say('xml', () => translate(tagged, { tagHandling: 'xml', ignoreTags: ['x'], nonSplittingTags: ['b'] }));
  const outline = { tagHandling: 'xml', outlineDetection: false, splittingTags: ['par'] };
  await say('outlineDetection', () => translate('<d><par>The dog.</par><par>The cat.</par></d>', outline));
  const entries = new deepl.GlossaryEntries({ entries: { garden: 'Park' } });
  const glossary = await say('glossary', () => asks.createGlossary('a', source, target, entries));
  await say('text with it', () => translate(line, { glossary }));
  const dictionary = { sourceLangCode: source, targetLangCode: target, entries };
  const several = await say('glossary v3', () => asks.createMultilingualGlossary('b', [dictionary]));
  const id = several?.glossaryId;
  const csv = () => asks.createMultilingualGlossaryWithCsv('c', source, target, '\ufeffdog,Dackel\n');
  await say('glossary v3 from CSV', csv);
  await say('glossary v3 changed', () => asks.updateMultilingualGlossaryDictionary(id, dictionary));
  const read = () => asks.getMultilingualGlossaryDictionaryEntries(id, source, target);
  await say('glossary v3 entries', async () => (await read()).entries.toTsv());
  await say('text with that', () => translate(line, { glossary: id }));
  await say('glossary v3 deleted', () => asks.deleteMultilingualGlossary(id));
  const file = `${given.folder}/node.html`;
  fs.rmSync(file, { force: true });
  const document = () =>
    asks.translateDocument(Buffer.from(`<h1>${line}</h1>`), file, source, target, { filename: 'a.html' });
  await say('document', async () => [(await document()).status, fs.readFileSync(file, 'utf8')]);
}

main();
