"""Fixtures that every suite may use."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.soaking import SCALE, SECONDS, Soak

if TYPE_CHECKING:  # Suites that need no daemon do not import one.
    from broker.config import Config
    from broker.rpc.server import Broker

# No example is timed: a busy machine is no fault of the code.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

SHARED = Path(__file__).resolve().parents[2] / "shared"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Gives long runs their time."""
    for item in items:
        if item.get_closest_marker("soak") is not None:
            item.add_marker(pytest.mark.timeout(SECONDS * max(1.0, SCALE)))


@pytest.fixture(scope="session")
def soak() -> Soak:
    """How long a long run is, and where its figures go; see :mod:`tests.soaking`."""
    # Full rounds of this process's own collector take a tenth of a second, which would be counted as the broker's.
    gc.freeze()
    return Soak()


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """The folder of vectors, cases and evidence that may lie beside a checkout; skips where it does not."""
    if not SHARED.is_dir():
        pytest.skip("no folder 'shared' beside this checkout: the independent vectors and evidence are not here")
    return SHARED


@pytest.fixture
def broker_config() -> Config:
    """How the ``broker`` of a test is configured; a test module overrides it to change that."""
    from broker.config import Config

    return Config(server={"listen": "127.0.0.1:0"})


@pytest.fixture
async def broker(broker_config: Config) -> AsyncIterator[Broker]:
    """A real broker on a free port of loopback; its ``address`` says where."""
    from broker.rpc.server import Broker

    broker = Broker(broker_config)
    await broker.start()
    yield broker
    await broker.stop(grace=1.0)
