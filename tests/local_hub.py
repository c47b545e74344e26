"""A server on this machine that speaks as much of Hugging Face's hub as downloads of a model need."""

import contextlib
import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlparse

LFS = ('.safetensors', '.bin', '.spm', '.model')


class Hub:
    """Serves models, a folder each; `requests` lists what was asked, and `change` may spoil a file's content."""

    def __init__(self) -> None:
        self.models: dict[str, Path] = {}
        self.requests: list[str] = []
        self.change = lambda name, content: content

    def commit(self, model: str) -> str:
        folder = self.models[model]
        names = ''.join(f'{file.name} {etag(file)}' for file in sorted(folder.iterdir()))
        return hashlib.sha1(names.encode()).hexdigest()


def etag(file: Path) -> str:
    content = file.read_bytes()
    if file.suffix in LFS:
        return hashlib.sha256(content).hexdigest()
    return hashlib.sha1(b'blob %d\0' % len(content) + content).hexdigest()


@contextlib.contextmanager
def serving() -> Iterator[tuple[Hub, str]]:
    """A hub and its address, for HF_ENDPOINT."""
    hub = Hub()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = 'HTTP/1.1'

        def log_message(self, *_: object) -> None:
            pass

        def send(self, code: int, content: bytes, headers: dict[str, str]) -> None:
            self.send_response(code)
            length = headers.pop('Content-Length', str(len(content)))
            for name, value in {**headers, 'Content-Length': length}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command == 'GET':
                self.wfile.write(content)
                self.close_connection |= len(content) != int(length)

        def do_GET(self) -> None:
            path = urlparse(self.path).path.strip('/')
            hub.requests.append(f'{self.command} {path}')
            parts = path.removeprefix('api/models/').split('/')
            model = '/'.join(parts[:2])
            if model not in hub.models:
                error = {'X-Error-Code': 'RepoNotFound', 'X-Error-Message': 'Repository not found'}
                return self.send(404, b'{}', error)

            commit = hub.commit(model)
            if len(parts) > 3 and parts[3] not in ('main', commit):
                return self.send(404, b'{}', {'X-Error-Code': 'RevisionNotFound'})
            folder = hub.models[model]
            if path.startswith('api/'):
                files = [_entry(file) for file in sorted(folder.iterdir())]
                siblings = [{'rfilename': entry['path'], **entry} for entry in files]
                info = {'id': model, 'sha': commit, 'siblings': siblings}
                answer = files if parts[2:3] == ['tree'] else info
                return self.send(200, json.dumps(answer).encode(), {'Content-Type': 'application/json'})

            file = folder / parts[4]
            if not file.is_file():
                return self.send(404, b'', {'X-Error-Code': 'EntryNotFound'})
            size = str(file.stat().st_size)
            headers = {'ETag': f'"{etag(file)}"', 'X-Repo-Commit': commit, 'Content-Length': size}
            self.send(200, hub.change(file.name, file.read_bytes()), headers)

        do_HEAD = do_GET

    server = ThreadingHTTPServer(('127.0.0.1', 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={'poll_interval': 0.05})
    thread.start()
    try:
        yield hub, f'http://127.0.0.1:{server.server_address[1]}'
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _entry(file: Path) -> dict:
    entry = {'type': 'file', 'path': file.name, 'size': file.stat().st_size, 'oid': etag(file)}
    if file.suffix in LFS:
        entry['lfs'] = {'oid': entry['oid'], 'sha256': entry['oid'], 'size': entry['size'], 'pointerSize': 130}
    return entry
