"""The files provider answers with the chunks a person would want, and every word it says of them is true."""

from __future__ import annotations

import asyncio
import math
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker.client.query import Query
from broker.core.frames import content_tokens
from broker.core.scores import Direction
from broker.errors import Unavailable
from broker.providers import files
from broker.providers.files import FilesProvider

GUIDE = {
    "README.md": "# Kettle\n\nBoils water.\n",
    "docs/retries.md": "# Retries\n\nA failed delivery is tried again with exponential backoff and jitter.\n",
    "docs/limits.md": "# Limits\n\nAt most ten messages a second are delivered; more are refused.\n",
    "docs/install.md": "# Installing\n\nRun the installer and restart the shell.\n",
    "src/tokens.py": "class TokenBucket:\n    def refill(self, seconds):\n        self.level += seconds * self.rate\n",
    "src/mail.py": "def send(message):\n    connect().transmit(message)\n",
}


@pytest.fixture
def guide(write: Callable[..., Path], folder: Path) -> Path:
    for name, text in GUIDE.items():
        write(name, text)
    return folder


@pytest.mark.parametrize(
    ("question", "path"),
    [
        ("How are failed deliveries retried?", "docs/retries.md"),
        ("how many messages per second are allowed", "docs/limits.md"),
        ("what do I do to install it?", "docs/install.md"),
        ("where does the token bucket refill", "src/tokens.py"),
        ("TokenBucket.refill", "src/tokens.py"),
        ("does this boil water", "README.md"),
        ("mail", "src/mail.py"),
    ],
)
async def test_a_question_about_a_thing_finds_it_first(opened, guide: Path, ask, question: str, path: str, check_frame):
    frames = await opened("files", guide).answer(ask(question))
    assert frames[0].citation_label.startswith(f"{path} L1-")
    for frame in frames:
        check_frame(frame)


async def test_the_scale_holds_every_score_and_best_comes_first(opened, guide: Path, ask):
    provider = opened("files", guide)
    frames = await provider.answer(ask("failed messages token install water shell level class def the of"))
    scores = [frame.score for frame in frames]
    assert len(scores) == len(GUIDE)
    assert scores == sorted(scores)
    assert all(provider.scale.holds(score) and score < 0 for score in scores)
    assert provider.scale.direction is Direction.LOWER_IS_BETTER
    assert (provider.scale.min, provider.scale.max) == (-math.inf, 0.0)


async def test_a_term_that_stands_in_every_chunk_still_scores_below_zero(opened, write, folder: Path, ask):
    for number in range(5):
        write(f"{number}.txt", "common\n")
    scores = [frame.score for frame in await opened("files", folder).answer(ask("common"))]
    assert len(scores) == 5
    assert all(-1e-3 < score < 0 for score in scores)


async def test_frames_carry_what_a_reader_follows(opened, guide: Path, ask):
    os.utime(guide / "docs/retries.md", (1_700_000_000, 1_700_000_000))
    frame = (await opened("files", guide).answer(ask("backoff jitter")))[0]
    assert frame.id == "docs/retries.md#L1-3"
    assert frame.kind == "doc"
    assert frame.title == "docs/retries.md › Retries"
    assert frame.uri == f"file://{guide}/docs/retries.md"
    assert frame.recorded_at == "2023-11-14T22:13:20Z"
    assert (frame.valid_from, frame.valid_to, frame.token_cost) == ("", "", None)
    assert frame.content == GUIDE["docs/retries.md"]


async def test_ids_are_unique_and_the_answer_is_the_same_each_time_and_for_each_instance(opened, guide: Path, ask):
    question = ask("messages water seconds shell")
    first, second = opened("files", guide), opened("files", guide)
    frames = await first.answer(question)
    assert len({frame.id for frame in frames}) == len(frames) > 1
    assert await first.answer(question) == frames == await second.answer(question)


async def test_grants_are_kept_and_smaller_frames_still_join(opened, write, folder: Path, ask):
    for number in range(30):
        write(f"{number:02}.txt", "needle " * (1 + number * 7 % 20) + "\n")
    provider = opened("files", folder)
    every = await provider.answer(ask("needle"))
    assert len(every) == 30
    for max_frames, max_tokens in ((3, 10_000), (256, 40), (5, 20), (1, 1), (0, 100), (100, 0)):
        frames = await provider.answer(ask("needle", max_frames=max_frames, max_tokens=max_tokens))
        spent = sum(content_tokens(len(frame.content.encode())) for frame in frames)
        assert len(frames) <= max_frames
        assert spent <= max_tokens
    assert await provider.answer(ask("needle", max_frames=3)) == every[:3]
    assert {len(f.content) for f in await provider.answer(ask("needle", max_tokens=2))} == {8}


