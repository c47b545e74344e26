"""sacreBLEU, chrF, chrF++ and TER, with their signatures, and the tokens that they count."""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from flax_transformer.common.errors import UserError
from flax_transformer.common.installing import pip_install
from flax_transformer.text.languages import two_letters
from flax_transformer.text.tokenizer import count_unspaced, is_unspaced

MOST_TER_WORDS = 1000  # a longer line is not scored: TER takes 30 s for two different lines of so many
NO_TER = f'TER is left out: a line has more than {MOST_TER_WORDS:,} words'
BUCKETS = (10, 20, 30, 50)  # upper limits, in words or characters of the source; the last bucket has none

# By `two_letters`, or what people write instead.
_TOKENIZERS = {
    **dict.fromkeys(('zh', 'chi', 'cmn', 'yue', 'wuu', 'lzh', 'cn'), 'zh'),
    **dict.fromkeys(('ja', 'jp'), 'ja-mecab'),
    'ko': 'ko-mecab',
}
# Written without spaces too, and without a tokenizer in sacreBLEU: Thai, Lao, Khmer, Burmese, Tibetan, Dzongkha.
_OTHERS = ('th', 'lo', 'km', 'my', 'bur', 'bo', 'tib', 'dz')
_PACKAGES = {'ja-mecab': 'sacrebleu[ja]', 'ko-mecab': 'sacrebleu[ko]'}


class ScoreTokens(NamedTuple):
    """How the scores of a target language cut text into tokens."""

    bleu: str = '13a'  # BLEU's tokenizer, by sacreBLEU's name
    is_asian: bool = False  # TER takes each Chinese character for a word
    note: str = ''  # why this is not what sacreBLEU would take


SPACED = ScoreTokens()  # most languages'


@functools.cache
def score_tokens(language: str | None, tokenizer: str = 'auto') -> ScoreTokens:
    """The tokens for a target language; None: unknown.

    `auto` is sacreBLEU's own choice, or, with a note, `char` where its package is missing, and for languages without
    spaces that it does not know. Raises UserError if another `tokenizer` is not installed.
    """
    code = two_letters(language or '')
    chosen = _TOKENIZERS.get(code, '13a')
    is_asian = bool({chosen, tokenizer} & {'zh', 'ja-mecab'})
    if tokenizer != 'auto':
        if problem := _problem_with(tokenizer):
            raise UserError(f'data.bleu_tokenizer={tokenizer!r}: {problem}; or choose another, such as char')
        return ScoreTokens(tokenizer, is_asian)
    if code in _OTHERS:
        note = (
            f'BLEU counts characters (tok:char): {language} has few spaces, and sacreBLEU no tokenizer for it; '
            'data.bleu_tokenizer=flores200 counts pieces of words. TER and chrF++ count what is between spaces'
        )
        return ScoreTokens('char', is_asian, note)
    problem = _problem_with(chosen) if chosen != '13a' else ''
    if problem:
        note = f"BLEU counts characters (tok:char) in place of sacreBLEU's tokenizer for {language}: {problem}"
        return ScoreTokens('char', is_asian, note)
    return ScoreTokens(chosen, is_asian)


def note_on(tokens: ScoreTokens, references: Sequence[str]) -> str:
    """What to know about scores with these tokens; '' if nothing."""
    if tokens.bleu in ('13a', 'intl', 'none') and is_unspaced(references):
        return (
            f'BLEU takes what is between spaces for words (tok:{tokens.bleu}), but the references have few: set '
            'data.target_language to their language, or data.bleu_tokenizer to char'
        )
    return tokens.note


