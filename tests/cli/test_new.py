"""`new` writes a config that fits the files, parses, and can be trained."""

import contextlib
import gzip
from pathlib import Path

import numpy as np
import pytest
import toy_task
from wav_files import tone, wav_bytes

from flax_transformer.cli import main
from flax_transformer.cli.new import config_text
from flax_transformer.cli.train import train_options
from flax_transformer.common.config_files import load_config, shipped_configs
from flax_transformer.common.config_json import flat_fields
from flax_transformer.cost import step_cost
from flax_transformer.data.bitext.corpus import Pairs
from flax_transformer.engine.recipe import declare
from flax_transformer.engine.task_value import Command
from flax_transformer.tasks import new_config as shared
from flax_transformer.tasks.api import read_run_config as load_run_config
from flax_transformer.tasks.new_config import fit
from flax_transformer.tasks.translation.new_config import Facts, Pieces, candidates_for, language_of, row_for

WORDS = {'en': ['red', 'blue', 'green', 'house', 'tree', 'river', 'old', 'new', 'small', 'big']}
WORDS['de'] = ['rot', 'blau', 'grün', 'Haus', 'Baum', 'Fluss', 'alt', 'neu', 'klein', 'groß']


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """2,000 aligned lines in train.en and train.de, the latter packed, in the working directory."""
    rng = np.random.default_rng(0)
    rows = [rng.integers(10, size=rng.integers(3, 12)) for _ in range(2000)]
    for language, words in WORDS.items():
        text = ''.join(' '.join(words[i] for i in row) + '\n' for row in rows)
        (tmp_path / f'train.{language}').write_text(text, encoding='utf-8')
        (tmp_path / f'train.{language}.gz').write_bytes(gzip.compress(text.encode()))
    monkeypatch.chdir(tmp_path)
    return tmp_path


NEW = ('new', 'mine.py', '--no-measure')


def test_a_config_fits_its_files_and_holds_pairs_out(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*NEW, '--source', 'train.en.gz', '--target', 'train.de.gz']) == 0
    out = capsys.readouterr().out
    assert 'train.en.gz and train.de.gz: 2,000 pairs en-de' in out
    assert 'flax-transformer train mine.py --workdir runs/mine' in out
    assert 'flax-transformer evaluate runs/mine --source test.en --reference test.de\n' in out
    config = load_config('mine.py')
    assert (config.data.source_language, config.data.target_language) == ('en', 'de')
    assert 300 < config.model.vocab_size < 10_000
    assert config.model.d_model == 192
    assert config.data.train == 'train.en.gz,train.de.gz'
    assert config.data.held_out == 200
    assert sorted(path.name for path in files.iterdir()) == [
        *('mine.py', 'train.de', 'train.de.gz', 'train.en', 'train.en.gz')
    ]
    assert main([*NEW, '--source', 'train.en', '--target', 'train.de']) == 2
    assert 'mine.py exists' in capsys.readouterr().err


