"""What one caller may have is counted exactly, refused beyond, and given back whatever becomes of a call."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from contextlib import ExitStack

import pytest
from google.rpc import error_details_pb2

from broker.auth.caller import Caller, Role, anonymous
from broker.config import Config
from broker.core.frames import Frame
from broker.errors import InvalidArgument, ResourceExhausted
from broker.limits.memory import MemoryWatch
from broker.rpc.quotas import Quotas, spread
from broker.rpc.server import Broker
from broker.settings import Limits
from broker.wire.events import Ask, Cancel, Hello, LaneEnded
from broker.wire.sessions import attach_request
from tests.rpc.peers import ATTACH, COMPOSE, SAFETY, Answer, Peer, compose_bytes, frames, lanes

Connect = Callable[[], Awaitable[Peer]]
LONG = 20.0


def config(**limits: object) -> Config:
    return Config(server={"listen": "127.0.0.1:0"}, limits=limits)


def quotas(broker: Broker) -> Quotas:
    assert broker._running is not None
    return broker._running.serving.quotas


def nothing_is_taken(of: Quotas) -> bool:
    shares = (of.held, of._requests, of._calls, of._sessions, of._of_connection, of._of_provider, of._health)
    return all(one.used == 0 and not one._held for one in shares)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(SAFETY):
        while not condition():  # noqa: ASYNC110 - the broker tells no one
            await asyncio.sleep(0.01)


def refused(answer: Answer, reason: str, quota: str) -> ResourceExhausted:
    """The refusal, with the details that every client can read."""
    error = answer.error
    assert isinstance(error, ResourceExhausted), error
    assert (error.reason, error.quota) == (reason, quota)
    assert answer.details is not None
    kinds = [detail.type_url.rpartition(".")[2] for detail in answer.details.details]
    assert kinds == ["ErrorInfo", "RetryInfo", "QuotaFailure"]
    failure = error_details_pb2.QuotaFailure.FromString(answer.details.details[2].value)
    assert [violation.subject for violation in failure.violations] == [quota]
    assert quota in error.message
    assert error.retry_after is not None
    assert error.retry_after > 0
    return error


# --- requests in flight


class TestFiveRequests:
    @pytest.fixture
    def broker_config(self) -> Config:
        return config(tenant_requests=5)

    async def test_of_twenty_at_once_five_run_wave_after_wave(self, broker: Broker, peer: Peer) -> None:
        """grpc/grpc#41531, and H75 in small."""
        provider = await peer.attach("a", max_in_flight=20)
        for _ in range(3):
            wave = [asyncio.create_task(peer.compose(collect_timeout=LONG)) for _ in range(20)]
            asks = [await provider.hear_ask() for _ in range(5)]
            await until(lambda wave=wave: sum(call.done() for call in wave) == 15)
            turned_away = [call.result() for call in wave if call.done()]
            errors = [refused(answer, "REQUESTS_IN_FLIGHT", "limits.tenant_requests") for answer in turned_away]
            assert len({error.retry_after for error in errors}) > 1, "they must not come back all at once"
            running = [call for call in wave if not call.done()]
            for ask in asks:
                await provider.frames(ask.query_id, frames(("x", 0.5)))
                await provider.say(LaneEnded(ask.query_id))
            answered = await asyncio.gather(*running)
            assert [lanes(answer.composition()) for answer in answered] == [{"a": "COMPLETE"}] * 5
            empty = await asyncio.gather(*(peer.call(COMPOSE) for _ in range(5)))
            assert [getattr(answer.error, "reason", None) for answer in empty] == ["NO_MESSAGE"] * 5
        provider.call.cancel()
        await until(lambda: nothing_is_taken(quotas(broker)))

    async def test_calls_that_say_nothing_take_no_ones_place(self, broker: Broker, peer: Peer) -> None:
        """H4: a call holds a place among the requests once it has asked something, and not before."""
        provider = await peer.attach("a")
        silent = [peer.open(COMPOSE) for _ in range(10)]
        for call in silent:
            await call.write(compose_bytes())
        asked = asyncio.create_task(peer.compose())
        await provider.answer(frames(("x", 0.5)))
        assert (await asked).composition().placed
        for call in silent:
            call.cancel()
        provider.call.cancel()
        await until(lambda: nothing_is_taken(quotas(broker)))

    async def test_whatever_becomes_of_a_request_its_place_is_free_again(self, broker: Broker, peer: Peer) -> None:
        provider = await peer.attach("a", max_in_flight=100)
        bad = [
            peer.call(COMPOSE, b"\xff"),
            peer.compose(max_tokens=1),
            peer.compose(providers=("x",)),
            peer.call(COMPOSE),
        ]
        assert all(answer.error is not None for answer in await asyncio.gather(*bad))
        assert (await peer.compose(collect_timeout=0.05)).error is not None
        assert isinstance(await provider.hear(), Ask)
        assert isinstance(await provider.hear(), Cancel)
        left = [await peer.composing(collect_timeout=LONG) for _ in range(5)]
        for _ in left:
            await provider.hear_ask()
        for composing in left:
            composing.call.cancel()
        for _ in left:
            assert isinstance(await provider.hear(), Cancel)
        await until(lambda: quotas(broker)._requests.used == 0)
        asked = asyncio.create_task(peer.compose())
        await provider.answer(frames(("x", 0.5)))
        assert (await asked).composition().placed
        provider.call.cancel()
        await until(lambda: nothing_is_taken(quotas(broker)))


