"""Every benchmark runs at its smallest size; what it lacks, a package or a corpus, is named where it is skipped."""

import importlib.util
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from conftest import ROOT, corpus

FOLDER = ROOT / 'benchmarks'


class Smallest(NamedTuple):
    """The arguments of a benchmark's smallest run; of a name in braces, a fixture or a path, they have its value."""

    arguments: str = ''
    needs: tuple[str, ...] = ()  # packages
    corpus: str = ''  # below $FLAX_TRANSFORMER_DATA
    result: tuple[str, ...] = ()  # fields of the last line that prove it; (): it prints no JSON


SMALLEST = {
    'accelerator': Smallest('{out} --smallest', result=('results',)),
    'attention_scores': Smallest('--widths 4 --scores dot --seeds 1 --steps 20 --output {out}', result=('loss',)),
    'batches': Smallest(
        '--pairs 1000 --vocab-size 500 --workers 0 --seconds 0.1 --warm-up 0', result=('plain_same_batches',)
    ),
    'bench': Smallest('--only tiny --rounds 1 --cells 1x1', result=('processor', 'rows')),
    'check': Smallest('--pairs 500', result=('pairs_per_second', 'found')),
    'clients': Smallest('{golden}', result=('clients', 'translations')),
    'data': Smallest('--pairs 500 --vocab-size 500 --rounds 1', result=('first_batch_seconds',)),
    'decode_cost': Smallest('--lengths 8 --rows 1 --beam 1', result=('milliseconds_per_token',)),
    'decode_peers': Smallest('tiny --cells 1x1 --rounds 1', result=('cells', 'skipped')),
    'documents': Smallest('{out}', result=('format', 'missing')),
    'ends': Smallest('--pairs 1 --load 0', result=('codes',)),
    'everyday': Smallest('{out} --smallest', corpus='europarl_en_de', result=('megabytes', 'bleu')),
    'fairness': Smallest('{golden} --seconds 0.5 --rounds 1 --connections 1', result=('ratio', 'replies')),
    'fuzz_files': Smallest('--mutations 2 --reader run_files', result=('mutations',)),
    'fuzz_lines': Smallest('24', result=('lost_or_broken',)),
    'interrupts': Smallest('--tries 1 --caches warm --commands help', result=('interrupts',)),
    'invariance': Smallest('{golden} {lines}', result=('lines_that_differ',)),
    'kinds': Smallest('{golden} {lines} --kinds 3 --still 1', result=('ratio', 'statuses')),
    'kill': Smallest('--kills 3 --real 1 --strategy pmap', result=('differ',)),
    'learning': Smallest('--count 2 --general-count 2', ('rapidfuzz',), 'multi30k'),
    'lengths': Smallest('--lengths 16 --rounds 1', result=('step_ms', 'sentence_ms')),
    'marian_parity': Smallest(needs=('torch', 'transformers'), result=('logits',)),
    'negation': Smallest('{tiny_classifier} --negative neg --positive pos', result=('encoder',)),
    'norms': Smallest(
        '--steps 4 --norms layer --rounds 1 --folder {out}', corpus='multi30k/tok_lc', result=('perplexity',)
    ),
    'onnx_equality': Smallest('{golden} {lines}', ('onnx', 'onnxruntime'), result=('float32 beam 4',)),
    'read_while_training': Smallest('--reads 6 --readers 1', result=('reads', 'found')),
    'real_text': Smallest('everyday --every 40', result=('lines', 'once')),
    'reproduce': Smallest('model --only-print'),
    'robust': Smallest('everyday --lines 2', corpus='tatoeba_en_de', result=('right',)),
    'rt_polarity': Smallest(
        '{out} rt_polarity --folds 1 --linear --training.steps 2', ('sklearn',), 'rt_polarity', ('accuracy',)
    ),
    'serve': Smallest('{golden} {lines} --clients 1 2 --requests 4 --rounds 1', result=('1', '2')),
    'soak': Smallest('{golden} {lines} --minutes 0.05 --clients 1', result=('5xx', 'faults')),
    'speech': Smallest('{out} --only official --training.steps 2', ('jiwer',), 'fsdd', ('ten_minutes',)),
    'start_up': Smallest('{golden} --rounds 1', result=('ratio',)),
    'students': Smallest(
        '{golden} {golden} --source {lines} --reference {lines} --lines 4 --rounds 1',
        result=('ratio', 'bleu'),
    ),
    'teaching': Smallest('--count 2 --rest 1', ('rapidfuzz',), 'multi30k', ('ratio', 'megabytes')),
    'terms': Smallest('--lines 8 --no-times', corpus='tatoeba_en_de', result=('in_place', 'missing', 'inflection')),
    'train': Smallest('--batches 1 --rounds 1 --peers {python}', result=('tokens_per_second', 'skipped')),
    'translation_errors': Smallest(corpus='tatoeba_en_de'),
    'trigger_word': Smallest('{tiny_detector} --hours 0.1', result=('times_real_time',)),
    'web_equality': Smallest('{golden} {lines} --most 1', ('onnx', 'onnxruntime-web'), result=('equal',)),
    'word_queries': Smallest('--calls 5', result=('ms',)),
    'word_vectors': Smallest('{out} skip_gram --training.steps 2', (), 'schools_wiki', ('analogies',)),
}


def test_every_benchmark_has_a_smallest_size() -> None:
    scripts = {file.stem for file in FOLDER.glob('*.py') if "__name__ == '__main__'" in file.read_text('utf-8')}
    assert scripts - {'decode_worker', 'gensim_vectors'} | {'reproduce'} == set(SMALLEST)


@pytest.mark.slow
@pytest.mark.parametrize('name', SMALLEST)
def test_a_benchmark_runs_at_its_smallest_size(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    smallest = SMALLEST[name]
    for package in smallest.needs:
        if importlib.util.find_spec(package) is None and not (ROOT / 'node_modules' / package).exists():
            pytest.skip(f'{package} is not installed')
    if smallest.corpus:
        corpus(smallest.corpus)
    (tmp_path / 'lines').write_text('forty-two\n\nnine hundred\n', encoding='utf-8')
    values = {
        'out': tmp_path / 'out',
        'lines': tmp_path / 'lines',
        'golden': ROOT / 'tests' / 'golden' / 'number_words',
        'python': sys.executable,
    }
    for fixture in ('tiny_classifier', 'tiny_detector'):
        if fixture in smallest.arguments:
            values[fixture] = request.getfixturevalue(fixture)
    script = ['-m', f'benchmarks.{name}'] if name in ('reproduce', 'translation_errors') else [FOLDER / f'{name}.py']
    arguments = shlex.split(smallest.arguments.format_map(values))
    environment = {name: value for name, value in os.environ.items() if name != 'JAX_NUM_CPU_DEVICES'}
    done = subprocess.run(
        [sys.executable, *map(str, script), *arguments],
        cwd=ROOT,
        env=environment | {'PYTHONPATH': str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    last = done.stdout.splitlines()[-1]
    assert not smallest.result or set(smallest.result) <= json.loads(last).keys(), done.stdout
