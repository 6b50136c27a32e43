"""Metrics: what the broker counts and times, for Prometheus.

Every label has a bounded set of values: names of the contract's own, and names of providers as far as
:class:`~broker.telemetry.names.Names` lets them be told apart. Nothing here holds what was asked or found, or a score.
Counting is done in the event loop's thread alone, and what was counted may be read from any.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from prometheus_client import CollectorRegistry, GCCollector, Info, ProcessCollector

from broker.core.audited import INCLUDED
from broker.core.composition import AuditState, Composition
from broker.core.lanes import Lane
from broker.telemetry.names import INLINE, Names
from broker.telemetry.series import Labels, Spread, Tally, counters, exemplar, gauges, histograms
from broker.telemetry.spans import NO_TRACE, Trace, current_trace

PREFIX = "context_broker"
"""What the name of every metric of the broker's own starts with."""

STANDING = frozenset({"Attach", "Health.Watch", "Reflection"})
"""Methods whose calls last as long as their callers like: these are counted and not timed."""

MOST_REASONS = 200
"""Reasons of refusals that are told apart. The contract's are fewer."""

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
LAG_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)

GAUGES: Mapping[str, str] = {
    "ready": "1 while new requests are taken.",
    "requests_in_flight": "Compose requests that are answered now.",
    "requests_limit": "How many there may be.",
    "sessions": "Sessions of providers.",
    "sessions_limit": "How many there may be.",
    "held_bytes": "Bytes of requests, and of what is gathered for them.",
    "held_limit_bytes": "How many there may be.",
    "push_held_bytes": "Bytes of pushes that wait for their request.",
    "push_held_limit_bytes": "How many there may be.",
    "memory_bytes": "Bytes of the process that are in memory.",
    "memory_limit_bytes": "How many it may have.",
    "memory_shed_bytes": "From how many on new requests are refused.",
    "event_loop_lag_max_seconds": "How late the event loop was at most in the last half a minute to a minute.",
    "store_pending": "Compositions that wait to be recorded.",
    "store_away": "1 while the store cannot be reached.",
}
"""What :meth:`Metrics.set` takes: what is measured now and then."""


