"""Every query of the dashboard and of the alerts is about metrics and labels that a running broker really has.

Those metrics are read off a real broker that has composed, refused and lied to; and a real Prometheus that scrapes it
answers every panel.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import socket
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
import yaml
from msgspec.structs import replace

from broker.config import Config
from broker.rpc.server import Broker
from broker.telemetry.metrics import Metrics
from tests.deploy.conftest import DEPLOY
from tests.rpc.peers import LaneEnded, Peer, frames

DASHBOARD: dict[str, Any] = json.loads((DEPLOY / "grafana" / "context-broker.json").read_text())
RULES: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load((DEPLOY / "prometheus" / "alerts.yaml").read_text())["groups"]
    for rule in group["rules"]
]
SCRAPED = {"instance", "job", "le"}
"""Labels that a scrape adds, and a histogram's own."""

UP = {"up"}
PATIENCE = 60.0


def panel_queries() -> Iterator[tuple[str, str]]:
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield f"{panel['title']} {target['refId']}", target["expr"]


QUERIES = [*panel_queries(), *((rule["alert"], rule["expr"]) for rule in RULES)]


@pytest.fixture
def broker_config() -> Config:
    return Config(
        server={"listen": "127.0.0.1:0"},
        admin={"listen": "127.0.0.1:0"},
        auth={},
        conduct={"breaker_failures": 1},
    )


@pytest.fixture
async def used(broker: Broker) -> AsyncIterator[Broker]:
    """A broker that has composed, reranked, refused a request, and caught a liar."""
    async with grpc.aio.insecure_channel(broker.address) as channel:
        peer = Peer(channel)
        good, liar = await peer.attach("good"), await peer.attach("liar")
        composing = asyncio.create_task(peer.compose(max_tokens=500))
        asks = [await provider.hear_ask() for provider in (good, liar)]
        (frame,) = frames(("a", 0.5))
        for provider, ask, sent in zip((good, liar), asks, (frame, replace(frame, token_cost=999)), strict=True):
            await provider.frames(ask.query_id, [sent])
            await provider.say(LaneEnded(ask.query_id))
        await composing
        await peer.compose(max_tokens=1)
        await peer.providers()
        yield broker


async def fetched(url: str) -> str:
    def fetch() -> str:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.read().decode()

    return await asyncio.to_thread(fetch)


@pytest.fixture
async def exposed(used: Broker) -> set[str]:
    """Names of the samples that the broker exposes or will, by the families that it declares."""
    text = await fetched(f"http://{used.admin_address}/metrics")
    found = set()
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE):
        # A query names samples; the page that is asked for has them as OpenMetrics' older form does.
        suffixes = ("_bucket", "_sum", "_count") if kind == "histogram" else ("",)
        found |= {name + suffix for suffix in suffixes}
    return found


def names(query: str) -> set[str]:
    return set(re.findall(r"\b(?:context_broker|process)_\w+|\bup(?=\{)", query))


def labels(query: str) -> set[str]:
    grouped = {label.strip() for group in re.findall(r"\b(?:by|on) \(([^)]*)\)", query) for label in group.split(",")}
    return grouped | set(re.findall(r"(\w+)!?=~?\"", query))


async def test_every_query_is_about_metrics_that_a_running_broker_has(exposed: set[str]) -> None:
    for title, query in QUERIES:
        assert names(query), title
        assert names(query) <= exposed | UP, title


def test_every_label_is_one_that_its_metric_has() -> None:
    declared = Metrics().registry._names_to_collectors
    for title, query in QUERIES:
        known = SCRAPED | {
            label for name in names(query) - UP if name in declared for label in declared[name].label_names
        }
        assert labels(query) <= known, title


def test_every_metric_of_the_brokers_own_is_on_the_dashboard_or_in_an_alert() -> None:
    used = {name for _, query in QUERIES for name in names(query)}
    left = {"context_broker_build_info", "context_broker_calls_in_flight", "context_broker_sessions"}
    left |= {"context_broker_sessions_limit", "context_broker_held_limit_bytes", "context_broker_push_held_limit_bytes"}
    left |= {"context_broker_memory_limit_bytes"}
    for family in Metrics().registry.collect():
        if family.name.startswith("context_broker"):
            shown = {f"{family.name}{suffix}" for suffix in ("", "_total", "_bucket", "_info")}
            assert shown & (used | left), family.name


async def test_a_running_prometheus_answers_every_panel(used: Broker, tmp_path: Path) -> None:
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("prometheus is not installed")
    scraping = {"job_name": "context-broker", "static_configs": [{"targets": [used.admin_address]}]}
    config = {"global": {"scrape_interval": "1s"}, "scrape_configs": [scraping]}
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{probe.getsockname()[1]}"
    process = await asyncio.create_subprocess_exec(
        program,
        f"--config.file={tmp_path / 'prometheus.yml'}",
        f"--storage.tsdb.path={tmp_path / 'data'}",
        f"--web.listen-address={place}",
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )

    async def ask(query: str) -> list[Any]:
        asked = urllib.parse.urlencode({"query": query})
        answer = json.loads(await fetched(f"http://{place}/api/v1/query?{asked}"))
        assert answer["status"] == "success"
        return answer["data"]["result"]

    async def scraped_twice() -> bool:
        try:
            return bool(await ask("count_over_time(context_broker_ready[1m]) >= 2"))
        except OSError:
            return False

    try:
        async with asyncio.timeout(PATIENCE):
            while not await scraped_twice():  # noqa: ASYNC110 - it tells no one
                await asyncio.sleep(0.1)
        answered = {
            title: await ask(query.replace("$__rate_interval", "1m").replace("$instance", ".*"))
            for title, query in panel_queries()
        }
    finally:
        process.terminate()
        await process.wait()
    # What did not happen here has no series; all else is shown.
    empty = {title for title, found in answered.items() if not found}
    assert {title for title in empty if not title.startswith(("Rerankings", "Lies"))} == set()
