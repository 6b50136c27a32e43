"""The blocking client works where no event loop runs, and where one does."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from broker.client import BlockingContextClient, Frame, InlineLane

INLINE = InlineLane("memory", frames=(Frame("a", "a", "said before", 0.5),))


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A broker in a process of its own, so that this one may block."""
    program = "from broker.cli.main import main; main()"
    command = [sys.executable, "-c", program, "serve", "--listen", "127.0.0.1:0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["address"]
        process.terminate()
        assert process.wait(20) == 0


def ask(address: str) -> list[str]:
    with BlockingContextClient(address) as client:
        composition = client.compose("g", max_tokens=2000, no_providers=True, inline_lanes=[INLINE])
        return [placed.frame.id for placed in composition.placed]


def test_it_needs_no_event_loop(address: str):
    assert ask(address) == ["a"]


def test_it_works_inside_a_running_one(address: str):
    async def main() -> list[str]:
        return ask(address)

    assert asyncio.run(main()) == ["a"]