async def test_kinds_and_moment_asked_for_are_kept(opened, guide: Path, ask):
    provider = opened("files", guide)
    question = "message refill backoff"
    assert {f.kind for f in await provider.answer(ask(question))} == {"doc", "snippet"}
    assert {f.kind for f in await provider.answer(ask(question, kinds=("doc", "symbol")))} == {"doc"}
    assert await provider.answer(ask(question, kinds=("episode",))) == []
    os.utime(guide / "docs/retries.md", (1_700_000_000, 1_700_000_000))
    frames = await provider.answer(ask(question, as_of="2023-11-14T22:13:20.5Z"))
    assert [frame.id for frame in frames] == ["docs/retries.md#L1-3"]


async def test_a_question_without_a_word_has_no_answer(opened, guide: Path, ask):
    provider = opened("files", guide)
    for question in ("?!", "\0", "zzzzzz", '"', "…"):
        assert await provider.answer(ask(question)) == []


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory):
    root = tmp_path_factory.mktemp("small")
    (root / "a.md").write_text("# Alpha\n\nnear and or not ünïcödé 検索 text*\n")
    (root / "b.py").write_text("def alpha(near):\n    return NOT\n")
    provider = FilesProvider.open(root)
    yield provider
    provider.close()


HOSTILE = st.lists(
    st.one_of(
        st.text(st.characters(exclude_categories=()), max_size=30),
        st.sampled_from(
            [
                '"',
                "'",
                "*",
                "AND",
                "OR",
                "NOT",
                "NEAR(a b, 2)",
                "a:b",
                "place:x",
                "^a",
                "-a",
                "(",
                ")",
                "{a b}:c",
                "\0",
                "+",
            ]
        ),
    ),
    max_size=12,
).map(" ".join)


@given(HOSTILE)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_no_question_is_a_syntax_error(small: FilesProvider, question: str):
    frames = asyncio.run(small.answer(Query(goal=question)))
    assert len(frames) <= 2


async def test_every_word_of_a_file_finds_it(small: FilesProvider, ask):
    for question in ("NEAR", "not", "UNICODE", "検索", "alpha AND", '"text"*'):
        assert [f.id for f in await small.answer(ask(question))], question


async def test_a_changed_file_is_answered_as_it_is_now(opened, guide: Path, write, ask, check_frame):
    provider = opened("files", guide)
    assert (await provider.answer(ask("backoff")))[0].id == "docs/retries.md#L1-3"
    write("docs/retries.md", "# New\n\nline\n\nlinear backoff only\n")
    write("docs/added.md", "A backoff that was added.\n")
    frames = await provider.answer(ask("backoff"))
    assert {frame.id for frame in frames} == {"docs/retries.md#L1-5", "docs/added.md#L1-1"}
    for frame in frames:
        check_frame(frame)
    assert await provider.answer(ask("exponential")) == []
    (guide / "docs/retries.md").unlink()
    assert [frame.id for frame in await provider.answer(ask("backoff"))] == ["docs/added.md#L1-1"]


async def test_a_file_that_changes_between_search_and_reading_is_left_out_and_found_the_next_time(
    opened, guide: Path, write, ask, monkeypatch: pytest.MonkeyPatch, check_frame
):
    provider = opened("files", guide)
    search = provider._search

    def meanwhile(*arguments):
        found = search(*arguments)
        write("docs/retries.md", "# Now\n\nbackoff, told otherwise\n")
        return found

    monkeypatch.setattr(provider, "_search", meanwhile)
    assert await provider.answer(ask("backoff")) == []
    monkeypatch.setattr(provider, "_search", search)
    frames = await provider.answer(ask("backoff"))
    assert [frame.content for frame in frames] == ["# Now\n\nbackoff, told otherwise\n"]
    check_frame(frames[0])