def test_its_own_check_has_nothing_against_a_new_config(tmp_path: Path, monkeypatch, capsys) -> None:
    """Held-out pairs share no side with the others, and the vocabulary fits what is left."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    letters = np.array(list('abcdefghijklmnopqrstuvwxyz'))
    words = [''.join(rng.choice(letters, rng.integers(3, 9))) for _ in range(400)]
    sources = [' '.join(rng.choice(words, rng.integers(5, 12))) for _ in range(900)]
    targets = [' '.join(words[::-1][words.index(word)] for word in line.split()) for line in sources]
    for language, lines in (
        ('en', sources + sources[:300]),
        ('de', targets + [f'{line} oh' for line in targets[:300]]),
    ):
        (tmp_path / f'train.{language}').write_text('\n'.join(lines) + '\n')
    assert main([*NEW, '--source', 'train.en', '--target', 'train.de']) == 0
    assert main(['check', 'mine.py']) == 0
    assert ' leaked: ' not in (out := capsys.readouterr().out)
    assert ' few_pairs: ' not in out
    assert 'checked train (1,080), validation (120): 0 errors' in out


def test_given_sets_are_named_and_nothing_is_held_out(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sides = {'source': 'train.en', 'target': 'train.de'}
    given = [f'--{kind}{side}={file}' for kind in ('', 'valid-', 'test-') for side, file in sides.items()]
    assert main([*NEW, *given, '--source-language', 'en-GB']) == 0
    data = load_config('mine.py').data
    assert data.source_language == 'en-GB'
    assert data.train == data.test == 'train.en,train.de'
    assert data.held_out == 0
    assert capsys.readouterr().out.endswith('flax-transformer evaluate runs/mine\n')


def test_a_config_goes_on_from_a_run_with_some_of_what_it_learned_from(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also from one whose text is not at hand, which is said; both can be checked, and so be read."""
    learned = files / 'data' / 'tatoeba_en_de'
    learned.mkdir(parents=True)
    for language in WORDS:
        (learned / f'train.{language}.gz').write_bytes((files / f'train.{language}.gz').read_bytes())
    argv = ('--source', 'train.en', '--target', 'train.de', '--init-from', 'everyday')
    for root, corpora in (('data', ['mine', 'tatoeba-en-de', 'tatoeba-de-en']), ('nothing', ['test'])):
        monkeypatch.setenv('FLAX_TRANSFORMER_DATA', root)
        assert main(['new', f'{corpora[0]}.py', '--no-measure', *argv]) == 0
        out = capsys.readouterr().out
        assert f'train {corpora[0]}.py --init-from everyday --workdir runs/{corpora[0]}' in out
        for corpus, is_missing in (('tatoeba', root == 'nothing'), ('europarl', True)):
            missing = f'{corpus}_en_de/train.{{lang}}.gz, which it has learned from, is not here'
            assert out.count(missing) == is_missing
        config = load_config(f'{corpora[0]}.py')
        names = [corpus.name for corpus in config.data.mixture]
        assert names == (corpora if root == 'data' else ['own test'])
        assert config.model == load_run_config('everyday').model
        assert main(['check', f'{corpora[0]}.py']) == 0
    assert len((files / 'mine.tatoeba-de-en.tsv').read_text().splitlines()) == 2000


def made(pairs: int) -> list[shared.Candidate]:
    """The candidates for so many pairs of 15 tokens a side."""
    data = {'data.train': 'a "quoted" train.{lang}', 'data.root': 'x'}
    facts, pieces = Facts(pairs, (12 * pairs, 11 * pairs), 100 * pairs, Pairs([], [])), np.full((2, 100), 15)
    return candidates_for(facts, Pieces(4000, pieces), row_for(pairs), data)


@pytest.mark.parametrize('pairs', [40, 5_000, 300_000, 5_000_000])
def test_every_text_is_its_config(pairs: int, tmp_path: Path) -> None:
    """As are the passes that it names, and one in the smallest candidate."""
    for candidate in made(pairs):
        config = candidate.config
        text = config_text(config, 'a\\x and b"""', {'training.steps': 'a remark'})
        (tmp_path / 'mine.py').write_text(text)
        given = load_config(str(tmp_path / 'mine.py'))
        assert given.data.root == str(tmp_path)
        assert shared.changed(given, {'data.root': 'x'}) == config
        tokens = config.training.steps * config.training.tokens_per_step * 0.95
        assert tokens / (15 * pairs) == pytest.approx(candidate.passes)
    assert max(map(len, text.splitlines())) <= 120


@pytest.mark.slow
def test_more_time_buys_a_larger_model_and_dropout_follows_the_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_cost, 'step_seconds', lambda trainer: trainer.task.flops_per_step / 1e10)
    short, long, endless = (fit(made(29_000), minutes * 60)[0] for minutes in (10, 600, 60_000))
    assert (short.config.model.d_model, long.config.model.d_model) == (128, 192)
    assert 500 < short.total <= 600
    assert short.config.model.dropout_rate < long.config.model.dropout_rate == 0.3
    assert endless.steps == endless.config.training.max_steps == 3 * made(29_000)[-1].steps
    assert (short.config.training.minutes, short.config.training.max_steps > short.steps) == (10, True)
    assert fit(made(29_000), 600, 3_600_000)[1].steps == endless.steps


