"""Commits are read whole and in order, whatever their messages and paths hold, and without addresses of people."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.errors import InvalidArgument
from broker.providers.commits import head, is_ancestor, parse, read_commits

FIELD = st.binary(max_size=20).map(lambda data: data.replace(b"\0", b""))
PATH = st.binary(min_size=1, max_size=12).map(lambda data: data.replace(b"\0", b"x"))
LOG = st.lists(st.tuples(FIELD, st.lists(PATH, max_size=4)), max_size=6)


def written(log: list[tuple[bytes, list[bytes]]]) -> bytes:
    records = []
    for number, (message, paths) in enumerate(log):
        fields = b"".join(part + b"\0" for part in (b"%040x" % number, b"17", b"date", b"a@b", b"c@d", message))
        records.append(fields + (b"\n" + b"".join(path + b"\0" for path in paths) if paths else b""))
    return b"\0".join(records)


@given(LOG)
def test_any_message_and_any_path_comes_back(log: list[tuple[bytes, list[bytes]]]):
    found = list(parse(written(log)))
    assert [commit.hash for commit in found] == [f"{number:040x}" for number in range(len(log))]
    assert [commit.path_count for commit in found] == [len(paths) for _, paths in log]
    for commit, (message, _) in zip(found, log, strict=True):
        if b"@" not in message:
            assert commit.message == message.decode(errors="replace").strip()


@given(LOG, st.integers(min_value=0))
def test_an_output_that_was_cut_gives_no_commit_that_is_not_whole(log: list[tuple[bytes, list[bytes]]], at: int):
    output = written(log)
    cut = output[: at % (len(output) + 1)]
    full = list(parse(output))
    found = list(parse(cut, whole=False))
    assert found == full[: len(found)]


@pytest.fixture
def repository(folder: Path, write: Callable[..., Path], run_git: Callable[..., str]) -> Path:
    run_git(folder, "init", "-q", "-b", "main")
    return folder


@pytest.fixture
def commit(repository: Path, run_git: Callable[..., str], write: Callable[..., Path]) -> Callable[..., str]:
    def make(message: bytes, *names: str | bytes, **rest) -> str:
        for name in names:
            write(name, os.urandom(8).hex())
        run_git(repository, "add", "-A")
        allow = ("--allow-empty", "--allow-empty-message", "--cleanup=verbatim")
        run_git(repository, "commit", "-q", *allow, "-F", "-", message=message, **rest)
        return run_git(repository, "rev-parse", "HEAD")

    return make


def test_real_commits_come_back_with_odd_paths_and_messages(repository: Path, commit: Callable[..., str]):
    first = commit(b"first\n\n\nbody %H%x00 \n", "a b.txt", b"new\nline", b"\xff\xfe", '"quoted"', "dir/\ttab")
    second = commit(b"", "a b.txt")
    third = commit("ünï ✓\x01\x02".encode(), date="2026-03-04T05:06:07-0800")
    found, cut = read_commits(repository, third)
    assert not cut
    assert [entry.hash for entry in found] == [second, first]  # one that touches nothing is no commit of the folder
    assert found[1].message == "first\n\n\nbody %H%x00"
    assert found[1].subject == "first"
    assert set(found[1].paths) == {"a b.txt", "new%0Aline", "%FF%FE", '"quoted"', "dir/%09tab"}
    assert (found[0].message, found[0].subject) == ("", "")
    assert found[0].paths == ("a b.txt",)


def test_no_setting_of_the_repositorys_changes_what_is_read(
    repository: Path, commit: Callable[..., str], run_git: Callable[..., str]
):
    commit(b"first", "a.py", "b.py")
    commit(b"second", "a.py")
    plain = read_commits(repository, head(repository))
    settings = {
        "color.ui": "always",
        "core.abbrev": "4",
        "diff.noprefix": "true",
        "diff.orderFile": "/nowhere",
        "diff.relative": "false",
        "diff.renames": "copies",
        "format.pretty": "oneline",
        "i18n.logOutputEncoding": "utf-16",
        "log.abbrevCommit": "true",
        "log.date": "raw",
        "log.decorate": "full",
        "log.follow": "true",
        "log.showRoot": "false",
        "log.showSignature": "true",
    }
    for name, value in settings.items():
        run_git(repository, "config", name, value)
    assert read_commits(repository, head(repository)) == plain
    assert [commit.path_count for commit in plain[0]] == [1, 2]


def test_dates_are_the_commits_in_utc_and_the_authors_in_his_zone(repository: Path, commit: Callable[..., str]):
    name = commit(b"x", "a", date="2026-03-04T05:06:07-0800")
    entry = read_commits(repository, name)[0][0]
    assert entry.recorded_at == "2026-03-04T13:06:07Z"
    assert entry.authored == "2026-03-04T05:06:07-08:00"


def test_only_commits_of_the_folder_count_and_paths_are_below_it(repository: Path, commit: Callable[..., str]):
    one = commit(b"one", "sub/x.py", "top.py")
    commit(b"two", "top.py")
    last = commit(b"three", "other/y.py")
    found, _ = read_commits(repository / "sub", last)
    assert [(entry.hash, entry.paths) for entry in found] == [(one, ("x.py",))]


def test_no_address_of_a_person_is_left(repository: Path, commit: Callable[..., str]):
    name = commit(
        b"fix\n\nwith bob@example.org\nSigned-off-by: Ada <ada@example.org>\nCo-authored-by: C <c@example.net>\n"
        b"clone git@host:repo\n",
        "a",
    )
    message = read_commits(repository, name)[0][0].message
    assert "example" not in message
    assert "git@host:repo" in message
    assert message.count("<address left out>") == 3


def test_only_the_newest_are_read_and_only_those_after_a_commit(repository: Path, commit: Callable[..., str]):
    names = [commit(f"c{number}".encode(), "a") for number in range(5)]
    assert [entry.hash for entry in read_commits(repository, names[-1], limit=2)[0]] == [names[4], names[3]]
    assert [entry.hash for entry in read_commits(repository, names[-1], after=names[2])[0]] == [names[4], names[3]]
    assert is_ancestor(repository, names[0], names[4])
    assert not is_ancestor(repository, names[4], names[0])


def test_head_of_a_new_repository_is_empty_and_of_no_repository_an_error(
    repository: Path, tmp_path: Path, commit: Callable[..., str]
):
    assert head(repository) == ""
    assert head(repository) != commit(b"x", "a") == head(repository)
    with pytest.raises(InvalidArgument) as error:
        head(tmp_path)
    assert error.value.reason == "NOT_A_REPOSITORY"
    assert "leave the provider 'history' out" in error.value.message
    with pytest.raises(InvalidArgument) as error:
        head(repository / ".git")
    assert error.value.reason == "NOT_A_REPOSITORY"


def test_a_broken_repository_is_an_error_that_says_what_to_do(repository: Path, commit: Callable[..., str]):
    name = commit(b"x", "a")
    (repository / ".git" / "objects" / name[:2] / name[2:]).unlink()
    with pytest.raises(InvalidArgument) as error:
        read_commits(repository, name)
    assert error.value.reason == "GIT_FAILED"
    assert "'git log' run there tells more" in error.value.message


def test_a_machine_without_git_is_an_error_that_says_what_to_do(repository: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(InvalidArgument) as error:
        head(repository)
    assert error.value.reason == "GIT_MISSING"
    assert "install git" in error.value.message
