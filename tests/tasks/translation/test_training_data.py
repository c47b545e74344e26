"""The batches of a run, and which sentences are in them."""

from dataclasses import replace
from pathlib import Path

from conftest import copy_config

from flax_transformer.config import Config, CorpusConfig, DataConfig
from flax_transformer.data.bitext.batches import PackedBatches
from flax_transformer.tasks.translation.preparation import prepare
from flax_transformer.tasks.translation.training import TrainingData


def corpora(folder: Path) -> Config:
    """Two corpora; each line says its own number, some are blank or too long."""
    for name, count in (('one', 60), ('two', 30)):
        lines = [f'{name[0]} {" ".join(str(i))}' for i in range(1, count + 1)]
        lines[4], lines[9] = '', 'x ' * 40
        for language in ('in', 'out'):
            (folder / f'{name}.{language}').write_text(''.join(f'{line}\n' for line in lines))
    config = copy_config(folder, tokens_per_step=128)
    mixture = tuple(CorpusConfig(name, f'{name}.{{lang}}', '', weight=1.0) for name in ('one', 'two'))
    default = DataConfig()
    idle = {'train': default.train, 'validation': default.validation}  # beside a mixture
    data = replace(config.data, **idle, mixture=mixture, bpe_dropout=0.2)
    return replace(config, data=data, model=replace(config.model, vocab_size=30))


def test_the_sentences_of_a_batch_are_those_lines_of_the_files(tmp_path: Path) -> None:
    """With a mixture, lines that were left out, drawn segmentations, and rows from two blocks."""
    config = corpora(tmp_path)
    config = replace(config, data=replace(config.data, block_size=40))
    prepared = prepare(config, None, tmp_path / 'cache', say=lambda text: None)
    dataset = TrainingData(config, prepared)
    assert isinstance(dataset, PackedBatches)
    batches = iter(dataset)
    for _ in range(12):
        place = batches.get_state()
        batch = next(batches)
        seen: list[list[int]] = [[], []]
        for row in range(len(batch.source)):
            for segment in range(1, batch.source_segments[row].max() + 1):
                text = prepared.tokenizer.decode(batch.source[row][batch.source_segments[row] == segment])
                letter, _, number = text.partition(' ')
                seen[letter == 't'].append(int(number.replace(' ', '')))
        assert dataset.sentences(place) == [sorted(numbers) for numbers in seen]
        assert dataset.describe(place) == {'sentences': dict(zip(('one', 'two'), map(sorted, seen), strict=True))}
        assert sum(map(len, seen)) > 5
