"""The commands that translate and score, as a person calls them: whole lines, whatever interrupts."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from flax_transformer.cli.lines import LineWriter, to_json

LINES = ['a b c', '', 'd e', 'h']


@pytest.fixture
def call(call_command):
    return call_command


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / 'in').write_text(''.join(line + '\n' for line in LINES))
    return tmp_path


GREEDY = ('--decoding.beam-width', '1')


def test_jsonl_holds_everything_on_one_line_each(copy_run, call) -> None:
    code, out, _ = call('translate', copy_run, '--format', 'jsonl', '--n-best', '2', text='a b\u2028\n\nc\n')
    records = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert len(records) == 3
    assert records[1]['translation'] == ''
    assert records[2]['translation'] == 'c'
    assert records[2]['n_best'][0]['text'] == 'c'
    assert records[2]['log_prob'] == pytest.approx(sum(records[2]['token_log_probs']))
    flags = {'truncated', 'split', 'repetition', 'untranslated', 'replaced'}
    assert flags | {'score', 'tokens', 'token_ids', 'num_tokens'} <= set(records[0])


def test_a_file_in_place_of_a_run_is_named_with_its_option(copy_run, call, folder) -> None:
    code, _, err = call('translate', copy_run, folder / 'in')
    assert code == 2
    assert f'--input {folder / "in"}' in err


def test_files_alignments_and_notes(copy_run, call, folder) -> None:
    options = ('--input', folder / 'in', '--output', folder / 'out', '--alignments', folder / 'links')
    code, out, err = call('translate', copy_run, *options, '--decoding.max-tokens', '2')
    assert (code, out) == (0, '')
    assert len((folder / 'out').read_text().splitlines()) == 4
    links = (folder / 'links').read_text().splitlines()
    assert len(links) == 4
    assert links[0].startswith('0-0')
    assert links[1] == ''
    assert 'translations cut at' in err
    assert 'links is not empty' in call('translate', copy_run, *options)[2]
    assert (
        'are both' in call('translate', copy_run, '--input', folder / 'out', '--output', folder / 'out', '--resume')[2]
    )
    code, out, err = call('translate', copy_run, '--input', folder / 'lost')
    assert (code, out) == (2, '')
    assert 'lost does not exist' in err
    (folder / 'links').unlink()
    assert 'out is not empty' in call('translate', copy_run, *options)[2]


def test_an_interrupted_file_is_continued_behind_its_last_whole_line(copy_run, call, folder) -> None:
    (folder / 'out').write_text('kept\n\nhalf a li')
    code, _, _ = call('translate', copy_run, *GREEDY, '--input', folder / 'in', '--output', folder / 'out', '--resume')
    assert code == 0
    assert (folder / 'out').read_text() == 'kept\n\nd e\nh\n'
    again = call('translate', copy_run, *GREEDY, '--input', folder / 'in', '--output', folder / 'out', '--resume')
    assert again[0] == 0
    assert (folder / 'out').read_text() == 'kept\n\nd e\nh\n'


def test_what_cannot_be_continued_is_refused(copy_run, call, folder) -> None:
    assert 'give it as --output' in call('translate', copy_run, '--resume')[2]
    with_n_best = ('--resume', '--output', folder / 'out', '--n-best', '2')
    assert 'give --format jsonl' in call('translate', copy_run, *with_n_best)[2]


@pytest.mark.slow
def test_two_runs_and_a_checkpoint_by_name_translate(copy_run, call) -> None:
    code, out, _ = call('translate', copy_run, f'{copy_run}@125', *GREEDY, text='a b c\n')
    assert (code, out) == (0, 'a b c\n')
    code, _, err = call('translate', f'{copy_run}@7', text='a\n')
    assert code == 2
    assert '125, 250' in err


def test_given_pairs_are_scored(copy_run, call, folder) -> None:
    files = ('--source', folder / 'in', '--target', folder / 'in')
    code, out, _ = call('score', copy_run, *files, '--alignment')
    assert code == 0
    rows = [line.split('\t') for line in out.splitlines()]
    assert len(rows) == 4
    assert all(float(row[0].split()[0]) < 0 for row in rows)
    code, out, _ = call('score', copy_run, *files, '--format', 'jsonl')
    assert json.loads(out.splitlines()[0])['tokens'][-1] == '</s>'
    assert call('score', copy_run)[0] == 2


@pytest.mark.slow
def test_compare_prints_both_tests_of_two_systems(copy_run, call, folder) -> None:
    (folder / 'other').write_text('a b\n\nd\nh h\n')
    files = ('--source', folder / 'in', '--reference', folder / 'in', '--trials', '50', '--resamples', '50')
    code, out, _ = call('compare', copy_run, folder / 'other', *files)
    assert code == 0
    for word in ('p by bootstrap', 'p by randomization', 'chrF2++', 'TER', 'nrefs:1'):
        assert word in out
    code, out, _ = call('compare', folder / 'other', folder / 'in', *files, '--json')
    assert [json.loads(line)['metric'] for line in out.splitlines()] == ['BLEU', 'chrF2', 'chrF2++', 'TER']
    assert 'got 1 systems' in call('compare', copy_run)[2]
    own_set = 'test.in'  # the run's, whichever of the two it is
    for names in ((copy_run, folder / 'other'), (folder / 'other', copy_run)):
        assert own_set in call('compare', *names, '--data.root', folder)[2]
    for names in (
        (folder / 'in', folder / 'other', '--source', folder / 'in'),
        (copy_run, folder / 'other', *files[2:]),
    ):
        assert call('compare', *names)[0] == 2


def test_compare_shows_the_references_that_a_line_has(call, folder) -> None:
    (folder / 'other').write_text('a b\n\nd\nh h\n')
    (folder / 'all.tsv').write_text('a b c\n\nd e\te d\nh\n')
    files = ('--reference', folder / 'all.tsv', '--trials', '5', '--resamples', '5')
    code, out, _ = call('compare', folder / 'other', folder / 'in', *files)
    assert code == 0
    assert 'nrefs:var' in out
    assert out.count('  reference  ') == 4
    assert call('compare', folder / 'in', folder / 'in', *files)[1].endswith('\nthe two gave the same translations\n')


def test_analyze_prints_the_table_and_what_follows(copy_run, call, folder) -> None:
    files = ('--source', folder / 'in', '--reference', folder / 'in')
    code, out, _ = call('analyze', copy_run, *files, '--widths', '1', '2')
    assert code == 0
    assert 'faults of the search' in out
    assert 'BLEU is best with beam width' in out
    code, out, _ = call('analyze', copy_run, *files, '--widths', '1', '--json')
    assert json.loads(out)['beam_width'] == 1
    assert '--widths' in call('analyze', copy_run, *files, '--widths', '0')[2]


@pytest.mark.slow
def test_an_ensemble_is_evaluated_with_several_references(copy_run, call, folder) -> None:
    (folder / 'other').write_text('a b\n\nd\nh h\n')
    files = ('--source', folder / 'in', '--reference', folder / 'in', folder / 'other')
    code, out, _ = call('evaluate', copy_run, f'{copy_run}@last', *files, *GREEDY, '--json')
    scores = json.loads(out)
    assert code == 0
    assert scores['bleu_signature'].startswith('nrefs:2')
    assert scores['perplexity'] < 3


NOTING = """
import atexit, sys
from pathlib import Path
from flax_transformer.cli import launch
file = Path(sys.argv.pop())
atexit.register(lambda: file.write_text(' '.join({name.partition('.')[0] for name in sys.modules})))
launch()
"""


@pytest.mark.slow
def test_a_reader_that_leaves_ends_the_command_quietly_and_nothing_superfluous_was_imported(
    copy_run: Path, tmp_path: Path
) -> None:
    (tmp_path / 'in').write_text('a b c\n' * 6_000)
    options = (*GREEDY, '--decoding.batch-tokens', '4096')
    command = [sys.executable, '-c', NOTING, 'translate', str(copy_run), *options, str(tmp_path / 'modules')]
    with (tmp_path / 'in').open('rb') as lines:
        process = subprocess.Popen(command, stdin=lines, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert process.stdout.readline() == b'a b c\n'
        process.stdout.close()
        error = process.stderr.read()
        assert process.wait(timeout=120) == 1
        process.stderr.close()
    assert error == b'flax-transformer: translating in to out\n'
    modules = set((tmp_path / 'modules').read_text().split())
    assert {'jax', 'flax', 'sentencepiece'} <= modules
    training = {'grain', 'optax', 'tensorflow_datasets', 'tensorboardX', 'num2words', 'pyarrow'}
    others = {'sacrebleu', 'matplotlib', 'sentencex', 'pandas', 'scipy', 'IPython', 'tensorflow', 'torch', 'requests'}
    assert not (training | others) & modules


def test_a_name_that_is_no_utf8_is_escaped_and_loses_no_line(tmp_path) -> None:
    name = os.fsdecode(b'bad\xff.wav')
    with LineWriter(tmp_path / 'out') as writer:
        writer.write([to_json({'file': name}), 'next'])
    first, second = (tmp_path / 'out').read_text().splitlines()
    assert json.loads(first) == {'file': name}
    assert second == 'next'
