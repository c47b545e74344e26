"""Faults of the search and of the model, told apart on a model that is made to have both."""

import pytest

from flax_transformer.config import DecodingConfig
from flax_transformer.data.bitext.corpus import Pairs
from flax_transformer.tasks.translation.evaluation import WidthReport, analyse, recommendation, table
from flax_transformer.tasks.translation.inference.result import Translation, Translations


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
    reports = analyse(Scripted({1: found, 4: wide}, [-1.0, -1.5, -3.0, -1.0, 0.0]), PAIRS, (1, 4))
    counts = [(r.num_right, r.num_search_faults, r.num_model_faults, r.num_left_out) for r in reports]
    assert counts == [(1, 1, 1, 2), (2, 0, 1, 2)]
    fault = next(fault for fault in reports[0].faults if fault.is_of_search)
    assert (fault.source, fault.reference, fault.translation) == ('t', 'missed', 'other')
    assert (fault.reference_score, fault.translation_score) == (-1.5, -2.0)
    assert table(reports).count('\n') == 3
    assert '|tok:13a|' in table(reports)


def test_scores_that_tie_within_rounding_are_no_fault_of_the_search() -> None:
    found = [('right', -1.0), ('other', -2.0), ('other', -1.0), ('other', -1.0), ('', 0.0)]
    reports = analyse(Scripted({1: found}, [-1.0, -2.0 + 5e-6, -3.0, -2.0, 0.0]), PAIRS, (1,))
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
