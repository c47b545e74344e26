"""Whether a site for the browser gives the translator's lines, in a headless Chromium; and how long it takes.

    python benchmarks/web_equality.py everyday lines.en [--runtime node_modules/onnxruntime-web]

Compared with `translate --decoding.literals ignored` of the weights in eight bits, as the site has them. Times are
medians: of a line in the browser's worker, and of a line translated alone in Python, one after the other on the same
machine; `ten_words_ms` is of lines of ten words.
"""

import argparse
import http.server
import json
import shutil
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from flax_transformer import Translator
from flax_transformer.interop.onnx_export import RUNTIME, export_onnx
from flax_transformer.ops.int8 import from_int8

PAGE = b"""<!doctype html><script type="module">
const { lines, inspections, source, target } = await (await fetch('lines.json')).json();
const worker = new Worker('worker.js', { type: 'module' });
const texts = [], ms = [], inspected = [];
const send = (result) => fetch('results', { method: 'POST', body: JSON.stringify(result) });
const next = () => {
  const number = texts.length;
  const inspection = inspections[inspected.length];
  if (number < lines.length) worker.postMessage({ translate: { number, text: lines[number], source, target } });
  else if (inspection) worker.postMessage({ inspect: { number, target, changes: {}, ...inspection } });
  else send({ texts, ms, inspected });
};
worker.onerror = (event) => send({ failed: event.message });
worker.onmessage = ({ data }) => {
  if (data.failed) send(data);
  if (data.ready) next();
  if (data.inspected) {
    inspected.push(data.inspected.text);
    next();
  }
  if (data.translated?.isLast) {
    texts.push(data.translated.text);
    ms.push(data.translated.ms);
    next();
  }
};
worker.postMessage({ load: true });
</script>"""


def translate_in_chromium(
    site: Path, lines: list[str], source: str, target: str, seconds: float = 3600, inspections: Sequence[dict] = ()
) -> dict:
    """The lines' translations, `texts`, and the time of each, `ms`; or what `failed`.

    Inspections are {sentence, broken, forced}, of which worker.js knows more; their translations are `inspected`.
    """
    asked = {'lines': lines, 'inspections': inspections, 'source': source, 'target': target}
    return open_in_chromium(site, PAGE, asked, seconds)


def open_in_chromium(site: Path, page: bytes, asked: dict, seconds: float) -> dict:
    """What a page sends to `results` that is opened among the site's files; it finds `asked` in lines.json."""
    asked = json.dumps(asked).encode()
    found: list[dict] = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments) -> None:
            super().__init__(*arguments, directory=str(site))

        def log_message(self, *_) -> None:
            pass

        def do_GET(self) -> None:
            own = {'/compare.html': ('text/html', page), '/lines.json': ('application/json', asked)}
            if self.path not in own:
                return super().do_GET()
            kind, content = own[self.path]
            self.send_response(200)
            self.send_header('Content-Type', kind)
            self.end_headers()
            self.wfile.write(content)

        def do_POST(self) -> None:
            found.append(json.loads(self.rfile.read(int(self.headers['Content-Length']))))
            self.send_response(204)
            self.end_headers()

    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        flags = ['--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run']
        address = f'http://127.0.0.1:{server.server_port}/compare.html'
        browser = subprocess.Popen(
            [shutil.which('chromium'), *flags, f'--user-data-dir={profile}', address],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        end = time.monotonic() + seconds
        while not found and time.monotonic() < end and browser.poll() is None:
            time.sleep(0.05)
        browser.terminate()
        browser.wait()
    server.shutdown()
    server.server_close()
    return found[0] if found else {'failed': f'no answer in {seconds} s'}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('run')
    parser.add_argument('lines', type=Path)
    parser.add_argument('--runtime', type=Path, default=RUNTIME)
    parser.add_argument('--most', type=int, default=1000)
    options = parser.parse_args()
    lines = options.lines.read_text('utf-8').splitlines()[: options.most]
    rounded = Translator.from_run(options.run, weights='int8')
    exact = Translator.from_run(options.run, literals='ignored', weights='float32')
    translator = exact.with_params(from_int8(rounded.weights))
    source, target = translator.source_language, translator.target_language
    with tempfile.TemporaryDirectory() as folder:
        site = Path(folder) / 'site'
        export_onnx(rounded, site, runtime=options.runtime)
        size = sum(file.stat().st_size for file in site.iterdir())
        found = translate_in_chromium(site, lines, source, target)
    if 'failed' in found:
        raise SystemExit(found['failed'])
    expected = [line.text for line in translator(lines)]
    differ = [trio for trio in zip(lines, found['texts'], expected, strict=True) if trio[1] != trio[2]]
    for line, own, other in differ:
        print(f'{line}\n  browser: {own}\n  package: {other}')
    ten = [i for i, line in enumerate(lines) if len(line.split()) == 10] or [0]
    alone = []
    for i in ten[:20]:
        translator(lines[i])  # compiled
        start = time.perf_counter()
        translator(lines[i])
        alone.append(1000 * (time.perf_counter() - start))
    result = {'lines': len(lines), 'equal': len(lines) - len(differ), 'site_bytes': size}
    result |= {
        'line_ms': statistics.median(found['ms']),
        'ten_words_ms': statistics.median(found['ms'][i] for i in ten),
    }
    print(json.dumps(result | {'ten_words_python_ms': statistics.median(alone)}))


if __name__ == '__main__':
    main()
