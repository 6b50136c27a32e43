"""The symbols provider answers with the definitions a question names, shown exactly as they stand."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.core.frames import content_tokens
from broker.core.scores import Direction
from broker.providers import symbols
from broker.providers.grammar_definitions import GRAMMARS, installed
from broker.providers.watching import Folder

ROOT = Path(__file__).parents[2]
CORE = '''"""Scores and lanes."""

LIMIT = 3
"""How many frames fit."""


class LaneIntake:
    """Takes the frames of one provider and looks for lies."""

    def take(self, frames):
        """Takes a batch."""
        return frames

    def close(self):
        return None


def fold(frames):
    """Puts the best at both edges of the prompt."""
    return frames[::2] + frames[1::2][::-1]
'''


@pytest.fixture
def code(write: Callable[..., Path], folder: Path) -> Path:
    write("pkg/core.py", CORE)
    write("pkg/other.py", "def render(block):\n    return str(block)\n\ndef take(x):\n    return x\n")
    write("README.md", "# fold\n")
    return folder


@pytest.mark.parametrize(
    ("question", "part"),
    [
        ("How does the fold work?", "fold"),
        ("what stands at the edges of the prompt", "fold"),
        ("LaneIntake", "LaneIntake"),
        ("what is a lane intake", "LaneIntake"),
        ("how does the lane intake take a batch", "LaneIntake.take"),
        ("LaneIntake.take", "LaneIntake.take"),
        ("rendering of a block", "render"),
        ("how many frames is the limit", "LIMIT"),
    ],
)
async def test_a_question_about_a_thing_finds_it_first(opened, code: Path, ask, check_frame, question: str, part: str):
    frames = await opened("symbols", code).answer(ask(question))
    assert frames[0].id.rpartition(":")[2] == part
    for frame in frames:
        check_frame(frame)


async def test_frames_carry_what_a_reader_follows(opened, code: Path, ask):
    frame = (await opened("symbols", code).answer(ask("fold")))[0]
    assert frame.id == "pkg/core.py#L18-20:fold"
    assert frame.title == "function fold in pkg/core.py"
    assert frame.citation_label == "pkg/core.py L18-20"
    assert frame.kind == "symbol"
    assert frame.content == CORE[CORE.index("def fold") :]
    assert frame.recorded_at.endswith("Z")


async def test_scores_keep_to_the_scale_and_best_comes_first(opened, code: Path, ask):
    provider = opened("symbols", code)
    assert (provider.scale.id, provider.scale.min, provider.scale.max) == ("name-match", 0.0, 1.0)
    assert provider.scale.direction is Direction.HIGHER_IS_BETTER
    frames = await provider.answer(ask("take frames of a lane and fold them"))
    scores = [frame.score for frame in frames]
    assert len(scores) >= 4
    assert scores == sorted(scores, reverse=True)
    assert all(0 < score <= 1 for score in scores)
    assert len({frame.id for frame in frames}) == len(frames)


async def test_a_long_definition_is_cut_and_its_title_says_so(opened, write, folder: Path, ask, check_frame):
    body = "".join(f"    line_{number} = {number}\n" for number in range(200))
    write("long.py", f"class Quokka:\n{body}")
    write("wide.py", "def wombat():\n" + "    x = '" + "y" * 3_000 + "'\n" + "    z = '" + "y" * 3_000 + "'\n")
    provider = opened("symbols", folder)
    frame = (await provider.answer(ask("quokka")))[0]
    assert frame.title == "class Quokka in long.py (its first 80 of 201 lines)"
    assert frame.provenance[0].range == "L1-80"
    check_frame(frame)
    frame = (await provider.answer(ask("wombat")))[0]
    assert frame.title == "function wombat in wide.py (its first 2 of 3 lines)"
    check_frame(frame)


async def test_definitions_on_one_line_are_told_apart(opened, write, folder: Path, ask):
    write("a.py", "quokka = 1; wombat = 2; quokka = 3\n")
    frames = await opened("symbols", folder).answer(ask("quokka wombat"))
    assert sorted(frame.id for frame in frames) == ["a.py#L1-1:quokka", "a.py#L1-1:wombat"]


async def test_grants_kinds_and_moment_are_kept(opened, code: Path, ask):
    provider = opened("symbols", code)
    every = await provider.answer(ask("take frames fold render"))
    assert await provider.answer(ask("take frames fold render", max_frames=2)) == every[:2]
    for max_tokens in (0, 1, 20, 60):
        frames = await provider.answer(ask("take frames fold render", max_tokens=max_tokens))
        assert sum(content_tokens(len(f.content.encode())) for f in frames) <= max_tokens
    assert await provider.answer(ask("fold", kinds=("doc",))) == []
    assert await provider.answer(ask("fold", as_of="2001-01-01T00:00:00Z")) == []
    assert await provider.answer(ask("?!")) == []


async def test_a_changed_file_is_answered_as_it_is_now(opened, code: Path, write, ask, check_frame):
    provider = opened("symbols", code)
    write("pkg/core.py", "x = 1\n\ndef fold(new):\n    return new\n")
    write("pkg/added.py", "def quokka(): pass\n")
    frames = await provider.answer(ask("fold"))
    assert [frame.id for frame in frames] == ["pkg/core.py#L3-4:fold"]
    check_frame(frames[0])
    assert await provider.answer(ask("LaneIntake")) == []
    assert len(await provider.answer(ask("quokka"))) == 1
    (code / "pkg/core.py").unlink()
    assert await provider.answer(ask("fold")) == []


async def test_a_file_that_changes_while_it_is_answered_is_left_out(
    opened, code: Path, write, ask, monkeypatch: pytest.MonkeyPatch
):
    provider = opened("symbols", code)
    ranked = provider._ranked

    def meanwhile(*arguments):
        found = ranked(*arguments)
        write("pkg/core.py", "\n" + CORE)
        return found

    monkeypatch.setattr(provider, "_ranked", meanwhile)
    assert await provider.answer(ask("fold")) == []
    monkeypatch.setattr(provider, "_ranked", ranked)
    assert [frame.id for frame in await provider.answer(ask("fold"))] == ["pkg/core.py#L19-21:fold"]


async def test_source_that_does_not_parse_is_counted_and_read_once_it_does(opened, write, folder: Path, ask):
    write("bad.py", "def quokka(:\n")
    write("latin.py", "# caf\xe9\ndef quokka(): pass\n".encode("latin-1"))
    write("note.md", "quokka\n")
    write("minified.py", "quokka = '" + "x" * 10_000 + "'\n")
    provider = opened("symbols", folder)
    assert await provider.answer(ask("quokka")) == []
    assert provider._folder.skipped == {
        "does not parse": 1,
        "line too long": 1,
        "no source of a language read here": 1,
        "not UTF-8": 1,
    }
    write("bad.py", "def quokka(): pass\n")
    assert [frame.id for frame in await provider.answer(ask("quokka"))] == ["bad.py#L1-1:quokka"]


async def test_definitions_are_bounded(opened, write, folder: Path, ask, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(symbols, "MAX_DEFINITIONS", 3)
    write("a.py", "quokka = 1\nwombat = 2\n")
    write("b.py", "quokka = 1\nwombat = 2\n")
    write("c.py", "quokka = 1\n")
    provider = opened("symbols", folder)
    assert [frame.id for frame in await provider.answer(ask("quokka"))] == ["a.py#L1-1:quokka", "c.py#L1-1:quokka"]
    assert provider._folder.skipped == {"too many definitions": 1}


async def test_an_empty_folder_is_fine(opened, folder: Path, ask):
    assert await opened("symbols", folder).answer(ask("anything")) == []


async def test_other_languages_are_found_where_their_grammars_are(opened, write, folder: Path, ask, check_frame):
    missing = [suffix for suffix in GRAMMARS if not installed(suffix)]
    if missing:
        pytest.skip(f"the extra 'symbols' is not installed: no grammar for {missing}")
    write("a.ts", "// hops\nexport function quokka(): void {}\n")
    write("b.go", "package b\n\nfunc (q *Burrow) Quokka() {}\n")
    frames = await opened("symbols", folder).answer(ask("quokka"))
    assert [frame.id for frame in frames] == ["a.ts#L1-2:quokka", "b.go#L3-3:Burrow.Quokka"]
    for frame in frames:
        check_frame(frame)


async def test_without_grammars_python_is_read_and_the_rest_counted(
    opened, write, folder: Path, ask, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(symbols, "installed", lambda suffix: False)
    write("a.ts", "export function quokka(): void {}\n")
    write("b.py", "def quokka(): pass\n")
    provider = opened("symbols", folder)
    assert [frame.id for frame in await provider.answer(ask("quokka"))] == ["b.py#L1-1:quokka"]
    assert provider._folder.skipped == {".ts needs the extra 'symbols'": 1}


async def test_every_class_and_function_of_this_project_is_held(opened):
    root = ROOT / "broker"
    provider = opened("symbols", root)
    held = {(path, symbol.part) for path, found in provider._symbols.items() for symbol in found}
    watched = Folder(root)
    for path in watched.changes().fresh:
        if path.endswith(".py") and (data := watched.text(path)) is not None:
            for node in ast.parse(data).body:
                if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                    assert (path, node.name) in held


async def test_this_projects_own_definitions_can_be_asked(opened, ask, check_frame):
    frames = await opened("symbols", ROOT / "broker").answer(ask("CrossProviderComparison", max_frames=50))
    assert frames[0].citation_label.startswith("errors.py L")
    assert frames[0].score == 1.0
    for frame in frames:
        check_frame(frame)
