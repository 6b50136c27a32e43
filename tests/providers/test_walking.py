"""A walk lists what a person would call the folder's files, follows no link, and counts all it leaves out."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.providers import walking
from broker.providers.walking import MAX_FILE_BYTES, read, walk


def names(root: Path) -> list[str]:
    return list(walk(root).files)


def test_a_plain_folder_without_hidden_and_dependency_folders(write: Callable[..., Path], folder: Path):
    for name in ("b.py", "a/z.md", "a/.hidden", ".git2/x", "node_modules/x/y.js", "q/__pycache__/m.pyc", ".venv/l.py"):
        write(name)
    found = walk(folder.resolve())
    assert list(found.files) == ["a/z.md", "b.py"]
    assert found.skipped == {"hidden": 3, "dependency folder": 2}


def test_a_repository_shows_what_git_shows(write: Callable[..., Path], folder: Path, run_git: Callable[..., str]):
    run_git(folder, "init", "-q")
    for name in (".gitignore", ".ci/run", "kept.py", "gone.py", "sub/tracked.md", "sub/build/out.o", "forced.log"):
        write(name)
    write(".gitignore", "build/\n*.log\n")
    run_git(folder, "add", ".")
    run_git(folder, "add", "-f", "forced.log")
    for name in ("new.py", ".env", "node_modules/a.js", "other.log"):
        write(name)
    (folder / "gone.py").unlink()
    found = walk(folder.resolve())
    assert list(found.files) == [".ci/run", ".gitignore", "forced.log", "kept.py", "new.py", "sub/tracked.md"]
    assert found.skipped == {"hidden": 1, "dependency folder": 1}
    assert names(folder.resolve() / "sub") == ["tracked.md"]


def test_a_folder_that_its_repository_ignores_is_walked_all_the_same(
    write: Callable[..., Path], folder: Path, run_git: Callable[..., str]
):
    run_git(folder, "init", "-q")
    write(".gitignore", ".venv/\n")
    write(".venv/lib/click/core.py")
    assert names(folder.resolve() / ".venv" / "lib" / "click") == ["core.py"]


def test_a_path_in_conflict_is_listed_once(write: Callable[..., Path], folder: Path, run_git: Callable[..., str]):
    run_git(folder, "init", "-q", "-b", "main")
    write("a.txt", "base\n")
    run_git(folder, "add", ".")
    run_git(folder, "commit", "-qm", "base")
    run_git(folder, "checkout", "-qb", "side")
    write("a.txt", "side\n")
    run_git(folder, "commit", "-qam", "side")
    run_git(folder, "checkout", "-q", "main")
    write("a.txt", "main\n")
    run_git(folder, "commit", "-qam", "main")
    with pytest.raises(Exception, match="merge"):
        run_git(folder, "merge", "-q", "side")
    assert names(folder.resolve()) == ["a.txt"]


def test_a_repository_inside_is_left_out_and_counted(
    write: Callable[..., Path], folder: Path, run_git: Callable[..., str]
):
    run_git(folder, "init", "-q")
    write("a.txt")
    write("inner/b.txt")
    run_git(folder / "inner", "init", "-q")
    found = walk(folder.resolve())
    assert (list(found.files), found.skipped) == (["a.txt"], {"nested repository": 1})


@pytest.mark.parametrize("in_git", [False, True])
def test_links_are_never_followed(
    write: Callable[..., Path], folder: Path, tmp_path: Path, run_git: Callable[..., str], in_git: bool
):
    if in_git:
        run_git(folder, "init", "-q")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text("secret")
    write("a.txt")
    write("sub/b.txt")
    (folder / "loop").symlink_to(folder)
    (folder / "sub" / "up").symlink_to("..")
    (folder / "out").symlink_to(tmp_path / "outside")
    (folder / "secret.txt").symlink_to(tmp_path / "outside" / "secret.txt")
    (folder / "dangling").symlink_to("nowhere")
    (folder / "self").symlink_to("self")
    found = walk(folder.resolve())
    assert list(found.files) == ["a.txt", "sub/b.txt"]
    assert found.skipped == {"symbolic link": 6}


def test_a_tracked_folder_replaced_by_a_link_is_not_followed(
    write: Callable[..., Path], folder: Path, tmp_path: Path, run_git: Callable[..., str]
):
    run_git(folder, "init", "-q")
    write("docs/a.txt", "inside")
    run_git(folder, "add", ".")
    (folder / "docs").rename(tmp_path / "elsewhere")
    (folder / "docs").symlink_to(tmp_path / "elsewhere")
    assert names(folder.resolve()) == []
    assert read(folder.resolve(), "docs/a.txt") is None


def test_size_and_number_are_bounded_and_counted(
    write: Callable[..., Path], folder: Path, monkeypatch: pytest.MonkeyPatch
):
    write("big", b"x" * (MAX_FILE_BYTES + 1))
    write("fits", b"x" * MAX_FILE_BYTES)
    write("empty", b"")
    assert walk(folder.resolve()).skipped == {"file too large": 1, "empty": 1}
    for number in range(5):
        write(f"n{number}")
    monkeypatch.setattr(walking, "MAX_FILES", 3)
    found = walk(folder.resolve())
    assert (list(found.files), found.skipped["too many files"]) == (["fits", "n0", "n1"], 3)
    monkeypatch.setattr(walking, "MAX_TOTAL_BYTES", 12)
    found = walk(folder.resolve())
    assert (list(found.files), found.skipped["folder too large"]) == (["n0", "n1"], 4 - 0)


def test_pipes_and_unreadable_entries_are_counted_and_stop_nothing(
    write: Callable[..., Path], folder: Path, monkeypatch: pytest.MonkeyPatch
):
    write("a.txt")
    write("closed/b.txt")
    os.mkfifo(folder / "pipe")
    real = os.scandir

    def scandir(path):
        if str(path).endswith("closed"):
            raise PermissionError(13, "no")
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    found = walk(folder.resolve())
    assert list(found.files) == ["a.txt"]
    assert found.skipped == Counter({"not a plain file": 1, "unreadable": 1})
    assert read(folder.resolve(), "pipe") is None


@pytest.mark.parametrize("in_git", [False, True])
@pytest.mark.parametrize(
    "name",
    [b"sp ace.md", b"new\nline.md", b"\xff\xfe.md", "日本.md".encode(), b"-rf", b'quo"te', b"a:b", b"%41", b"#x"],
)
def test_odd_names_are_listed_and_read(
    write: Callable[..., Path], folder: Path, run_git: Callable[..., str], name: bytes, in_git: bool
):
    if in_git:
        run_git(folder, "init", "-q")
    write(name, "hello")
    write(b"dir " + name + b"/inner", "inner")
    root = folder.resolve()
    assert sorted(os.fsencode(path) for path in walk(root).files) == sorted([name, b"dir " + name + b"/inner"])
    assert {read(root, path) for path in walk(root).files} == {b"hello", b"inner"}


def test_the_order_is_that_of_the_paths_bytes(write: Callable[..., Path], folder: Path):
    for name in ("a/b", "a-b", "a.b", "B", "ä", "a0"):
        write(name)
    assert names(folder.resolve()) == sorted(("a/b", "a-b", "a.b", "B", "ä", "a0"), key=str.encode)


def test_reading_never_leaves_the_folder(write: Callable[..., Path], folder: Path, tmp_path: Path):
    (tmp_path / "secret").write_text("secret")
    write("a.txt")
    root = folder.resolve()
    assert read(root, "../secret") is None
    assert read(root, str(tmp_path / "secret")) is None
    assert read(root, "missing") is None
    assert read(root, "a.txt") == b"text\n"


def test_a_machine_without_git_walks_the_folder_plainly(
    write: Callable[..., Path], folder: Path, run_git: Callable[..., str], monkeypatch: pytest.MonkeyPatch
):
    run_git(folder, "init", "-q")
    write("a.txt")
    monkeypatch.setenv("PATH", "")
    assert names(folder.resolve()) == ["a.txt"]