def _problem_with(tokenizer: str) -> str:
    """Why sacreBLEU's tokenizer cannot be used here, with the remedy; '' if it can."""
    from sacrebleu.metrics import BLEU
    from sacrebleu.tokenizers.tokenizer_spm import SPM_MODELS
    from sacrebleu.utils import SACREBLEU_DIR

    if tokenizer not in BLEU.TOKENIZERS:
        return f'this version of sacrebleu does not have it: {pip_install("--upgrade", "sacrebleu")}'
    model = SPM_MODELS.get(tokenizer)
    # A download fails slowly where there is no network.
    if model and not Path(SACREBLEU_DIR, 'models', Path(model['url']).name).exists():
        load = f'import sacrebleu; sacrebleu.BLEU(tokenize="{tokenizer}")'
        return f"its model is not downloaded: python -c '{load}'"
    try:
        BLEU(tokenize=tokenizer)
    except (RuntimeError, ImportError, AssertionError):  # no package, or another dictionary
        return f'its package is not installed: {pip_install(_PACKAGES.get(tokenizer, "sacrebleu"))}'
    return ''


@dataclass(frozen=True)
class BucketScores:
    words: str  # such as `11-20`: words of a source, or characters where it is written without spaces
    num_lines: int
    bleu: float
    chrf: float
    length_ratio: float


@dataclass(frozen=True)
class Scores:
    bleu: float  # sacreBLEU, 0 to 100; 0 if no line has four tokens
    bleu_signature: str
    bleu_details: str  # n-gram precisions, brevity penalty, lengths
    chrf: float  # chrF2, 0 to 100
    chrf_signature: str
    chrf_plus_plus: float  # chrF2++, which also counts words and word pairs
    chrf_plus_plus_signature: str
    ter: float | None  # translation edit rate; 0 is best; None: lines are too long for it
    ter_signature: str
    exact: float  # share of lines equal to a reference, 0 to 1
    length_ratio: float  # tokens of translations / references, as BLEU counts them
    num_lines: int
    num_truncated: int
    has_four_words: bool  # some translation has 4-grams for BLEU to count
    by_length: tuple[BucketScores, ...] = ()  # if the sources are known
    length_unit: str = 'words'  # what by_length counts, or characters
    bleu_note: str = ''  # on BLEU's tokenizer

    def __str__(self) -> str:
        lines = [f'exact matches: {self.exact:.1%} of {self.num_lines:,} lines']
        if self.has_four_words:
            lines.append(f'BLEU {self.bleu:.2f}  {self.bleu_details}')
        else:
            lines.append('BLEU is not defined here: it counts four tokens in a row, and no translation has as many')
        lines += [f'  {text}' for text in (self.bleu_signature, self.bleu_note) if text]
        lines += [f'chrF {self.chrf:.2f}', f'  {self.chrf_signature}']
        lines += [f'chrF++ {self.chrf_plus_plus:.2f}', f'  {self.chrf_plus_plus_signature}']
        lines += [NO_TER] if self.ter is None else [f'TER {self.ter:.2f}', f'  {self.ter_signature}']
        lines += self._length_table()
        lines.append(f'length ratio: {self.length_ratio:.3f}; truncated: {self.num_truncated} lines')
        return '\n'.join(filter(None, [*lines, self.length_warning]))

    def _length_table(self) -> list[str]:
        if len(self.by_length) < 2:
            return []
        name = f'source {self.length_unit}'
        rows = [f'{name}   lines{"    BLEU" if self.has_four_words else ""}    chrF  length ratio']
        for bucket in self.by_length:
            bleu = f'{bucket.bleu:8.2f}' if self.has_four_words else ''
            row = f'{bucket.words:<{len(name)}}{bucket.num_lines:8,}'
            rows.append(f'{row}{bleu}{bucket.chrf:8.2f}{bucket.length_ratio:14.3f}')
        return rows

    @property
    def length_warning(self) -> str:
        """A warning if translations are a tenth shorter or longer than references; else empty."""
        if self.num_lines and self.length_ratio <= 0.9:
            return 'warning: the translations are too short: a wide beam, a low length penalty or a cap may cut them'
        if self.num_lines and self.length_ratio >= 1.1:
            return 'warning: the translations are too long: look for repetition, or a length penalty that rewards it'
        return ''


