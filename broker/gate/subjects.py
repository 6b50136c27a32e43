"""What passes the gate: a policy inside the composition that it will serve in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import EntryPoint
from typing import Any, cast

from broker.core.compose import compose
from broker.core.composition import Composition
from broker.core.handles import Handle, RankingPlugin
from broker.core.lanes import Lane
from broker.core.plugins import plugin_order
from broker.core.ranking import (
    per_provider_quota,
    precomputed,
    reciprocal_rank_fusion,
    round_robin,
    trust_weighted,
)
from broker.core.request import CompositionRequest, Policy
from broker.core.strategies import (
    CATALOGUE,
    Parameter,
    PerProviderQuota,
    PluginStrategy,
    Precomputed,
    ReciprocalRankFusion,
    RoundRobin,
    ScoreDescending,
    Strategy,
    TrustWeighted,
)
from broker.gate.samples import Sample
from broker.gate.watching import calls_of

Composer = Callable[[Sequence[Lane], CompositionRequest, Policy], Composition]
"""What makes a composition of lanes: :func:`broker.core.compose.compose`, or what stands for it."""

_KEY = b"the key of the gate"

_POLICIES = (round_robin, per_provider_quota, trust_weighted, reciprocal_rank_fusion, precomputed)
"""The functions that the built-in policies are, but for the one that may compare raw scores."""

_BUILT_IN: Mapping[type[Strategy], tuple[Strategy, ...]] = {
    RoundRobin: (RoundRobin(),),
    PerProviderQuota: (PerProviderQuota(), PerProviderQuota(2)),
    TrustWeighted: (TrustWeighted({"ash": 2.0, "birch": 0.5}), TrustWeighted({"cedar": 0.0, "fir": 1.7})),
    ReciprocalRankFusion: (
        ReciprocalRankFusion(),
        ReciprocalRankFusion(2, {"birch": 0.0}),
        ReciprocalRankFusion(0, {"ash": 3.0}, 0.5),
    ),
    Precomputed: (Precomputed((("birch", "f0"), ("ash", "f1"), ("fir", "f2")), "mine"),),
    ScoreDescending: (ScoreDescending(),),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A policy before the gate.

    Attributes:
        name: What it is called.
        strategies: It, with several sets of parameters: each sample is asked for with one of them.
        composer: What composes.
        plugin: The plugin that ``strategies`` name, if they do.
        raw: Whether it is the named policy that may compare raw scores.
        origin: How another process finds it, see :func:`subject_of`; empty: it cannot.
    """

    name: str
    strategies: tuple[Strategy, ...]
    composer: Composer = compose
    plugin: RankingPlugin | None = None
    raw: bool = False
    origin: str = ""

    def compose(self, sample: Sample, *, arrival: int | None = None, lane_order: tuple[str, ...] = ()) -> Composition:
        """A sample's composition under the policy; ``arrival`` as for :meth:`Sample.offered`."""
        strategy = self.strategies[sample.seed % len(self.strategies)]
        return self._compose(sample, strategy, self.plugin, arrival, lane_order)

    def seen(self, sample: Sample) -> Seen:
        """What the composer gives a policy for a sample, and what the policy makes of it.

        A built-in policy gets columns; the handles that a plugin would get in its place are seen besides.
        """
        strategy = self.strategies[sample.seed % len(self.strategies)]
        if self.plugin is not None and isinstance(strategy, PluginStrategy):
            return self._witnessed(sample, strategy)
        seen = self._witnessed(sample, PluginStrategy("witness"))
        with calls_of(_POLICIES) as calls:
            self._compose(sample, strategy, self.plugin, None, ())
        seen.columns = calls
        return seen

    def _witnessed(self, sample: Sample, strategy: PluginStrategy) -> Seen:
        witness = _Witness(strategy.name, self.plugin)
        self._compose(sample, strategy, witness, None, ())
        return witness.seen

    def _compose(
        self,
        sample: Sample,
        strategy: Strategy,
        plugin: RankingPlugin | None,
        arrival: int | None,
        lane_order: tuple[str, ...],
    ) -> Composition:
        plugins = {} if plugin is None else {plugin.name: plugin}
        policy = Policy(seal_key=_KEY, lane_order=lane_order, plugins=plugins)
        return self.composer(sample.offered(arrival), sample.request(strategy), policy)


@dataclass(slots=True)
class Seen:
    """What a policy was given, and its answer; nothing where it was not asked.

    Attributes:
        handles: What a plugin gets.
        params: The plugin's parameters.
        order: The plugin's answer.
        columns: What a built-in policy gets: the arguments of each call of it, by their names.
    """

    handles: Sequence[Handle] = ()
    params: Mapping[str, object] = field(default_factory=dict)
    order: Sequence[object] | None = None
    columns: Sequence[Mapping[str, object]] = ()


class _Witness:
    """Stands where the policy does, notes what is given to it, and answers as the policy would."""

    version = "1"
    description = "Notes what it is given."

    def __init__(self, name: str, plugin: RankingPlugin | None) -> None:
        self.name = name
        self.parameters: tuple[Parameter, ...] = () if plugin is None else plugin.parameters
        self.seen = Seen()
        self._plugin = plugin

    def order(self, handles: Sequence[Handle], params: Mapping[str, object]) -> Sequence[int]:
        self.seen = Seen(handles, params)
        # Read by the one who knows how to read a plugin's answer, good or bad.
        answer: Sequence[object] = (
            round_robin([handle.local_rank for handle in handles])
            if self._plugin is None
            else plugin_order(self._plugin, handles, params)[0]
        )
        self.seen.order = answer
        return cast("Sequence[int]", answer)


def built_in(name: str) -> Subject:
    """A built-in policy.

    Raises:
        KeyError: There is none of that name.
    """
    kind = {info.name: kind for kind, info in CATALOGUE.items()}[name]
    return Subject(
        name=name,
        strategies=_BUILT_IN[kind],
        raw=CATALOGUE[kind].compares_raw_scores,
        origin=f"built-in:{name}",
    )


def plugged_in(plugin: RankingPlugin, target: str, params: Sequence[Mapping[str, object]] = ()) -> Subject:
    """A plugin, with its defaults and with other parameters.

    Args:
        plugin: The plugin.
        target: ``module:attribute``, where another process finds it; empty: nowhere.
        params: Other parameters that it will serve with.
    """
    return Subject(
        name=plugin.name,
        strategies=(PluginStrategy(plugin.name), *(PluginStrategy(plugin.name, one) for one in params)),
        plugin=plugin,
        origin=f"plugin:{target}" if target else "",
    )


def instance_of(target: str) -> Any:
    """The object that ``module:attribute`` names; of a class, an object made without arguments."""
    found = EntryPoint("", target, "").load()
    return found() if isinstance(found, type) else found


def subject_of(origin: str) -> Subject:
    """The subject that an origin names.

    Args:
        origin: ``built-in:NAME``, ``plugin:MODULE:ATTRIBUTE`` (with its defaults) or ``subject:MODULE:ATTRIBUTE``.
    """
    kind, _, rest = origin.partition(":")
    if kind == "built-in":
        return built_in(rest)
    if kind == "plugin":
        return plugged_in(instance_of(rest), rest)
    module, _, attribute = rest.partition(":")
    subject = getattr(import_module(module), attribute)
    assert isinstance(subject, Subject)
    return subject