# --- calls and sessions


class TestFewCalls:
    @pytest.fixture
    def broker_config(self) -> Config:
        return config(tenant_calls_per_second=2, tenant_refusals_per_second=1000)

    async def test_who_calls_too_often_is_told_so_and_health_answers_all_the_same(self, peer: Peer) -> None:
        method = "/contextbroker.v1.ContextService/ListStrategies"
        answers = await asyncio.gather(*(peer.call(method, b"") for _ in range(40)))
        assert sum(answer.error is None for answer in answers) >= 2
        waits = [refused(answer, "CALL_RATE", "limits.tenant_calls_per_second") for answer in answers if answer.error]
        assert len({error.retry_after for error in waits}) > 1
        assert all(error.retry_after is not None and error.retry_after <= 1 for error in waits)
        assert (await peer.call("/grpc.health.v1.Health/Check", b"")).error is None


class TestThreeSessions:
    @pytest.fixture
    def broker_config(self) -> Config:
        return config(tenant_sessions=3, connection_sessions=2)

    async def test_sessions_are_taken_up_to_the_quota(self, broker: Broker, connect: Connect) -> None:
        """H74 in small."""
        one, other = await connect(), await connect()
        standing = [await one.attach(f"p{number}") for number in range(2)]
        hello = attach_request(Hello("p9", "one"))
        refused(await one.call(ATTACH, hello, end=False), "CONNECTION_SESSIONS", "limits.connection_sessions")
        standing.append(await other.attach("p2"))
        many = await asyncio.gather(*(other.call(ATTACH, hello, end=False) for _ in range(20)))
        errors = [refused(answer, "SESSIONS", "limits.tenant_sessions") for answer in many]
        assert len({error.retry_after for error in errors}) > 1
        standing[0].call.cancel()
        await until(lambda: quotas(broker)._sessions.used == 2)
        standing.append(await one.attach("p9"))
        for session in standing:
            session.call.cancel()
        await until(lambda: nothing_is_taken(quotas(broker)))


class TestTwoCalls:
    @pytest.fixture
    def broker_config(self) -> Config:
        return config(tenant_calls=2)

    async def test_calls_that_are_open_are_bounded_too(self, broker: Broker, peer: Peer) -> None:
        silent = [peer.open(COMPOSE) for _ in range(2)]
        await until(lambda: quotas(broker)._calls.used == 2)
        refused(await peer.compose(), "CALLS", "limits.tenant_calls")
        for call in silent:
            call.cancel()
        await until(lambda: nothing_is_taken(quotas(broker)))


