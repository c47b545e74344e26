"""`distill` makes a small model from a teacher's translations, and goes on wherever it was stopped."""

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from conftest import TESTS
from drawn_params import drawn
from fairseq_folders import write_folder
from flax.traverse_util import flatten_dict
from num2words import num2words

from flax_transformer.cli import distill
from flax_transformer.common.errors import Interrupted, UserError
from flax_transformer.data.lines import each_line
from flax_transformer.data.shards import RECORD
from flax_transformer.engine.runs import averaging
from flax_transformer.engine.runs.averaging import write_copy
from flax_transformer.interop.huggingface_runs import import_huggingface
from flax_transformer.tasks.new_config import Candidate, changed
from flax_transformer.tasks.translation import distillation
from flax_transformer.tasks.translation.distillation import score_backward, start_of, students, write_pairs
from flax_transformer.tasks.translation.fewer_layers import write_fewer_layers
from flax_transformer.tasks.translation.inference.translator import Translator
from flax_transformer.tasks.translation.loading import load_run
from flax_transformer.tasks.translation.run import Run
from flax_transformer.tasks.translation.taught import Taught
from flax_transformer.transformer.model import parameter_shapes

TEACHER = TESTS / 'golden' / 'number_words'
LANGUAGES = ('--from', 'en', '--to', 'de')
TINY = {
    'model.d_model': 32,
    'model.d_ff': 64,
    'model.num_encoder_layers': 2,
    'model.num_decoder_layers': 1,
    'training.tokens_per_step': 512,
    'training.sample_translations': 0,
    'training.calibrate_on': 0,
    'decoding.beam_width': 1,
    'decoding.batch_tokens': 128,
}


def write(file: Path, lines: list[str]) -> None:
    file.write_text(''.join(f'{line}\n' for line in lines), encoding='utf-8')


