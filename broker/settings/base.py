"""What every section of the configuration is made of."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_settings import NoDecode

from broker.core.names import provider_name_problem


def _no_bool(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("expected a number")  # noqa: TRY004 - pydantic reports ValueError, and lets TypeError through
    return value


def _items(value: Any) -> Any:
    """A list as an environment variable spells it."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        return json.loads(value)
    return [item.strip() for item in value.split(",") if item.strip()]


Count = Annotated[int, BeforeValidator(_no_bool), Field(ge=1, le=2**31 - 1)]
Times = Annotated[int, BeforeValidator(_no_bool), Field(ge=0, le=2**31 - 1)]
Bytes = Annotated[int, BeforeValidator(_no_bool), Field(ge=1, le=2**50)]
Seconds = Annotated[float, BeforeValidator(_no_bool), Field(gt=0, le=86_400, allow_inf_nan=False)]
Number = Annotated[float, BeforeValidator(_no_bool)]
Texts = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_items)]


SCALE_ID = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$"
"""What names a scale."""


class Section(BaseModel):
    """A part of the configuration; it knows its keys and takes no others."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def check_name(name: str) -> None:
    """Refuses a name of the operator's choice that could not be written everywhere.

    Raises:
        ValueError: The name is not allowed.
    """
    if re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,62}", name) is None:
        raise ValueError(f"{name!r} cannot be a name; use at most 63 lower-case letters, digits, '.', '_' and '-'")


def check_provider_name(name: str) -> None:
    """Refuses a name that no provider can have.

    Raises:
        ValueError: The name is not allowed.
    """
    problem = provider_name_problem(name)
    if problem is not None:
        raise ValueError(problem)
