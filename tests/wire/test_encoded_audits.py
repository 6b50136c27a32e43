"""What an audit says beside its rows is, byte for byte, what the messages serialize to."""

from __future__ import annotations

from contextbroker.v1 import composition_pb2 as pb
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from broker.core.audited import INCLUDED, LaneSummary, Reason
from broker.core.composition import Composition, Usage, UsageFigures
from broker.core.lanes import LaneEnd
from broker.wire.encoded_audits import encoded_audit
from tests.wire import by_messages, values
from tests.wire.test_compositions import made
from tests.wire.test_encoded import serialized

REASONS = [INCLUDED, *(name for name in vars(Reason) if name.isupper())]


def same_by_either_way(composition: Composition) -> bool:
    audit = encoded_audit(composition.summary, composition.usage)
    return audit.summary == serialized(by_messages.summary_message(composition.summary)) and audit.usage == serialized(
        by_messages.usage_message(composition.usage)
    )


@given(values.compositions(), st.dictionaries(st.sampled_from(REASONS), values.uint32))
def test_summary_and_usage_are_the_same_by_either_way(composition: Composition, reasons: dict[str, int]):
    assert same_by_either_way(replace(composition, summary=replace(composition.summary, reasons=reasons)))


@given(values.compositions())
def test_reasons_of_other_versions_are_the_same_but_for_their_order(composition: Composition):
    summary = composition.summary
    message = pb.AuditSummary.FromString(encoded_audit(summary, composition.usage).summary)
    assert message == by_messages.summary_message(summary)


def test_an_audit_of_nothing_too():
    assert same_by_either_way(made())


def test_an_audit_of_many_lanes_too():
    lanes = tuple(LaneSummary(provider=f"p{place}", end=end) for place in range(300) for end in LaneEnd)
    figures = {lane.provider: UsageFigures(frames_offered=place) for place, lane in enumerate(lanes)}
    composition = made()
    summary = replace(composition.summary, lanes=lanes)
    assert same_by_either_way(replace(composition, summary=summary, usage=Usage(UsageFigures(), figures)))


def test_reasons_have_one_order_whatever_theirs_is():
    summary, usage = made().summary, made().usage
    one, other = (replace(summary, reasons=dict(pairs)) for pairs in ([("A", 1), ("B", 2)], [("B", 2), ("A", 1)]))
    assert encoded_audit(one, usage) == encoded_audit(other, usage)
