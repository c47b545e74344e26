// Files: dropped anywhere or chosen, translated by the server, and downloaded.

import { ask, at } from './ask.js';

let running = null; // the request that is under way

function show(state, { name = '', isError = false } = {}) {
  at('file-row').hidden = false;
  at('file-row').classList.toggle('failed', isError);
  at('file-name').textContent = name || at('file-name').textContent;
  at('file-state').textContent = state;
  at('download').hidden = true;
}

function close() {
  running?.abort();
  at('file-row').hidden = true;
}

async function translate(file) {
  running?.abort();
  running = new AbortController();
  const { signal } = running;
  const target = at('target').value;
  const form = new FormData();
  form.append('file', file);
  form.append('source', at('source').value);
  form.append('target', target);
  show('is being translated …', { name: file.name });
  at('file-row').classList.add('waiting');
  try {
    const { translatedFileUrl } = await ask('translate_file', form, signal);
    show('is translated.');
    // Behind a proxy the page's own address is the one that leads back.
    at('download').href = `download_file/${translatedFileUrl.split('/').at(-1)}`;
    at('download').download = file.name.replace(/(\.[^.]*)?$/, `.${target}$1`);
    at('download').hidden = false;
  } catch (error) {
    if (!signal.aborted) show(`is not translated. ${error.message}`, { isError: true });
  } finally {
    if (!signal.aborted) at('file-row').classList.remove('waiting');
  }
}

export function listenForFiles({ filesTranslation, supportedFilesFormat }) {
  const hasFiles = (event) => event.dataTransfer?.types.includes('Files');
  const highlight = (isOver) => at('card').classList.toggle('dropping', isOver && filesTranslation);
  at('open').hidden = !filesTranslation;
  at('file').accept = supportedFilesFormat.join();
  at('open').addEventListener('click', () => at('file').click());
  at('dismiss').addEventListener('click', close);
  at('file').addEventListener('change', () => {
    if (at('file').files.length) translate(at('file').files[0]);
    at('file').value = ''; // the same one may be chosen again
  });
  // Otherwise the browser would leave the page to open the file.
  addEventListener('dragover', (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    event.dataTransfer.dropEffect = filesTranslation ? 'copy' : 'none';
    highlight(true);
  });
  addEventListener('dragleave', (event) => {
    if (!event.relatedTarget) highlight(false);
  });
  addEventListener('drop', (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    highlight(false);
    if (filesTranslation && event.dataTransfer.files.length) translate(event.dataTransfer.files[0]);
  });
}
