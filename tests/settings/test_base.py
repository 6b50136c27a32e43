"""Promise: a broker starts at each end of every number's range that its settings take, and never ends with a fault."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_origin

import pytest
from annotated_types import Ge, Gt, Le
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from broker.cli.config_page import _taken
from broker.cli.config_sample import model_of
from broker.errors import ConfigError
from broker.rpc.server import Broker
from broker.settings import Config
from broker.settings.limits import Limits


def ends(field: FieldInfo) -> list[Any]:
    """The least and the most that a key takes; empty where it is no number of a range."""
    _, bounds = _taken(field.annotation)
    found = [*field.metadata, *bounds]
    least = [each.ge for each in found if isinstance(each, Ge)] + [each.gt for each in found if isinstance(each, Gt)]
    most = [each.le for each in found if isinstance(each, Le)]
    return [max(least) or 1e-9, min(most)] if least and most else []


def numbers() -> Iterator[tuple[str, str, Any]]:
    for section, field in Config.model_fields.items():
        model = model_of(field.annotation)
        if model is not None and get_origin(field.annotation) is None:
            for key, inner in model.model_fields.items():
                yield from ((section, key, value) for value in ends(inner))


async def started(**sections: Any) -> None:
    broker = Broker(Config(**{**sections, "server": {"listen": "127.0.0.1:0", **sections.get("server", {})}}))
    await broker.start()
    await broker.stop(0)


@pytest.mark.parametrize(("section", "key", "value"), list(numbers()))
async def test_a_broker_starts_with_a_number_at_either_end_or_says_why_not(section: str, key: str, value: Any) -> None:
    told = key
    try:
        await started(**{section: {key: value}})
    except (ConfigError, ValidationError) as refused:
        told = str(refused)
    assert key in told


async def test_a_broker_starts_with_every_limit_at_its_least() -> None:
    await started(limits={key: ends(field)[0] for key, field in Limits.model_fields.items()})