def test_a_length_in_the_command_replaces_that_of_the_config(tmp_path: Path) -> None:
    """Else --training.steps 3 would last as long as a new config says."""
    file = str(tmp_path / 'mine.py')
    timed = {'training.minutes': 5.0, 'training.max_steps': 90}
    Path(file).write_text(config_text(shared.changed(made(5_000)[0].config, timed), 'timed', {}))
    lengths = []
    for argv in ([], ['--training.steps', '3'], ['--training.epochs=2'], ['--training.minutes', '4']):
        training = train_options(file, [file, *argv]).config.training
        lengths.append((training.epochs, training.minutes, training.max_steps))
    assert lengths == [(0, 5, 90), (0, 0, 0), (0, 0, 0), (0, 0, 90)]  # the command's own is parsed after this
    with pytest.raises(shared.UserError, match=r'got --training\.steps and'):
        train_options(file, [file, '--training.steps=3', '--training.minutes', '4'])


def test_one_example_in_ten_is_held_out_and_in_a_small_corpus_twenty(tmp_path: Path) -> None:
    options = shared.DataOptions(data='x.tsv')
    counts = [
        shared.data_fields(tmp_path / 'my.py', options, map(str, range(count)))[0]['data.held_out']
        for count in (5, 90, 400, 50_000)
    ]
    assert counts == [1, 18, 40, 1000]
    with pytest.raises(shared.UserError, match='got 2 different'):
        shared.data_fields(tmp_path / 'my.py', options, [*'ab'] * 40)


@pytest.fixture
def own_task(monkeypatch: pytest.MonkeyPatch) -> None:
    candidate = shared.Candidate(toy_task.CircleConfig(hidden=8), 50, 0.1)
    propose = lambda file, options: (['points'], [candidate])
    command = Command(shared.NewOptions, propose)
    monkeypatch.setattr(toy_task, 'RECIPE', declare(toy_task.CircleTask, propose=command))
    monkeypatch.setenv('FLAX_TRANSFORMER_TASKS', 'toy_task')


OTHERS = {
    'classification': (('texts.tsv',), 'model.num_classes', 2, ('once.tsv', "'once'")),
    'speech': (('words',), 'model.hidden_size', 48, ('words/yes', '0 different words')),
    'trigger-word': (('words', '--word', 'yes'), 'data.trigger', 'yes', ('words', "got 0 recordings of --word ''")),
    'word-vectors': (('text',), 'tokenizer.min_count', 2, ('few.tsv', 'got 9 words in 3 lines')),
    'circle': ((), 'hidden', 8, ('few.tsv', 'nrecognized')),
}


@pytest.mark.parametrize(('task', 'case'), OTHERS.items(), ids=OTHERS)
def test_every_task_has_new_and_its_folder_can_be_moved(
    task, case, tmp_path: Path, monkeypatch, capsys, own_task
) -> None:
    argv, name, value, (bad, message) = case
    here = tmp_path / 'here'
    for word, hz in (('yes', 300), ('no', 900)):
        (here / 'words' / word).mkdir(parents=True)
        for number in range(16):
            (here / 'words' / word / f'{number}.wav').write_bytes(wav_bytes(tone(0.5, hz=hz + number)))
    texts = ''.join(f'{number % 2}\ttext {number} is {number % 2}\n' for number in range(40))
    (here / 'texts.tsv').write_text(texts)
    (here / 'once.tsv').write_text(texts + 'once\tthe same text\n' * 2)
    (here / 'few.tsv').write_text('a\tone two\n' * 2 + 'b\tone two\n')
    (here / 'text').write_text(''.join(f'{number} is the word of line {number}\n' for number in range(2000)))
    monkeypatch.chdir(here)
    before = sorted(here.iterdir())
    with contextlib.suppress(SystemExit):
        assert main(['new', 'mine.py', '--no-measure', '--task', task, bad]) == 2
    said = capsys.readouterr()
    assert message in said.err + said.out
    assert sorted(here.iterdir()) == before
    assert main(['new', 'mine.py', '--no-measure', '--task', task, *argv]) == 0
    assert 'flax-transformer train mine.py --workdir runs/mine' in capsys.readouterr().out
    monkeypatch.chdir(tmp_path)
    here.rename(tmp_path / 'there')
    config = load_config('there/mine.py')
    assert 'builtins' not in Path('there/mine.py').read_text()
    assert flat_fields(config)[name] == value
    if task != 'circle':
        assert main(['check', 'there/mine.py']) == 0
        assert 'validation (' in capsys.readouterr().out


