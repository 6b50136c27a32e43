"""The contract of the fabric port, to be run over every implementation of it.

A suite for an implementation is a subclass of :class:`FabricContract` that makes a :class:`Harness`. Nothing here knows
how a fabric works, and every wait is the harness's ``settle``.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.scores import UNIT, Direction, ScoreScale
from broker.errors import AlreadyExists, FailedPrecondition, ResourceExhausted, Unavailable
from broker.gather.fabric import Ending, Fabric, Push, PushKey
from broker.wire.events import Violation
from tests.contract.link import Fault
from tests.gather.support import QUERY, FakeClock, Recorder, ScriptedInstance

KEY = PushKey("", "r1", "a")
PUSH = Push(UNIT, (b"p1", b"p2"))
OTHER_SCALE = ScoreScale("bm25", 0.0, 100.0, Direction.LOWER_IS_BETTER)


class Harness(ABC):
    """One fabric under test and its time.

    ``clock`` is what the fabric measures by; ``settle`` returns once everything under way has arrived.
    """

    fabric: Fabric
    clock: FakeClock

    @abstractmethod
    def settle(self) -> None: ...

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run(work)

    def attach(self, *args: Any, **kwargs: Any) -> ScriptedInstance:
        instance = ScriptedInstance(*args, **kwargs)
        self.fabric.offer(instance)
        self.settle()
        return instance

    def ask(self, provider: str = "a", sink: Recorder | None = None):
        """Asks the least busy instance; the sink and the handle."""
        sink = sink or Recorder()
        ref, _ = self.fabric.pick(provider, [])
        assert ref is not None
        handle = self.fabric.ask(ref, QUERY, self.clock.time() + 2, sink)
        self.settle()
        return sink, handle

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.settle()


class FabricContract:
    """Subclass it as ``TestX`` and give ``make``."""

    make: Callable[[], Harness]

    # Offering and picking

    def test_an_unknown_provider_has_no_instance(self):
        assert self.make().fabric.pick("a", []) == (None, 0)

    def test_the_least_busy_instance_is_picked(self):
        harness = self.make()
        harness.attach(instance="1")
        harness.attach(instance="2")
        picked = []
        for _ in range(4):
            ref, load = harness.fabric.pick("a", [])
            picked.append((ref.key.instance, load))
            harness.fabric.ask(ref, QUERY, harness.clock.time() + 2, Recorder())
            harness.settle()
        assert sorted(picked[:2]) == [("1", 0), ("2", 0)]
        assert sorted(picked[2:]) == [("1", 1), ("2", 1)]

    def test_of_idle_instances_the_one_asked_longest_ago_is_picked(self):
        harness = self.make()
        for name in ("1", "2", "3"):
            harness.attach(instance=name)
        order = []
        for _ in range(6):
            ref, _ = harness.fabric.pick("a", [])
            order.append(ref.key.instance)
            harness.fabric.ask(ref, QUERY, harness.clock.time() + 2, Recorder()).cancel()
            harness.settle()
        assert sorted(order[:3]) == ["1", "2", "3"]
        assert order[3:] == order[:3]

    def test_one_that_was_tried_is_not_picked(self):
        harness = self.make()
        harness.attach(instance="1")
        harness.attach(instance="2")
        first, _ = harness.fabric.pick("a", [])
        second, _ = harness.fabric.pick("a", [first])
        assert {first.key.instance, second.key.instance} == {"1", "2"}
        assert harness.fabric.pick("a", [first, second]) == (None, 0)

    def test_one_at_its_limit_is_not_picked_while_another_is_free(self):
        harness = self.make()
        harness.attach(instance="1", max_in_flight=1)
        harness.attach(instance="2", max_in_flight=3)
        for _ in range(4):
            harness.ask()
        assert harness.fabric.pick("a", []) == (None, 4)

    def test_room_is_free_again_once_an_answer_has_ended(self):
        harness = self.make()
        instance = harness.attach(max_in_flight=1)
        harness.ask()
        assert harness.fabric.pick("a", [])[0] is None
        instance.asked[0].end()
        harness.settle()
        assert harness.fabric.pick("a", [])[0] is not None

    def test_a_ref_says_whose_it_is_and_what_its_scores_are(self):
        harness = self.make()
        instance = harness.attach(scale=OTHER_SCALE)
        ref, _ = harness.fabric.pick("a", [])
        assert (ref.key, ref.scale) == (instance.key, OTHER_SCALE)
        assert hash(ref) == hash(harness.fabric.pick("a", [])[0])

    def test_one_that_was_withdrawn_is_not_picked_and_its_open_answer_arrives(self):
        harness = self.make()
        instance = harness.attach()
        sink, _ = harness.ask()
        harness.fabric.withdraw(instance)
        harness.fabric.withdraw(instance)
        harness.settle()
        assert harness.fabric.pick("a", []) == (None, 0)
        instance.asked[0].send(b"f")
        instance.asked[0].end()
        harness.settle()
        assert (sink.batches, sink.endings) == ([b"f"], [Ending.COMPLETE])

    def test_instances_are_listed_by_key(self):
        harness = self.make()
        for provider, instance in (("b", "1"), ("a", "2"), ("a", "1")):
            harness.attach(provider, instance)
        harness.ask("b")
        listed = harness.fabric.instances()
        assert [(s.key.provider, s.key.instance, s.in_flight) for s in listed] == [
            ("a", "1", 0),
            ("a", "2", 0),
            ("b", "1", 1),
        ]
        assert {(s.version, s.kinds, s.scale, s.max_in_flight, s.last_seen) for s in listed} == {
            ("1.0", ("doc",), UNIT, 64, 12.0)
        }

    # One replica, one session; one provider, one scale

    def test_a_newer_session_of_a_replica_takes_the_place_of_the_old_one(self):
        harness = self.make()
        old = harness.attach(session="s1")
        sink, _ = harness.ask()
        new = harness.attach(session="s2")
        assert [error.reason for error in old.closed] == ["FENCED"]
        assert old.closed[0].code == "ABORTED"
        assert sink.endings == [Ending.LOST]
        old.asked[0].send(b"ghost")
        old.asked[0].end()
        harness.settle()
        assert sink.batches == []
        assert sink.endings == [Ending.LOST]
        assert [status.key for status in harness.fabric.instances()] == [new.key]

    def test_the_old_session_withdrawing_late_leaves_the_new_one_in_place(self):
        harness = self.make()
        old = harness.attach(session="s1")
        new = harness.attach(session="s2")
        harness.fabric.withdraw(old)
        harness.settle()
        assert [status.key for status in harness.fabric.instances()] == [new.key]

    def test_when_an_old_session_is_lost_the_new_one_can_be_asked_at_once(self):
        harness = self.make()
        harness.attach(session="s1")
        asked = Recorder()

        class Again(Recorder):
            def end(self, ending, message, /):
                super().end(ending, message)
                ref, _ = harness.fabric.pick("a", [])
                harness.fabric.ask(ref, QUERY, harness.clock.time() + 2, asked)

        harness.ask(sink=Again())
        new = harness.attach(session="s2")
        new.asked[0].end()
        harness.settle()
        assert asked.endings == [Ending.COMPLETE]

    def test_another_scale_than_the_other_instances_is_refused(self):
        harness = self.make()
        harness.attach(instance="1")
        with pytest.raises(FailedPrecondition) as caught:
            harness.attach(instance="2", scale=OTHER_SCALE)
        assert caught.value.reason == "SCALE_CONFLICT"
        assert "unit" in caught.value.message
        assert "bm25" in caught.value.message
        assert len(harness.fabric.instances()) == 1

    def test_a_provider_whose_instances_have_gone_may_declare_a_new_scale(self):
        harness = self.make()
        harness.fabric.withdraw(harness.attach())
        harness.settle()
        harness.attach(scale=OTHER_SCALE)
        assert harness.fabric.pick("a", [])[0].scale == OTHER_SCALE

    def test_a_replica_alone_may_come_back_with_a_new_scale(self):
        harness = self.make()
        harness.attach(session="s1")
        harness.attach(session="s2", scale=OTHER_SCALE)
        assert harness.fabric.pick("a", [])[0].scale == OTHER_SCALE

    def test_a_session_that_renews_itself_is_asked_until_the_newer_one_stands_and_finishes_what_is_open(self):
        """P6."""
        harness = self.make()
        old = harness.attach(session="s1")
        sink, _ = harness.ask()
        old.renewing = True
        assert harness.fabric.pick("a", [])[0].key == old.key
        new = harness.attach(session="s2")
        assert (old.retired, old.closed) == (1, [])
        assert harness.fabric.pick("a", [])[0].key == new.key
        assert [status.key for status in harness.fabric.instances()] == [new.key]
        old.asked[0].send(b"f")
        old.asked[0].end()
        harness.settle()
        assert (sink.batches, sink.endings) == ([b"f"], [Ending.COMPLETE])
        harness.fabric.withdraw(old)
        assert harness.fabric.pick("a", [])[0].key == new.key

    def test_renewing_is_no_flapping(self):
        """P6, H52."""
        harness = self.make()
        for number in range(20):
            harness.attach(session=f"s{number}").renewing = True
        assert len(harness.fabric.instances()) == 1

    def test_a_flapping_replica_is_refused_until_a_minute_has_passed(self):
        harness = self.make()
        for number in range(4):
            harness.attach(session=f"s{number}")
        with pytest.raises(ResourceExhausted) as caught:
            harness.attach(session="s4")
        assert caught.value.reason == "FLAPPING"
        assert 0 < caught.value.retry_after <= 60
        assert caught.value.quota
        assert [status.key.session for status in harness.fabric.instances()] == ["s3"]
        harness.attach(instance="2")
        harness.advance(caught.value.retry_after)
        harness.attach(session="s5")

    # Asking

    def test_batches_and_ending_arrive_in_order_as_sent(self):
        harness = self.make()
        instance = harness.attach()
        sink, _ = harness.ask()
        for data in (b"1", b"2", b"3"):
            instance.asked[0].send(data)
        instance.asked[0].end(Ending.FAILED, "disk")
        harness.settle()
        assert sink.calls == [
            ("batch", b"1", False),
            ("batch", b"2", False),
            ("batch", b"3", False),
            ("end", Ending.FAILED, "disk"),
        ]

    def test_the_query_crosses_whole_and_the_deadline_as_time(self):
        harness = self.make()
        instance = harness.attach()
        harness.ask()
        assert instance.asked[0].query == QUERY
        assert instance.asked[0].deadline == pytest.approx(harness.clock.time() + 2, abs=0.05)

    def test_asking_one_that_is_gone_is_an_ending_and_not_an_error(self):
        harness = self.make()
        instance = harness.attach()
        ref, _ = harness.fabric.pick("a", [])
        harness.fabric.withdraw(instance)
        harness.settle()
        sink = Recorder()
        handle = harness.fabric.ask(ref, QUERY, harness.clock.time() + 2, sink)
        assert sink.calls == []
        harness.settle()
        assert sink.endings == [Ending.LOST]
        handle.cancel()
        handle.reject([Violation("X", "x")])

    def test_a_sink_is_not_called_before_asking_has_returned(self):
        harness = self.make()

        def at_once(exchange):
            exchange.send(b"1")
            exchange.end()

        harness.attach(on_ask=at_once)
        ref, _ = harness.fabric.pick("a", [])
        sink = Recorder()
        harness.fabric.ask(ref, QUERY, harness.clock.time() + 2, sink)
        assert sink.calls == []
        harness.settle()
        assert sink.calls == [("batch", b"1", False), ("end", Ending.COMPLETE, "")]

    def test_cancelling_before_an_early_answer_arrived_silences_it(self):
        harness = self.make()
        harness.attach(on_ask=lambda exchange: exchange.end())
        ref, _ = harness.fabric.pick("a", [])
        sink = Recorder()
        harness.fabric.ask(ref, QUERY, harness.clock.time() + 2, sink).cancel()
        harness.settle()
        assert sink.calls == []

    def test_cancelling_tells_the_instance_once_and_silences_the_sink(self):
        harness = self.make()
        instance = harness.attach()
        sink, handle = harness.ask()
        instance.asked[0].send(b"1")
        harness.settle()
        handle.cancel()
        handle.cancel()
        instance.asked[0].send(b"2")
        instance.asked[0].end()
        harness.settle()
        assert instance.asked[0].cancelled == 1
        assert sink.calls == [("batch", b"1", False)]

    def test_cancelling_after_the_ending_tells_no_one(self):
        harness = self.make()
        instance = harness.attach()
        _, handle = harness.ask()
        instance.asked[0].end()
        harness.settle()
        handle.cancel()
        harness.settle()
        assert instance.asked[0].cancelled == 0

    def test_a_verdict_reaches_the_instance_also_after_the_ending(self):
        harness = self.make()
        instance = harness.attach()
        _, handle = harness.ask()
        violation = Violation("TITLE_EMPTY", "a frame needs a title", "f1")
        handle.reject([violation])
        instance.asked[0].end()
        harness.settle()
        handle.reject([violation])
        harness.settle()
        assert instance.asked[0].rejected == [violation, violation]

    @given(
        st.lists(st.sampled_from(Fault), max_size=6),
        st.sampled_from(Fault),
        st.sampled_from(Ending),
        st.none() | st.integers(0, 6),
    )
    def test_whatever_the_link_does_there_is_one_ending_and_never_a_hole(self, faults, end_fault, ending, cancel_at):
        harness = self.make()
        instance = harness.attach()
        sink, handle = harness.ask()
        exchange = instance.asked[0]
        sent = []
        heard = None
        for number, fault in enumerate(faults):
            if number == cancel_at:
                handle.cancel()
                heard = list(sink.calls)
            sent.append(b"%d" % number)
            exchange.link.batch(sent[-1], fault)
            harness.settle()
        exchange.link.end(ending, "", end_fault)
        exchange.link.flush()
        exchange.link.end(Ending.LOST, "")
        harness.settle()
        assert sink.batches == sent[: len(sink.batches)]
        if heard is not None:
            assert sink.calls == heard
        else:
            assert len(sink.endings) == 1
            assert sink.calls[-1][0] == "end"
            if sink.endings == [Ending.COMPLETE]:
                assert sink.batches == sent

    # Pushes

    @pytest.mark.parametrize("early", [True, False])
    def test_a_push_is_handed_over_whole_in_either_order(self, early):
        harness = self.make()
        sink = Recorder()
        push = Push(OTHER_SCALE, (b"p1", b"p2"))
        if early:
            harness.fabric.hold(KEY, push, 30)
            harness.settle()
            harness.fabric.expect(KEY, sink)
            assert sink.calls == []
        else:
            harness.fabric.expect(KEY, sink)
            harness.settle()
            harness.fabric.hold(KEY, push, 30)
        harness.settle()
        assert sink.calls == [
            ("begin", OTHER_SCALE),
            ("batch", b"p1", False),
            ("batch", b"p2", True),
            ("end", Ending.COMPLETE, ""),
        ]

    def test_a_push_without_batches_is_an_empty_answer(self):
        harness = self.make()
        sink = Recorder()
        harness.fabric.hold(KEY, Push(UNIT, ()), 30)
        harness.fabric.expect(KEY, sink)
        harness.settle()
        assert sink.calls == [("begin", UNIT), ("end", Ending.COMPLETE, "")]

    def test_a_push_joins_no_request_but_the_one_it_names(self):
        harness = self.make()
        sinks = [Recorder() for _ in range(3)]
        keys = (PushKey("", "r2", "a"), PushKey("", "r1", "b"), PushKey("t", "r1", "a"))
        for key, sink in zip(keys, sinks, strict=True):
            harness.fabric.expect(key, sink)
        harness.fabric.hold(KEY, PUSH, 30)
        harness.settle()
        assert [sink.calls for sink in sinks] == [[], [], []]

    def test_a_held_push_is_gone_after_its_time(self):
        harness = self.make()
        harness.fabric.hold(KEY, PUSH, 30)
        harness.advance(30)
        sink = Recorder()
        harness.fabric.expect(KEY, sink)
        harness.settle()
        assert sink.calls == []

    @pytest.mark.parametrize("waits", [True, False])
    def test_a_second_push_is_refused_alike_whether_or_not_a_request_waits(self, waits):
        harness = self.make()
        if waits:
            harness.fabric.expect(KEY, Recorder())
        harness.fabric.hold(KEY, PUSH, 30)
        harness.settle()
        with pytest.raises(AlreadyExists) as caught:
            harness.fabric.hold(KEY, PUSH, 30)
        assert caught.value.reason == "PUSH_REPEATED"
        harness.advance(30)
        harness.fabric.hold(KEY, PUSH, 30)

    def test_a_request_that_expects_no_more_hears_nothing(self):
        harness = self.make()
        sink = Recorder()
        harness.fabric.expect(KEY, sink)
        harness.fabric.unexpect(KEY)
        harness.fabric.unexpect(KEY)
        harness.fabric.hold(KEY, PUSH, 30)
        harness.settle()
        assert sink.calls == []

    def test_expecting_no_more_before_a_held_push_arrived_silences_it(self):
        harness = self.make()
        sink = Recorder()
        harness.fabric.hold(KEY, PUSH, 30)
        harness.fabric.expect(KEY, sink)
        harness.fabric.unexpect(KEY)
        harness.settle()
        assert sink.calls == []

    def test_expecting_no_more_from_within_a_batch_silences_the_rest(self):
        harness = self.make()

        class Once(Recorder):
            def batch(self, data, last, /):
                super().batch(data, last)
                harness.fabric.unexpect(KEY)

        sink = Once()
        harness.fabric.expect(KEY, sink)
        harness.fabric.hold(KEY, PUSH, 30)
        harness.settle()
        assert sink.calls == [("begin", UNIT), ("batch", b"p1", False)]

    def test_two_requests_cannot_wait_for_one_push(self):
        harness = self.make()
        harness.fabric.expect(KEY, Recorder())
        with pytest.raises(AlreadyExists) as caught:
            harness.fabric.expect(KEY, Recorder())
        assert caught.value.reason == "PUSH_EXPECTED"

    def test_a_push_in_another_scale_than_the_attached_instances_is_refused(self):
        harness = self.make()
        harness.attach()
        with pytest.raises(FailedPrecondition) as caught:
            harness.fabric.hold(KEY, Push(OTHER_SCALE, (b"p",)), 30)
        assert caught.value.reason == "SCALE_CONFLICT"

    # Quarantine

    def test_quarantine_expires_by_itself(self):
        harness = self.make()
        assert harness.fabric.quarantined("a") == 0.0
        harness.fabric.quarantine("a", 60)
        harness.settle()
        assert harness.fabric.quarantined("a") == pytest.approx(60)
        assert harness.fabric.quarantined("b") == 0.0
        harness.advance(59)
        assert harness.fabric.quarantined("a") == pytest.approx(1)
        harness.advance(1)
        assert harness.fabric.quarantined("a") == 0.0

    def test_a_longer_quarantine_stays(self):
        harness = self.make()
        harness.fabric.quarantine("a", 60)
        harness.fabric.quarantine("a", 5)
        harness.settle()
        assert harness.fabric.quarantined("a") == pytest.approx(60)

    def test_a_released_provider_sits_out_no_more(self):
        harness = self.make()
        harness.fabric.quarantine("a", 60)
        harness.fabric.quarantine("b", 60)
        harness.settle()
        harness.fabric.release("a")
        harness.fabric.release("c")
        harness.settle()
        assert harness.fabric.quarantined("a") == 0.0
        assert harness.fabric.quarantined("b") == pytest.approx(60)

    # Stopping

    def test_stopping_drains_and_closes_all_and_takes_no_new_ones(self):
        harness = self.make()
        instances = [harness.attach("a"), harness.attach("b")]

        async def life() -> None:
            await harness.fabric.start()
            await harness.fabric.stop(10)

        harness.run(life())
        for instance in instances:
            assert instance.drained == [10_000]
            assert [error.reason for error in instance.closed] == ["STOPPING"]
        with pytest.raises(Unavailable) as caught:
            harness.attach("c")
        assert caught.value.retry_after is not None

    def test_stopping_waits_for_open_answers(self):
        harness = self.make()
        instance = harness.attach()
        sink, _ = harness.ask()

        async def life() -> None:
            stopping = asyncio.create_task(harness.fabric.stop(10))
            await instance.draining.wait()
            assert instance.closed == []
            instance.asked[0].end()
            harness.settle()
            await asyncio.wait_for(stopping, 5)

        harness.run(life())
        assert sink.endings == [Ending.COMPLETE]
        assert len(instance.closed) == 1

    def test_stopping_loses_what_is_open_after_the_grace(self):
        harness = self.make()
        instance = harness.attach()
        sink, _ = harness.ask()

        async def life() -> None:
            stopping = asyncio.create_task(harness.fabric.stop(10))
            await instance.draining.wait()
            harness.advance(10)
            await asyncio.wait_for(stopping, 5)

        harness.run(life())
        assert sink.endings == [Ending.LOST]
