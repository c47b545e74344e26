"""What BLEU and TER count as a token, by target language: as sacreBLEU chooses, wherever it can."""

import functools
import os
from collections.abc import Sequence
from typing import NamedTuple

from flax_transformer.common.errors import UserError
from flax_transformer.common.installing import pip_install
from flax_transformer.data.audit.language import code_of
from flax_transformer.text.tokenizer import is_unspaced

# ISO 639-1 and 639-3, and what people write instead.
_CHINESE = ('zh', 'zho', 'chi', 'cmn', 'yue', 'wuu', 'lzh', 'cn')
_JAPANESE = ('ja', 'jpn', 'jp')
_KOREAN = ('ko', 'kor')
# Written without spaces too, and without a tokenizer in sacreBLEU: Thai, Lao, Khmer, Burmese, Tibetan, Dzongkha.
_OTHERS = ('th', 'tha', 'lo', 'lao', 'km', 'khm', 'my', 'mya', 'bur', 'bo', 'bod', 'tib', 'dz', 'dzo')
_PACKAGES = {'ja-mecab': 'sacrebleu[ja]', 'ko-mecab': 'sacrebleu[ko]'}


class ScoreTokens(NamedTuple):
    """How the scores of a target language cut text into tokens."""

    bleu: str = '13a'  # BLEU's tokenizer, by sacreBLEU's name
    is_asian: bool = False  # whether TER takes each Chinese character for a word
    note: str = ''  # why this is not what sacreBLEU or the literature would take


SPACED = ScoreTokens()  # of most languages


@functools.cache
def score_tokens(language: str | None, tokenizer: str = 'auto') -> ScoreTokens:
    """The tokens for a target language such as `zh`, `zh_CN`, `zh-Hans` or `zho`; None: unknown.

    `auto` is sacreBLEU's own choice: `zh`, `ja-mecab` and `ko-mecab` for Chinese, Japanese and Korean, else `13a`.
    Where its package is missing, and for languages without spaces that sacreBLEU does not know, it is `char`, with a
    note. Raises UserError if another `tokenizer` of sacreBLEU's is not installed.
    """
    code = code_of(language or '')
    is_asian = code in (*_CHINESE, *_JAPANESE) or tokenizer in ('zh', 'ja-mecab')
    if tokenizer != 'auto':
        if problem := _problem_with(tokenizer):
            raise UserError(f'data.bleu_tokenizer={tokenizer!r}: {problem}; or choose another, such as char')
        return ScoreTokens(tokenizer, is_asian)
    if code in _OTHERS:
        note = (
            f'BLEU counts characters (tok:char): {language} has few spaces, and sacreBLEU no tokenizer for it; '
            'data.bleu_tokenizer=flores200 counts pieces of words, as spBLEU does. TER and chrF++ still count what is '
            'between spaces'
        )
        return ScoreTokens('char', is_asian, note)
    choices = {**dict.fromkeys(_CHINESE, 'zh'), **dict.fromkeys(_JAPANESE, 'ja-mecab')}
    chosen = (choices | dict.fromkeys(_KOREAN, 'ko-mecab')).get(code, '13a')
    if chosen != '13a' and (problem := _problem_with(chosen)):
        note = f"BLEU counts characters (tok:char) in place of sacreBLEU's tokenizer for {language}: {problem}"
        return ScoreTokens('char', is_asian, note)
    return ScoreTokens(chosen, is_asian)


def note_on(tokens: ScoreTokens, references: Sequence[str]) -> str:
    """What to know about scores with these tokens; '' if nothing."""
    if tokens.bleu in ('13a', 'intl', 'none') and is_unspaced(references):
        return (
            f'BLEU takes what is between spaces for words (tok:{tokens.bleu}), but the references have few spaces: set '
            'data.target_language to their language, or data.bleu_tokenizer to char'
        )
    return tokens.note


def _problem_with(tokenizer: str) -> str:
    """Why sacreBLEU's tokenizer cannot be used here, with the remedy; '' if it can."""
    from sacrebleu.metrics import BLEU

    if tokenizer not in BLEU.TOKENIZERS:
        return f'this version of sacrebleu does not have it: {pip_install("--upgrade", "sacrebleu")}'
    if not _is_downloaded(tokenizer):
        load = f'import sacrebleu; sacrebleu.BLEU(tokenize="{tokenizer}")'
        return f"its model is not downloaded: python -c '{load}'"
    try:
        BLEU(tokenize=tokenizer)
    except (RuntimeError, ImportError, AssertionError):  # no package, or another dictionary
        return f'its package is not installed: {pip_install(_PACKAGES.get(tokenizer, "sacrebleu"))}'
    return ''


def _is_downloaded(tokenizer: str) -> bool:
    """False if sacreBLEU would have to download a model first, which fails slowly where there is no network."""
    from sacrebleu.tokenizers.tokenizer_spm import SPM_MODELS
    from sacrebleu.utils import SACREBLEU_DIR

    model = SPM_MODELS.get(tokenizer)
    return model is None or os.path.exists(os.path.join(SACREBLEU_DIR, 'models', os.path.basename(model['url'])))
