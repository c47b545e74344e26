"""Training names the variable that makes it faster on CPUs, where it would help and is not set."""

import pytest

from flax_transformer.cli import train
from flax_transformer.cli.train import huge_pages_hint


@pytest.mark.parametrize(
    ('variable', 'mode', 'library', 'is_named'),
    [
        ('', 'always [madvise] never', ('glibc', '2.36'), True),
        ('glibc.malloc.arena_max=2:glibc.malloc.hugetlb=2', 'always [madvise] never', ('glibc', '2.36'), False),
        ('', '[always] madvise never', ('glibc', '2.36'), False),  # the system decides
        ('', None, ('glibc', '2.36'), False),
        ('', 'always [madvise] never', ('glibc', '2.31'), False),  # the C library has no such setting
        ('', 'always [madvise] never', ('', ''), False),
    ],
)
def test_the_variable_is_named_where_it_would_help(variable, mode, library, is_named, monkeypatch, tmp_path):
    monkeypatch.setenv('GLIBC_TUNABLES', variable)
    monkeypatch.setattr(train.platform, 'libc_ver', lambda: library)
    monkeypatch.setattr(train, '_MODE', tmp_path / 'enabled')
    if mode is not None:
        (tmp_path / 'enabled').write_text(f'{mode}\n')
    hint = huge_pages_hint()
    assert hint.startswith('GLIBC_TUNABLES=glibc.malloc.hugetlb=1 in the environment') if is_named else hint is None
