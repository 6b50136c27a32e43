"""What ``top`` shows: a broker's figures of the last moments, and a line for each provider."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from broker.cli.figures import Change
from broker.cli.output import Cell, Column, Style, table
from broker.cli.text import clean

if TYPE_CHECKING:
    from broker.client import ListedProvider

_ENDS = ("COMPLETE", "EMPTY", "PARTIAL", "TIMED_OUT", "FAILED", "LOST", "REFUSED", "QUARANTINED")
_MIB = 1024 * 1024


def record(change: Change, providers: Sequence[ListedProvider]) -> dict[str, Any]:
    """All figures, as JSON has them; rates are per second, times in milliseconds, None where nothing was seen."""
    now, rate = change.now, change.rate
    return {
        "ready": now.value("ready") > 0,
        "requests": {
            "in_flight": int(now.value("requests_in_flight")),
            "limit": int(now.value("requests_limit")),
            "per_second": rate("compositions_total"),
            "refused_per_second": rate("refusals_total", method="Compose"),
            "degraded_per_second": rate("compositions_total", audit="DEGRADED"),
            "p50_ms": _ms(change.quantile(0.5, "call_seconds", method="Compose")),
            "p99_ms": _ms(change.quantile(0.99, "call_seconds", method="Compose")),
        },
        "lanes": {
            "open": int(now.value("lanes_in_flight")),
            "per_second": {end: rate("lanes_total", end=end) for end in _ENDS if now.value("lanes_total", end=end)},
        },
        "sessions": int(now.value("sessions")),
        "memory_bytes": int(now.value("memory_bytes")),
        "memory_shed_bytes": int(now.value("memory_shed_bytes")),
        "loop_lag_p99_ms": _ms(change.quantile(0.99, "event_loop_lag_seconds")),
        "store_p99_ms": _ms(change.quantile(0.99, "store_record_seconds")),
        "providers": [_provider(each, change) for each in providers],
    }


def _provider(provider: ListedProvider, change: Change) -> dict[str, Any]:
    name, rate = provider.provider, change.rate
    return {
        "provider": name,
        "instances": len(provider.instances),
        "in_flight": sum(instance.in_flight for instance in provider.instances),
        "max_in_flight": sum(instance.max_in_flight for instance in provider.instances),
        "quarantined_seconds": provider.quarantined_seconds,
        "circuit_open_seconds": provider.circuit_open_seconds,
        "lanes_per_second": rate("lanes_total", provider=name),
        "late_per_second": sum(rate("lanes_total", provider=name, end=end) for end in ("PARTIAL", "TIMED_OUT")),
        "p99_ms": _ms(change.quantile(0.99, "lane_seconds", provider=name)),
        "lies": int(change.now.value("lies_total", provider=name)),
        "offered_per_second": rate("provider_frames_total", provider=name, stage="offered"),
        "placed_per_second": rate("provider_frames_total", provider=name, stage="placed"),
    }


def lines(shown: dict[str, Any], address: str, style: Style) -> list[str]:
    """The figures for people, no wider than the style's width where that is possible."""
    requests, lanes = shown["requests"], shown["lanes"]
    state = style.paint("ready", "green") if shown["ready"] else style.paint("not ready", "red", bold=True)
    ends = "  ".join(f"{end} {_rate(value)}" for end, value in lanes["per_second"].items())
    memory = f"{shown['memory_bytes'] / _MIB:,.0f} MiB of {shown['memory_shed_bytes'] / _MIB:,.0f}"
    times = f"p50 {_time(requests['p50_ms'])}  p99 {_time(requests['p99_ms'])}"
    failed = f"refused {_rate(requests['refused_per_second'])}  unrecorded {_rate(requests['degraded_per_second'])}"
    flight = f"{requests['in_flight']} of {requests['limit']} in flight"
    waits = f"loop lag {_time(shown['loop_lag_p99_ms'])}  store {_time(shown['store_p99_ms'])}"
    return [
        f"{clean(address)}  {state}",
        f"requests  {flight}  {_rate(requests['per_second'])}  {times}  {failed}",
        f"lanes     {lanes['open']} open  {ends}".rstrip(),
        f"process   memory {memory}  sessions {shown['sessions']}  {waits}",
        "",
        *table(_COLUMNS, [list(_row(each)) for each in shown["providers"]], style, indent=0),
    ]


_COLUMNS = (
    Column("provider", gives=1),
    Column("state"),
    Column("load", right=True),
    Column("lanes", right=True),
    Column("late", right=True),
    Column("p99", right=True),
    Column("lies", right=True),
    Column("offered", right=True),
    Column("placed", right=True),
)


def _row(provider: dict[str, Any]) -> Iterable[str | Cell]:
    yield clean(provider["provider"])
    if provider["quarantined_seconds"]:
        yield Cell(f"sits out {provider['quarantined_seconds']:,} s", "red", bold=True)
    elif provider["circuit_open_seconds"]:
        yield Cell(f"fails, tried in {provider['circuit_open_seconds']} s", "yellow")
    else:
        count = provider["instances"]
        yield Cell(f"{count} attached", "green") if count else Cell("not attached", "yellow")
    yield f"{provider['in_flight']}/{provider['max_in_flight']}"
    yield _rate(provider["lanes_per_second"])
    yield _rate(provider["late_per_second"])
    yield _time(provider["p99_ms"])
    yield Cell(str(provider["lies"]), "red" if provider["lies"] else "")
    yield _rate(provider["offered_per_second"])
    yield _rate(provider["placed_per_second"])


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 1)


def _rate(value: float) -> str:
    return f"{value:,.0f}/s" if value >= 100 or value == 0 else f"{value:.1f}/s"


def _time(ms: float | None) -> str:
    return "-" if ms is None else f"{ms:,.0f} ms"