class Metrics:
    """All metrics of one broker.

    Attributes:
        registry: What a scrape reads.
        providers: The providers that have figures of their own.
    """

    def __init__(self, *, version: str = "", providers: Iterable[str] = (), most_providers: int = 100) -> None:
        """Makes metrics that have counted nothing.

        Args:
            version: The broker's.
            providers: Those that are known from the start.
            most_providers: Providers that have figures of their own.
        """
        self.registry = CollectorRegistry()
        self.providers = Names(most_providers, providers)
        self._reasons = Names(MOST_REASONS)
        ProcessCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        Info("context_broker_build", "The broker's version.", registry=self.registry).info({"version": version})
        self._calls = self._counter("calls", "Calls that ended, by method and status code.", "method", "code")
        self._call_seconds = self._histogram("call_seconds", "How long calls took; standing ones apart.", "method")
        self._calls_open = self._gauge("calls_in_flight", "Calls that run.", "method")
        self._refusals = self._counter("refusals", "Calls that ended with an error, by its reason.", "method", "reason")
        self._compositions = self._counter(
            "compositions", "Compositions that were answered, by strategy and what became of their record.",
            "strategy", "audit",
        )  # fmt: skip
        self._stages = self._histogram("stage_seconds", "How long each stage of a composition took.", "stage")
        self._lanes = self._counter("lanes", "Lanes, by provider and how they ended.", "provider", "end")
        self._lane_seconds = self._histogram("lane_seconds", "How long lanes were open.", "provider")
        self._lanes_open = self._gauge("lanes_in_flight", "Lanes that are open.")[()]
        self._frames = self._counter(
            "frames", "Frames of compositions: placed, or why they were not.", "fate", "reason"
        )
        self._provider_frames = self._counter(
            "provider_frames", "Frames of compositions, by provider and how far they came.", "provider", "stage"
        )
        self._tokens = self._counter(
            "tokens", "Tokens of frames of compositions, by provider and how far they came.", "provider", "stage"
        )
        self._reranks = self._counter("reranks", "Rerankings, by reranker and outcome.", "reranker", "outcome")
        self._lies = self._counter("lies", "Lies that providers were caught in.", "provider", "reason")
        self._quarantines = self._counter("quarantines", "Times that a provider was made to sit out.", "provider")
        self._circuits = self._counter("circuits_opened", "Times that a provider failed too often.", "provider")
        self._instances = self._gauge("provider_instances", "Instances that are attached.", "provider")
        self._store_seconds = self._histogram(
            "store_record_seconds", "How long a composition waited to be recorded, by outcome.", "outcome"
        )
        self._lag = self._histogram("event_loop_lag_seconds", "How late the event loop was.", bounds=LAG_SECONDS)[()]
        self._gauges = {name: self._gauge(name, text)[()] for name, text in GAUGES.items()}

    def call_began(self, method: str) -> None:
        """Counts a call that runs."""
        self._calls_open[(method,)].value += 1

    def call_ended(self, method: str, code: str, reason: str, seconds: float) -> None:
        """Counts a call that ran.

        Args:
            method: The name that its handler was registered under.
            code: Its status code's name, such as ``OK``.
            reason: Of the error that it ended with; empty: none.
            seconds: How long it took.
        """
        trace_id = current_trace().kept_id
        self._calls_open[(method,)].value -= 1
        told = [self._calls[method, code]]
        if method not in STANDING:
            self._call_seconds[(method,)].observe(seconds, trace_id)
        if reason:
            told.append(self._refusals[method, self._reasons.learn(reason)])
        for tally in told:
            tally.value += 1
            if trace_id:
                tally.exemplar = exemplar(trace_id, 1)

    def lanes_began(self, count: int) -> None:
        """Counts lanes that are open."""
        self._lanes_open.value += count

    def lanes_left(self, count: int) -> None:
        """Counts lanes that are open no more and did not end."""
        self._lanes_open.value -= count

    def lane_ended(self, lane: Lane, seconds: float, trace: Trace = NO_TRACE) -> None:
        """Counts a lane that ended, however its request fares.

        Args:
            lane: The lane.
            seconds: How long it was open.
            trace: Its request's; a lane may end in the call of its provider.
        """
        label = self.providers[lane.provider]
        self._lanes_open.value -= 1
        self._lanes[label, str(lane.end)].value += 1
        self._lane_seconds[(label,)].observe(seconds, trace.kept_id)

    def composed(self, composition: Composition, stages: Mapping[str, float], inline: Collection[str]) -> None:
        """Counts an answered composition.

        Args:
            composition: The composition.
            stages: Seconds that each stage took.
            inline: Names of the lanes that the caller brought along.
        """
        trace_id, summary = current_trace().kept_id, composition.summary
        compositions = self._compositions[summary.strategy.name, str(composition.audit_state)]
        compositions.value += 1
        if trace_id:
            compositions.exemplar = exemplar(trace_id, 1)
        for stage, seconds in stages.items():
            self._stages[(stage,)].observe(seconds, trace_id)
        for reason, frames in summary.reasons.items():
            fate = ("placed", "") if reason == INCLUDED else ("excluded", reason)
            self._frames[fate].value += frames
        for provider, used in composition.usage.providers.items():
            label = INLINE if provider in inline else self.providers[provider]
            for stage, frames, tokens in (
                ("offered", used.frames_offered, used.tokens_offered),
                ("admitted", used.frames_admitted, used.tokens_admitted),
                ("placed", used.frames_placed, used.tokens_placed),
            ):
                self._provider_frames[label, stage].value += frames
                self._tokens[label, stage].value += tokens
        if summary.rerank is not None:
            self._reranks[summary.rerank.name, str(summary.rerank.outcome)].value += 1

    def recorded(self, state: AuditState, seconds: float) -> None:
        """Times the recording of a composition."""
        self._store_seconds[(str(state),)].observe(seconds, current_trace().kept_id)

    def lied(self, provider: str, reason: str) -> None:
        """Counts a lie."""
        self._lies[self.providers[provider], reason].value += 1

    def quarantined(self, provider: str) -> None:
        """Counts a provider that has to sit out."""
        self._quarantines[(self.providers[provider],)].value += 1

    def circuit_opened(self, provider: str) -> None:
        """Counts a circuit that opened."""
        self._circuits[(self.providers[provider],)].value += 1

    def attached(self, provider: str) -> str:
        """Counts an instance that attached; what :meth:`detached` is to be given."""
        label = self.providers.learn(provider)
        self._instances[(label,)].value += 1
        return label

    def detached(self, label: str) -> None:
        """Counts it no more."""
        self._instances[(label,)].value -= 1

    def lagged(self, seconds: float) -> None:
        """Notes how late the event loop was, in seconds from 0."""
        self._lag.observe(seconds)

    def set(self, values: Mapping[str, float]) -> None:
        """Notes what was measured of the broker just now, by the names in :data:`GAUGES`."""
        for name, value in values.items():
            self._gauges[name].value = value

    def _counter(self, name: str, text: str, *labels: str) -> defaultdict[Labels, Tally]:
        return counters(self.registry, f"{PREFIX}_{name}", text, *labels)

    def _gauge(self, name: str, text: str, *labels: str) -> defaultdict[Labels, Tally]:
        return gauges(self.registry, f"{PREFIX}_{name}", text, *labels)

    def _histogram(
        self, name: str, text: str, *labels: str, bounds: Sequence[float] = SECONDS
    ) -> defaultdict[Labels, Spread]:
        return histograms(self.registry, f"{PREFIX}_{name}", text, *labels, bounds=bounds)