# --- memory


async def test_a_broker_short_of_memory_takes_no_new_work_and_finishes_what_runs(broker: Broker, peer: Peer) -> None:
    """P8 in small."""
    provider = await peer.attach("a")
    running = asyncio.create_task(peer.compose(collect_timeout=LONG))
    ask = await provider.hear_ask()
    watched = quotas(broker)
    watched._memory = MemoryWatch(100, 0.9, lambda: 90)
    refused(await peer.compose(), "MEMORY", "limits.memory_bytes")
    refused(await peer.push("p", "r", frames(("x", 0.5))), "MEMORY", "limits.memory_bytes")
    assert set(await peer.providers()) == {"a"}
    other = await peer.attach("b")
    await provider.frames(ask.query_id, frames(("x", 0.5)))
    await provider.say(LaneEnded(ask.query_id))
    assert lanes((await running).composition()) == {"a": "COMPLETE"}
    watched._memory = MemoryWatch(100, 0.9, lambda: 89)
    assert (await peer.push("p", "r", frames(("x", 0.5)))).error is None
    for session in (provider, other):
        session.call.cancel()


class TestLittleRoom:
    @pytest.fixture
    def broker_config(self) -> Config:
        return config(tenant_held_bytes=4000)

    async def test_requests_hold_their_bytes_until_they_are_answered(self, broker: Broker, peer: Peer) -> None:
        provider = await peer.attach("a")
        large = {"goal": "x" * 3000, "collect_timeout": LONG}
        running = asyncio.create_task(peer.compose(**large))
        ask = await provider.hear_ask()
        refused(await peer.compose(**large), "HELD_BYTES", "limits.tenant_held_bytes")
        await provider.frames(ask.query_id, frames(("x", 0.5)))
        await provider.say(LaneEnded(ask.query_id))
        assert (await running).composition().placed
        provider.call.cancel()
        await until(lambda: nothing_is_taken(quotas(broker)))

    async def test_frames_that_there_is_no_room_for_cost_their_lane_alone(self, broker: Broker, peer: Peer) -> None:
        big, small = await peer.attach("big"), await peer.attach("small")
        asked = asyncio.create_task(peer.compose())
        await small.answer(frames(("x", 0.5)))
        ask = await big.hear_ask()
        await big.frames(ask.query_id, [Frame(id="y", title="y", content="z" * 5000, score=0.5)])
        composition = (await asked).composition()
        assert lanes(composition) == {"big": "FAILED", "small": "COMPLETE"}
        (said,) = [lane.message for lane in composition.summary.lanes if lane.provider == "big"]
        assert "no room" in said
        assert (await peer.providers())["big"].quarantined_seconds == 0
        for session in (big, small):
            session.call.cancel()
        await until(lambda: nothing_is_taken(quotas(broker)))


async def test_thirty_two_lanes_of_which_nearly_all_is_dropped_have_a_row_for_every_frame(peer: Peer) -> None:
    """H78."""
    names = [f"lane{number:02}" for number in range(32)]
    pairs = [(f"f{number}", 0.5) for number in range(64)]
    providers = {name: await peer.attach(name) for name in names}
    asked = asyncio.create_task(peer.compose(max_tokens=10_000, max_frames=5, collect_timeout=LONG))
    for name, provider in providers.items():
        await provider.answer([Frame(id=f, title=f, content=f"{name} {f}", score=score) for f, score in pairs])
    composition = (await asked).composition()
    rows = [(row.provider, row.frame_id) for row in composition.audit]
    assert sorted(rows) == sorted((name, f) for name in names for f, _ in pairs)
    assert sum(row.included for row in composition.audit) == 5
    for provider in providers.values():
        provider.call.cancel()


# --- without a wire


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def caller(tenant: str = "", connection: str = "ipv4:127.0.0.1:1") -> Caller:
    who = anonymous(connection, operates=False)
    return Caller(tenant, "someone", who.roles, who.providers, connection)


