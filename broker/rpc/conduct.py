"""The operator's rules of conduct, and what the log says of providers that break them."""

from __future__ import annotations

import structlog

from broker.gather.circuit import CircuitRules
from broker.gather.gathering import LieReport
from broker.gather.quarantine import ConductRules
from broker.settings import Conduct
from broker.telemetry.metrics import Metrics

log = structlog.get_logger("broker.rpc")


def conduct_rules(conduct: Conduct) -> ConductRules:
    """How long who sits out."""
    return ConductRules(
        first=conduct.quarantine_seconds,
        longest=conduct.max_quarantine_seconds,
        forgiven_after=conduct.forgive_seconds,
        circuit=circuit_rules(conduct),
        patience=conduct.breaker_patience_seconds,
    )


def circuit_rules(conduct: Conduct) -> CircuitRules:
    """When failures open a circuit."""
    return CircuitRules(
        failures=conduct.breaker_failures,
        seconds=conduct.breaker_seconds,
        longest=conduct.max_breaker_seconds,
    )


def report_lie(metrics: Metrics, tenant: str, report: LieReport) -> None:
    """Says that a provider lied, and nothing of any frame."""
    metrics.lied(report.provider, report.lie.reason)
    if report.sits_out > 0:
        metrics.quarantined(report.provider)
    log.warning(
        "provider lied",
        tenant=tenant,
        provider=report.provider,
        instance=None if report.instance is None else report.instance.instance,
        session=None if report.instance is None else report.instance.session,
        violation=report.lie.reason,
        offered=report.offered,
        sits_out_seconds=report.sits_out,
    )


def report_circuit(metrics: Metrics, tenant: str, provider: str, failures: int, seconds: float) -> None:
    """Says that a provider's circuit has opened."""
    metrics.circuit_opened(provider)
    log.warning(
        "provider keeps failing and is left alone",
        tenant=tenant,
        provider=provider,
        failures=failures,
        seconds=seconds,
    )