def score(
    translations: Sequence[str],
    references: Sequence[str] | Sequence[Sequence[str | None]],
    *,
    sources: Sequence[str] | None = None,
    num_truncated: int = 0,
    tokens: ScoreTokens = SPACED,
) -> Scores:
    """Scores of detokenized lines against one set of references or several; None: a line has no more of them.

    With the sources, scores by their length too. Raises ValueError for unequal numbers of lines.
    """
    references = reference_sets(references)
    ours = list(translations)
    for theirs in references:
        if len(ours) != len(theirs):
            raise ValueError(f'{len(ours)} translations, {len(theirs)} references; expected equal numbers')

    results = {}
    fields = {'ter': None, 'ter_signature': ''}
    for name, metric in make_metrics(tokens, ours, *references).items():
        results[name] = metric.corpus_score(ours, references)
        fields[name] = results[name].score
        fields[f'{name}_signature'] = str(metric.get_signature())

    bleu = results['bleu']
    same = sum(line in theirs for line, *theirs in zip(ours, *references, strict=True))
    return Scores(
        **fields,
        bleu_details=bleu.format(score_only=False).partition('= ')[2].partition(' ')[2],
        exact=same / max(len(ours), 1),
        length_ratio=bleu.sys_len / max(bleu.ref_len, 1),
        num_lines=len(ours),
        num_truncated=num_truncated,
        has_four_words=bleu.totals[3] > 0,
        by_length=() if sources is None else _by_length(ours, references, sources, tokens),
        length_unit='characters' if sources is not None and is_unspaced(sources) else 'words',
        bleu_note=note_on(tokens, references[0]),
    )


def make_metrics(tokens: ScoreTokens = SPACED, *sides: Sequence[str | None]) -> dict[str, Any]:
    """sacreBLEU's metrics, by the names in `Scores`; no TER if a line in `sides` is too long for it."""
    from sacrebleu.metrics import BLEU, CHRF, TER

    bleu = BLEU(tokenize=tokens.bleu, force=tokens.bleu == 'none')  # no warning of tokenized text where it is meant
    metrics = {'bleu': bleu, 'chrf': CHRF(), 'chrf_plus_plus': CHRF(word_order=2)}

    def num_words(line: str) -> int:
        return len(line) if tokens.is_asian else line.count(' ') + 1

    if not any(num_words(line or '') > MOST_TER_WORDS for side in sides for line in side):
        # Support for Chinese characters only works along with normalization.
        metrics['ter'] = TER(normalized=True, asian_support=True) if tokens.is_asian else TER()
    return metrics


def reference_sets(references: Sequence[str] | Sequence[Sequence[str | None]]) -> list[list[str | None]]:
    """The sets of references; a single one may be given as its lines."""
    if not references or isinstance(references[0], str):
        return [list(references)]
    return [list(lines) for lines in references]


def count_words(line: str) -> int:
    return len(line.split())


def _by_length(
    ours: list[str], references: list[list[str]], sources: Sequence[str], tokens: ScoreTokens
) -> tuple[BucketScores, ...]:
    metrics = make_metrics(tokens)
    count = count_unspaced if is_unspaced(sources) else count_words
    lengths = list(map(count, sources))
    buckets = []
    for low, high in zip((0, *(end + 1 for end in BUCKETS)), (*BUCKETS, math.inf), strict=True):
        chosen = [i for i, length in enumerate(lengths) if low <= length <= high]
        if chosen:
            lines = [ours[i] for i in chosen]
            theirs = [[column[i] for i in chosen] for column in references]
            bleu = metrics['bleu'].corpus_score(lines, theirs)
            chrf = metrics['chrf'].corpus_score(lines, theirs)
            name = f'{low} or more' if high == math.inf else f'{low}-{high}'
            ratio = bleu.sys_len / max(bleu.ref_len, 1)
            buckets.append(BucketScores(name, len(chosen), bleu.score, chrf.score, ratio))
    return tuple(buckets)
