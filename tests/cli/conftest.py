"""Fixtures of the command line's tests: compositions made by hand, and a small folder under git."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from broker.core.audited import AuditRow, AuditScore, AuditSummary, BudgetRecord, LaneSummary, StrategyRecord
from broker.core.composition import Citation, Composition, Placed, Usage, UsageFigures
from broker.core.frames import Frame, FrameRef
from broker.core.lanes import LaneEnd
from broker.core.scores import Direction, ScoreScale

SCALES = {
    "files": ScoreScale("bm25", -math.inf, 0.0, Direction.LOWER_IS_BETTER),
    "symbols": ScoreScale(),
    "history": ScoreScale("matches", 0.0, math.inf),
}
COST = 100


def fold(count: int) -> list[int]:
    """Ranks from the top to the bottom: odd ones down, even ones back up."""
    ranks = list(range(1, count + 1))
    return ranks[::2] + ranks[1::2][::-1]


def make_composition(
    ranked: Iterable[str] = ("files", "symbols", "history", "files", "symbols", "history", "files"),
    *,
    left_out: Iterable[str] = (),
    strategy: str = "round_robin",
    params: dict[str, object] | None = None,
    label: Callable[[str, int], str] = lambda provider, local: f"{provider} {local}",
    extra_rows: Iterable[AuditRow] = (),
    extra_lanes: Iterable[LaneSummary] = (),
    scores: bool = False,
) -> Composition:
    """A composition whose ranks 1 to n are the providers of ``ranked``, then those of ``left_out`` (over budget)."""
    ranked, left_out = list(ranked), list(left_out)
    position = {rank: place for place, rank in enumerate(fold(len(ranked)), 1)}
    local: dict[str, int] = {}
    rows, placed = [], []
    for rank, provider in enumerate([*ranked, *left_out], 1):
        local[provider] = local.get(provider, 0) + 1
        included = rank <= len(ranked)
        frame_id = f"{provider}-{local[provider]}"
        rows.append(
            AuditRow(
                provider=provider,
                frame_id=frame_id,
                content_digest="sha256:" + "0" * 64,
                included=included,
                reason="" if included else "OVER_BUDGET",
                lane_place=local[provider],
                local_rank=local[provider],
                rank=rank,
                position=position.get(rank, 0),
                cost=COST,
                remaining=0 if included else 7,
                score=AuditScore(provider, SCALES[provider].id, "0.123456789012345") if scores else None,
            )
        )
        if included:
            placed.append(
                Placed(
                    position[rank],
                    len(ranked),
                    provider,
                    local[provider],
                    rank,
                    Frame(frame_id, "title", "content"),
                    f"<{frame_id}>\n",
                    COST,
                    label(provider, local[provider]),
                    (FrameRef(provider, frame_id),),
                )
            )
    rows += extra_rows
    placed.sort(key=lambda one: one.position)
    names = list(dict.fromkeys([*SCALES, *ranked, *left_out]))
    offered = {name: sum(row.provider == name for row in rows) for name in names}
    taken = {name: sum(one.provider == name for one in placed) for name in names}
    lanes = [
        LaneSummary(
            provider=name,
            end=LaneEnd.COMPLETE if offered[name] else LaneEnd.EMPTY,
            scale=SCALES.get(name),
            offered=offered[name],
            admitted=offered[name],
            placed=taken[name],
        )
        for name in names
    ]
    figures = {
        name: UsageFigures(
            frames_offered=offered[name],
            frames_admitted=offered[name],
            frames_placed=taken[name],
            tokens_offered=offered[name] * 90,
            tokens_admitted=offered[name] * 90,
            tokens_placed=taken[name] * COST,
        )
        for name in names
    }
    return Composition(
        placed=tuple(placed),
        citations=tuple(Citation(one.citation_label, one.vouchers[0], one.position, "sha256:x") for one in placed),
        audit=tuple(rows),
        summary=AuditSummary(
            strategy=StrategyRecord(
                name=strategy,
                version="1",
                params=params or {},
                compares_raw_scores=strategy == "score_descending",
            ),
            placement="FOLD",
            duplicates="SAME_BYTES",
            budget=BudgetRecord(max_tokens=1000, usable=1000, preamble=20, closing=5, frames=COST * len(placed)),
            lanes=(*lanes, *extra_lanes),
            floors=(),
            rows=len(rows),
            reasons={"INCLUDED": len(placed)},
        ),
        usage=Usage(UsageFigures(frames_placed=len(placed), tokens_placed=COST * len(placed)), figures),
        preamble="above\n",
        closing="below\n",
        composition_id="c-1",
        request_id="r-1",
    )


@pytest.fixture
def compose_by_hand() -> Callable[..., Composition]:
    """Makes compositions: :func:`make_composition`."""
    return make_composition


@pytest.fixture(scope="session")
def source_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small folder of text and Python under git, with something for each ready-made provider to find."""
    folder = tmp_path_factory.mktemp("sources")
    (folder / "README.md").write_text(
        "# Placement\n\nThe fold puts the best frames at both edges of the prompt.\n\n"
        "# Budget\n\nA frame costs its bytes over four; packing walks the ranking and skips what does not fit.\n"
    )
    (folder / "placement.py").write_text(
        '"""Where frames stand."""\n\n\ndef fold_frames(frames: list[str]) -> list[str]:\n'
        '    """Fold the best frames to both edges of the prompt."""\n    return frames[::2] + frames[1::2][::-1]\n\n\n'
        'def pack_frames(frames: list[str]) -> list[str]:\n    """Pack what fits the budget."""\n    return frames\n'
    )
    who = {f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER") for what, value in _WHO.items()}
    environment = {**os.environ, **who, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    for arguments in (
        ("init", "--quiet", "--initial-branch=main"),
        ("add", "README.md"),
        ("commit", "--quiet", "--message", "Explain how the fold places the best frames at the edges"),
        ("add", "."),
        ("commit", "--quiet", "--message", "Fold frames and pack the prompt"),
    ):
        subprocess.run(["git", *arguments], cwd=folder, env=environment, check=True)
    return folder


_WHO = {"NAME": "Test", "EMAIL": "test@example.org", "DATE": "2026-01-01T00:00:00Z"}


def _command_line(*arguments: str) -> list[str]:
    return [sys.executable, "-P", "-m", "broker.cli", *arguments]


@dataclass
class Running:
    """A command that runs until it is stopped, and the record that it got ready with."""

    process: subprocess.Popen[bytes]
    ready: dict[str, Any]


@pytest.fixture(scope="session")
def start_command() -> Iterator[Callable[..., Running]]:
    """Starts a long-running command, waits for its first JSON line, and stops it at the end of the session."""
    running: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str) -> Running:
        process = subprocess.Popen(
            _command_line(*arguments, "--json", "--exit-with-parent"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=_plain_environment(),
        )
        running.append(process)
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            pytest.fail(f"{arguments} did not get ready: {process.communicate()[1].decode()}")
        # What it logs later must not fill the pipe and stop it.
        threading.Thread(target=process.stderr.read, daemon=True).start()
        return Running(process, json.loads(line))

    yield start
    for process in reversed(running):
        process.terminate()
    for process in running:
        process.wait(20)
        for stream in (process.stdin, process.stdout, process.stderr):
            stream.close()


@pytest.fixture(scope="session")
def broker_address(start_command: Callable[..., Running]) -> str:
    """Where a real broker listens, without any provider."""
    return start_command("serve", "--listen", "127.0.0.1:0").ready["address"]


@pytest.fixture(scope="session")
def recording_broker(start_command: Callable[..., Running], tmp_path_factory: pytest.TempPathFactory) -> str:
    """Where a real broker listens that keeps compositions with their content."""
    config = tmp_path_factory.mktemp("recording") / "broker.toml"
    config.write_text('[server]\nlisten = "127.0.0.1:0"\n[store]\ncontent = true\n')
    return start_command("serve", "--config", str(config)).ready["address"]


@pytest.fixture(scope="session")
def recorded(
    run_command: Callable[..., subprocess.CompletedProcess[bytes]],
    recording_broker: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[..., str]:
    """Has :func:`recording_broker` compose two frames, ``n1`` and ``n2``, of one lane; gives the composition's id."""
    notes = tmp_path_factory.mktemp("recorded") / "notes.jsonl"
    notes.write_text(
        '{"id": "n1", "title": "One", "content": "The fold puts the best at both edges.", "score": 0.9}\n'
        '{"id": "n2", "title": "Two", "content": "Packing skips what does not fit.", "score": 0.8}\n'
    )

    def record(provider: str, **options: str) -> str:
        arguments = [part for name, value in options.items() for part in (f"--{name.replace('_', '-')}", value)]
        lane = ("--inline", f"{provider}={notes}", "--no-providers", "--address", recording_broker, "--json")
        done = run_command("query", "how does it fold?", *lane, *arguments)
        return str(json.loads(done.stdout.splitlines()[-1])["composition_id"])

    return record


@pytest.fixture(scope="session")
def served_address(start_command: Callable[..., Running], source_folder: Path) -> str:
    """Where a real broker listens, with the three ready-made providers on :func:`source_folder` attached."""
    address = start_command("serve", "--listen", "127.0.0.1:0").ready["address"]
    for name in ("files", "symbols", "history"):
        start_command("provide", name, str(source_folder), "--address", address)
    return address


@pytest.fixture(scope="session")
def run_command() -> Callable[..., subprocess.CompletedProcess[bytes]]:
    """Runs a command to its end in a process of its own."""

    def run(*arguments: str, env: dict[str, str] | None = None, **options: Any) -> subprocess.CompletedProcess[bytes]:
        environment = {**_plain_environment(), **(env or {})}
        return subprocess.run(
            _command_line(*arguments), capture_output=True, timeout=60, env=environment, check=False, **options
        )

    return run


@pytest.fixture(scope="session")
def command_line() -> Callable[..., list[str]]:
    """How a test runs ``context-broker`` as a process of its own."""
    return _command_line


@pytest.fixture(scope="session")
def plain_environment() -> dict[str, str]:
    """This process's environment without configuration of a broker."""
    return _plain_environment()


def _plain_environment() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if not key.startswith("CONTEXT_BROKER_")}
