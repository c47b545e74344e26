"""Word vectors beside gensim: `python benchmarks/word_queries.py [FILE] [--gensim PYTHON]`; lines of JSON.

Times of `king - man + woman`, 3CosAdd and 3CosMul, over all words of FILE (word2vec's binary format; by default 30,000
random vectors of 100 values): the median of 200 calls in a process that has made one before, and CPU time per call.

PYTHON has gensim 4.4: it answers the same questions, taking turns with us, and each side reads what the other wrote, in
word2vec's two formats and GloVe's. Ends with an error unless vectors are equal to the bit and files to the byte.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

FORMS = {'binary': 'a.bin', 'text': 'a.txt', 'glove': 'a.glove.txt'}
CALLS, ROUNDS = 200, 3
PEER = """
import json, sys, time
from pathlib import Path
from gensim.models import KeyedVectors

folder, calls = Path(sys.argv[1]), int(sys.argv[2])
options = {'binary': {'binary': True}, 'text': {}, 'glove': {'no_header': True}}
read = {form: KeyedVectors.load_word2vec_format(folder / name, **options[form])
        for form, name in json.loads(sys.argv[3]).items()}
for form, vectors in read.items():
    given = {'binary': form == 'binary', 'write_header': form != 'glove'}
    vectors.save_word2vec_format(folder / f'gensim.{form}', **given)
vectors = read['binary']
words = json.loads(sys.argv[4])
for name in ('most_similar', 'most_similar_cosmul'):
    ask = getattr(vectors, name)
    ask([words[1], words[2]], [words[0]])
    cpu, times = time.process_time(), []
    for _ in range(calls):
        start = time.perf_counter()
        ask([words[1], words[2]], [words[0]])
        times.append(time.perf_counter() - start)
    times.sort()
    answers = [word for word, _ in ask([words[1], words[2]], [words[0]])]
    print(json.dumps([times[calls // 2] * 1e3, (time.process_time() - cpu) / calls * 1e3, answers]))
"""


def timed(ask: Callable[[], object]) -> tuple[float, float]:
    """Median wall time and mean CPU time of a call, in milliseconds."""
    ask()
    cpu, times = time.process_time(), []
    for _ in range(CALLS):
        start = time.perf_counter()
        ask()
        times.append(time.perf_counter() - start)
    return 1e3 * float(np.median(times)), 1e3 * (time.process_time() - cpu) / CALLS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('file', nargs='?', type=Path)
    parser.add_argument('--gensim', metavar='PYTHON', help='an interpreter with gensim 4.4')
    parser.add_argument('--words', nargs=3, default=('man', 'woman', 'king'), metavar=('A', 'B', 'C'))
    options = parser.parse_args()

    from flax_transformer.tasks.embeddings.vectors import WordVectors

    if options.file is None:
        matrix = np.random.default_rng(0).standard_normal((30_000, 100)).astype(np.float32)
        vectors = WordVectors([*options.words, *(f'word{i}' for i in range(30_000 - 3))], matrix)
    else:
        vectors = WordVectors.load(options.file, 'binary')
    with tempfile.TemporaryDirectory() as folder:
        for form, name in FORMS.items():
            vectors.save(Path(folder, name), form)
        for number in range(ROUNDS):
            theirs = ask_gensim(options.gensim, Path(folder), options.words) if options.gensim else [None] * 2
            for method, peer in zip(('add', 'mul'), theirs, strict=True):
                wall, cpu = timed(lambda method=method: vectors.analogy(*options.words, method=method))
                found = {'round': number, 'words': len(vectors), 'method': method, 'ms': wall, 'cpu_ms': cpu}
                if peer is not None:
                    answers = [each.word for each in vectors.analogy(*options.words, method=method)]
                    found |= {'gensim_ms': peer[0], 'gensim_cpu_ms': peer[1], 'same_answers': answers == peer[2]}
                print(json.dumps(found), flush=True)
        if options.gensim:
            check_files(vectors, Path(folder))


def ask_gensim(python: str, folder: Path, words: tuple[str, ...]) -> list[list]:
    """gensim's median and CPU milliseconds and its answers, for 3CosAdd and 3CosMul; it also writes its files."""
    command = [python, '-c', PEER, str(folder), str(CALLS), json.dumps(FORMS), json.dumps(words)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def check_files(vectors, folder: Path) -> None:
    """Ends the program unless gensim wrote our vectors, and we read them, as they were."""
    from flax_transformer.tasks.embeddings.vectors import WordVectors

    for form, name in FORMS.items():
        ours, theirs = (folder / name).read_bytes(), (folder / f'gensim.{form}').read_bytes()
        found = WordVectors.load(folder / f'gensim.{form}', form)
        is_equal = found.words == vectors.words and found.matrix.tobytes() == vectors.matrix.tobytes()
        print(json.dumps({'format': form, 'bytes': len(ours), 'same_file': ours == theirs, 'same_bits': is_equal}))
        if not is_equal or ours != theirs:
            sys.exit(f'{form}: gensim wrote other vectors than we did')


if __name__ == '__main__':
    main()
