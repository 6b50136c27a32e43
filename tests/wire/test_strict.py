"""What this version does not know is refused at every depth, with its path; so are lists without measure."""

from __future__ import annotations

import pytest
from contextbroker.v1 import context_service_pb2 as pb

from broker.errors import InvalidArgument, ResourceExhausted
from broker.wire.strict import MAX_NAMED_BYTES, refuse_crowds, refuse_unknown_fields

NEW = b"\x98\x06\x01"
"""Field 99, a number."""


def _at(path: str) -> pb.ComposeRequest:
    """A request with an unknown field in the message at ``path``."""
    request = pb.ComposeRequest(goal="g")
    target: object = request
    for step in filter(None, path.split(".")):
        name, _, index = step.rstrip("]").partition("[")
        target = getattr(target, name)
        for _ in range(int(index) + 1 if index else 0):
            entry = target.add()  # type: ignore[attr-defined]
        if index:
            target = entry
    target.MergeFromString(NEW)  # type: ignore[attr-defined]
    return request


@pytest.mark.parametrize(
    "path",
    [
        "",
        "floors[1]",
        "strategy",
        "strategy.round_robin",
        "strategy.trust_weighted",
        "strategy.trust_weighted.weights[2]",
        "strategy.reciprocal_rank_fusion.weights[0]",
        "strategy.precomputed.ids[1]",
        "render",
        "collect_timeout",
        "inline_lanes[1]",
        "inline_lanes[0].scale",
    ],
)
def test_an_unknown_field_is_refused_with_path_and_number(path: str):
    with pytest.raises(InvalidArgument, match="field 99") as error:
        refuse_unknown_fields(_at(path))
    assert error.value.reason == "UNKNOWN_FIELD"
    assert [v.field for v in error.value.violations] == [f"{path}.99".lstrip(".")]


def test_a_known_field_of_another_wire_type_is_unknown_too():
    with pytest.raises(InvalidArgument, match="field 2 ") as error:
        refuse_unknown_fields(pb.ComposeRequest.FromString(b"\x10\x05"))
    assert error.value.violations[0].field == "2"


def test_a_flood_of_unknown_fields_is_refused_without_walking_it():
    with pytest.raises(InvalidArgument, match="some fields of the request") as error:
        refuse_unknown_fields(pb.ComposeRequest.FromString(NEW * (MAX_NAMED_BYTES // len(NEW) + 1)))
    assert error.value.reason == "UNKNOWN_FIELD"


def test_a_request_that_is_all_known_passes():
    request = pb.ComposeRequest(goal="g", max_tokens=5)
    request.floors.add(provider_id="a", scale_id="unit", value=0.5)
    request.strategy.trust_weighted.weights.add(provider_id="a", weight=1.0)
    request.kinds.append(77)
    refuse_unknown_fields(request)


def test_a_list_is_refused_from_one_entry_past_the_limit():
    request = pb.ComposeRequest(anchors=["a"] * 4)
    refuse_crowds(request, 4)
    with pytest.raises(ResourceExhausted) as error:
        refuse_crowds(request, 3)
    assert (error.value.reason, error.value.quota) == ("COUNT_EXCEEDED", "anchors")
    assert error.value.violations[0].field == "anchors"


def test_lists_inside_single_messages_are_counted_too():
    request = pb.ComposeRequest()
    for _ in range(4):
        request.strategy.precomputed.ids.add()
    with pytest.raises(ResourceExhausted) as error:
        refuse_crowds(request, 3)
    assert error.value.quota == "strategy.precomputed.ids"
