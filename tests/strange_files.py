"""Each reader of files that a stranger may have made, with sound files to damage."""

import contextlib
import gzip
import hashlib
import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

TESTS = Path(__file__).parent
GOLDEN, MARIAN = TESTS / 'golden' / 'number_words', TESTS / 'fixtures' / 'marian'
LINES = ['seven', 'nine hundred and ninety-nine', '']


class Reader(NamedTuple):
    """What reads a kind of folder: `make` writes a sound one, `read` does what a user would with it."""

    make: Callable[[Path], Any]
    read: Callable[[Path], Any]
    prepare: Callable[[Path, Any], Any] = lambda folder, rng: None  # after the damage
    needs_jax: bool = False  # whether `make` or `read` computes with it


def make_run(folder: Path) -> None:
    """A run with everything that a run may have."""
    from flax_transformer.engine.runs.checksums import write_manifest
    from flax_transformer.tasks.translation.run import Run

    shutil.copytree(GOLDEN, folder)
    run = Run(folder)
    run.write_config(run.read_config())
    entry = {'path': '/absent/train.en', 'bytes': 3, 'mtime_ns': 1, 'sha256': '0' * 64}
    run.write_data_files({'train.{lang} en-de': [entry, entry]})
    (folder / 'average.json').write_text(json.dumps({'run': '/absent', 'steps': [1, 2]}) + '\n')
    for step in (folder / 'checkpoints').iterdir():
        write_manifest(step)


def make_run_files(folder: Path) -> None:
    make_run(folder)
    shutil.rmtree(folder / 'checkpoints')


def read_run_files(folder: Path) -> None:
    """All of a run but its checkpoints, as the commands read it."""
    from flax_transformer.engine.runs.learning_curves import table
    from flax_transformer.tasks.api import open_run
    from flax_transformer.tasks.translation.run import Run

    def check_config() -> None:
        config = open_run(folder).read_config()
        run = Run(folder)
        run.check(config)
        run.read_matching_tokenizer(config)

    run = Run(folder)
    each_of(
        check_config,
        lambda: use_tokenizer(run.read_tokenizer()),
        run.read_data_files,
        lambda: run.note_environment('cpu'),
        lambda: table([open_run(folder)]),
    )


def read_run(folder: Path) -> None:
    from flax_transformer.engine.runs.reading import CheckpointReader
    from flax_transformer.tasks.translation.loading import load_run

    each_of(lambda: load_run(folder), lambda: CheckpointReader(folder / 'checkpoints', say=print).best_steps(2))


def forget_manifests(folder: Path, rng: Any) -> None:
    """Half of the time, as in a run of an early version: nothing is stopped by a checksum."""
    if rng.random() < 0.5:
        for manifest in folder.glob('checkpoints/*/manifest.json'):
            with contextlib.suppress(OSError):
                manifest.unlink()


def read_resumed(folder: Path) -> None:
    """As training does: opens the checkpoints to write, and restores the whole state."""
    from flax_transformer.engine.runs.checkpoints import Checkpoints
    from flax_transformer.tasks.translation.run import Run

    run = Run(folder)
    run.check(run.read_config())
    with contextlib.closing(Checkpoints(run.checkpoints, say=print)) as checkpoints:
        checkpoints.restore(golden_state())


_STATES: list[Any] = []


def golden_state() -> Any:
    if not _STATES:
        from flax_transformer.tasks.api import make_trainer
        from flax_transformer.tasks.translation.run import Run

        _STATES.append(make_trainer(Run(GOLDEN).read_config()).shapes)
    return _STATES[0]


def make_sentencepiece(folder: Path) -> None:
    folder.mkdir()
    shutil.copy(GOLDEN / 'tokenizer' / 'sentencepiece.model', folder)
    for name in ('source', 'target'):
        shutil.copy(MARIAN / f'{name}.spm', folder)


def read_sentencepiece(folder: Path) -> None:
    """Each model as the tokenizer of a run, whose checksum a stranger computes anew."""
    from flax_transformer.text.sentencepiece_tokenizer import SentencePieceTokenizer

    def read_as_tokenizer(file: Path) -> None:
        home = folder.with_name('tokenizer')
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir()
        file.rename(home / 'sentencepiece.model')
        (home / 'tokenizer.json').write_text('{"kind": "sentencepiece"}')
        use_tokenizer(SentencePieceTokenizer.load(home))

    each_of(*(lambda file=file: read_as_tokenizer(file) for file in sorted(folder.iterdir())))


