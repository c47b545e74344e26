"""Which of a model's languages is meant, by whichever code or name."""

import pytest

from flax_transformer.text.languages import known_language, two_letters, usual_name

OWN = ('en', 'de', 'pt', 'pt-BR', 'zh', 'he', 'tl', 'no')
NLLB = ('eng_Latn', 'deu_Latn', 'por_Latn', 'zho_Hans', 'zho_Hant', 'heb_Hebr', 'tgl_Latn', 'nob_Latn')


@pytest.mark.parametrize(
    ('language', 'own', 'nllb'),
    [
        ('EN-GB', 'en', 'eng_Latn'),
        ('de_AT', 'de', 'deu_Latn'),
        ('German', 'de', 'deu_Latn'),
        ('PT-BR', 'pt-BR', 'por_Latn'),
        ('pb', 'pt-BR', 'por_Latn'),
        ('pt_PT', 'pt', 'por_Latn'),
        ('zh-Hans', 'zh', 'zho_Hans'),
        ('zt', 'zh', 'zho_Hant'),
        ('ZH_TW', 'zh', 'zho_Hant'),
        ('iw', 'he', 'heb_Hebr'),
        ('fil', 'tl', 'tgl_Latn'),
        ('nb', 'no', 'nob_Latn'),
    ],
)
def test_every_usual_code_and_name_is_read(language: str, own: str, nllb: str) -> None:
    assert known_language('target', language, OWN) == own
    assert known_language('target', language, NLLB) == nllb


def test_a_model_may_have_such_codes_itself() -> None:
    codes = ('zt', 'zh', 'pb', 'pt', 'iw')
    assert [known_language('target', code, codes) for code in ('zh-Hant', 'pt-BR', 'he')] == ['zt', 'pb', 'iw']
    assert [usual_name(code, codes) for code in codes] == ['zt', 'zh', 'pb', 'pt', 'he']
    assert two_letters('iw') == 'he'
