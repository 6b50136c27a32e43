"""What changed in a folder is noticed, and only that is read again."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.providers import watching
from broker.providers.watching import Folder, utc


@pytest.fixture
def watched(write: Callable[..., Path], folder: Path) -> Folder:
    for name in ("a.txt", "b.txt", "c.txt"):
        write(name)
    return Folder(folder.resolve())


def test_first_everything_is_fresh_and_then_nothing(watched: Folder):
    assert watched.changes() == watching.Changes((), ("a.txt", "b.txt", "c.txt"))
    assert watched.changes() == watching.Changes((), ())


def test_changed_new_and_deleted_files_are_told(watched: Folder, write: Callable[..., Path], folder: Path):
    watched.changes()
    write("a.txt", "other")
    write("new.txt")
    (folder / "b.txt").unlink()
    assert watched.changes() == watching.Changes(("a.txt", "b.txt"), ("a.txt", "new.txt"))


def test_a_change_that_keeps_size_and_time_is_noticed(watched: Folder, folder: Path):
    watched.changes()
    before = (folder / "a.txt").stat()
    (folder / "other").write_text("TEXT\n")
    os.utime(folder / "other", ns=(before.st_atime_ns, before.st_mtime_ns))
    (folder / "other").replace(folder / "a.txt")
    assert watched.changes().fresh == ("a.txt",)


def test_many_changes_are_read_in_turns_and_never_answered_from_before(
    watched: Folder, write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
):
    watched.changes()
    monkeypatch.setattr(watching, "MAX_REFRESHED", 2)
    for name in ("a.txt", "b.txt", "c.txt"):
        write(name, "changed")
    assert watched.changes() == watching.Changes(("a.txt", "b.txt", "c.txt"), ("a.txt", "b.txt"))
    assert watched.changes() == watching.Changes((), ("c.txt",))


def test_a_forgotten_file_is_fresh_again(watched: Folder):
    watched.changes()
    watched.forget("b.txt")
    assert watched.changes() == watching.Changes((), ("b.txt",))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"caf\xe9\n", "not UTF-8"),
        (b"a\0b", "binary"),
        (b" \n\t\n", "empty"),
        ("﻿text".encode(), ""),
        ("日本\n".encode(), ""),
        (b"\x1b[31mred", ""),
    ],
)
def test_only_text_is_read_and_the_rest_is_counted(
    watched: Folder, write: Callable[..., Path], content: bytes, reason: str
):
    write("x", content)
    watched.changes()
    assert watched.text("x") == (None if reason else content)
    assert watched.skipped == ({reason: 1} if reason else {})
    write("x", b"good\n")
    watched.changes()
    assert watched.text("x") == b"good\n"
    assert watched.skipped == {}


def test_a_file_that_went_away_is_unreadable_and_no_error(watched: Folder, folder: Path):
    watched.changes()
    (folder / "a.txt").unlink()
    assert watched.text("a.txt") is None
    assert watched.skipped == {"unreadable": 1}


def test_times_are_utc_and_what_is_no_date_is_empty(watched: Folder, folder: Path):
    os.utime(folder / "a.txt", (1_700_000_000, 1_700_000_000))
    watched.changes()
    assert watched.recorded_at("a.txt") == "2023-11-14T22:13:20Z"
    assert utc(-1) == "1969-12-31T23:59:59Z"
    assert utc(-60_000_000_000) == "0068-09-03T13:20:00Z"
    assert utc(10**15) == utc(-(10**15)) == ""