def use_tokenizer(tokenizer: Any) -> None:
    import numpy as np

    ids = tokenizer.encode(LINES)
    tokenizer.encode_target_flat(LINES)
    for line in ids:
        tokenizer.decode(line)
    tokenizer.decode(range(tokenizer.target_vocab_size))
    tokenizer.portable()
    _ = tokenizer.languages, tokenizer.digest, tokenizer.has_piece_for('a')
    with contextlib.suppress(ValueError):  # refused for Marian's
        tokenizer.sample_flat(LINES, seeds=np.arange(len(LINES), dtype=np.uint64), alpha=0.1)


def make_marian(folder: Path, weights: str = 'model.safetensors') -> None:
    folder.mkdir()
    for file in MARIAN.iterdir():
        if file.suffix in ('.json', '.spm') and file.name != 'expected.json':
            shutil.copy(file, folder)
    shutil.copy(MARIAN / weights, folder / ('pytorch_model.bin' if weights.endswith('.bin') else weights))


def read_marian_folder(folder: Path) -> None:
    from flax_transformer.huggingface.folder import read_folder

    use_tokenizer(read_folder(folder).tokenizer)


def read_weights(folder: Path) -> None:
    from flax_transformer.huggingface.weights import read_tensors

    dict(read_tensors(folder))


def make_pickles(folder: Path) -> None:
    folder.mkdir()
    for name in ('zip.bin', 'legacy.bin', 'bfloat16.bin'):
        shutil.copy(MARIAN / name, folder)


def read_pickles(folder: Path) -> None:
    from flax_transformer.huggingface.pickles import read_pickle

    each_of(*(lambda file=file: dict(read_pickle(file)) for file in sorted(folder.iterdir())))


def make_shards(folder: Path) -> None:
    folder.mkdir()
    tensors = {}
    from safetensors.numpy import load_file, save_file

    for number, (name, tensor) in enumerate(load_file(MARIAN / 'model.safetensors').items()):
        tensors.setdefault(f'model-{number % 2}.safetensors', {})[name] = tensor
    for name, some in tensors.items():
        save_file(some, folder / name)
    homes = {tensor: name for name, some in tensors.items() for tensor in some}
    (folder / 'model.safetensors.index.json').write_text(json.dumps({'metadata': {}, 'weight_map': homes}))


def make_cache(folder: Path) -> None:
    from flax_transformer.data.bitext.cache import Settings, cached_pairs

    folder.mkdir()
    for keep_text in (False, True):
        cached_pairs(*_corpus(), Settings(16, 16, keep_text=keep_text), folder)
    for lock in folder.glob('*.lock'):
        lock.unlink()


def read_cache(folder: Path) -> None:
    from flax_transformer.data.bitext.cache import Settings, find_cached

    def read_all(keep_text: bool) -> None:
        found = find_cached(*_corpus(), Settings(16, 16, keep_text=keep_text), folder)
        if found is not None:
            _ = len(found), int(found.source.offsets[-1])

    each_of(lambda: read_all(False), lambda: read_all(True))


def _corpus() -> tuple[Any, Any]:
    from flax_transformer.data.bitext.config import DataConfig
    from flax_transformer.data.bitext.sources import open_corpus
    from flax_transformer.tasks.translation.run import Run

    data = DataConfig(numbers_below=200, numbers_train=60, numbers_held_out=20)
    return open_corpus('number_words:train', data), Run(GOLDEN).read_tokenizer()


def make_export(folder: Path) -> None:
    from flax_transformer import Translator
    from flax_transformer.interop.stablehlo import export_run

    export_run(Translator.from_run(GOLDEN, beam_width=1, max_tokens=8), folder, platforms=['cpu'])


def read_export(folder: Path) -> None:
    from flax_transformer.common.errors import UserError
    from flax_transformer.interop.export_loader import load

    try:
        load(folder)
    except ValueError as error:  # load.py prints its sentence alone
        raise UserError(str(error)) from None


def is_plain(file: Path) -> bool:
    """Whether the fuzzer itself may read the file: a link may lead to one that waits for ever."""
    return file.is_file() and not file.is_symlink()


