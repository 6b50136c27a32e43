"""The history provider counts matched terms, as an oracle that knows nothing of it counts them."""

from __future__ import annotations

import math
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.core.frames import content_digest, content_tokens
from broker.core.scores import Direction
from broker.errors import FailedPrecondition, InvalidArgument
from broker.providers import history

ROOT = Path(__file__).parents[2]

COMMITS = [
    ("Add retry with backoff", ["net/retry.py"], "2026-01-01T00:00:00Z"),
    ("Cap the queue", ["net/queue.py", "docs/limits.md"], "2026-01-02T00:00:00Z"),
    ("Document retry and queue limits", ["docs/limits.md"], "2026-01-03T00:00:00Z"),
    ("Rename everything", ["net/a.py", "net/b.py", "net/c.py"], "2026-01-04T00:00:00Z"),
    ("Retry the queue on timeout\n\nThe backoff doubles.", ["net/retry.py", "net/queue.py"], "2026-01-05T00:00:00Z"),
]


@pytest.fixture
def record(folder: Path, write: Callable[..., Path], run_git: Callable[..., str]) -> Callable[..., str]:
    def make(message: str, paths: list[str], date: str) -> str:
        for path in paths:
            write(path, f"{message} {date}")
        run_git(folder, "add", "-A")
        run_git(folder, "commit", "-q", "-F", "-", message=message.encode(), date=date)
        return run_git(folder, "rev-parse", "HEAD")

    return make


@pytest.fixture
def repository(folder: Path, write, run_git: Callable[..., str], record: Callable[..., str]) -> Path:
    run_git(folder, "init", "-q", "-b", "main")
    for entry in COMMITS:
        record(*entry)
    return folder


def counted(words: list[str], message: str, paths: list[str]) -> int:
    """The score as anyone would count it, for lower-case words that are their own stem."""
    in_message = set(re.findall(r"[a-z]+", message.lower()))
    in_paths = set(re.findall(r"[a-z]+", " ".join(paths).lower()))
    return sum(word in in_message for word in words) + sum(word in in_paths for word in words)


@pytest.mark.parametrize("question", ["retry", "queue backoff", "retry queue net", "timeout md", "backoff py", "none"])
async def test_scores_are_the_counts_of_a_naive_oracle(opened, repository: Path, ask, question: str):
    expected = {m.partition("\n")[0]: counted(question.split(), m, paths) for m, paths, _ in COMMITS}
    frames = await opened("history", repository).answer(ask(question))
    assert {f.title: f.score for f in frames} == {title: score for title, score in expected.items() if score}
    scores = [frame.score for frame in frames]
    assert scores == sorted(scores, reverse=True)


async def test_the_best_is_first_and_the_newest_among_equals(opened, repository: Path, ask):
    provider = opened("history", repository)
    frames = await provider.answer(ask("Why does the queue retry with a backoff?"))
    assert frames[0].title == "Retry the queue on timeout"
    equal = await provider.answer(ask("net"))
    assert [frame.recorded_at for frame in equal] == sorted((f.recorded_at for f in equal), reverse=True)
    assert {frame.score for frame in equal} == {1.0}


async def test_frames_carry_what_a_reader_follows(opened, repository: Path, ask, run_git):
    frame = (await opened("history", repository).answer(ask("timeout doubles")))[0]
    name = run_git(repository, "rev-parse", "HEAD")
    assert frame.id == name
    assert frame.kind == "episode"
    assert frame.citation_label == f'git {name[:7]} "Retry the queue on timeout"'
    assert frame.recorded_at == "2026-01-05T00:00:00Z"
    assert (frame.valid_from, frame.valid_to) == ("", "")
    assert frame.content == (
        f"commit {name}\ndate: 2026-01-05T00:00:00+00:00\n\nRetry the queue on timeout\n\nThe backoff doubles.\n\n"
        "changed:\n  net/queue.py\n  net/retry.py\n"
    )
    assert frame.content_digest == content_digest(frame.content)
    source = frame.provenance[0]
    assert (source.type, source.uri) == ("commit", f"git+file://{repository}@{name}")
    for text in (frame.content, frame.title, frame.citation_label):
        assert "example.org" not in text


async def test_the_scale_is_a_count_without_an_end(opened, repository: Path):
    scale = opened("history", repository).scale
    assert (scale.id, scale.min, scale.max) == ("matched-terms", 0.0, math.inf)
    assert scale.direction is Direction.HIGHER_IS_BETTER


