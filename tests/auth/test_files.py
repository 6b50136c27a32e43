"""A file is read again once its change is whole; one that cannot be used changes nothing and is told of once."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.auth import files
from broker.auth.files import WatchedFile
from broker.errors import ConfigError


def parse(content: bytes) -> str:
    if b"wrong" in content:
        raise ValueError("that is wrong")
    return content.decode()


def watched(path: Path, text: str = "first") -> WatchedFile[str]:
    path.write_text(text)
    return WatchedFile(path, "auth.some_file", parse)


def test_a_file_that_stays_is_not_read_again(tmp_path: Path) -> None:
    file = watched(tmp_path / "f")
    assert (file.value, file.poll(), file.poll()) == ("first", False, False)


def test_a_change_is_taken_when_it_has_looked_the_same_twice(tmp_path: Path) -> None:
    file = watched(tmp_path / "f")
    (tmp_path / "f").write_text("sec")
    assert (file.poll(), file.value) == (False, "first")
    (tmp_path / "f").write_text("second")
    assert (file.poll(), file.value) == (False, "first")
    assert (file.poll(), file.value) == (True, "second")
    assert file.poll() is False


def test_a_file_that_another_takes_the_place_of_is_read_again(tmp_path: Path) -> None:
    file = watched(tmp_path / "f")
    (tmp_path / "new").write_text("other")
    (tmp_path / "new").replace(tmp_path / "f")
    assert [file.poll(), file.poll()] == [False, True]
    assert file.value == "other"


@pytest.mark.parametrize("change", ["wrong", None], ids=["wrong", "gone"])
def test_what_cannot_be_used_leaves_what_was_and_is_told_of_once(tmp_path: Path, change: str | None) -> None:
    path = tmp_path / "f"
    file = watched(path)
    if change is None:
        path.unlink()
    else:
        path.write_text(change)
    assert file.poll() is False
    with pytest.raises(ConfigError, match=r"auth\.some_file: .*f: "):
        file.poll()
    assert (file.poll(), file.value) == (False, "first")
    path.write_text("better")
    assert [file.poll(), file.poll()] == [False, True]
    assert file.value == "better"


def test_an_empty_file_is_a_change_like_any(tmp_path: Path) -> None:
    file = watched(tmp_path / "f")
    (tmp_path / "f").write_text("")
    assert [file.poll(), file.poll()] == [False, True]
    assert file.value == ""


def test_at_the_start_a_file_that_cannot_be_used_is_an_error_with_its_key(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"auth\.some_file: .*missing: No such file"):
        WatchedFile(tmp_path / "missing", "auth.some_file", parse)
    with pytest.raises(ConfigError, match=r"auth\.some_file: .*f: that is wrong"):
        watched(tmp_path / "f", "wrong")


def test_a_file_that_everyone_can_write_gives_no_one_anything(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("me too")
    path.chmod(0o666)
    with pytest.raises(ConfigError, match="can be changed by all users"):
        WatchedFile(path, "auth.some_file", parse)


def test_a_file_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_BYTES", 4)
    with pytest.raises(ConfigError, match="more than 4 bytes"):
        watched(tmp_path / "f", "12345")
