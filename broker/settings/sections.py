"""What can be configured: every section, key, default and bound of the daemon's configuration.

:mod:`broker.config` reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from broker.addresses import address_problem, is_loopback
from broker.core.counting import BYTES_PER_4
from broker.core.scores import Direction, ScoreScale
from broker.settings.auth import CREDENTIALS, Auth
from broker.settings.base import SCALE_ID, Count, Number, Seconds, Section, Texts, check_name, check_provider_name
from broker.settings.conduct import Conduct
from broker.settings.limits import Limits
from broker.settings.ranking import Ranking, weighed_providers
from broker.settings.store import Keeping
from broker.settings.telemetry import Admin, Traces
from broker.settings.tokenizers import ConfiguredTokenizer

PREFIX = "CONTEXT_BROKER_"
"""What every environment variable of the configuration starts with."""


class Server(Section):
    """Where and how the daemon listens.

    Attributes:
        listen: ``host:port``; port 0 takes a free one.
        insecure: Allows an address that is not loopback without TLS.
        tls_cert: PEM file of the certificate chain; with ``tls_key`` it turns TLS on.
        tls_key: PEM file of its key; not readable by all.
        tls_client_ca: PEM file of the certificates that each client's own must descend from; no connection without.
        grace_seconds: What running requests get to finish in when the daemon is told to stop.
        first_message_seconds: How long a call may stay silent before its first message.
        stall_seconds: How long an answer may wait for its reader before the call is cut.
        handshake_seconds: How long a new connection may take to become one.
        heartbeat_seconds: How often whoever has said nothing is asked whether it is still there; who does not answer
            for twice as long is gone. A fleet of thousands costs less with more.
        session_age_seconds: After how long, give or take a tenth, a provider is told to attach anew; its old session
            is asked until the new one stands.
    """

    listen: str = "127.0.0.1:7433"
    insecure: bool = False
    tls_cert: Path | None = None
    tls_key: Path | None = None
    tls_client_ca: Path | None = None
    grace_seconds: Seconds = 10.0
    first_message_seconds: Seconds = 10.0
    stall_seconds: Seconds = 10.0
    handshake_seconds: Seconds = 10.0
    heartbeat_seconds: Annotated[Seconds, Field(ge=1)] = 2.0
    session_age_seconds: Annotated[Seconds, Field(ge=1)] = 1800.0

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
        if self.tls_client_ca is not None and self.tls_cert is None:
            raise ValueError("tls_client_ca needs tls_cert and tls_key: without TLS no client shows a certificate")
        if self.tls_cert is not None and self.insecure:
            raise ValueError("insecure and tls_cert contradict each other; set one of them")
        if self.tls_cert is None and not self.insecure and not self.loopback:
            raise ValueError(
                f"listen is {self.listen}, which other machines can reach; set tls_cert and tls_key, or insecure"
            )
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
        hedge_seconds: How long a request waits for the instance that it asked before it asks a second one too; left
            out: for ever.
        max_frames: Frames granted to each of its lanes; left out: ``limits.lane_frames``, which none exceeds.
        max_tokens: Tokens of content granted to each of its lanes, where the request grants no fewer; left out:
            ``limits.lane_tokens``, which none exceeds.
        credentials: Kinds of credential, of "mtls", "tokens", "jwt", that must all have named whoever speaks for it.
    """

    scale: Scale | None = None
    hedge_seconds: Annotated[Seconds | None, Field(examples=[0.2])] = None
    max_frames: Annotated[Annotated[Count, Field(le=100_000)] | None, Field(examples=[64])] = None
    max_tokens: Annotated[Count | None, Field(examples=[20_000])] = None
    credentials: Texts = ()

    @field_validator("credentials")
    @classmethod
    def _kinds(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        for value in values:
            if value not in CREDENTIALS:
                raise ValueError(f"{value!r} is no kind of credential; there are {', '.join(CREDENTIALS)}")
        return values


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
    timeout_seconds: Annotated[Seconds | None, Field(examples=[0.5])] = None
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
        tokenizer: What counts tokens where a request does not say: ``bytes/4``, or one of ``tokenizers``.
    """

    seal_key_file: Path | None = None
    tokenizer: str = BYTES_PER_4.name


class Log(Section):
    """The log on stderr.

    Attributes:
        repeats: Lines of one kind that are written in ten seconds; one more then counts the rest.
    """

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["auto", "json", "console"] = "auto"
    repeats: Count = 20


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
    auth: Auth = Field(default=Auth(), validate_default=True)
    limits: Limits = Limits()
    conduct: Conduct = Conduct()
    ranking: Ranking = Ranking()
    providers: Mapping[str, KnownProvider] = Field(default_factory=dict, validate_default=True)
    rerankers: Mapping[str, ConfiguredReranker] = Field(default_factory=dict)
    tokenizers: Mapping[str, ConfiguredTokenizer] = Field(default_factory=dict)
    render: Render = Render()
    store: Keeping = Keeping()
    log: Log = Log()
    admin: Admin = Admin()
    traces: Traces = Traces()

    @field_validator("auth")
    @classmethod
    def _asked(cls, value: Auth, info: ValidationInfo) -> Auth:
        server: Server | None = info.data.get("server")
        if server is None:
            return value
        if value.policy is None and not server.loopback:
            raise ValueError(
                f"policy is missing, and other machines can reach {server.listen}; say how callers are known, or "
                'policy = "anonymous" to let everyone do everything'
            )
        if "mtls" in value.parts and server.tls_client_ca is None:
            raise ValueError("policy names 'mtls', which needs server.tls_client_ca")
        return value

    @field_validator("providers")
    @classmethod
    def _named(cls, values: Mapping[str, KnownProvider], info: ValidationInfo) -> Mapping[str, KnownProvider]:
        for name in values:
            check_provider_name(name)
        ranking: Ranking | None = info.data.get("ranking")
        if ranking is not None:
            _check_beside(ranking, values)
        auth: Auth | None = info.data.get("auth")
        parts = CREDENTIALS if auth is None else auth.parts
        for name, known in values.items():
            for kind in known.credentials:
                if kind not in parts:
                    raise ValueError(f"{name} needs the credential {kind!r}, which auth.policy does not name")
        return values

    @field_validator("tokenizers")
    @classmethod
    def _names(cls, values: Mapping[str, ConfiguredTokenizer]) -> Mapping[str, ConfiguredTokenizer]:
        for name in values:
            check_name(name)
        return values

    @field_validator("render")
    @classmethod
    def _counted(cls, value: Render, info: ValidationInfo) -> Render:
        names = (BYTES_PER_4.name, *info.data.get("tokenizers", ()))
        if value.tokenizer not in names:
            raise ValueError(f"tokenizer is {value.tokenizer!r}, and there are {', '.join(names)}")
        return value

    @field_validator("rerankers")
    @classmethod
    def _called(cls, values: Mapping[str, ConfiguredReranker]) -> Mapping[str, ConfiguredReranker]:
        for name in values:
            check_name(name)
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