async def test_files_that_are_no_text_are_left_out_and_counted(opened, write, folder: Path, ask):
    write("latin.txt", "needle caf\xe9\n".encode("latin-1"))
    write("binary.bin", b"needle\0\1\2")
    write("blank.txt", "\n \n")
    write("empty.txt", b"")
    write("minified.js", "needle;" * 2_000 + "\n")
    write("huge.txt", b"needle\n" * 200_000)
    write("good.txt", "﻿needle, with a byte order mark\r\n")
    (folder / "link.txt").symlink_to("good.txt")
    provider = opened("files", folder)
    assert [frame.id for frame in await provider.answer(ask("needle"))] == ["good.txt#L1-1"]
    assert provider._folder.skipped == {
        "binary": 1,
        "empty": 2,
        "file too large": 1,
        "line too long": 1,
        "not UTF-8": 1,
        "symbolic link": 1,
    }


async def test_an_empty_folder_is_fine_and_a_file_added_later_is_found(opened, folder: Path, write, ask):
    provider = opened("files", folder)
    assert await provider.answer(ask("anything")) == []
    write("later.md", "anything at all\n")
    assert [frame.id for frame in await provider.answer(ask("anything"))] == ["later.md#L1-1"]


@pytest.mark.parametrize("name", ["files", "symbols"])
async def test_a_folder_that_went_away_is_an_error_and_not_an_empty_answer(
    opened, guide: Path, tmp_path: Path, ask, name: str
):
    provider = opened(name, guide)
    shutil.move(guide, tmp_path / "moved")
    with pytest.raises(Unavailable) as error:
        await provider.answer(ask("refill"))
    assert error.value.reason == "FOLDER_GONE"
    shutil.move(tmp_path / "moved", guide)
    assert len(await provider.answer(ask("refill"))) == 1


@pytest.mark.parametrize("name", [b"odd\n name.md", b"\xff.md", "日本.md".encode(), b"%2e.md", b'q"#?.md', b"x" * 250])
async def test_odd_names_give_frames_that_can_be_followed(opened, write, folder: Path, ask, name: bytes, check_frame):
    write(name, "needle\n")
    frames = await opened("files", folder).answer(ask("needle"))
    assert len(frames) == 1
    check_frame(frames[0])
    for text in (frames[0].id, frames[0].title, frames[0].citation_label, frames[0].uri):
        text.encode()
        assert "\n" not in text


async def test_cancelling_an_answer_leaves_a_provider_that_answers_and_missed_no_change(
    opened, guide: Path, write, ask, monkeypatch: pytest.MonkeyPatch
):
    provider = opened("files", guide)
    for number in range(20):
        write(f"new/{number}.md", "quokka\n")
    begun = asyncio.Event()
    loop, real = asyncio.get_running_loop(), provider._index
    seen: list[str] = []

    def slow(path: str) -> None:
        seen.append(path)
        if len(seen) == 3:
            loop.call_soon_threadsafe(begun.set)
            stopped.wait(10)
        real(path)

    stopped = threading.Event()
    monkeypatch.setattr(provider, "_index", slow)
    task = asyncio.create_task(provider.answer(ask("quokka")))
    await asyncio.wait_for(begun.wait(), 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    stopped.set()
    monkeypatch.setattr(provider, "_index", real)
    assert len(await provider.answer(ask("quokka"))) == 20
    assert len(seen) < 20


async def test_questions_at_the_same_time_are_each_answered(opened, guide: Path, ask):
    provider = opened("files", guide)
    questions = ["backoff", "installer", "refill", "transmit"] * 5
    answers = await asyncio.gather(*(provider.answer(ask(question)) for question in questions))
    assert [frames[0].id for frames in answers[:4]] * 5 == [frames[0].id for frames in answers]


async def test_the_candidates_of_an_answer_are_bounded(
    opened, write, folder: Path, ask, monkeypatch: pytest.MonkeyPatch
):
    for number in range(12):
        write(f"{number:02}.txt", "needle\n")
    monkeypatch.setattr(files, "MAX_CANDIDATES", 5)
    assert len(await opened("files", folder).answer(ask("needle"))) == 5


async def test_this_projects_own_files_can_be_asked(opened, ask, check_frame):
    root = Path(__file__).parents[2]
    frames = await opened("files", root / "broker").answer(ask("LocalScore comparing scores of two providers raises"))
    assert frames[0].provenance[0].uri.endswith("broker/core/scores.py")
    for frame in frames:
        check_frame(frame)
