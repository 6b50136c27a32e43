"""The tools measure what they say: the floor relays every byte, both sides answer, and a fall is found."""

from __future__ import annotations

import json
from pathlib import Path

import grpc.aio
import pytest
from contextbroker.v1 import context_service_pb2 as pb
from contextbroker.v1.frame_pb2 import Frame
from hypothesis import given
from hypothesis import strategies as st

from broker.core.composition import Composition
from broker.core.frames import content_digest, content_tokens
from broker.wire import schema
from broker.wire.batches import split_batch
from broker.wire.compositions import CompositionReader
from broker.wire.frames import frame_value, read_frame
from tests.bench import growth, history, peers
from tests.bench.asking import COMPOSE, quantile
from tests.bench.crowded import crowded
from tests.bench.growth import beside_stages, exponent, stages
from tests.bench.loads import LOADS, Load, code, prose, provider_batches, provider_frames, question
from tests.bench.reach import GOALS, table
from tests.bench.rounds import measured, ratios
from tests.bench.servers import servers
from tests.bench.watching import Seen, lag_quantile

TINY = Load("tiny", 3, 4, 300, 2, batch=3)


def test_what_providers_send_is_honest_and_in_batches_of_the_loads_size():
    batches = [split_batch(batch) for batch in provider_batches(TINY, 1)]
    assert [len(batch) for batch in batches] == [3, 1]
    assert [data for batch in batches for data in batch] == provider_frames(TINY, 1)
    for data in provider_frames(TINY, 1):
        frame = read_frame(data, 10_000)
        assert len(frame.content) == TINY.content_bytes
        assert frame.token_cost == content_tokens(TINY.content_bytes)
        assert frame.content_digest == content_digest(frame.content)


@given(st.text(), st.integers(0, 5000))
def test_contents_have_as_many_bytes_as_the_load_says(seed: str, size: int):
    assert len(prose(seed, size).encode()) == len(code(seed, size).encode()) == size
    assert code(seed, size) == code(seed, size)


def test_code_is_of_what_has_to_be_escaped():
    text = code("seed", 5000)
    assert all(sign in text for sign in "<&`")
    assert not text.isascii()
    frames = {True: provider_frames(LOADS["code"], 0), False: provider_frames(LOADS["typical"], 0)}
    assert {frame_value(_parsed(data)).content.isascii() for data in frames[False]} == {True}
    assert {frame_value(_parsed(data)).content.isascii() for data in frames[True]} == {False}


def test_the_loads_are_those_that_are_promised():
    shapes = {name: (load.providers, load.frames, load.content_bytes, load.concurrency) for name, load in LOADS.items()}
    assert shapes["typical"] == (4, 25, 1024, 8)
    assert shapes["small"] == (3, 5, 512, 1)
    assert shapes["heavy"] == (16, 200, 2048, 4)


async def test_both_sides_answer_with_every_frame(tmp_path: Path):
    sent = {frame_value(_parsed(data)).id for place in range(TINY.providers) for data in provider_frames(TINY, place)}
    async with servers(TINY, tmp_path) as processes:
        answers = {}
        for name, process in processes.items():
            async with grpc.aio.insecure_channel(process.address) as channel:
                answers[name] = [part async for part in channel.unary_stream(COMPOSE)(question(TINY), timeout=30)]
    relayed = [data for part in answers["floor"] for data in schema.PushBatch.FromString(part).frames]
    assert {frame_value(_parsed(data)).id for data in relayed} == sent
    composition = _read(answers["broker"])
    assert {placed.frame.id for placed in composition.placed} == sent
    assert {lane.end.value for lane in composition.summary.lanes} == {"COMPLETE"}
    assert composition.audit_state.value == "RECORDED"


async def test_a_load_gives_a_line_of_figures_and_ratios(tmp_path: Path):
    line = await measured(TINY, tmp_path, rounds=1, seconds=0.2)
    assert json.loads(json.dumps(line)) == line
    assert set(line["ratios"]) == {"rate", "cpu", "p50", "p99", "bytes"}
    assert line["floor"]["requests"] >= 1
    assert line["broker"]["requests"] >= 1
    assert 0 <= line["broker"]["lag_p99_ms"] < 1000
    assert line["broker"]["lag_max_ms"] >= 0
    assert line["broker"]["peak_mb"] >= line["broker"]["resident_mb"] > 10
    assert line["broker"]["peak_per_held"] > 0
    (head, row) = table([line]).splitlines()
    assert head.split()[0] == "load"
    assert row.split()[0] == "tiny"


