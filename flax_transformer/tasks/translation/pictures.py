"""Pictures of a translation, its attention and search, and scores by length. Needs matplotlib (extra `plots`)."""

from typing import TYPE_CHECKING

from flax_transformer.common.errors import UserError
from flax_transformer.plots.attention import plot_alignment, plot_heads, plot_layers
from flax_transformer.plots.curves import plot_bars, plot_lengths
from flax_transformer.plots.look import readable
from flax_transformer.plots.search import merge_hypotheses, plot_beam_tree
from flax_transformer.tasks.api import read_run_config
from flax_transformer.tasks.evaluation import printed_scores

from .inference.translator import Translator
from .inspection import attention_map, plot_attention

if TYPE_CHECKING:
    from flax_transformer.plots.look import Figure


def draw_attention(run: str, line: str, translation: str | None = None) -> 'Figure':
    """The mean of the last decoder layer's heads."""
    return plot_attention(attention_map(Translator.from_run(run), line, translation))


def draw_heads(run: str, line: str, translation: str | None = None) -> 'Figure':
    drawn = attention_map(Translator.from_run(run), line, translation)
    title = f'attention of decoder layer {len(drawn.weights)}'
    return plot_heads(drawn.weights[-1], drawn.source, drawn.target, title=title)


def draw_layers(run: str, line: str, translation: str | None = None) -> 'Figure':
    drawn = attention_map(Translator.from_run(run), line, translation)
    return plot_layers(drawn.weights, drawn.source, drawn.target, title='attention of the decoder over the source')


def draw_alignment(run: str, line: str) -> 'Figure':
    (translation,) = Translator.from_run(run)([line], alignment=True)
    return plot_alignment(translation.alignment or (), line.split(), translation.text.split())


def draw_tree(run: str, line: str) -> 'Figure':
    """The n-best translations as branches."""
    width = max(read_run_config(run, 'translation').decoding.beam_width, 2)
    (translation,) = Translator.from_run(run, beam_width=width, n_best=width)([line])
    best = translation.n_best
    tokens, parents, log_probs, ends = merge_hypotheses([h.tokens for h in best], [h.token_log_probs for h in best])
    title = f'{len(best)} best translations, the first in color'
    return plot_beam_tree(tokens, parents, log_probs, best=ends[0], title=title)


def draw_quality(run: str, line: str) -> 'Figure':
    """How sure the model is of each word."""
    (translation,) = Translator.from_run(run)([line])
    if translation.quality is None or translation.word_quality is None:
        raise UserError(f'the translation has no quality; expected a calibrated run: flax-transformer calibrate {run}')
    words = [*map(readable, translation.text.split())]
    sentence = f'quality of the sentence: {translation.quality:.2f}'
    return plot_bars({'quality': translation.word_quality}, words, xlabel=sentence, ylabel='quality', digits=2)


def draw_lengths(*files: str) -> 'Figure':
    """Scores by the length of the source, of what `evaluate --json` printed."""
    tables = {}
    scores = ['bleu', 'chrf']
    for name in files:
        with printed_scores(name, 'a translation run') as printed:
            unit = str(printed['length_unit'])
            rows = printed['by_length']
            buckets = [str(row['words']) for row in rows]
            counts = [int(row['num_lines']) for row in rows]
            tables[name] = buckets, counts, {score: [float(row[score]) for row in rows] for score in scores}
            scores = scores if printed['has_four_words'] else ['chrf']
        if not buckets:
            raise UserError(f'{name}: has no scores by length')
    buckets, counts, _ = tables[files[0]]
    for name, (others, _, _) in tables.items():
        if others != buckets:
            raise UserError(f'{name}: its lengths are not those of {files[0]}; expected scores of the same test set')
    return plot_lengths(
        {name: by_score[scores[0]] for name, (_, _, by_score) in tables.items()},
        buckets,
        counts=counts,
        ylabel={'bleu': 'BLEU', 'chrf': 'chrF'}[scores[0]],
        unit=unit,
    )
