"""A composition without content is drawn from its audit, and replays as far as that goes."""

from __future__ import annotations

from hypothesis import given
from msgspec.structs import replace

from broker.core.checks import Verdict
from broker.core.compose import compose
from broker.core.composition import Composition
from broker.core.outline import outlined
from broker.core.replay import replay
from broker.errors import InvalidArgument
from tests.core.building import POLICY, composed, frame, lane
from tests.core.offers import maps, offers, requests

TAKES_CONTENT = {"blocks", "texts", "labels"}


def bare(composition: Composition) -> Composition:
    """As a store keeps it that keeps no content."""
    return replace(composition, placed=(), preamble="", closing="", separator="")


@given(offers, maps, requests())
def test_places_labels_costs_and_vouchers_come_back(offered, numbers, request):
    floors = tuple(floor for one in offered for floor in one.floors(numbers[one.provider]))
    request = replace(request, floors=floors)
    try:
        made = compose([one.lane(numbers[one.provider]) for one in offered], request, POLICY)
    except InvalidArgument:
        return
    outline = outlined(bare(made))
    known = ("position", "total", "provider", "local_rank", "rank", "cost", "citation_label")
    for shown, placed in zip(outline.placed, made.placed, strict=True):
        assert [getattr(shown, name) for name in known] == [getattr(placed, name) for name in known]
        assert shown.frame.id == placed.frame.id
        assert (shown.frame.content, shown.rendered) == ("", "")
        assert shown.vouchers[0] == placed.vouchers[0]
        assert set(shown.vouchers) == set(placed.vouchers)
    found = {check.name: check for check in replay(outline, request, content=False)}
    assert Verdict.DIFFERS not in {check.verdict for check in found.values()}
    assert {found[name].verdict for name in TAKES_CONTENT} == {Verdict.NOT_RECOMPUTED}
    assert found["placement"].verdict is Verdict.AGREES
    if request.max_frames_per_source is None:
        assert found["packing"].verdict is Verdict.AGREES


def test_what_an_outline_is_made_of_is_still_held_to_account():
    made = composed(lane("a", [frame("a1", 0.9), frame("a2", 0.8)]), lane("b", [frame("b1", 0.7)]))
    outline = outlined(bare(made))
    dearer = replace(outline.audit[0], cost=outline.audit[0].cost + 1)
    forged = replace(outline, audit=(dearer, *outline.audit[1:]))
    differs = {check.name for check in replay(forged, content=False) if check.verdict is Verdict.DIFFERS}
    assert {"audit", "usage"} <= differs
