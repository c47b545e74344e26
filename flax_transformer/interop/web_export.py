"""Exports a Transformer as a folder of static files that translate in a web browser: the page is web/."""

import gzip
import hashlib
import tarfile
from pathlib import Path

from flax_transformer.common.errors import UserError
from flax_transformer.tasks.translation.inference.translator import Translator

from .onnx_export import onnx_files
from .onnx_graph import WEIGHTS
from .stablehlo import refuse_existing, write_folder

_PAGE = Path(__file__).with_name('web')
# ONNX Runtime Web's files, and what they are called on the site.
_RUNTIME = {'ort.wasm.bundle.min.mjs': 'ort.wasm.bundle.min.mjs', 'ort-wasm-simd-threaded.wasm': 'runtime.wasm'}
_COMPRESSED = (WEIGHTS, 'runtime.wasm', 'pieces.json')  # here, as not every server does


def export_web(translator: Translator, folder: Path | str, runtime: Path) -> None:
    """Writes the site; `runtime` is the package onnxruntime-web of npm, a folder or its .tgz."""
    refuse_existing(folder)
    site = {_RUNTIME[name]: content for name, content in _read_runtime(runtime).items()}
    files, description = onnx_files(translator)
    site |= files | {file.name: file.read_bytes() for file in _PAGE.iterdir()}
    for name in _COMPRESSED:
        site[f'{name}.gz'] = gzip.compress(site.pop(name), mtime=0)
    version = hashlib.sha256(b''.join(site.values())).hexdigest()
    site['service.js'] = f"const VERSION = '{version}';\n".encode() + site['service.js']
    write_folder(folder, site, description)


def _read_runtime(package: Path) -> dict[str, bytes]:
    try:
        if package.is_dir():
            return {name: (package / 'dist' / name).read_bytes() for name in _RUNTIME}
        with tarfile.open(package) as archive:
            return {name: archive.extractfile(f'package/dist/{name}').read() for name in _RUNTIME}
    except (OSError, KeyError, tarfile.TarError) as error:
        how = 'npm pack onnxruntime-web@1.30.0, then --runtime onnxruntime-web-1.30.0.tgz'
        raise UserError(f'{package}: no ONNX Runtime for the web ({error}); get it once by {how}') from None
