"""Promise: a store that cannot be used stops the start with a plain word, and one that is only away does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.errors import ConfigError
from broker.rpc.keeping import MEMORY_COMPOSITIONS, started, store_of
from broker.settings import Keeping
from broker.store.engine import StoreUnavailable
from tests.store.values import kept

AWAY = "postgresql://broker:hunter2@127.0.0.1:9/nothing"


def dsn_file(folder: Path, text: str, mode: int = 0o600) -> Path:
    file = folder / "dsn"
    file.write_text(text + "\n")
    file.chmod(mode)
    return file


def test_none_keeps_nothing() -> None:
    assert store_of(Keeping(kind="none")) is None


async def test_in_memory_there_is_a_bound_without_asking() -> None:
    store = store_of(Keeping())
    assert store is not None
    assert store.keep_compositions == MEMORY_COMPOSITIONS
    await store.close()


async def test_a_server_that_is_away_does_not_stop_the_start(tmp_path: Path) -> None:
    keeping = Keeping(kind="postgresql", dsn_file=dsn_file(tmp_path, AWAY))
    store = store_of(keeping)
    assert store is not None
    await started(store, keeping)
    with pytest.raises(StoreUnavailable):
        await store.record(kept("c1"))
    await store.close()


async def test_a_server_that_is_away_stops_the_start_where_it_is_required(tmp_path: Path) -> None:
    keeping = Keeping(kind="postgresql", dsn_file=dsn_file(tmp_path, AWAY), required=True)
    store = store_of(keeping)
    assert store is not None
    with pytest.raises(ConfigError, match=r"store: PostgreSQL 127.0.0.1:9/nothing") as error:
        await started(store, keeping)
    assert "hunter2" not in str(error.value)


def test_an_address_that_others_can_read_is_refused(tmp_path: Path) -> None:
    file = dsn_file(tmp_path, AWAY, 0o644)
    with pytest.raises(ConfigError, match=r"store\.dsn_file: .* is readable by all"):
        store_of(Keeping(kind="postgresql", dsn_file=file))


def test_an_address_that_is_none_is_refused_without_showing_it(tmp_path: Path) -> None:
    file = dsn_file(tmp_path, "hunter2 is no address")
    with pytest.raises(ConfigError, match=r"store\.dsn_file: ") as error:
        store_of(Keeping(kind="postgresql", dsn_file=file))
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "sqlite"},
        {"kind": "postgresql"},
        {"kind": "memory", "file": "x"},
        {"kind": "sqlite", "file": "x", "dsn_file": "y"},
        {"kind": "none", "required": True},
        {"keep_days": 0},
        {"keep_compositions": 0},
    ],
)
def test_settings_that_contradict_each_other_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"kind|keep|required"):
        Keeping(**wrong)