def test_languages_come_from_names_then_from_text() -> None:
    german = ['Das ist ein ziemlich langer Satz über das Wetter von gestern.'] * 20
    name = Path('corpus/train.de.xz')
    assert language_of(name, german, 'source', None) == ('de', '')
    assert language_of(name, german, 'source', 'nds') == ('nds', '')
    assert language_of(Path('train.txt'), german, 'source', None) == ('de', '')
    language, text = language_of(Path('train.fr'), german, 'target', None)
    assert (language, 'train.fr looks like de, not fr' in text) == ('fr', True)


BAD = {
    'nothing': ((), 'give --source and --target'),
    'one sentence': (('--source', 'same.en', '--target', 'same.de'), 'cannot hold out 4 of 40'),
    'one side of validation': (
        *(('--source', 'train.en', '--target', 'train.de', '--valid-source', 'train.en'), '--valid-target'),
    ),
    'no file': (('--source', 'train.xx', '--target', 'train.de'), 'train.xx does not exist'),
    'unknown language': (('--source', 'short', '--target', 'short'), 'give --source-language'),
    'no folder': (('--source', 'train.en', '--target', 'train.de'), 'there is no folder nowhere'),
    'one language': (('--source', 'train.en', '--target', 'train.en'), 'got en on both sides'),
    'few': (('--source', 'few.en', '--target', 'few.de'), 'few.en: got 9 sentence pairs'),
    'a language that the run lacks': (
        *(('--source', 'train.en', '--target', 'train.de', '--target-language', 'fr', '--init-from', 'everyday'),),
        "target_language='fr': expected one of de, en",
    ),
    'unequal': (('--source', 'train.en', '--target', 'short'), 'expected equal counts'),
}


@pytest.mark.parametrize(('argv', 'message'), BAD.values(), ids=BAD)
def test_a_mistake_is_explained_and_leaves_nothing(argv: tuple[str, ...], message: str, files: Path, capsys) -> None:
    (files / 'short').write_text('one\n')
    for side in WORDS:
        (files / f'few.{side}').write_text('one two three\n' * 9)
        (files / f'same.{side}').write_text('one two three, the same words in many lines of a text\n' * 40)
    before = sorted(files.iterdir())
    name = 'nowhere/mine.py' if 'nowhere' in message else 'mine.py'
    assert main(['new', name, '--no-measure', *argv]) == 2
    assert message in capsys.readouterr().err
    assert sorted(files.iterdir()) == before


def test_shipped_configs_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert [main(['configs', *name]) for name in ([], ['glove'], ['glov'])] == [0, 0, 2]
    out, err = capsys.readouterr()
    assert out == '\n'.join([*shipped_configs(), shipped_configs()['glove'].read_text()])
    assert 'Did you mean glove?' in err


@pytest.mark.slow
def test_a_written_config_is_trained(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(['new', 'mine.py', '--source', 'train.en', '--target', 'train.de']) == 0
    assert ' on this machine' in capsys.readouterr().out
    assert main(['check', 'mine.py']) == 0
    few = ('--training.steps', '3', '--training.evaluate-every', '3', '--training.sample-translations', '0')
    assert main(['train', 'mine.py', '--workdir', 'run', *few]) == 0