def test_a_tenants_quotas_are_its_own() -> None:
    of = Quotas(Limits(tenant_requests=1, tenant_calls=1, tenant_sessions=1, tenant_calls_per_second=3), Clock())
    with of.call("Compose", caller("loud")), of.request(caller("loud")), of.call("Attach", caller("loud")):
        with pytest.raises(ResourceExhausted) as own, of.call("Compose", caller("loud")):
            pass
        assert own.value.reason == "REQUESTS_IN_FLIGHT"
        with pytest.raises(ResourceExhausted) as rate, of.call("Compose", caller("loud")):
            pass
        assert rate.value.reason == "CALL_RATE"
        with of.call("Compose", caller("quiet")), of.request(caller("quiet")), of.call("Attach", caller("quiet")):
            pass
    assert nothing_is_taken(of)


def test_what_needs_no_credential_is_counted_by_connection() -> None:
    of = Quotas(Limits(tenant_calls_per_second=2), Clock())
    for connection in ("ipv4:127.0.0.1:1", "ipv4:127.0.0.1:2"):
        for _ in range(2):
            with of.call("Health.Check", caller("", connection)):
                pass
        with pytest.raises(ResourceExhausted), of.call("Health.Check", caller("", connection)):
            pass
    with of.call("Compose", caller("")):
        pass


def provider(subject: str) -> Caller:
    return Caller("blue", subject, frozenset({Role.PROVIDER}), ("a",), "ipv4:127.0.0.1:1")


def test_no_provider_takes_what_others_of_its_tenant_may_have() -> None:
    of = Quotas(Limits(provider_calls_per_second=2, provider_sessions=1), Clock())
    with of.call("Attach", provider("loud")):
        for reason, quota in (("PROVIDER_SESSIONS", "provider_sessions"), ("CALL_RATE", "provider_calls_per_second")):
            with pytest.raises(ResourceExhausted) as error, of.call("Attach", provider("loud")):
                pass
            assert (error.value.reason, error.value.quota) == (reason, f"limits.{quota}")
        with of.call("Attach", provider("quiet")):
            pass
        asks = Caller("blue", "asks", frozenset({Role.ORCHESTRATOR}), (), "ipv4:127.0.0.1:2")
        for _ in range(997):
            # All of its tenant's but the three that were within a provider's own bound.
            with of.call("ListProviders", asks):
                pass
        with pytest.raises(ResourceExhausted) as error, of.call("ListProviders", asks):
            pass
        assert error.value.quota == "limits.tenant_calls_per_second"
    assert nothing_is_taken(of)


async def test_strangers_are_paced_by_host_whatever_connections_they_come_from() -> None:
    of = Quotas(Limits(tenant_refusals_per_second=100), Clock())
    for port in range(100):
        await asyncio.wait_for(of.pace_stranger(f"ipv4:10.0.0.1:{port}"), SAFETY)
    waiting = asyncio.create_task(of.pace_stranger("ipv4:10.0.0.1:100"))
    await asyncio.sleep(0)
    assert not waiting.done()
    await asyncio.wait_for(of.pace_stranger("ipv4:10.0.0.2:1"), SAFETY)
    await asyncio.wait_for(of.pace("blue"), SAFETY)
    await asyncio.wait_for(waiting, SAFETY)


def test_what_needs_no_credential_takes_nothing_of_what_tenants_have() -> None:
    """Those that watch for ever, from however many connections of one host, leave room for all others to ask."""
    of = Quotas(Limits(calls=4, tenant_calls=4, health_calls=8, host_health_calls=2), Clock())
    with ExitStack() as open_calls:

        def opened(method: str, host: str) -> int:
            count = 0
            with contextlib.suppress(ResourceExhausted):
                for port in range(100):
                    open_calls.enter_context(of.call(method, caller("", f"{host}:{port}")))
                    count += 1
            return count

        assert opened("Health.Watch", "ipv4:10.0.0.1") == 2
        with pytest.raises(ResourceExhausted) as error, of.call("Health.Watch", caller("", "ipv4:10.0.0.1:9")):
            pass
        assert (error.value.reason, error.value.quota) == ("HEALTH_CALLS", "limits.host_health_calls")
        assert opened("Health.Check", "ipv4:10.0.0.1") == 2
        assert opened("Health.Watch", "ipv6:[::1]") == 2
        for _ in range(4):
            open_calls.enter_context(of.call("Compose", caller("tenant")))
    assert nothing_is_taken(of)