def adjust_checksums(folder: Path, rng: Any) -> None:
    """Half of the time, as a stranger would; but not of the program, which is code."""
    file = folder / 'export.json'
    if rng.random() < 0.5 or not is_plain(file):
        return
    with contextlib.suppress(Exception):
        info = json.loads(file.read_text())
        for name in info['sha256'].keys() - {'program.bin', 'load.py'}:
            if is_plain(folder / name):
                info['sha256'][name] = hashlib.sha256((folder / name).read_bytes()[:1_000_000]).hexdigest()
        file.write_text(json.dumps(info))


def make_batch(folder: Path) -> None:
    import numpy as np

    folder.mkdir()
    np.savez_compressed(folder / 'batch.npz', source=np.arange(12).reshape(3, 4), target=np.ones((3, 4), np.int32))


def read_batch(folder: Path) -> None:
    from flax_transformer.engine.non_finite import load_batch

    load_batch(folder / 'batch.npz')


def make_recordings(folder: Path) -> None:
    import soundfile
    from wav_files import tone, wav_bytes

    (folder / 'tar').mkdir(parents=True)
    (folder / 'a.wav').write_bytes(wav_bytes(tone(0.1)))
    for suffix in ('flac', 'aiff', 'ogg'):
        soundfile.write(folder / f'a.{suffix}', tone(0.1), 8000)
    names = sorted(file.name for file in folder.iterdir() if file.is_file())
    for name in ('m.jsonl', 'tar/m.jsonl'):
        rows = [{'path': each, 'text': 'x', 'offset': 0.02, 'duration': 0.05} for each in names]
        (folder / name).write_text('\n'.join(map(json.dumps, rows)))
    with tarfile.open(folder / 'tar' / 'r.tar.gz', 'w:gz') as archive:
        for name in names:
            archive.add(folder / name, name)


def read_recordings(folder: Path) -> None:
    from flax_transformer.data.audio.manifest import read_all, read_manifest

    quiet = lambda _: None
    homes = (folder, folder / 'tar')
    each_of(
        *(lambda home=home: read_all(read_manifest('m.jsonl', home, say=quiet), 16_000, say=quiet) for home in homes)
    )


def make_words(folder: Path) -> None:
    """Word vectors in files, a text, and the text as the ids of a run."""
    import numpy as np

    from flax_transformer.data.vector_files import write_vectors
    from flax_transformer.tasks.embeddings.config import WordsConfig
    from flax_transformer.tasks.embeddings.corpus import Text, prepare_corpus

    folder.mkdir()
    for name in ('v.bin', 'v.txt', 'v.txt.gz', 'v.txt.zst', 'v.bin.xz'):
        write_vectors(folder / name, ['a', 'b', 'c'], np.eye(3, 4, dtype=np.float32))
    (folder / 'text.tsv').write_text('a b c\tb\nc c\ta\n' * 9)
    _, vocabulary = prepare_corpus(Text([folder / 'text.tsv']), WordsConfig(min_count=1), folder, vocab_size=9)
    vocabulary.save(folder / 'vocabulary.txt')


def read_words(folder: Path) -> None:
    from flax_transformer.data.bitext.text_files import TableFiles
    from flax_transformer.data.vector_files import read_vectors
    from flax_transformer.tasks.embeddings.corpus import Vocabulary, load_corpus

    each_of(
        *(lambda file=file: read_vectors(file) for file in sorted(folder.glob('v.*')) if is_plain(file)),
        lambda: TableFiles('text', [folder / 'text.tsv'], ('en', 'de')).read(),
        lambda: Vocabulary.load(folder / 'vocabulary.txt'),
        lambda: load_corpus(folder, [folder / 'text.tsv'], 9),
    )


def make_guests(folder: Path) -> None:
    """Runs of the other tasks, without checkpoints."""
    import tiny_classification
    import tiny_embeddings
    import tiny_speech
    import tiny_trigger_word

    from flax_transformer.tasks.api import run_of
    from flax_transformer.tasks.classification import vocabulary as classification
    from flax_transformer.tasks.classification.run import Labels
    from flax_transformer.tasks.embeddings.corpus import Vocabulary
    from flax_transformer.tasks.speech.units import Units

    configs = tiny_speech.tiny_config(), tiny_trigger_word.tiny_config()
    for config in (tiny_classification.tiny_config(folder), tiny_embeddings.tiny_config(folder), *configs):
        run = run_of(config, folder / config.task)
        run.path.mkdir(parents=True)
        run.write_config(config)
        if config.task == 'embeddings':
            run.write_vocabulary(Vocabulary(['a', 'b'], [2, 1]))
        elif config.task != 'trigger_word':
            kind = Units if config.task == 'speech' else classification.Vocabulary
            run.write_tokenizer(kind.learn(LINES, config.tokenizer, config.model.vocab_size))
        if config.task == 'classification':
            run.write_labels(Labels(('bad', 'good'), (1, 2)))


