"""One translator of the decoding benchmarks: `python decode_worker.py NAME SIZE`.

Answers each line `ROWS BEAM` on standard input with a line of JSON: target tokens a second over the batches of that
many sentences, repeated for half a second and at least once. NAME is one of TRANSLATORS: a function that takes a Size
and returns `translate(batch, beam)`, which gives the ids of each sentence. Weights are random. STARTED in the
environment is the time at which the process was started.
"""

import functools
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from measuring import peak_mib
from workload import EOS, FIRST, PAD, SIZES, Batch, Size, decoding_batches, marian_config, our_config

SPECIAL = tuple(range(FIRST))
ROWS = 16  # of the batches that a Translator runs at once on CPUs
Translate = Callable[[Batch, int], list[list[int]]]


def _model(size: Size, dtype: str = 'auto'):
    """Our config and random parameters."""
    import jax

    from flax_transformer.common.compilation_cache import use_compilation_cache
    from flax_transformer.transformer.model import Transformer, resolve_dtype

    use_compilation_cache()
    config = resolve_dtype(our_config(size, dtype=dtype))
    one = np.ones((1, 4), np.int32)
    return config, jax.jit(Transformer(config).init)(jax.random.key(0), one, one)['params']


def ours(size: Size, weights: str = '', dtype: str = 'auto') -> Translate:
    import jax

    from flax_transformer.config import DecodingConfig
    from flax_transformer.ops.decoding_weights import for_decoding
    from flax_transformer.ops.fastest_dtype import fastest_int8
    from flax_transformer.tasks.translation.inference.ids import SpecialIds, translate_ids
    from flax_transformer.transformer.model import Transformer

    config, params = _model(size, dtype)
    how = {'models': (Transformer(config),), 'special_ids': SpecialIds(PAD, EOS)}
    params = for_decoding(params, fastest_int8() if weights == 'int8' else config.dtype)  # as a Translator does

    @functools.cache
    def program(length: int, beam: int):
        decoding = DecodingConfig(beam_width=beam, max_tokens=length, banned_ids=SPECIAL)
        return jax.jit(functools.partial(translate_ids, **how, decoding=decoding))

    rows = ROWS if jax.default_backend() == 'cpu' else None
    threads = ThreadPoolExecutor(os.cpu_count())

    def translate(batch: Batch, beam: int) -> list[list[int]]:
        def search(ids: np.ndarray) -> list[list[int]]:
            found = program(batch.length, beam)(params, ids)
            return np.asarray(found.tokens)[:, 0].tolist()

        ids = batch.padded(batch.slots)
        if rows is None or len(ids) <= rows:
            return search(ids)
        parts = [ids[first : first + rows] for first in range(0, len(ids), rows)]
        return [tokens for part in threads.map(search, parts) for tokens in part]

    return translate


def ours_bfloat16(size: Size) -> Translate:
    return ours(size, dtype='bfloat16')


def ours_int8(size: Size) -> Translate:
    return ours(size, 'int8')


def ctranslate2(size: Size, compute_type: str = '', workers: int = 1) -> Translate:
    """Our weights in CTranslate2; decode_peers sets the threads of a worker. Each worker has its part of a batch."""
    import ctranslate2 as engine

    from flax_transformer.interop.ctranslate2 import write

    config, params = _model(size)
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / 'model', config, params, slots=1024)
        on = {'device': 'cuda'} if engine.get_cuda_device_count() else {}
        floats = 'bfloat16' if on else 'float32'
        on |= {'compute_type': compute_type or floats, 'inter_threads': workers}
        translator = engine.Translator(str(Path(folder) / 'model'), **on)

    def translate(batch: Batch, beam: int) -> list[list[int]]:
        results = translator.translate_batch(
            [list(map(str, ids)) for ids in batch.sources],
            max_batch_size=-(-len(batch.sources) // workers),
            beam_size=beam,
            min_decoding_length=batch.length,
            max_decoding_length=batch.length,
            suppress_sequences=[[str(i)] for i in SPECIAL if i != EOS],
        )
        return [list(map(int, result.hypotheses[0])) for result in results]

    return translate


def ctranslate2_int8(size: Size) -> Translate:
    return ctranslate2(size, 'int8')


def ctranslate2_int8_workers(size: Size) -> Translate:
    return ctranslate2(size, 'int8', workers=os.cpu_count() or 1)


def huggingface(size: Size, **settings: str) -> Translate:
    """MarianMTModel.generate; on an NVIDIA GPU where there is one, in bfloat16."""
    import torch
    from transformers import MarianMTModel

    on = {'device': 'cuda', 'dtype': torch.bfloat16} if torch.cuda.is_available() else {}
    model = MarianMTModel(marian_config(size)).eval().to(**on)
    pad = model.config.pad_token_id
    model.generation_config.forced_eos_token_id = None

    @torch.inference_mode()
    def translate(batch: Batch, beam: int) -> list[list[int]]:
        ids = torch.from_numpy(batch.padded()).long().to(model.device)
        ids = torch.where(ids == PAD, pad, ids)
        limits = {'min_new_tokens': batch.length, 'max_new_tokens': batch.length} | settings
        banned = {'suppress_tokens': [i for i in (*SPECIAL, pad) if i != EOS]}
        mask = (ids != pad).long()
        found = model.generate(input_ids=ids, attention_mask=mask, num_beams=beam, do_sample=False, **limits, **banned)
        return found[:, 1:].tolist()

    return translate


def huggingface_static(size: Size) -> Translate:
    """With a cache of fixed size, so that transformers compiles the step on a GPU."""
    return huggingface(size, cache_implementation='static')


SYSTEMS = (
    ours,
    ours_bfloat16,
    ours_int8,
    ctranslate2,
    ctranslate2_int8,
    ctranslate2_int8_workers,
    huggingface,
    huggingface_static,
)
TRANSLATORS = {each.__name__: each for each in SYSTEMS}


def main(name: str, size: str) -> None:
    translate = TRANSLATORS[name](SIZES[size])
    first = None
    warm: set[tuple[int, int]] = set()
    for line in sys.stdin:
        rows, beam = map(int, line.split())
        work = decoding_batches(SIZES[size], rows)
        if (rows, beam) not in warm:
            for batch in work:
                found = translate(batch, beam)
                first = first or time.time() - float(os.environ['STARTED'])
                assert all(len(ids) == batch.length and not {PAD, EOS} & set(ids) for ids in found), found
            warm.add((rows, beam))
        tokens = sum(batch.length * len(batch.sources) for batch in work)
        passes, started = 0, time.perf_counter()
        while not passes or time.perf_counter() - started < 0.5:
            for batch in work:
                translate(batch, beam)
            passes += 1
        rate = passes * tokens / (time.perf_counter() - started)
        print(json.dumps({'tokens_per_second': rate, 'first_seconds': first, 'mib': peak_mib()}), flush=True)


if __name__ == '__main__':
    main(*sys.argv[1:])
