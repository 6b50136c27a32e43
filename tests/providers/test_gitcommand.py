"""Git runs bounded in time and output, in the folder asked for, and runs no code that a repository names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from broker.providers.gitcommand import GitMissing, git


@pytest.fixture
def repository(tmp_path: Path, run_git: Callable[..., str]) -> Path:
    run_git(tmp_path, "init", "-q", "repo")
    (tmp_path / "repo" / "a.txt").write_text("a")
    run_git(tmp_path / "repo", "add", ".")
    run_git(tmp_path / "repo", "commit", "-qm", "first")
    return tmp_path / "repo"


def test_output_status_and_reason_come_back(repository: Path, tmp_path: Path):
    assert git(repository, "ls-files").output == b"a.txt\n"
    failed = git(tmp_path, "ls-files")
    assert failed.code == 128
    assert "not a git repository" in failed.message


def test_output_beyond_the_bound_is_cut_and_said_to_be(repository: Path):
    full = git(repository, "cat-file", "-p", "HEAD")
    cut = git(repository, "cat-file", "-p", "HEAD", max_bytes=10)
    exact = git(repository, "cat-file", "-p", "HEAD", max_bytes=len(full.output))
    assert (cut.output, cut.cut, cut.code) == (full.output[:10], True, 0)
    assert (exact.output, exact.cut) == (full.output, False)


def test_a_command_that_outlives_its_time_is_killed_and_no_success(repository: Path):
    # A child of git's that holds its output open is killed with it: without that this would wait for the child.
    result = git(repository, "-c", "alias.wait=!sleep 1000; true", "wait", timeout=0.2)
    assert result.code != 0


def test_a_hook_of_the_repository_is_not_run(repository: Path, tmp_path: Path, run_git: Callable[..., str]):
    hook = tmp_path / "hook"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path / 'ran'}\n")
    hook.chmod(0o755)
    run_git(repository, "config", "core.fsmonitor", str(hook))
    run_git(repository, "ls-files", "--others")
    assert (tmp_path / "ran").exists(), "this git does not run the hook at all, so that the test shows nothing"
    (tmp_path / "ran").unlink()
    git(repository, "ls-files", "--others")
    assert not (tmp_path / "ran").exists()


def test_another_repository_named_by_the_environment_is_not_used(
    repository: Path, tmp_path: Path, run_git: Callable[..., str], monkeypatch: pytest.MonkeyPatch
):
    run_git(tmp_path, "init", "-q", "other")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other" / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "other" / "index"))
    assert git(repository, "ls-files").output == b"a.txt\n"


def test_a_machine_without_git_is_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GitMissing):
        git(tmp_path, "version")
