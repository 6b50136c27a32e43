"""A provider as a program of its own runs until it is told to stop, and stops in order."""

from __future__ import annotations

import asyncio
import signal
import sys

import pytest

from broker.client import ContextClient
from broker.rpc.server import Broker
from tests.client.fake import SAFETY

PROGRAM = """
import asyncio, sys
from broker.client import Frame, Provider

async def answer(query):
    if query.text == "slow":
        print("asked", flush=True)
        await asyncio.sleep(float(sys.argv[2]))
    return [Frame(id="a", title="a", content="a note", score=0.5)]

provider = Provider("notes", answer)
provider.run(sys.argv[1], on_attached=lambda session: print("attached", flush=True), grace=30.0)
print("done", flush=True)
"""


@pytest.fixture
async def program(broker: Broker):
    """Starts the program and returns once its provider has attached; what still runs at the end is killed."""
    started: list[asyncio.subprocess.Process] = []

    async def start(seconds: float = 0.0) -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", PROGRAM, broker.address, str(seconds), stdout=asyncio.subprocess.PIPE
        )
        started.append(process)
        await said(process, "attached")
        return process

    yield start
    for process in started:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def said(process: asyncio.subprocess.Process, line: str) -> None:
    assert process.stdout is not None
    assert (await asyncio.wait_for(process.stdout.readline(), SAFETY)).decode().strip() == line


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_stops_it_in_order(broker: Broker, program, number: signal.Signals):
    process = await program()
    async with ContextClient(broker.address) as client:
        assert (await client.compose("g", max_tokens=2000)).placed
        process.send_signal(number)
        await said(process, "done")
        assert await asyncio.wait_for(process.wait(), SAFETY) == 0
        [listed] = await client.providers()
        assert listed.instances == ()


async def test_an_open_question_is_finished_first(broker: Broker, program):
    process = await program(0.2)
    async with ContextClient(broker.address) as client:
        asking = asyncio.create_task(client.compose("slow", max_tokens=2000, collect_timeout=30))
        await said(process, "asked")
        process.send_signal(signal.SIGTERM)
        composition = await asyncio.wait_for(asking, SAFETY)
        assert [placed.frame.id for placed in composition.placed] == ["a"]
        await said(process, "done")
        assert await asyncio.wait_for(process.wait(), SAFETY) == 0


async def test_a_second_signal_does_not_wait(broker: Broker, program):
    process = await program(3600.0)
    async with ContextClient(broker.address) as client:
        asking = asyncio.create_task(client.compose("slow", max_tokens=2000, collect_timeout=30))
        await said(process, "asked")
        process.send_signal(signal.SIGINT)
        # The first signal was taken when the provider has detached, and not before.
        async with asyncio.timeout(SAFETY):
            while (await client.providers())[0].instances:
                pass
        process.send_signal(signal.SIGINT)
        await said(process, "done")
        assert await asyncio.wait_for(process.wait(), SAFETY) == 0
        asking.cancel()
        await asyncio.wait({asking})


async def test_a_provider_that_is_refused_says_why_and_fails(broker: Broker, program):
    await program()
    code = (
        "from broker.client import *\nasync def answer(query): ...\n"
        "Provider('notes', answer, scale=ScoreScale('bm25', 0.0, 9.0)).run(%r)"
    )
    refused = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code % broker.address, stderr=asyncio.subprocess.PIPE
    )
    _, stderr = await asyncio.wait_for(refused.communicate(), SAFETY)
    assert refused.returncode == 1
    assert "FailedPrecondition" in stderr.decode()


SAYING = """
import asyncio, logging, sys
from broker.client import Provider

async def answer(query):
    return []

how = sys.argv[2]
if how == "logs":
    logging.basicConfig(level=logging.ERROR)
provider = Provider("notes", answer)
attached = (lambda session: print("told", file=sys.stderr, flush=True)) if how == "callback" else None
if how == "serve":
    async def main():
        await provider.serve(sys.argv[1])
    asyncio.run(main())
provider.run(sys.argv[1], on_attached=attached)
"""


@pytest.mark.parametrize("how", ["plain", "logs", "callback", "serve"])
async def test_it_says_that_it_has_attached_unless_the_program_takes_that_upon_itself(broker: Broker, how: str):
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SAYING, broker.address, how, stderr=asyncio.subprocess.PIPE
    )
    async with ContextClient(broker.address) as client, asyncio.timeout(SAFETY):
        while not any(listed.instances for listed in await client.providers()):
            pass
        # Answered after the welcome, so that whatever is said of it was said.
        await client.compose("g", max_tokens=200)
    process.terminate()
    _, stderr = await asyncio.wait_for(process.communicate(), SAFETY)
    said = {"plain": f"notes is attached to {broker.address}\n", "callback": "told\n"}
    assert stderr.decode() == said.get(how, "")
