"""Pushes wait for a bounded time and within a bounded size, and give both back on every path."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.scores import UNIT
from broker.errors import AlreadyExists, ResourceExhausted
from broker.gather.fabric import Push, PushKey
from broker.gather.pushes import ENTRY_BYTES, Pushes
from tests.gather.support import FakeClock, Recorder

KEY = PushKey("", "r1", "a")


def push(*sizes):
    return Push(UNIT, tuple(b"x" * size for size in sizes))


def test_early_pushes_count_their_bytes_and_are_refused_beyond_the_limit():
    pushes = Pushes(FakeClock(), max_bytes=1000 + ENTRY_BYTES)
    pushes.hold(KEY, push(400, 600), 30)
    assert pushes.bytes == 1000 + ENTRY_BYTES
    with pytest.raises(ResourceExhausted) as caught:
        pushes.hold(PushKey("", "r2", "a"), push(0), 30)
    assert caught.value.reason == "PUSH_BYTES"
    assert caught.value.quota
    assert caught.value.retry_after is not None


def test_a_refused_push_leaves_nothing_and_may_come_again():
    pushes = Pushes(FakeClock(), max_bytes=1000)
    with pytest.raises(ResourceExhausted):
        pushes.hold(KEY, push(1000), 30)
    assert pushes.bytes == 0
    pushes.hold(KEY, push(1), 30)


def test_taking_a_push_frees_its_bytes_and_its_key_stays_for_its_time():
    clock = FakeClock()
    pushes = Pushes(clock)
    pushes.hold(KEY, push(1000), 30)
    pushes.expect(KEY, Recorder())
    clock.settle()
    assert (pushes.bytes, pushes.waiting) == (ENTRY_BYTES, 0)
    with pytest.raises(AlreadyExists):
        pushes.check(KEY)
    clock.advance(30)
    assert pushes.bytes == 0
    pushes.check(KEY)


def test_what_expires_goes_by_itself_even_if_nothing_else_happens():
    clock = FakeClock()
    pushes = Pushes(clock)
    pushes.hold(KEY, push(10), 30)
    pushes.hold(PushKey("", "r2", "a"), push(10), 5)
    clock.advance(5)
    assert pushes.bytes == 10 + ENTRY_BYTES
    clock.advance(25)
    assert (pushes.bytes, clock.pending) == (0, 0)


def test_a_push_that_was_promised_is_not_lost_to_its_expiry():
    clock = FakeClock()
    pushes = Pushes(clock)
    pushes.hold(KEY, push(10), 30)
    clock.advance(29.999)
    sink = Recorder()
    pushes.expect(KEY, sink)
    clock.now += 1
    pushes.check(KEY)
    clock.settle()
    assert len(sink.batches) == 1
    assert pushes.bytes == 0


def test_a_push_that_is_being_read_takes_room_and_gives_it_back():
    pushes = Pushes(FakeClock(), max_bytes=1000)
    with pushes.reading("") as reading:
        reading.add(b"x" * 600)
        with pushes.reading("") as other:
            other.add(b"x" * 300)
            with pytest.raises(ResourceExhausted):
                other.add(b"x" * 300)
        assert pushes.bytes == 600
        assert reading.finish() == (b"x" * 600,)
        assert pushes.bytes == 0
    assert pushes.bytes == 0


def test_one_tenants_flood_leaves_room_for_another():
    pushes = Pushes(FakeClock(), max_bytes=100 * ENTRY_BYTES, tenant_bytes=60 * ENTRY_BYTES)
    for number in range(60):
        pushes.hold(PushKey("loud", f"r{number}", "a"), push(0), 30)
    with pytest.raises(ResourceExhausted) as caught:
        pushes.hold(PushKey("loud", "r60", "a"), push(0), 30)
    assert caught.value.quota == "limits.tenant_push_hold_bytes"
    assert pushes.bytes == 60 * ENTRY_BYTES
    pushes.hold(PushKey("quiet", "r1", "a"), push(10 * ENTRY_BYTES), 30)
    with pytest.raises(ResourceExhausted), pushes.reading("loud") as reading:
        reading.add(b"x")


def test_a_push_that_is_read_to_its_end_can_be_held():
    pushes = Pushes(FakeClock(), max_bytes=1000 + ENTRY_BYTES)
    with pushes.reading("") as reading:
        reading.add(b"x" * 1000)
        pushes.hold(KEY, Push(UNIT, reading.finish()), 30)
    assert pushes.bytes == 1000 + ENTRY_BYTES


def test_a_push_for_a_request_that_does_not_expect_its_provider_is_answered_alike():
    """H58: held its time, then dropped; it joins no lane."""
    clock = FakeClock()
    pushes = Pushes(clock)
    sink = Recorder()
    pushes.expect(PushKey("", "r1", "b"), sink)
    pushes.hold(KEY, push(10), 30)
    clock.advance(30)
    assert sink.calls == []
    assert pushes.bytes == 0


@given(
    st.lists(
        st.tuples(st.sampled_from(["hold", "expect", "unexpect", "advance", "settle"]), st.integers(0, 2)),
        max_size=40,
    )
)
def test_any_history_delivers_each_push_at_most_once_and_leaves_nothing(history):
    clock = FakeClock()
    pushes = Pushes(clock, max_bytes=10 * ENTRY_BYTES)
    sinks: list[Recorder] = []
    sent = 0
    for action, which in history:
        key = PushKey("", f"r{which}", "a")
        try:
            if action == "hold":
                pushes.hold(key, Push(UNIT, (b"%d" % sent,)), 10.0 * (which + 1))
                sent += 1
            elif action == "expect":
                sink = Recorder()
                pushes.expect(key, sink)
                sinks.append(sink)
            elif action == "unexpect":
                pushes.unexpect(key)
            elif action == "advance":
                clock.advance(7)
            else:
                clock.settle()
        except (AlreadyExists, ResourceExhausted):
            continue
        assert 0 <= pushes.bytes <= 10 * ENTRY_BYTES
    for which in range(3):
        pushes.unexpect(PushKey("", f"r{which}", "a"))
    clock.advance(100)
    delivered = [data for sink in sinks for data in sink.batches]
    assert len(delivered) == len(set(delivered)) <= sent
    assert all(len(sink.endings) <= 1 for sink in sinks)
    assert (pushes.bytes, pushes.waiting, clock.pending) == (0, 0, 0)


def test_other_bounds_hold_for_pushes_that_come_from_then_on():
    pushes = Pushes(FakeClock(), max_bytes=100 + ENTRY_BYTES)
    pushes.configure(max_bytes=1000 + ENTRY_BYTES, tenant_bytes=1000 + ENTRY_BYTES)
    pushes.hold(KEY, push(1000), 30)
    pushes.configure(max_bytes=100, tenant_bytes=100)
    assert pushes.bytes == 1000 + ENTRY_BYTES
    with pytest.raises(ResourceExhausted):
        pushes.hold(PushKey("", "r2", "a"), push(0), 30)
