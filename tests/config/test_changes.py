"""What differs between two configurations is named key by key, and what needs a new start is refused as a whole."""

from __future__ import annotations

import pytest

from broker.config import Config
from broker.config.changes import FIXED, RELOADABLE, changed, check_reloadable, is_reloadable
from broker.errors import ConfigError


def test_equal_configurations_differ_in_nothing() -> None:
    assert changed(Config(), Config()) == []


def test_every_key_that_differs_is_named() -> None:
    new = Config(limits={"max_lanes": 5}, providers={"docs": {}}, log={"level": "debug"}, server={"grace_seconds": 1})
    assert changed(Config(), new) == ["server.grace_seconds", "limits.max_lanes", "providers.docs", "log.level"]
    assert changed(new, Config()) == changed(Config(), new)


def test_a_change_of_what_needs_a_new_start_is_refused() -> None:
    check_reloadable(["limits.max_lanes", "providers.docs", "auth.tokens_file", "log.level"])
    with pytest.raises(ConfigError, match=r"a new start is needed to change server\.listen, store\.kind$"):
        check_reloadable(["limits.max_lanes", "server.listen", "store.kind"])


def test_what_is_listed_exists() -> None:
    keys = {
        f"{section}.{key}"
        for section, model in Config.model_fields.items()
        for key in getattr(model.annotation, "model_fields", ())
    }
    listed = {f"{section}.{key}" for section, names in RELOADABLE.items() for key in names or ()} | FIXED
    assert listed <= keys
    assert RELOADABLE.keys() <= Config.model_fields.keys()


@pytest.mark.parametrize("key", sorted(FIXED | {"server.listen", "store.file", "render.seal_key_file", "log.format"}))
def test_keys_that_need_a_new_start(key: str) -> None:
    assert not is_reloadable(key)


@pytest.mark.parametrize(
    "key",
    [
        "auth.tokens_file",
        "limits.requests",
        "providers.docs",
        "providers.docs.scale.id",
        "ranking.default_strategy",
        "log.level",
    ],
)
def test_keys_that_a_running_broker_takes_anew(key: str) -> None:
    assert is_reloadable(key)
