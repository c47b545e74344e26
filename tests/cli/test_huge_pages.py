"""The command begins anew with huge pages, once, where that helps."""

import os
import signal
import sys

import pytest

from flax_transformer.cli import huge_pages, launch, process


@pytest.fixture
def restarts(monkeypatch, tmp_path):
    """What would be run in place of this process, with which setting."""
    seen = []
    monkeypatch.setattr(signal, 'pthread_sigmask', lambda how, signals: None)
    monkeypatch.setattr(os, 'execve', lambda path, argv, env: seen.append((path, argv, env['GLIBC_TUNABLES'])))
    monkeypatch.delenv('GLIBC_TUNABLES', raising=False)
    monkeypatch.setattr(sys, 'orig_argv', ['python', '-m', 'x', 'train', 'a b'])
    monkeypatch.setattr(sys, 'platform', 'linux')
    monkeypatch.setattr(huge_pages.platform, 'libc_ver', lambda: ('glibc', '2.36'))
    monkeypatch.setattr(huge_pages, '_MODE', tmp_path / 'enabled')
    (tmp_path / 'enabled').write_text('always [madvise] never\n')
    return seen


def test_once_with_the_same_arguments(restarts, monkeypatch):
    huge_pages.restart_with_huge_pages()
    monkeypatch.setenv('GLIBC_TUNABLES', restarts[0][2])
    huge_pages.restart_with_huge_pages()  # as the new process does
    assert restarts == [(sys.executable, [sys.executable, '-m', 'x', 'train', 'a b'], 'glibc.malloc.hugetlb=1')]


def test_where_no_process_can_be_started_this_one_goes_on(restarts, monkeypatch):
    masks = []
    monkeypatch.setattr(signal, 'pthread_sigmask', lambda how, signals: masks.append((how, signals)) or {'before'})
    monkeypatch.setattr(os, 'execve', lambda path, *_: os.stat(path))
    monkeypatch.setattr(sys, 'executable', '/no/such/python')
    huge_pages.restart_with_huge_pages()
    assert masks[-1] == (signal.SIG_SETMASK, {'before'})
    assert 'GLIBC_TUNABLES' not in os.environ
    monkeypatch.setattr(sys, 'executable', None)
    huge_pages.restart_with_huge_pages()


def test_other_settings_stay(restarts, monkeypatch):
    monkeypatch.setenv('GLIBC_TUNABLES', 'glibc.malloc.arena_max=2')
    huge_pages.restart_with_huge_pages()
    assert restarts[0][2] == 'glibc.malloc.arena_max=2:glibc.malloc.hugetlb=1'


@pytest.mark.parametrize('setting', ['glibc.malloc.hugetlb=0', 'glibc.malloc.arena_max=2:glibc.malloc.hugetlb=2'])
def test_what_the_user_set_is_kept(restarts, monkeypatch, setting):
    monkeypatch.setenv('GLIBC_TUNABLES', setting)
    huge_pages.restart_with_huge_pages()
    assert not restarts


@pytest.mark.parametrize('mode', ['[always] madvise never', 'always madvise [never]', None])
def test_not_where_the_system_decides(restarts, tmp_path, mode):
    (tmp_path / 'enabled').unlink() if mode is None else (tmp_path / 'enabled').write_text(mode)
    huge_pages.restart_with_huge_pages()
    assert not restarts


@pytest.mark.parametrize('library', [('glibc', '2.31'), ('glibc', '2.9'), ('musl', '1.2'), ('', '')])
def test_not_where_the_c_library_has_no_such_setting(restarts, monkeypatch, library):
    monkeypatch.setattr(huge_pages.platform, 'libc_ver', lambda: library)
    huge_pages.restart_with_huge_pages()
    assert not restarts


def test_only_training_begins_anew(restarts, monkeypatch, capsys):
    monkeypatch.setattr(process.atexit, 'register', lambda end: None)  # this process goes on
    monkeypatch.setattr(process.signal, 'signal', lambda number, handler: None)
    monkeypatch.setattr(sys, 'unraisablehook', sys.unraisablehook)
    monkeypatch.setattr(sys, 'argv', ['flax-transformer', '--help'])
    with pytest.raises(SystemExit) as left:
        launch()
    assert left.value.code == 0
    assert not restarts
    assert 'usage' in capsys.readouterr().out
    monkeypatch.setattr(sys, 'argv', ['flax-transformer', 'train', 'no-such-config'])
    with pytest.raises(SystemExit) as left:
        launch()
    assert left.value.code == 2
    assert len(restarts) == 1
