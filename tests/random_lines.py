"""Lines as the world sends them, by the seed; and what must be true of their translations. For a test and a fuzzer."""

import io
from collections import Counter
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np

from flax_transformer import Translator
from flax_transformer.cli.lines import chunks
from flax_transformer.config import Config, DecodingConfig, TransformerConfig
from flax_transformer.engine.runs.checkpoints import Checkpoints
from flax_transformer.tasks.translation.run import Run
from flax_transformer.text.sentencepiece_tokenizer import SentencePieceTokenizer
from flax_transformer.transformer.model import init_params

_WORDS = ('der die das und Haus Hund läuft schnell . , ! ? the cat sat on mat 42 10:30 Dr. naïve').split()  # noqa: SIM905
_ODD = '\r\t\x00\x01\x0b\x0c\x1c\x1f\x7f\x85\xa0\xad\u200b\u200d\u2028\u2029\ufeff\ufffd▁￿'
_EMOJI = ['😀', '👨\u200d👩\u200d👧', '🇩🇪', '👍🏽', '\U0010ffff']


def random_line(rng: np.random.Generator) -> bytes:
    """A line without its line feed, of any bytes but that one."""
    kind = rng.integers(0, 100)
    if kind < 6:
        text = ''
    elif kind < 10:
        text = ''.join(rng.choice(list(' \t\xa0\u3000\r'), rng.integers(1, 6)))
    elif kind < 55:
        text = ' '.join(rng.choice(_WORDS, rng.integers(1, 12)))
    elif kind < 65:
        text = ''.join(map(chr, rng.integers(32, 0xD7FF, rng.integers(1, 20))))
    elif kind < 75:
        text = ''.join(rng.choice(list(_ODD), rng.integers(1, 8))) + rng.choice(_WORDS)
    elif kind < 82:
        text = ' '.join(rng.choice(_EMOJI, rng.integers(1, 5)))
    elif kind < 90:
        return bytes(rng.integers(0, 256, rng.integers(1, 30), np.uint8)).replace(b'\n', b'\xff')
    elif kind < 96:
        text = 'x' * int(rng.integers(1, 90))
    else:
        text = ('Ein Satz, noch einer. ' if kind < 98 else '长句子没有空格') * int(rng.integers(5, 15))
    return text.replace('\n', ' ').encode()


def tiny_translator(*, seed: int = 0, **decoding: object) -> Translator:
    """A model of d_model 32 that has learned nothing, and a tokenizer that falls back to bytes."""
    lines = [' '.join(_WORDS), 'Ein Satz, noch einer.'] * 20
    tokenizer = SentencePieceTokenizer.train(lines, vocab_size=320)
    config = TransformerConfig(
        vocab_size=320, d_model=32, num_heads=2, d_ff=32, num_encoder_layers=1, num_decoder_layers=1
    )

    params = init_params(config, jax.random.key(seed))
    fields = {'beam_width': 1, 'max_tokens': 6, 'max_source_tokens': 64, 'batch_tokens': 16384, **decoding}
    return Translator(config, params, tokenizer, DecodingConfig(**fields))


def tiny_run(path: Path, translator: Translator) -> Path:
    """A run directory of the translator's model, for the commands."""
    run = Run(path)
    run.open(Config(model=translator.model.config, decoding=translator.decoding))
    run.write_tokenizer(translator.tokenizer)
    checkpoints = Checkpoints(run.checkpoints)
    checkpoints.save_params(translator.params)
    checkpoints.close()
    return path


def check_lines(translator: Translator, lines: list[bytes]) -> Counter:
    """Translates lines as the command does; raises AssertionError where one is lost, broken or wrongly flagged."""
    stream = io.BytesIO(b''.join(line + b'\n' for line in lines))
    alone = translator.with_decoding(replace(translator.decoding, literals='ignored'))
    read = list(chunks(stream, invalid='replace', size=10_000))
    kept = [one for chunk in read for one in translator(chunk)]
    found = [one for chunk in read for one in alone(chunk)]
    assert [one.replaced for one in kept] == [one.replaced for one in found]
    assert max(len(one.text.splitlines()) for one in kept) <= 1
    assert len(found) == len(lines)
    output = ''.join(one.text + '\n' for one in found).encode('utf-8')
    assert output.count(b'\n') == len(lines)
    counts: Counter = Counter(lines=len(lines))
    for number, (line, one) in enumerate(zip(lines, found, strict=True)):
        text = line.removeprefix(b'\xef\xbb\xbf' if number == 0 else b'').removesuffix(b'\r').decode('utf-8', 'replace')
        is_valid = text.encode('utf-8') == line.removeprefix(b'\xef\xbb\xbf' if number == 0 else b'').removesuffix(
            b'\r'
        )
        assert one.replaced == (not is_valid), line
        assert len(one.text.splitlines()) <= 1, one.text
        assert (one.num_tokens == 0) == (not text.strip()), line
        if not text.strip():
            assert one.text == '', line
        lengths = [len(ids) for ids in translator.tokenizer.encode([text, text.strip()])]
        is_long, is_long_stripped = (length > translator.decoding.max_source_tokens for length in lengths)
        # White space alone is no part: of a line that fits without it, one part is left.
        assert is_long_stripped <= one.split <= is_long, line
        counts['blank'] += not text.strip()
        counts['replaced'] += one.replaced
        counts['split'] += one.split
    return counts
