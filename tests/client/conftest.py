"""Fixtures of the client's suites."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from broker.client import Provider
from tests.client.fake import SAFETY, FakeBroker


@pytest.fixture(autouse=True)
async def _no_task_is_left() -> AsyncIterator[None]:
    """Holds after every test here: what it started has ended."""
    before = asyncio.all_tasks()
    yield
    left = asyncio.all_tasks() - before - {asyncio.current_task()}
    if left:
        _, left = await asyncio.wait(left, timeout=SAFETY)
    assert not left, [task.get_name() for task in left]


@pytest.fixture
async def fake() -> AsyncIterator[FakeBroker]:
    """A broker whose every word the test decides."""
    fake = await FakeBroker().start()
    yield fake
    await fake.stop()


@pytest.fixture
async def serve(_no_task_is_left: None) -> AsyncIterator[Callable[..., asyncio.Task[None]]]:
    """Serves providers in the background; each is stopped at the test's end."""
    started: list[tuple[Provider, asyncio.Task[None]]] = []

    def start(provider: Provider, address: str, **options: Any) -> asyncio.Task[None]:
        task = asyncio.create_task(provider.serve(address, **options))
        started.append((provider, task))
        return task

    yield start
    for provider, task in started:
        await provider.stop(grace=0)
        with contextlib.suppress(Exception):
            await asyncio.wait_for(task, SAFETY)
