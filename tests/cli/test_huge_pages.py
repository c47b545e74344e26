"""Training names the variable that makes it faster on CPUs, where it would help and is not set."""

import pytest

from flax_transformer.cli import huge_pages
from flax_transformer.cli.huge_pages import huge_pages_hint


@pytest.fixture(autouse=True)
def helps(monkeypatch, tmp_path):
    """A system on which the variable would help."""
    monkeypatch.delenv('GLIBC_TUNABLES', raising=False)
    monkeypatch.setattr(huge_pages.platform, 'libc_ver', lambda: ('glibc', '2.36'))
    monkeypatch.setattr(huge_pages, '_MODE', tmp_path / 'enabled')
    (tmp_path / 'enabled').write_text('always [madvise] never\n')


@pytest.mark.parametrize('others', ['', 'glibc.malloc.arena_max=2'])
def test_the_variable_is_named(monkeypatch, others):
    monkeypatch.setenv('GLIBC_TUNABLES', others)
    assert huge_pages_hint().startswith('GLIBC_TUNABLES=glibc.malloc.hugetlb=1 in the environment')


@pytest.mark.parametrize('setting', ['glibc.malloc.hugetlb=0', 'glibc.malloc.arena_max=2:glibc.malloc.hugetlb=2'])
def test_not_where_it_is_set(monkeypatch, setting):
    monkeypatch.setenv('GLIBC_TUNABLES', setting)
    assert huge_pages_hint() is None


@pytest.mark.parametrize('mode', ['[always] madvise never', 'always madvise [never]', None])
def test_not_where_the_system_decides(tmp_path, mode):
    (tmp_path / 'enabled').unlink() if mode is None else (tmp_path / 'enabled').write_text(mode)
    assert huge_pages_hint() is None


@pytest.mark.parametrize('library', [('glibc', '2.31'), ('musl', '1.2'), ('', '')])
def test_not_where_the_c_library_has_no_such_setting(monkeypatch, library):
    monkeypatch.setattr(huge_pages.platform, 'libc_ver', lambda: library)
    assert huge_pages_hint() is None