async def test_grants_kinds_and_moment_are_kept(opened, repository: Path, ask):
    provider = opened("history", repository)
    every = await provider.answer(ask("retry queue net"))
    assert len(every) == 5
    assert await provider.answer(ask("retry queue net", max_frames=2)) == every[:2]
    costs = [content_tokens(len(frame.content.encode())) for frame in every]
    some = await provider.answer(ask("retry queue net", max_tokens=costs[0] + min(costs[1:])))
    assert sum(content_tokens(len(f.content.encode())) for f in some) <= costs[0] + min(costs[1:])
    assert every[0] in some
    assert await provider.answer(ask("retry", max_frames=0)) == []
    assert await provider.answer(ask("retry", kinds=("symbol",))) == []
    assert len(await provider.answer(ask("retry", kinds=("episode", "doc")))) == 3
    early = await provider.answer(ask("retry queue net", as_of="2026-01-02T00:00:00Z"))
    assert {frame.recorded_at for frame in early} == {"2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"}


async def test_new_commits_are_found_and_rewritten_ones_are_gone(opened, repository: Path, ask, record, run_git):
    provider = opened("history", repository)
    assert await provider.answer(ask("quokka")) == []
    record("Add a quokka", ["zoo.py"], "2026-01-06T00:00:00Z")
    assert [f.title for f in await provider.answer(ask("quokka"))] == ["Add a quokka"]
    assert len(await provider.answer(ask("retry"))) == 3
    run_git(repository, "reset", "-q", "--hard", "HEAD~2")
    assert await provider.answer(ask("quokka")) == []
    assert len(await provider.answer(ask("retry"))) == 2


async def test_only_the_newest_commits_are_held(opened, repository: Path, ask, record, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(history, "MAX_COMMITS", 4)
    provider = opened("history", repository)
    record("Another net", ["n.py"], "2026-01-06T00:00:00Z")
    await provider.answer(ask("net"))
    assert len(provider._commits) == 4
    assert provider._commits[0].subject == "Another net"


async def test_a_long_commit_is_cut_and_says_so(opened, repository: Path, ask, record):
    record("Huge\n\n" + "word " * 5_000, [f"many/{number:03}.txt" for number in range(50)], "2026-02-01T00:00:00Z")
    frame = (await opened("history", repository).answer(ask("huge")))[0]
    assert len(frame.content.encode()) < history.MAX_SHOWN_BYTES + 1_500
    assert "…\n\nchanged:\n  many/000.txt\n" in frame.content
    assert frame.content.endswith("  many/029.txt\n  and 20 more\n")


async def test_a_long_subject_keeps_label_and_title_bounded(opened, repository: Path, ask, record):
    record("quokka é" + "é" * 2_000, ["a.py"], "2026-02-01T00:00:00Z")
    frame = (await opened("history", repository).answer(ask("quokka")))[0]
    assert len(frame.citation_label.encode()) <= 512
    assert len(frame.title.encode()) <= 1024
    assert frame.title.endswith("…")


async def test_a_repository_without_commits_is_fine_and_its_first_commit_is_found(
    opened, folder: Path, write, run_git, ask, record
):
    run_git(folder, "init", "-q")
    provider = opened("history", folder)
    assert await provider.answer(ask("anything")) == []
    record("Anything", ["a"], "2026-01-01T00:00:00Z")
    assert len(await provider.answer(ask("anything"))) == 1


async def test_a_shallow_clone_gives_what_it_has(opened, repository: Path, tmp_path: Path, ask, run_git):
    run_git(tmp_path, "clone", "-q", "--depth", "2", f"file://{repository}", "shallow")
    frames = await opened("history", tmp_path / "shallow").answer(ask("retry queue net"))
    assert len(frames) == 2


def test_a_folder_outside_any_repository_is_a_plain_error(opened, folder: Path, write, run_git):
    with pytest.raises(InvalidArgument) as error:
        opened("history", folder)
    assert error.value.reason == "NOT_A_REPOSITORY"
    assert str(folder) in error.value.message


async def test_a_repository_that_went_away_is_an_error_and_not_an_empty_answer(
    opened, repository: Path, tmp_path: Path, ask
):
    provider = opened("history", repository)
    (repository / ".git").rename(tmp_path / "gone")
    with pytest.raises(InvalidArgument) as error:
        await provider.answer(ask("retry"))
    assert error.value.reason == "NOT_A_REPOSITORY"


async def test_a_closed_provider_says_so(opened, repository: Path, ask):
    provider = opened("history", repository)
    provider.close()
    with pytest.raises(FailedPrecondition):
        await provider.answer(ask("retry"))


@pytest.fixture
def own_commits() -> set[str]:
    if shutil.which("git") is None:
        pytest.skip("there is no git on this machine")
    command = ["git", "log", "--format=%H", f"--max-count={history.MAX_COMMITS}", "--", "."]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if not done.stdout:
        pytest.skip("this copy of the project has no history")
    return set(done.stdout.split())


async def test_this_projects_own_history_agrees_with_git(opened, ask, own_commits: set[str]):
    frames = await opened("history", ROOT).answer(ask("broker core test provider frame issue design protos"))
    assert frames
    assert {frame.id for frame in frames} <= own_commits
