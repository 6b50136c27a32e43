"""What can be configured: every section, key, default and bound of the daemon's configuration.

:mod:`broker.config` reads it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from broker.addresses import address_problem, is_loopback
from broker.core.scores import Direction, ScoreScale
from broker.settings.base import SCALE_ID, Count, Number, Seconds, Section, check_provider_name
from broker.settings.ranking import Ranking, weighed_providers

PREFIX = "CONTEXT_BROKER_"
"""What every environment variable of the configuration starts with."""


KIB = 1024
MIB = 1024 * KIB


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
    def loopback(self) -> bool:
        """Whether only this machine can reach the address."""
        return is_loopback(self.listen)

    @field_validator("listen")
    @classmethod
    def _address(cls, value: str) -> str:
        if problem := address_problem(value, any_port=True):
            raise ValueError(problem)
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
        max_lanes: Lanes that a request may open; the end of its answer names each of them in one message.
        lane_frames: Frames granted to a lane; a push may hold as many.
        lane_tokens: Tokens of content granted to a lane, at most; it is four times the request's budget where that is
            less.
        max_tokens: The largest budget that a request may name.
        max_frames: The most frames that a request may have placed.
        max_inline_frames: Frames of all inline lanes of a request.
        push_hold_seconds: How long an early push waits for its request, and how long one may take to come in.
        push_hold_bytes: Bytes of all early pushes.
        rank_seconds: What a ranking plugin gets for one request; round robin stands in for one that is late.
        rerank_seconds: What a reranker gets for one request where it has no ``timeout_seconds`` of its own.
    """

    collect_seconds: Seconds = 2.0
    max_collect_seconds: Seconds = 300.0
    answer_margin_seconds: Seconds = 0.1
    max_message_bytes: Annotated[Count, Field(ge=64 * KIB, le=4 * MIB)] = MIB
    # A placed frame travels with its rendered block in one message of at most 512 KiB.
    max_frame_bytes: Annotated[Count, Field(le=192 * KIB)] = 192 * KIB
    max_batch_frames: Annotated[Count, Field(le=100_000)] = 4096
    max_lanes: Annotated[Count, Field(le=1000)] = 1000
    lane_frames: Annotated[Count, Field(le=100_000)] = 256
    lane_tokens: Count = 200_000
    max_tokens: Count = 1_000_000
    max_frames: Annotated[Count, Field(le=100_000)] = 1000
    max_inline_frames: Annotated[Count, Field(le=100_000)] = 10_000
    push_hold_seconds: Seconds = 30.0
    push_hold_bytes: Count = 16 * MIB
    rank_seconds: Seconds = 1.0
    rerank_seconds: Seconds = 1.0

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


class Scale(Section):
    """A provider's scale, as ``ScoreScale`` on the wire; ``inf`` and ``-inf`` are allowed."""

    id: str = Field(default="unit", pattern=SCALE_ID)
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


class ConfiguredReranker(Section):
    """A reranker that requests may name, beside ``lexical``, which every broker has.

    Attributes:
        kind: ``remote``: a ``RerankService`` at ``address``. ``cross-encoder``: a model in ``directory``.
        timeout_seconds: What it gets for one request; left out: ``limits.rerank_seconds``.
        address: ``host:port`` or ``unix:PATH``.
        tls_ca: PEM file of the certificates that its own must descend from; left out: plain text.
        directory: Where ``model.onnx`` and ``tokenizer.json`` lie.
        max_tokens: Tokens of question and text together that the model reads.
    """

    kind: Literal["remote", "cross-encoder"]
    timeout_seconds: Seconds | None = None
    address: str = ""
    tls_ca: Path | None = None
    directory: Path | None = None
    max_tokens: Annotated[Count, Field(ge=8, le=65_536)] = 512

    @model_validator(mode="after")
    def _of_its_kind(self) -> Self:
        takes = {"remote": ("address", "tls_ca"), "cross-encoder": ("directory", "max_tokens")}
        for kind, keys in takes.items():
            for key in keys:
                if kind != self.kind and key in self.model_fields_set:
                    raise ValueError(f"{key} goes with the kind {kind!r}, and this is a {self.kind!r}")
        needed = takes[self.kind][0]
        if not getattr(self, needed):
            raise ValueError(f"the kind {self.kind!r} needs {needed}")
        if self.address and (problem := address_problem(self.address, unix=True)):
            raise ValueError(f"address: {problem}")
        return self


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
    providers: Mapping[str, KnownProvider] = Field(default_factory=dict, validate_default=True)
    rerankers: Mapping[str, ConfiguredReranker] = Field(default_factory=dict)
    render: Render = Render()
    log: Log = Log()

    @field_validator("providers")
    @classmethod
    def _named(cls, values: Mapping[str, KnownProvider], info: ValidationInfo) -> Mapping[str, KnownProvider]:
        for name in values:
            check_provider_name(name)
        ranking: Ranking | None = info.data.get("ranking")
        if ranking is not None:
            _check_beside(ranking, values)
        return values

    @field_validator("rerankers")
    @classmethod
    def _called(cls, values: Mapping[str, ConfiguredReranker]) -> Mapping[str, ConfiguredReranker]:
        for name in values:
            if re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,62}", name) is None:
                raise ValueError(
                    f"{name!r} cannot be a name; use at most 63 lower-case letters, digits, '.', '_' and '-'"
                )
            if name == "lexical":
                raise ValueError("'lexical' is the name of the reranker that every broker has; choose another")
        return values


def _check_beside(ranking: Ranking, providers: Mapping[str, KnownProvider]) -> None:
    """Holds what ranking says of providers against what is known of them.

    Raises:
        ValueError: The default policy weighs one that is not configured (a request that names no policy would then be
            refused), or scales that are shared differ.
    """
    shared_by = {name for shared in ranking.shared_scales for name in shared.providers}
    unknown = sorted(weighed_providers(ranking.strategy) - providers.keys() - set(ranking.lane_order) - shared_by)
    if unknown:
        raise ValueError(
            f"ranking.default_strategy weighs {', '.join(unknown)}, which is not configured; "
            f"add [providers.{unknown[0]}]"
        )
    for shared in ranking.shared_scales:
        scales = {name: providers[name].scale for name in shared.providers if name in providers}
        values = {name: scale.value() for name, scale in scales.items() if scale is not None}
        for name, value in values.items():
            if value.id != shared.id or value != next(iter(values.values())):
                raise ValueError(
                    f"{name} has another scale than the one that it shares with others by ranking.shared_scales "
                    f"({shared.id!r})"
                )
