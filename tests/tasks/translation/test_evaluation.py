"""All references count, the loss is that of its definition, and faults of the search are not the model's."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from flax_transformer import Translator
from flax_transformer.config import DecodingConfig
from flax_transformer.data.bitext.corpus import Pairs
from flax_transformer.tasks.translation.evaluation import (
    WidthReport,
    analyze,
    evaluate_loss,
    evaluate_translation,
    recommendation,
    table,
)
from flax_transformer.tasks.translation.inference.result import Translation, Translations
from flax_transformer.tasks.translation.run import Run


def test_all_references_of_a_pair_count() -> None:
    class Echo:
        target_language = 'de'

        def __call__(self, sources: list[str], progress: object) -> list[SimpleNamespace]:
            return [SimpleNamespace(text=source, truncated=False) for source in sources]

    lines = ['this is the first line', 'and that is the second']
    pairs = Pairs(lines, ['was ist das hier', lines[1]], ([lines[0], None],))
    scores, _ = evaluate_translation(Echo(), pairs)
    assert (scores.exact, scores.bleu) == (1, pytest.approx(100))
    assert scores.bleu_signature.startswith('nrefs:var|')


def test_the_loss_leaves_no_pair_out_and_does_not_depend_on_the_batches(copy_run: Path) -> None:
    """A pair that is longer than a training row counts too."""
    config = Run(copy_run).read_config()
    translator = Translator.from_run(copy_run)
    long = ' '.join('abcdefgh' * 8)
    pairs = Pairs(['a b', long, 'h h h'], ['a b', long, 'h h h'])
    measured = evaluate_loss(config, translator.params, translator.tokenizer, pairs)
    assert measured['target_tokens'] == sum(len(ids) for ids in translator.tokenizer.encode(pairs.targets))
    log_prob = 0.0
    for source, target in zip(pairs.sources, pairs.targets, strict=True):
        alone = evaluate_loss(config, translator.params, translator.tokenizer, Pairs([source], [target]))
        log_prob += alone['nll'] * alone['target_tokens']
    assert measured['nll'] == pytest.approx(log_prob / measured['target_tokens'], rel=1e-5)


class Scripted:
    """A translator whose scores and translations are given: by beam width, (text, score) of each line."""

    target_language = 'de'

    def __init__(self, by_width: dict[int, list[tuple[str, float]]], references: list[float], width: int = 1) -> None:
        self.by_width, self.references, self.width = by_width, references, width
        self.decoding = DecodingConfig()

    def with_decoding(self, decoding):
        return Scripted(self.by_width, self.references, decoding.beam_width)

    def __call__(self, sources, progress=None):
        found = self.by_width[self.width]
        return Translations(Translation(text, x, x, 3, split=text == 'in parts') for text, x in found)

    def score(self, sources, targets):
        return Translations(Translation(text, x, x, 3) for text, x in zip(targets, self.references, strict=True))


PAIRS = Pairs(['s', 't', 'u', 'v', ''], ['right', 'missed', 'worse', 'long', ''])


def test_a_better_reference_is_the_searchs_fault_and_a_worse_one_the_models() -> None:
    found = [('right', -1.0), ('other', -2.0), ('other', -1.0), ('in parts', -9.0), ('', 0.0)]
    wide = [('right', -1.0), ('missed', -1.5), ('other', -1.0), ('in parts', -9.0), ('', 0.0)]
    reports = analyze(Scripted({1: found, 4: wide}, [-1.0, -1.5, -3.0, -1.0, 0.0]), PAIRS, (1, 4))
    counts = [(r.num_right, r.num_search_faults, r.num_model_faults, r.num_left_out) for r in reports]
    assert counts == [(1, 1, 1, 2), (2, 0, 1, 2)]
    fault = next(fault for fault in reports[0].faults if fault.is_of_search)
    assert (fault.source, fault.reference, fault.translation) == ('t', 'missed', 'other')
    assert (fault.reference_score, fault.translation_score) == (-1.5, -2.0)
    assert table(reports).count('\n') == 3
    assert '|tok:13a|' in table(reports)


def test_scores_that_tie_within_rounding_are_no_fault_of_the_search() -> None:
    found = [('right', -1.0), ('other', -2.0), ('other', -1.0), ('other', -1.0), ('', 0.0)]
    reports = analyze(Scripted({1: found}, [-1.0, -2.0 + 5e-6, -3.0, -2.0, 0.0]), PAIRS, (1,))
    assert reports[0].num_search_faults == 0


def report(width: int, bleu: float, search: int, model: int, score: float = -1.0) -> WidthReport:
    return WidthReport(width, bleu, 1.0, score, 10, search, model, 0, ())


@pytest.mark.parametrize(
    ('reports', 'words'),
    [
        ([report(1, 20, 90, 10), report(4, 30, 50, 50)], 'Search wider'),
        ([report(1, 30, 50, 50), report(4, 29.95, 40, 60)], 'adjust the length penalty'),
        ([report(1, 30, 5, 95, -2.0), report(16, 25, 0, 100, -1.0)], 'scores rise and BLEU falls to 25.00'),
    ],
)
def test_the_recommendation_follows_from_the_table(reports: list[WidthReport], words: str) -> None:
    assert words in recommendation(reports)
