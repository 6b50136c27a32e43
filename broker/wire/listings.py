"""What a broker lists of itself: providers and policies. Values, and both directions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from contextbroker.v1 import context_service_pb2 as pb
from google.protobuf.timestamp_pb2 import Timestamp
from msgspec import Struct, field

from broker.core.scores import ScoreScale
from broker.core.strategies import Parameter
from broker.wire.frames import kind_name, kind_number, read_scale, scale_message
from broker.wire.json_values import read_struct, struct_message

MICROS = 10**6


class ListedInstance(Struct, frozen=True, gc=False, kw_only=True):
    """One attached replica.

    Attributes:
        instance: Its name.
        session: The broker's name for its session.
        version: Its own version.
        in_flight: Queries that it is answering.
        max_in_flight: Queries that it takes at once.
        last_seen: When it was last heard from, in seconds since the epoch; None: never.
    """

    instance: str
    session: str
    version: str
    in_flight: int
    max_in_flight: int
    last_seen: float | None


class ListedProvider(Struct, frozen=True, gc=False, kw_only=True):
    """One provider that the broker knows.

    Attributes:
        provider: Its name.
        instances: Its attached instances; empty: known and not attached.
        kinds: Names of the kinds it can answer with; empty: any, or not known.
        scale: Of its scores; None: never attached and not configured.
        quarantined_seconds: Seconds that it still sits out, for a lie or by the operator's word; 0: it does not.
        last_seen: When an instance was last heard from, in seconds since the epoch; None: never.
        circuit_open_seconds: Seconds until it is tried again after it failed too often in a row; 0: it is asked.
    """

    provider: str
    instances: tuple[ListedInstance, ...] = ()
    kinds: tuple[str, ...] = ()
    scale: ScoreScale | None = None
    quarantined_seconds: int = 0
    last_seen: float | None = None
    circuit_open_seconds: int = 0


class ListedStrategy(Struct, frozen=True, gc=False, kw_only=True):
    """One ranking policy.

    Attributes:
        name: Its name.
        description: Which comparison it makes and which it refuses.
        compares_raw_scores: Whether it orders by raw scores over several providers.
        parameters: Its parameters.
        default: Whether it serves requests that name none.
        allowed: Whether the operator allows it.
        version: Its version: the broker's own, or the plugin's.
        default_params: With what parameters it serves requests that name none, as JSON-like values; empty where it does
            not, or takes none.
    """

    name: str
    description: str
    compares_raw_scores: bool
    parameters: tuple[Parameter, ...] = ()
    default: bool = False
    allowed: bool = True
    version: str = ""
    default_params: Mapping[str, object] = field(default_factory=dict)


def providers_message(providers: Iterable[ListedProvider]) -> pb.ListProvidersResponse:
    """A list of providers as a message."""
    message = pb.ListProvidersResponse()
    for _ in fill_providers(message, providers):
        pass
    return message


def fill_providers(message: pb.ListProvidersResponse, providers: Iterable[ListedProvider]) -> Iterator[None]:
    """Adds providers to a message, a provider or an instance a step: a list may be long, and others wait meanwhile."""
    for provider in providers:
        info = message.providers.add(
            provider_id=provider.provider,
            kinds=[kind_number(kind, "kinds") for kind in provider.kinds],
            scale=None if provider.scale is None else scale_message(provider.scale),
            quarantined_seconds=provider.quarantined_seconds,
            last_seen=_timestamp(provider.last_seen),
            circuit_open_seconds=provider.circuit_open_seconds,
        )
        yield
        for instance in provider.instances:
            info.instances.add(
                instance_id=instance.instance,
                session_id=instance.session,
                version=instance.version,
                in_flight=instance.in_flight,
                max_in_flight=instance.max_in_flight,
                last_seen=_timestamp(instance.last_seen),
            )
            yield


def read_providers(message: pb.ListProvidersResponse) -> tuple[ListedProvider, ...]:
    """The inverse of :func:`providers_message`; times to the microsecond."""
    return tuple(
        ListedProvider(
            provider=provider.provider_id,
            instances=tuple(
                ListedInstance(
                    instance=instance.instance_id,
                    session=instance.session_id,
                    version=instance.version,
                    in_flight=instance.in_flight,
                    max_in_flight=instance.max_in_flight,
                    last_seen=_seconds(instance.last_seen) if instance.HasField("last_seen") else None,
                )
                for instance in provider.instances
            ),
            kinds=tuple(map(kind_name, provider.kinds)),
            scale=read_scale(provider.scale) if provider.HasField("scale") else None,
            quarantined_seconds=provider.quarantined_seconds,
            last_seen=_seconds(provider.last_seen) if provider.HasField("last_seen") else None,
            circuit_open_seconds=provider.circuit_open_seconds,
        )
        for provider in message.providers
    )


def strategies_message(strategies: Iterable[ListedStrategy]) -> pb.ListStrategiesResponse:
    """A list of policies as a message."""
    return pb.ListStrategiesResponse(
        strategies=[
            pb.StrategyInfo(
                name=strategy.name,
                description=strategy.description,
                compares_raw_scores=strategy.compares_raw_scores,
                parameters=[
                    pb.StrategyParameter(
                        name=parameter.name,
                        type=parameter.type,
                        default_value=parameter.default,
                        description=parameter.description,
                    )
                    for parameter in strategy.parameters
                ],
                default=strategy.default,
                allowed=strategy.allowed,
                version=strategy.version,
                default_params=struct_message(strategy.default_params) if strategy.default_params else None,
            )
            for strategy in strategies
        ]
    )


def read_strategies(message: pb.ListStrategiesResponse) -> tuple[ListedStrategy, ...]:
    """The inverse of :func:`strategies_message`."""
    return tuple(
        ListedStrategy(
            name=strategy.name,
            description=strategy.description,
            compares_raw_scores=strategy.compares_raw_scores,
            parameters=tuple(Parameter(p.name, p.type, p.default_value, p.description) for p in strategy.parameters),
            default=strategy.default,
            allowed=strategy.allowed,
            version=strategy.version,
            default_params=read_struct(strategy.default_params),
        )
        for strategy in message.strategies
    )


def _timestamp(seconds: float | None) -> Timestamp | None:
    if seconds is None:
        return None
    micros = round(seconds * MICROS)
    return Timestamp(seconds=micros // MICROS, nanos=micros % MICROS * 1000)


def _seconds(moment: Timestamp) -> float:
    return (moment.seconds * MICROS + moment.nanos // 1000) / MICROS