async def test_a_request_beside_a_crowd_is_measured(tmp_path: Path):
    line = await crowded(tmp_path, 20, seconds=0.3)
    assert line["crowd"] == 20
    assert line["cpu_ms"] > 0
    assert line["p99_ms"] >= line["p50_ms"] > 0
    assert line["resident_mb"] > 10


def test_lag_is_read_as_the_histogram_has_it():
    before = Seen({0.001: 10.0, 0.005: 10.0, float("inf"): 10.0}, 0.0)
    after = Seen({0.001: 60.0, 0.005: 110.0, float("inf"): 110.0}, 0.004)
    assert lag_quantile(before, after, 0.5) == 0.001
    assert lag_quantile(before, after, 0.99) == pytest.approx(0.00492)
    slow = Seen({0.001: 10.0, 0.005: 10.0, float("inf"): 20.0}, 3.0)
    assert lag_quantile(before, slow, 0.99) == 0.005, "as much as is known"
    assert lag_quantile(before, before, 0.99) == 0.0


def test_the_table_says_what_was_reached():
    assert GOALS.keys() <= LOADS.keys()
    ratios = dict.fromkeys(("rate", "cpu", "p50", "p99"), 1.0)
    broker = dict.fromkeys(("lag_p99_ms", "lag_max_ms", "peak_per_held"), 4.0)
    lines = [{"load": name, "ratios": ratios, "broker": broker} for name in LOADS]
    rows = {row.split()[0]: row for row in table(lines).splitlines()[1:]}
    assert rows.keys() == LOADS.keys()
    assert rows["typical"].endswith("rate >= 0.6: met")
    assert rows["heavy"].endswith("rate >= 0.45: met, lag_p99_ms <= 5: met")
    assert rows["heavy-whole"].endswith("peak_per_held <= 3: NOT MET (4.00)")


def test_ratios_are_medians_of_each_rounds_own():
    keys = ("per_second", "cpu_ms", "p50_ms", "p99_ms", "answer_bytes")
    taken = {
        "broker": [dict.fromkeys(keys, value) for value in (1.0, 20.0, 3.0)],
        "floor": [dict.fromkeys(keys, value) for value in (2.0, 10.0, 4.0)],
    }
    assert ratios(taken)["rate"] == 0.75


def test_quantiles_are_values_that_were_measured():
    assert quantile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert quantile([3.0, 1.0, 2.0], 0.99) == 3.0


def line(load: str = "typical", **ratios: float) -> dict[str, object]:
    return {"load": load, "version": "1", "ratios": {"rate": 0.5, "cpu": 2.0, "p50": 2.0, "p99": 3.0, **ratios}}


def test_the_last_kept_line_of_a_load_counts(tmp_path: Path):
    assert history.kept(tmp_path / "none") == {}
    history.keep(tmp_path / "some", [line(rate=0.1), line("small")])
    history.keep(tmp_path / "some", [line(rate=0.4)])
    assert history.kept(tmp_path / "some")["typical"]["ratios"]["rate"] == 0.4


@pytest.mark.parametrize(
    ("changed", "fallen"),
    [
        ({}, 0),
        ({"rate": 0.451}, 0),
        ({"rate": 0.449}, 1),
        ({"cpu": 2.2}, 0),
        ({"cpu": 2.3, "p50": 2.3}, 2),
        ({"rate": 0.9, "cpu": 1.0, "p99": 9.0}, 0),
    ],
)
def test_a_fall_by_more_than_a_tenth_is_told(changed: dict[str, float], fallen: int):
    assert len(history.falls({"typical": line()}, [line(**changed), line("new", rate=0.0)])) == fallen


def test_every_stage_of_growth_is_timed():
    assert set(stages(TINY, repeats=1)) == {
        "read",
        "check",
        "rank",
        "finish",
        "encode",
    }
    assert set(beside_stages(TINY, repeats=2)) == {"record", "tell"}


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_an_exponent_is_that_of_the_power(power: float):
    assert exponent([(x, 3 * x**power) for x in (10.0, 100.0, 1000.0)]) == pytest.approx(power)
    assert growth.SERIES.keys() == {"frames", "providers", "content_bytes"}


def test_this_cores_own_steps_are_compared_whatever_is_installed():
    compared = peers.compared(160, repeats=1)
    assert {"core round_robin", "core reciprocal_rank_fusion"} <= set(compared["multiples"])
    assert set(compared["multiples"]) | set(compared["not_installed"]) == set(peers.PEERS)


def _parsed(data: bytes) -> Frame:
    return Frame.FromString(data)


def _read(parts: list[bytes]) -> Composition:
    reader = CompositionReader()
    for part in parts:
        reader.take(pb.ComposeResponse.FromString(part))
    return reader.result()
