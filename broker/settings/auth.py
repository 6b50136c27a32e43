"""Who may call, and how callers are known."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator
from pydantic_settings import NoDecode

from broker.settings.base import Number, Section, Texts

CREDENTIALS = ("mtls", "tokens", "jwt")
"""The kinds of credential."""

PARTS = (*CREDENTIALS, "anonymous", "deny")
"""What a policy is made of."""

MAX_DEPTH = 8
"""How deep a policy may be nested."""


def _policy(value: Any, depth: int = 0) -> Any:
    """A policy in its one form: a part's name, or one of ``any`` and ``all`` over a tuple of policies."""
    if depth == 0 and isinstance(value, str) and value.lstrip().startswith("{"):
        value = json.loads(value)
    if isinstance(value, str) and value in PARTS:
        return value
    if isinstance(value, Mapping) and len(value) == 1 and depth < MAX_DEPTH:
        ((how, parts),) = value.items()
        if how in ("any", "all") and isinstance(parts, list | tuple) and parts:
            return {how: tuple(_policy(part, depth + 1) for part in parts)}
    raise ValueError(f"expected {', '.join(map(repr, PARTS))}, or a table {{any = [...]}} or {{all = [...]}} of these")


def parts_of(policy: Any) -> Iterator[str]:
    """Names of the parts that a policy is made of."""
    if isinstance(policy, str):
        yield policy
    elif policy is not None:
        for parts in policy.values():
            for part in parts:
                yield from parts_of(part)


class Jwt(Section):
    """Signed tokens that are taken.

    Attributes:
        jwks_file: The issuer's keys, read again when it changes.
        issuer: What ``iss`` must be.
        audience: What ``aud`` must be or hold.
        algorithms: Those taken; none is symmetric.
        leeway_seconds: How far the issuer's clock and this one may differ.
    """

    jwks_file: Path = Field(examples=["FILE"])
    issuer: str = Field(min_length=1, examples=["https://issuer.example"])
    audience: str = Field(min_length=1, examples=["context-broker"])
    algorithms: Annotated[Texts, Field(min_length=1)] = ("RS256", "ES256", "EdDSA")
    leeway_seconds: Annotated[Number, Field(ge=0, le=300)] = 0.0


class Auth(Section):
    """Who may call.

    Attributes:
        policy: How callers are known, of "mtls", "tokens", "jwt", "anonymous", "deny", alone or in tables of any and
            all; left out: everyone may do everything, which is possible on a loopback address alone.
        principals_file: What subjects may be; TOML, read again when it changes.
        tokens_file: Hashes of bearer tokens, read again when it changes.
        jwt: Signed tokens.
    """

    policy: Annotated[Any, NoDecode, BeforeValidator(lambda value: None if value is None else _policy(value))] = Field(
        default=None, examples=[{"any": ("mtls", "tokens")}]
    )
    principals_file: Path | None = None
    tokens_file: Path | None = None
    jwt: Jwt | None = None

    @property
    def parts(self) -> frozenset[str]:
        """Names of the parts of the policy."""
        return frozenset(parts_of(self.policy))

    @model_validator(mode="after")
    def _whole(self) -> Self:
        parts = self.parts
        known = bool(parts & {"mtls", "tokens", "jwt"})
        for part, key, value in (
            ("tokens", "tokens_file", self.tokens_file),
            ("jwt", "jwt", self.jwt),
        ):
            if part in parts and value is None:
                raise ValueError(f"policy names {part!r}, which needs {key}")
            if part not in parts and value is not None:
                raise ValueError(f"{key} is set and policy does not name {part!r}: it would be asked of no one")
        if known and self.principals_file is None:
            raise ValueError("principals_file is missing: it says what each subject may be")
        if not known and self.principals_file is not None:
            raise ValueError("principals_file is set and policy names nothing that knows a subject")
        return self