def read_guests(folder: Path) -> None:
    from flax_transformer.tasks.api import open_run

    def read(path: Path) -> None:
        run = open_run(path)
        run.read_config()
        for part in ('tokenizer', 'vocabulary', 'labels'):
            getattr(run, f'read_{part}', lambda: None)()

    each_of(
        *(lambda task=task: read(folder / task) for task in ('classification', 'embeddings', 'speech', 'trigger_word'))
    )


def drop_links(folder: Path, rng: Any) -> None:
    """A user's own corpus may be a link: what it leads to is meant to be read."""
    for file in folder.iterdir():
        if file.is_symlink():
            file.unlink()


def make_texts(folder: Path) -> None:
    """Corpora of pairs and of labeled texts, and a glossary."""
    folder.mkdir()
    rows = [('a b', 'A B'), ('"c" d', 'Ã¶'), ('3 <b>', '4')] * 4
    for language, side in zip(('en', 'de'), zip(*rows, strict=True), strict=True):
        (folder / f'train.{language}').write_text('\n'.join(side))
        (folder / f'gz.{language}.gz').write_bytes(gzip.compress('\n'.join(side).encode()))
    (folder / 'pairs.tsv').write_text('\n'.join(map('\t'.join, rows)))
    for name, keys in (('pairs', ('en', 'de')), ('labels', ('text', 'label'))):
        lines = (json.dumps(dict(zip(keys, row, strict=True))) for row in rows)
        (folder / f'{name}.jsonl').write_text('\n'.join(lines))


def read_texts(folder: Path) -> None:
    """As `check` does, and as training and translating read them."""
    from flax_transformer.data.audit.checking import audit
    from flax_transformer.data.audit.config import CheckConfig, Vocabulary
    from flax_transformer.data.bitext.config import DataConfig
    from flax_transformer.data.bitext.sources import open_corpus
    from flax_transformer.tasks.classification.config import ClassificationDataConfig
    from flax_transformer.tasks.classification.reading import read_examples
    from flax_transformer.tasks.translation.glossary import Glossary
    from flax_transformer.text.tokenizer import TokenizerConfig

    def read_pairs(name: str) -> None:
        data = DataConfig(train=name, validation='', test='', root=str(folder))
        print(audit(data, CheckConfig(), Vocabulary(300, TokenizerConfig())))
        open_corpus(name, data).read()

    labeled = ClassificationDataConfig(root=str(folder))
    each_of(
        *(lambda name=name: read_pairs(name) for name in ('train.{lang}', 'gz.{lang}', 'pairs.tsv', 'pairs.jsonl')),
        *(lambda name=name: read_examples(name, labeled) for name in ('pairs.tsv', 'labels.jsonl')),
        lambda: Glossary.from_file(folder / 'pairs.tsv'),
    )


def each_of(*readers: Callable[[], Any]) -> None:
    """Reads in each way; raises the first refusal at the end."""
    refused = None
    for read in readers:
        try:
            read()
        except (ValueError, OSError) as error:
            if not is_refusal(error):
                raise
            refused = refused or error
    if refused is not None:
        raise refused


def is_refusal(error: BaseException) -> bool:
    """Whether a command would print the error as a sentence."""
    from flax_transformer.common.errors import UserError

    return isinstance(error, (UserError, OSError))


READERS = {
    'run_files': Reader(make_run_files, read_run_files),
    'checkpoint': Reader(make_run, read_run, forget_manifests, needs_jax=True),
    'resume': Reader(make_run, read_resumed, forget_manifests, needs_jax=True),
    'sentencepiece': Reader(make_sentencepiece, read_sentencepiece),
    'marian': Reader(make_marian, read_marian_folder),
    'pickles': Reader(make_pickles, read_pickles),
    'shards': Reader(make_shards, read_weights),
    'cache': Reader(make_cache, read_cache),
    'export': Reader(make_export, read_export, adjust_checksums, needs_jax=True),
    'batch': Reader(make_batch, read_batch),
    'recordings': Reader(make_recordings, read_recordings),
    'words': Reader(make_words, read_words),
    'guests': Reader(make_guests, read_guests),
    'texts': Reader(make_texts, read_texts, drop_links),
}
