"""The figures that are shown are those of the last moments, for people and as records; no name acts on a terminal."""

from __future__ import annotations

import json

from broker.cli.figures import Change, scraped
from broker.cli.output import Style
from broker.cli.top_view import lines, record
from broker.core.composition import AuditState
from broker.core.lanes import Lane, LaneEnd
from broker.core.scores import UNIT
from broker.telemetry.metrics import Metrics
from broker.wire.listings import ListedInstance, ListedProvider


def provider(name: str, **more: object) -> ListedProvider:
    instance = ListedInstance(instance="one", session="s", version="1", in_flight=2, max_in_flight=8, last_seen=1.0)
    given = {"instances": (instance,), "kinds": (), "scale": UNIT, "quarantined_seconds": 0, "last_seen": 1.0}
    return ListedProvider(provider=name, **{**given, "circuit_open_seconds": 0, **more})


def change() -> Change:
    """Of two seconds, in which one request was answered and one provider came too late."""
    from prometheus_client import generate_latest

    metrics = Metrics()
    metrics.attached("files")
    metrics.set({"ready": 1, "requests_in_flight": 3, "requests_limit": 512, "memory_bytes": 2**27})
    before = scraped(generate_latest(metrics.registry).decode(), 10.0)
    metrics.call_began("Compose")
    metrics.call_ended("Compose", "OK", "", 0.3)
    metrics.lane_ended(Lane("files", UNIT, LaneEnd.COMPLETE), 0.2)
    metrics.lane_ended(Lane("files", UNIT, LaneEnd.TIMED_OUT), 0.2)
    metrics.recorded(AuditState.RECORDED, 0.004)
    metrics.lied("files", "TOKEN_COST")
    return Change(before, scraped(generate_latest(metrics.registry).decode(), 12.0))


def test_a_record_holds_rates_times_and_each_provider() -> None:
    shown = record(change(), [provider("files"), provider("gone", instances=())])
    json.dumps(shown, allow_nan=False)
    assert shown["ready"] is True
    assert (shown["requests"]["in_flight"], shown["requests"]["limit"]) == (3, 512)
    assert 250 <= shown["requests"]["p99_ms"] <= 500
    assert shown["lanes"]["per_second"] == {"COMPLETE": 0.5, "TIMED_OUT": 0.5}
    assert 2.5 <= shown["store_p99_ms"] <= 5
    assert shown["loop_lag_p99_ms"] is None
    files, gone = shown["providers"]
    assert (files["instances"], files["in_flight"], files["max_in_flight"]) == (1, 2, 8)
    assert (files["lanes_per_second"], files["late_per_second"], files["lies"]) == (1.0, 0.5, 1)
    assert (gone["instances"], gone["lanes_per_second"], gone["p99_ms"]) == (0, 0.0, None)


def test_people_see_the_same_within_the_width_of_their_screen() -> None:
    providers = [
        provider("files"),
        provider("liar", quarantined_seconds=60),
        provider("frail", circuit_open_seconds=5),
        provider("gone", instances=()),
    ]
    text = lines(record(change(), providers), "127.0.0.1:7433", Style(width=100))
    assert text[0] == "127.0.0.1:7433  ready"
    assert "3 of 512 in flight" in text[1]
    assert "COMPLETE 0.5/s" in text[2]
    assert "128 MiB" in text[3]
    states = {line.split()[0]: line for line in text[5:]}
    assert "1 attached" in states["files"]
    assert "2/8" in states["files"]
    assert "sits out 60 s" in states["liar"]
    assert "tried in 5 s" in states["frail"]
    assert "not attached" in states["gone"]
    assert all(len(line) <= 100 for line in text[5:])


def test_a_name_cannot_act_on_a_terminal() -> None:
    text = "\n".join(lines(record(change(), [provider("a\x1b[2Jb")]), "x\x1b:1", Style()))
    assert "\x1b" not in text
