"""What can be configured: every section, key, default and bound of the daemon's configuration.

:mod:`broker.config` reads it.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from broker.core.names import provider_name_problem
from broker.core.scores import Direction, ScoreScale
from broker.core.strategies import CATALOGUE, RoundRobin

PREFIX = "CONTEXT_BROKER_"
"""What every environment variable of the configuration starts with."""


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
Seconds = Annotated[float, BeforeValidator(_no_bool), Field(gt=0, le=86_400, allow_inf_nan=False)]
Number = Annotated[float, BeforeValidator(_no_bool)]
Texts = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_items)]

KIB = 1024
MIB = 1024 * KIB


class Section(BaseModel):
    """A part of the configuration; it knows its keys and takes no others."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Server(Section):
    """Where and how the daemon listens.

    Attributes:
        listen: ``host:port``; port 0 takes a free one.
        insecure: Allows an address that is not loopback without TLS.
        tls_cert: PEM file of the certificate chain; with ``tls_key`` it turns TLS on.
        tls_key: PEM file of its key; not readable by all.
        grace_seconds: What running requests get to finish in when the daemon is told to stop.
        first_message_seconds: How long a call may stay silent before its first message.
        stall_seconds: How long an answer may wait for its reader before the call is cut.
        handshake_seconds: How long a new connection may take to become one.
    """

    listen: str = "127.0.0.1:7433"
    insecure: bool = False
    tls_cert: Path | None = None
    tls_key: Path | None = None
    grace_seconds: Seconds = 10.0
    first_message_seconds: Seconds = 10.0
    stall_seconds: Seconds = 10.0
    handshake_seconds: Seconds = 10.0

    @property
    def host(self) -> str:
        """The host of ``listen``, without brackets."""
        return self.listen.rpartition(":")[0].strip("[]")

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach the address."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @field_validator("listen")
    @classmethod
    def _address(cls, value: str) -> str:
        host, colon, port = value.rpartition(":")
        bare = host.startswith("[") == host.endswith("]") and (":" not in host or host.startswith("["))
        if not colon or not host or not bare or not port.isascii() or not port.isdigit() or int(port) > 65_535:
            raise ValueError("expected host:port, such as 127.0.0.1:7433 or [::1]:7433")
        return value

    @model_validator(mode="after")
    def _guarded(self) -> Self:
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("tls_cert and tls_key go together; set both or neither")
        if self.tls_cert is not None and self.insecure:
            raise ValueError("insecure and tls_cert contradict each other; set one of them")
        if self.tls_cert is None and not self.insecure and not self.loopback:
            raise ValueError(
                f"listen is {self.listen}, which other machines can reach; set tls_cert and tls_key, or insecure"
            )
        return self


class Limits(Section):
    """What is taken, granted and held.

    Attributes:
        collect_seconds: How long a request collects when it does not say.
        max_collect_seconds: The most that it may ask for.
        answer_margin_seconds: What is kept of the caller's own deadline to answer in.
        max_message_bytes: Of one message received.
        max_frame_bytes: Of one encoded frame; a larger one is dropped alone.
        max_batch_frames: Frames in one batch.
        lane_frames: Frames granted to a lane; a push may hold as many.
        lane_tokens: Tokens of content granted to a lane, at most; it is four times the request's budget where that is
            less.
        max_tokens: The largest budget that a request may name.
        max_frames: The most frames that a request may have placed.
        max_inline_frames: Frames of all inline lanes of a request.
        push_hold_seconds: How long an early push waits for its request.
        push_hold_bytes: Bytes of all early pushes.
    """

    collect_seconds: Seconds = 2.0
    max_collect_seconds: Seconds = 300.0
    answer_margin_seconds: Seconds = 0.1
    max_message_bytes: Annotated[Count, Field(ge=64 * KIB, le=4 * MIB)] = MIB
    # A placed frame travels with its rendered block in one message of at most 512 KiB.
    max_frame_bytes: Annotated[Count, Field(le=192 * KIB)] = 192 * KIB
    max_batch_frames: Annotated[Count, Field(le=100_000)] = 4096
    lane_frames: Annotated[Count, Field(le=100_000)] = 256
    lane_tokens: Count = 200_000
    max_tokens: Count = 1_000_000
    max_frames: Annotated[Count, Field(le=100_000)] = 1000
    max_inline_frames: Annotated[Count, Field(le=100_000)] = 10_000
    push_hold_seconds: Seconds = 30.0
    push_hold_bytes: Count = 16 * MIB

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        for low, high in (
            ("collect_seconds", "max_collect_seconds"),
            ("max_frame_bytes", "max_message_bytes"),
            # A batch of more frames than this is then more than any lane was granted, and falls under that rule.
            ("lane_frames", "max_batch_frames"),
        ):
            if getattr(self, low) > getattr(self, high):
                raise ValueError(f"{low} ({getattr(self, low)}) is above {high} ({getattr(self, high)})")
        return self


