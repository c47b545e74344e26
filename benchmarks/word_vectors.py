"""Speed and quality of word vectors next to gensim's, in turns.

`python benchmarks/word_vectors.py FOLDER CONFIG [--gensim PYTHON] [--seeds N ...] [--epochs N] [--field value ...]`
prints lines of JSON.

For each seed, the config and then gensim is trained on the same tokens, gensim by two workers for as many epochs with
the same window, width, negatives and sampling. `words_per_second` are words that sampling leaves, in the time that
training takes; `cpu_microseconds` of all threads for one of them, with reading, compiling and saving in ours and
without reading in gensim's. Analogies and correlations are those of `flax-transformer evaluate`.

PYTHON has gensim: it runs `gensim_vectors.py`. For GloVe, which gensim lacks, pairs of words are counted.
"""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
from measuring import missing, run

from flax_transformer.data.named_files import data_root, matching_files
from flax_transformer.engine.monitor.reporter import read_metrics
from flax_transformer.tasks.api import load_config
from flax_transformer.tasks.embeddings.config import EmbeddingsConfig
from flax_transformer.tasks.embeddings.corpus import Text, lines_of_words
from flax_transformer.tasks.embeddings.evaluate import benchmark_files, score, total_of
from flax_transformer.tasks.embeddings.run import Run
from flax_transformer.tasks.embeddings.vectors import WordVectors

HERE = Path(__file__).parent


def write_tokens(config: EmbeddingsConfig, file: Path) -> Path:
    """Writes the config's text as words with spaces between them, unless it is there."""
    if not file.exists():
        files = matching_files(config.data.train, data_root(config.data.root))
        with file.open('w', encoding='utf-8') as out:
            for words in lines_of_words(Text(files), config.tokenizer):
                out.write(' '.join(words) + '\n')
    return file


def ours(config_name: str, work: Path, seed: int, fields: list[str], counted: str) -> dict[str, Any]:
    """Trains with the command that people use; `counted`: words or pairs."""
    command = [sys.executable, '-m', 'flax_transformer', '--quiet', 'train', config_name, '--workdir', str(work)]
    _, cpu = run(*command, '--seed', seed, *fields)
    records = [record for record in read_metrics(work) if record['kind'] == 'train']
    steps = np.diff([0, *(record['step'] for record in records)])
    total, seconds = (steps @ [record[name] for record in records] for name in (counted, 'seconds_per_step'))
    return {
        f'{counted}_per_second': round(total / seconds),
        'cpu_microseconds': round(1e6 * cpu / total, 2),
        **scores(WordVectors.from_run(work)),
    }


def gensims(python: str, config: EmbeddingsConfig, tokens: Path, out: Path, seed: int, epochs: int) -> dict[str, Any]:
    """Trains gensim's vectors, in its own interpreter."""
    model = config.model
    settings = {
        'vector_size': model.d_model,
        'window': model.window,
        'min_count': config.tokenizer.min_count,
        'sample': config.data.sample,
        'sg': int(model.method == 'skip_gram'),
        'hs': int(model.output == 'hierarchical_softmax'),
        'negative': model.negatives if model.output == 'negative_sampling' else 0,
        'alpha': config.optimizer.learning_rate,
        'epochs': epochs,
        'seed': seed,
        'workers': 2,
    }
    printed, _ = run(python, HERE / 'gensim_vectors.py', tokens, out, json.dumps(settings))
    return json.loads(printed) | scores(WordVectors.load(out))


def scores(vectors: WordVectors) -> dict[str, Any]:
    """Analogies in per cent with their coverage, and the correlations."""
    sections, correlations = score(vectors, *benchmark_files(None, ()))
    total = total_of(sections)
    found = {'analogies': round(100 * total.accuracy, 2), 'asked': total.asked, 'questions': total.total}
    for each in correlations:
        found |= {each.name: round(each.spearman, 4), f'{each.name}_pairs': f'{each.asked} of {each.total}'}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('folder', type=Path)
    parser.add_argument('config', help='a config file or a shipped config')
    parser.add_argument('--gensim', metavar='PYTHON', help='an interpreter with gensim')
    parser.add_argument('--seeds', type=int, nargs='+', default=[1])
    parser.add_argument('--epochs', type=int, default=5, help="gensim's")
    options, fields = parser.parse_known_args()
    config = load_config(options.config)
    counted = 'pairs' if config.model.method == 'glove' else 'words'
    options.folder.mkdir(parents=True, exist_ok=True)
    name = Path(options.config).stem
    lacking = missing(options.gensim, 'gensim') if options.gensim else 'no --gensim'
    if counted == 'pairs':
        lacking = 'gensim has no GloVe'
    for seed in options.seeds:
        work = options.folder / f'{name}-{seed}'
        found = {'ours': ours(options.config, work, seed, fields, counted)}
        if not lacking:
            trained = Run(work).read_config()  # with the fields that were given
            tokens = write_tokens(trained, options.folder / 'tokens.txt')
            out = options.folder / f'gensim-{name}-{seed}.bin'
            found['gensim'] = gensims(options.gensim, trained, tokens, out, seed, options.epochs)
        for who, row in found.items():
            print(json.dumps({'config': name, 'who': who, 'seed': seed, 'gensim': lacking, **row}), flush=True)


if __name__ == '__main__':
    os.environ.setdefault('OMP_NUM_THREADS', '1')  # gensim's workers are its threads
    main()