async def test_refusals_beyond_their_rate_wait_their_turn_and_no_others() -> None:
    of, slept = Quotas(Limits(tenant_refusals_per_second=100), Clock()), asyncio.Event()
    for _ in range(100):
        await asyncio.wait_for(of.pace("loud"), SAFETY)
    waiting = asyncio.create_task(of.pace("loud"))
    waiting.add_done_callback(lambda _: slept.set())
    await asyncio.sleep(0)
    assert not waiting.done()
    await asyncio.wait_for(of.pace("quiet"), SAFETY)
    await asyncio.wait_for(slept.wait(), SAFETY)


def test_a_retry_is_never_sooner_than_said_and_at_most_twice_as_late() -> None:
    for draw, expected in ((lambda low, _: low, 2.0), (lambda _, high: high, 4.0)):
        error = ResourceExhausted("R", "m", quota="q", retry_after=2.0)
        spread(error, draw)
        assert error.retry_after == expected
    never = ResourceExhausted("R", "m", quota="q")
    spread(never)
    assert never.retry_after is None


async def test_a_large_request_waits_for_its_end_within_its_callers_share(broker: Broker, peer: Peer) -> None:
    """Messages of calls that are never ended are held, and counted while they are."""
    call = peer.open(COMPOSE)
    await call.write(compose_bytes(goal="x" * 3000))
    await until(lambda: quotas(broker).held.used > 3000)
    call.cancel()
    await until(lambda: quotas(broker).held.used == 0)
    assert not isinstance((await peer.compose()).error, InvalidArgument)


def test_a_tenants_bound_above_that_of_all_is_that_of_all() -> None:
    of = Quotas(Limits(requests=2, tenant_requests=64, held_bytes=100), Clock())
    held = [of.request(caller()) for _ in range(2)]
    with pytest.raises(ResourceExhausted) as caught:
        of.request(caller())
    assert caught.value.quota == "limits.tenant_requests"
    assert (of.held.total, of.held.each) == (100, 100)
    for request in held:
        request.release()


def test_a_request_reserves_what_its_lanes_may_bring_and_the_largest_may_still_run() -> None:
    of = Quotas(Limits(held_bytes=8000, lane_bytes=500), Clock())
    with of.held.holding("") as modest, of.held.holding("") as large:
        of.reserve(modest, [10, 20, 1_000_000])
        assert modest.amount == 40 + 80 + 500
        of.reserve(large, [1_000_000] * 1000)
        assert large.amount == of.held.each // 8
        for _ in range(6):
            of.reserve(large, [1_000_000] * 1000)
        with pytest.raises(ResourceExhausted) as caught:
            of.reserve(large, [1_000_000] * 1000)
        assert (caught.value.reason, caught.value.quota) == ("HELD_BYTES", "limits.tenant_held_bytes")
    assert of.held.used == 0


def test_quotas_that_are_configured_anew_are_like_those_made_so() -> None:
    old = Limits()
    new = Limits(
        requests=7,
        tenant_requests=5,
        calls=11,
        tenant_calls=99,
        sessions=13,
        tenant_sessions=3,
        connection_sessions=50,
        memory_bytes=2**30,
        tenant_held_bytes=2**40,
        shed_at=0.5,
    )
    changed, made = Quotas(old, lambda: 0.0), Quotas(new, lambda: 0.0)
    changed.configure(new)

    def bounds(of: Quotas) -> list[tuple[int, int]]:
        shares = (of.held, of._requests, of._calls, of._sessions, of._of_connection)
        return [(one.each, one.total) for one in shares]

    assert bounds(changed) == bounds(made)
    assert changed._memory.limit == made._memory.limit == 2**30