class Ranking(Section):
    """How lanes are ordered among equals, and which policies may be named.

    Attributes:
        lane_order: Providers in the order that decides between equals; all others follow by name.
        forbidden_strategies: Policies that no request may name.
    """

    lane_order: Texts = ()
    forbidden_strategies: Texts = ()

    @field_validator("lane_order")
    @classmethod
    def _providers(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        for value in values:
            _provider_name(value)
        if len(set(values)) != len(values):
            raise ValueError("names one provider twice")
        return values

    @field_validator("forbidden_strategies")
    @classmethod
    def _policies(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        known = sorted(info.name for info in CATALOGUE.values())
        default = CATALOGUE[RoundRobin].name
        for value in values:
            if value not in known:
                raise ValueError(f"no strategy is called {value!r}; there are {', '.join(known)}")
            if value == default:
                raise ValueError(f"{default} serves the requests that name no strategy and cannot be forbidden")
        return values


class Scale(Section):
    """A provider's scale, as ``ScoreScale`` on the wire; ``inf`` and ``-inf`` are allowed."""

    id: str = Field(default="unit", pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")
    min: Number = 0.0
    max: Number = 1.0
    direction: Direction = Direction.HIGHER_IS_BETTER

    @model_validator(mode="after")
    def _proper(self) -> Self:
        self.value()
        return self

    def value(self) -> ScoreScale:
        """The scale as the core knows it."""
        return ScoreScale(self.id, self.min, self.max, self.direction)


class KnownProvider(Section):
    """A provider that requests may name before it ever attached.

    Attributes:
        scale: Its scale; with it, floors can be checked before it attached, and it may declare no other.
    """

    scale: Scale | None = None


class Render(Section):
    """How prompts are written.

    Attributes:
        seal_key_file: File with the secret of the seals, at least 16 bytes, not readable by all. Without it a secret
            is made at each start, and seals change then.
    """

    seal_key_file: Path | None = None


class Log(Section):
    """The log on stderr."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["auto", "json", "console"] = "auto"


class Config(BaseSettings):
    """The whole configuration.

    Built from keywords it reads the environment too; :func:`broker.config.load` also reads a file, and turns what is
    wrong into one plain error.
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_nested_delimiter="__",
        extra="forbid",
        frozen=True,
    )

    server: Server = Server()
    limits: Limits = Limits()
    ranking: Ranking = Ranking()
    providers: Mapping[str, KnownProvider] = Field(default_factory=dict)
    render: Render = Render()
    log: Log = Log()

    @field_validator("providers")
    @classmethod
    def _named(cls, values: Mapping[str, KnownProvider]) -> Mapping[str, KnownProvider]:
        for name in values:
            _provider_name(name)
        return values


def _provider_name(name: str) -> None:
    problem = provider_name_problem(name)
    if problem is not None:
        raise ValueError(problem)