def taught(folder: Path, made: Path) -> Taught:
    """The files `source` and `reference` of a folder, and pieces of translations, objects as JSON."""
    (made / RECORD).write_text('{"format": "jsonl"}')
    return Taught((folder / 'source',), (folder / 'reference',), (made,))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with 120 numbers in English, a blank line, and their German."""
    monkeypatch.chdir(tmp_path)
    numbers = [*range(1000, 121_000, 1000)]
    write(tmp_path / 'text.en', [*(num2words(number) for number in numbers), ''])
    write(tmp_path / 'text.de', [*(num2words(number, lang='de') for number in numbers), ''])
    return tmp_path


@pytest.fixture
def is_tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    def fit(candidates: list[Candidate], _: float) -> list[Candidate]:
        return [replace(candidates[0], base=changed(candidates[0].base, TINY), steps=2)]

    monkeypatch.setattr(distill, 'fit', fit)


@pytest.mark.slow
def test_a_student_is_made_whatever_stops_the_command(
    folder: Path, is_tiny: None, call_command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """References choose among the n-best; what is done is not done again. A second file goes on after the first."""
    for language in ('en', 'de'):
        lines = [*each_line(folder / f'text.{language}')]
        write(folder / f'more.{language}', lines[:50])
        write(folder / f'text.{language}', lines[50:])
    argv = ('distill', TEACHER, 'small.py', '--source', 'text.en', 'more.en', '--reference', 'text.de', 'more.de')
    train = distill.train.train_as_asked

    def stop(*_: Any, **__: Any) -> None:
        raise Interrupted('SIGTERM')

    monkeypatch.setattr(distill.train, 'train_as_asked', stop)
    assert call_command(*argv)[0] == 75
    assert "train='small.data/en-de.{lang}'" in Path('small.py').read_text()
    first = next(each_line(Path('small.data/raw/en-de/text.en.000000')))
    assert len(json.loads(first)['n_best']) == 4
    config = Path('small.py').rename('written')
    code, _, err = call_command(*argv, '--decoding.max-tokens', '9')
    assert (code, 'Give another name than small.py, or remove small.data' in err) == (2, True), err
    config.rename('small.py')
    held_out = [list(each_line(Path(f'small.data/raw/en-de.test.{language}'))) for language in ('en', 'de')]
    both = [[num2words(number, lang=language) for number in range(1000, 121_000, 1000)] for language in ('en', 'de')]
    assert set(zip(*held_out, strict=True)) < set(zip(*both, strict=True))

    monkeypatch.setattr(distill, 'translate_shard', stop)
    monkeypatch.setattr(distill.train, 'train_as_asked', train)
    monkeypatch.setattr(distill, '_write_card', stop)
    assert call_command(*argv)[0] == 75
    assert Path('runs/small/checkpoints/2').is_dir()
    assert not Path('runs/small-int8').exists()

    monkeypatch.undo()
    monkeypatch.chdir(folder)
    code, out, _ = call_command(*argv)
    assert code == 0
    assert 'en-de, 6 lines held out' in out
    rows = out.partition('lines/s\n')[2].splitlines()[:3]
    assert [row.split()[0] for row in rows] == ['teacher', 'student', 'gap']
    assert '| held out, en-de | chrf | ' in Path('runs/small-int8/README.md').read_text()
    run = load_run('runs/small-int8')
    assert run.config.decoding.weights == 'int8'
    assert (Path('runs/small-int8/checkpoints/0/int8')).is_dir()


@pytest.fixture
def deep(tmp_path: Path) -> Path:
    """A run like the teacher, but with four decoder layers, of random parameters."""
    run = load_run(TEACHER)
    config = replace(run.config, model=replace(run.config.model, num_decoder_layers=4))
    write_copy(Run(TEACHER), tmp_path / 'deep', config, drawn(parameter_shapes(config.model)))
    return tmp_path / 'deep'


def test_a_student_begins_with_the_first_and_last_decoder_layer(deep: Path, tmp_path: Path) -> None:
    directions = {'en-de': ('en', 'de')}
    start = start_of(str(deep), directions, 10)
    write_fewer_layers(deep, tmp_path / 'start', start)
    whole, layers = (flatten_dict(load_run(run).params, sep='/') for run in (deep, tmp_path / 'start'))
    assert {name: leaf.shape for name, leaf in layers.items()} == {
        name: leaf.shape for name, leaf in flatten_dict(parameter_shapes(start.model), sep='/').items()
    }
    for name, leaf in layers.items():
        assert np.array_equal(leaf, whole[name.replace('decoder/layers_1', 'decoder/layers_3')]), name

    assert start_of(str(deep), directions, 0.01) is None  # megabytes
    assert start_of(str(deep), {'en-de': ('eng_Latn', 'deu_Latn')}, 10) is None
    assert start_of(str(TEACHER), directions, 10) is None  # it is no deeper than students are


def test_a_teacher_that_cannot_be_copied_is_refused_before_it_translates(
    folder: Path, deep: Path, call_command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = folder / 'linked'
    shutil.copytree(deep, copy)
    (copy / 'tokenizer').rename(folder / 'tokenizer')
    (copy / 'tokenizer').symlink_to(folder / 'tokenizer')
    monkeypatch.setattr(distill, '_translate', lambda *_: pytest.fail('it translated'))
    code, _, err = call_command('distill', copy, 'small.py', '--source', 'text.en')
    assert (code, 'tokenizer is a link out of the run' in err) == (2, True), err


@pytest.mark.slow
def test_a_student_of_layers_has_the_vocabulary_of_its_teacher(
    folder: Path, deep: Path, call_command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fit(candidates: list[Candidate], _: float) -> list[Candidate]:
        fields = {name: value for name, value in TINY.items() if not name.startswith('model.')}
        fields |= {'optimizer.learning_rate': 1e-6, 'model.dropout_rate': 0.25}
        return [replace(candidates[-1], base=changed(candidates[-1].base, fields), steps=2, adapted=lambda _: {})]

    monkeypatch.setattr(distill, 'fit', fit)
    argv = ('distill', deep, 'small.py', '--source', 'text.en', '--reference', 'text.de', '--decoding.max-tokens', 8)
    code, _, err = call_command(*argv)
    assert code == 0, err
    student = load_run('runs/small')
    begun, other = (flatten_dict(run.params, sep='/') for run in (load_run('small.data/raw/layers'), student))
    assert student.tokenizer.digest == load_run(deep).tokenizer.digest
    assert student.config.model.dropout_rate == 0.25
    for name, leaf in begun.items():
        np.testing.assert_allclose(leaf, other[name], atol=1e-4, err_msg=name)


@pytest.mark.parametrize('begins', [True, False])
def test_only_a_student_of_layers_begins_with_them_and_ends_with_its_last_checkpoint(
    folder: Path, deep: Path, call_command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, begins: bool
) -> None:
    """Layers left by a command with other options are not used."""
    start = start_of(str(deep), {'en-de': ('en', 'de')}, 10)
    candidate = Candidate(start, 2, 1.0, start=start if begins else None)
    monkeypatch.setattr(distill, '_translate', lambda *_: None)
    monkeypatch.setattr(distillation, 'students', lambda *_: ('', [candidate]))
    monkeypatch.setattr(distill, 'fit', lambda candidates, _: candidates)
    begun = []
    monkeypatch.setattr(distill.train, 'train_as_asked', lambda options, **_: begun.append(options))
    monkeypatch.setattr(distill, 'open_run', lambda _: Run(deep))
    made = []

    def average(*_: Any, **options: Any) -> None:
        made.append(options)
        raise Interrupted('SIGTERM')

    monkeypatch.setattr(averaging, 'average', average)
    left = folder / 'small.data' / 'raw' / 'layers'
    left.mkdir(parents=True)
    (left / 'other').touch()
    assert call_command('distill', deep, 'small.py', '--source', 'text.en')[0] == 75

    assert begun[0].init_from == (left.relative_to(folder) if begins else None)
    assert not (left / 'other').exists()
    assert made == [{'last' if begins else 'best': 1, 'int8': True}]


@pytest.mark.slow
def test_a_multilingual_teacher_gives_a_student_of_both_directions(
    folder: Path, is_tiny: None, call_command: Callable[..., Any]
) -> None:
    """The teacher's codes are its own, the student's two letters. What it says is random, but not the references."""
    import_huggingface(write_folder(folder / 'nllb', 'NllbTokenizer'), folder / 'run')
    argv = ('--source', 'text.en', '--reference', 'text.de', '--from', 'eng_Latn', '--to', 'deu_Latn', '--both')
    code, out, err = call_command('distill', 'run', 'small.py', *argv, '--decoding.max-tokens', 12)
    assert code == 0, err
    assert 'en-de, 6 lines held out' in out
    assert 'de-en, 6 lines held out' in out
    assert out.count('teacher') == out.count('student ') == 2
    _, there, _ = call_command('translate', 'runs/small-int8', '--to', 'de', text='one thousand\n')
    _, back, _ = call_command('translate', 'runs/small-int8', '--to', 'en', text='eintausend\n')
    assert there.count('\n') == back.count('\n') == 1


def test_options_that_a_config_is_not_of_are_said_to_have_no_effect(
    folder: Path, call_command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    argv = ('distill', 'text.de', 'small.py', '--source', 'text.en', '--from', 'en', '--to', 'de')
    (folder / 'small.data' / 'raw').mkdir(parents=True)
    write(folder / 'small.data' / 'raw' / 'en-de.test.en', [])
    write(folder / 'small.py', [f'"""flax-transformer {" ".join(argv)} --minutes 5', '"""'])
    (folder / 'runs' / 'small-int8').mkdir(parents=True)
    for more, is_other in ((('--minutes', '5'), False), (('--minutes', '6'), True), ((), True)):
        code, out, err = call_command(*argv, *more)
        assert (code, 'The model is in runs/small-int8' in out) == (0, True)
        assert ('for those given now remove small.py, runs/small-int8' in err) == is_other
    other = ('distill', 'text.en', 'small.py', '--source', 'text.de', '--from', 'de', '--to', 'en')
    code, _, err = call_command(*other)
    assert (code, 'small.py is for other languages than de-en' in err) == (2, True), err


@pytest.mark.parametrize(
    ('record', 'reason'),
    [
        ({'translation': ' '}, 'empty'),
        ({'translation': 'eins', 'truncated': True}, 'cut off'),
        ({'translation': 'ja doch ja doch ja doch ja doch'}, 'repetition'),
        ({'translation': 'eins', 'quality': 0.2}, 'low score'),
        ({'translation': 'eins', 'log_prob': -9.0, 'num_tokens': 2}, 'low score'),
    ],
)
def test_a_bad_translation_is_left_out_and_counted(tmp_path: Path, record: dict[str, Any], reason: str) -> None:
    """Its reference is learned from all the same; two of twenty lines are held out."""
    lines = [f'number {i}' for i in range(40)]
    write(tmp_path / 'source', lines)
    write(tmp_path / 'reference', [f'Zahl {i}' for i in range(40)])
    good = (
        {'translation': 'gut', 'quality': 0.9}
        if 'quality' in record
        else {'translation': 'gut', 'log_prob': -0.1, 'num_tokens': 1}
    )
    made = tmp_path / 'en-de'
    made.mkdir()
    rows = [good] * 5 + [record] + [good] * 34
    (made / 'source.000000').write_text(''.join(json.dumps(row) + '\n' for row in rows))
    said = write_pairs(made, taught(tmp_path, made))
    assert said == f'en-de: 35 kept, 4 held out, 1 {reason}; 40 in all'
    sources, targets = (list(each_line(tmp_path / f'en-de.{language}')) for language in ('en', 'de'))
    assert sources.count('number 5') == 1
    assert sources.count('number 6') == 2
    assert targets[sources.index('number 5')] == 'Zahl 5'
    assert list(each_line(tmp_path / 'en-de.valid.en')) == ['number 0', 'number 20']
    assert list(each_line(tmp_path / 'en-de.test.de')) == ['Zahl 1', 'Zahl 21']


def test_translations_of_which_none_is_fit_are_refused_with_the_reasons(tmp_path: Path) -> None:
    write(tmp_path / 'source', ['a cat'] * 40)
    write(tmp_path / 'made', [''] * 40)
    with pytest.raises(UserError, match=r'en-de: 40 empty; expected translations to learn from'):
        write_pairs(tmp_path / 'en-de', Taught((tmp_path / 'source',), translations=(tmp_path / 'made',)))


def test_lines_held_out_are_fit_and_come_once_and_blank_ones_hide_no_low_score(tmp_path: Path) -> None:
    lines = [*[''] * 20, *['the same'] * 3, *(f'number {i}' for i in range(77))]
    write(tmp_path / 'source', lines)
    write(tmp_path / 'reference', [''] * 100)
    made = tmp_path / 'en-de'
    made.mkdir()
    rows = [{'translation': line, 'quality': i / 100 if line else None} for i, line in enumerate(lines)]
    (made / 'source.000000').write_text(''.join(json.dumps(row) + '\n' for row in rows))
    said = write_pairs(made, taught(tmp_path, made))
    assert said == 'en-de: 70 kept, 20 empty, 7 held out, 3 low score; 100 in all'
    held_out = [line for kind in ('valid', 'test') for line in each_line(tmp_path / f'en-de.{kind}.en')]
    assert sorted(held_out) == sorted({'the same', *(f'number {i}' for i in (17, 18, 37, 38, 57, 58))})


def test_scores_backward_of_other_pairs_are_not_taken(tmp_path: Path) -> None:
    write(tmp_path / 'source', ['eins', 'zwei'])
    model = SimpleNamespace(params={'a': np.ones(2)})
    files = []
    for lines, params in ((['one', 'two'], 1), (['one', 'two'], 1), (['one', 'three'], 1), (['one', 'three'], 2)):
        write(tmp_path / 'made', lines)
        model.params['a'] = np.full(2, params)
        pairs = Taught((tmp_path / 'source',), translations=(tmp_path / 'made',))
        files.append(distill._scores_file(tmp_path, 'de-en', pairs, model))
        files[-1].touch()
    assert files[0] == files[1]
    assert len(set(files)) == 3
    assert [*tmp_path.glob('de-en.backward*')] == [files[-1]]


def test_the_hypothesis_nearest_to_the_reference_is_learned(tmp_path: Path) -> None:
    made = tmp_path / 'en-de'
    made.mkdir()
    n_best = [{'text': 'ein Hund'}, {'text': 'eine Katze'}]
    row = json.dumps({'translation': 'ein Hund', 'n_best': n_best}) + '\n'
    (made / 'source.000000').write_text(row * 3)
    write(tmp_path / 'source', ['a dog', 'a bird', 'a cat'])
    write(tmp_path / 'reference', ['', '', 'die Katze'])
    write_pairs(made, taught(tmp_path, made))
    assert list(each_line(tmp_path / 'en-de.de')) == ['eine Katze', 'die Katze']


def test_a_pair_whose_source_is_unlikely_backward_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores are appended to those that a stopped process left; what is too long for the model is kept."""
    lines = [*(num2words(number) for number in range(100, 139)), 'one ' * 500]
    write(tmp_path / 'source', [num2words(number, lang='de') for number in range(100, 140)])
    write(tmp_path / 'made', [*lines[:7], num2words(999), *lines[8:]])
    pairs = Taught((tmp_path / 'source',), translations=(tmp_path / 'made',))
    scores = tmp_path / 'scores'
    number_words = Translator.from_run(TEACHER)
    monkeypatch.setattr(number_words.programs, 'max_positions', 64)
    score_backward(number_words, pairs, scores)
    whole = scores.read_text()
    scores.write_text(whole[: len(whole) // 2])
    score_backward(number_words, pairs, scores)
    assert scores.read_text() == whole
    assert whole.splitlines()[-1] == '0.0000'
    said = write_pairs(tmp_path / 'de-en', pairs, scores)
    assert said == 'de-en: 33 kept, 4 held out, 2 low score backward, 1 repetition; 40 in all'
    assert num2words(999) not in (tmp_path / 'de-en.en').read_text()


def test_translations_may_be_in_many_files_or_a_folder_that_shards_filled(
    folder: Path, call_command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each source file's are its own; what makes the pairs is the same in every form."""
    monkeypatch.setattr(distillation, 'students', lambda *_: pytest.fail('enough'))
    texts = {language: [*each_line(Path(f'text.{language}'))][:-1] for language in ('en', 'de')}
    for language, lines in texts.items():
        for name, part in (('b/x', lines[:70]), ('a/x', lines[70:]), ('whole', lines)):
            file = folder / f'{name}.{language}'
            file.parent.mkdir(exist_ok=True)
            write(file, part)
    sources = ('--source', 'b/x.en', str(folder / 'a' / 'x.en'))
    write(folder / 'whole.jsonl', [json.dumps({'translation': line, 'log_prob': -1.0}) for line in texts['de']])
    for name, lines in (('a', texts['de'][70:]), ('b', texts['de'][:70])):
        (folder / 'out' / name).mkdir(parents=True)
        write(folder / 'out' / name / 'x.en.000000', lines)
    (folder / 'out' / RECORD).write_text('{"format": "text"}')

    made = []
    for teachers, files in (
        (('whole.de',), ('--source', 'whole.en')),
        (('whole.jsonl',), ('--source', 'whole.en')),
        (('b/x.de', 'a/x.de'), sources),
        (('out',), sources),
    ):
        with pytest.raises(pytest.fail.Exception, match='enough'):
            call_command('distill', *teachers, 'small.py', *files, *LANGUAGES)
        names = [f'en-de{kind}.{language}' for kind in ('', '.valid', '.test') for language in ('en', 'de')]
        made.append([(folder / 'small.data' / 'raw' / name).read_text() for name in names])
        shutil.rmtree('small.data')
    assert made[0][0].count('\n') == 108
    assert made[0] == made[1] == made[2] == made[3]

    (folder / 'out' / 'a' / 'x.en.000000').unlink()
    code, _, err = call_command('distill', 'out', 'small.py', *sources, *LANGUAGES)
    assert (code, 'got 0 translations of the 50 lines of' in err, 'expected all' in err) == (2, True, True), err


@pytest.mark.parametrize(
    'record',
    [
        '{}',
        '[]',
        '{"translation": 3}',
        '{"translation": "a", "quality": "high"}',
        '{"translation": "a", "quality": NaN}',
        '{"translation": "a", "n_best": [{}]}',
    ],
)
def test_what_is_no_translation_is_refused_with_its_place(record: str, tmp_path: Path) -> None:
    write(tmp_path / 'made.jsonl', ['{"translation": "a"}', record])
    folder = tmp_path / 'folder'
    folder.mkdir()
    (folder / RECORD).write_text('{"format": "jsonl"}')
    write(folder / 'source.000000', ['{"translation": "a"}', record])
    for other in ('source.1', 'source.1.000000'):
        write(folder / other, ['of another file'])
    write(tmp_path / 'source', ['a', 'b'])
    for made in (tmp_path / 'made.jsonl', folder):
        with pytest.raises(UserError, match=r'line 2: got .*expected an object with "translation"'):
            list(Taught((tmp_path / 'source',), translations=(made,)).records())


def test_a_line_break_or_half_a_character_parts_no_pair(tmp_path: Path) -> None:
    lines = [f'number {i}' for i in range(100)]
    write(tmp_path / 'source', lines)
    write(tmp_path / 'made.jsonl', [json.dumps({'translation': f'Zahl\n{i}\ud800'}) for i in range(100)])
    write_pairs(tmp_path / 'en-de', Taught((tmp_path / 'source',), translations=(tmp_path / 'made.jsonl',)))
    pairs = list(zip(*(each_line(tmp_path / f'en-de.{language}') for language in ('en', 'de')), strict=True))
    assert pairs[0] == ('number 2', 'Zahl 2?')
    assert len(pairs) == 90


def test_what_was_checked_is_what_is_learned(tmp_path: Path) -> None:
    """A reference in another language chooses no hypothesis."""
    write(tmp_path / 'source', [f'The number of the house is {i}.' for i in range(100)])
    write(tmp_path / 'reference', [f'This is the house with the number {i}, as you know.' for i in range(100)])
    n_best = [{'text': 'der Garten ' * 12}, {'text': 'This is the house, as you know.'}]
    write(tmp_path / 'made.jsonl', [json.dumps({'translation': n_best[0]['text'], 'n_best': n_best})] * 100)
    pairs = Taught((tmp_path / 'source',), (tmp_path / 'reference',), (tmp_path / 'made.jsonl',))
    assert write_pairs(tmp_path / 'en-de', pairs) == 'en-de: 100 repetition; 100 in all'
    assert not (tmp_path / 'en-de.de').read_text()


def test_translations_of_a_file_give_students_of_the_bytes_asked_for(folder: Path) -> None:
    """Other languages are left out, on either side; both directions have tags."""
    write(folder / 'made.de', [*[*each_line(Path('text.de'))][:-2], num2words(120_000), ''])
    raw = folder / 'small.data' / 'raw'
    raw.mkdir(parents=True)
    for pair, source, target in (('en-de', 'text.en', 'made.de'), ('de-en', 'made.de', 'text.en')):
        said = write_pairs(raw / pair, Taught((folder / source,), translations=(folder / target,)))
        assert re.search('1 (other language|source in another language)', said)
    said, small = students(folder / 'small.data', ['en-de', 'de-en'], 2.5)
    assert said.count('pairs kept, 0 left out') == 2
    teacher = Run(TEACHER).read_config()
    start = replace(teacher, data=replace(teacher.data, robust=0.45, terms=0.05, language_tags=True))
    _, (*large, begun) = students(folder / 'small.data', ['en-de', 'de-en'], 10, start)
    assert 0 < len(small) < len(large)
    assert (begun.base.data.robust, begun.base.data.terms) == (0.15, 0.05)
    config = large[0].config
    assert config.data.language_tags
    assert (config.model.num_encoder_layers, config.model.num_decoder_layers) == (3, 3)
    with pytest.raises(ValueError, match='expected at least 1'):
        students(folder / 'small.data', ['en-de', 'de-en'], 0.5)


@pytest.mark.parametrize(
    ('argv', 'message'),
    [
        ([], 'got nothing'),
        ([TEACHER, '--source', 'text.en'], 'expected TEACHER ... NAME.py'),
        ([TEACHER, 'small.py'], 'expected TEACHER ... NAME.py'),
        ([TEACHER, 'there.py', '--source', 'text.en'], 'there.py exists'),
        ([TEACHER, 'begun.py', '--source', 'text.en'], 'runs/begun exists'),
        ([TEACHER, 'small.py', '--source', 'none.en'], 'none.en does not exist'),
        ([TEACHER, 'small.py', '--source', 'empty'], 'empty: got 0 lines, expected at least 100'),
        ([TEACHER, 'small.py', '--source', 'text.en', '--reference', 'empty'], '121 lines in text.en, 0 in empty'),
        ([TEACHER, 'small.py', '--source', 'text.en', 'text.de', '--reference', 'text.de'], '2 and 1 files, expected'),
        ([TEACHER, 'small.py', '--source', 'text.en', '--both'], 'and --reference'),
        ([TEACHER, 'small.py', '--source', 'text.en', '--to', 'fr'], "target_language='fr'"),
        ([TEACHER, 'small.py', '--source', 'text.en', '--reference', 'text.de', '--both'], "source_language='de'"),
        (['text.de', 'small.py', '--source', 'text.en'], 'got no languages; expected two, by --from and --to'),
        (['text.de', TEACHER, 'small.py', '--source', 'text.en'], 'expected models, or files of translations'),
        (['text.de', 'text.de', 'small.py', '--source', 'text.en', *LANGUAGES], '1 and 2 files, expected as many'),
        (
            ['bad.jsonl', 'small.py', '--source', 'text.en', *LANGUAGES],
            "bad.jsonl, line 1: got 'eins', expected an object",
        ),
        (['text.de', 'small.py', '--source', 'text.en', '--from', 'de', '--to', 'de'], 'got --from de --to de'),
        (
            ['text.de', 'small.py', '--source', 'text.en', '--from', 'pt_BR', '--to', 'pt_PT'],
            'got --from pt_BR --to pt_PT',
        ),
        (['text.de', 'small.py', '--source', 'text.en', '--from', 'x/y', '--to', 'de'], 'got --from x/y --to de'),
        ([TEACHER, 'small.py', '--source', 'text.en', '--backward', 'none'], 'none does not exist'),
        ([TEACHER, 'a,b.py', '--source', 'text.en'], 'a comma or {lang} has a meaning'),
        ([TEACHER, 'old.py', '--source', 'text.en'], 'runs/old-int8 exists'),
        (['nothing', 'no/small.py', '--source', 'text.en'], 'nothing does not exist'),
        (['nothing', 'small.py', '--source', 'text.en'], 'nothing does not exist'),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_is(
    folder: Path, call_command: Callable[..., Any], argv: list[Any], message: str
) -> None:
    write(folder / 'empty', [])
    write(folder / 'there.py', [])
    write(folder / 'bad.jsonl', ['eins'])
    (folder / 'runs' / 'begun').mkdir(parents=True)
    (folder / 'runs' / 'old-int8').mkdir()
    before = sorted(folder.rglob('*'))
    code, _, err = call_command('distill', *argv)
    assert (code, message in err, sorted(folder.rglob('*'))) == (2, True, before), err


@pytest.mark.parametrize('value', [-5.0, 0.0, float('nan'), float('inf')])
@pytest.mark.parametrize('name', ['minutes', 'megabytes'])
def test_time_and_size_are_positive(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f'{name}={value}: expected'):
        distill.DistillOptions(**{name: value})
