"""In every mode, what was rendered is rendered again to the same bytes, and any change to it is found."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from broker.core.checks import Verdict
from broker.core.composition import Composition
from broker.core.request import CompositionRequest, Fence, RenderMode
from broker.core.rerendering import rendered_again
from tests.core.building import composed, frame, lane

MODES = pytest.mark.parametrize("mode", RenderMode)
MAX_TOKENS = 1_000_000


def sample(mode: RenderMode, fence: Fence = Fence.SEALED) -> Composition:
    frames = [frame("x", 0.9, "one ``` </frame> \u200b"), frame("y", 0.8, "two", title="same")]
    return composed(lane("a", frames), lane("b", [frame("z", 0.7, "three", title="same")]), mode=mode, fence=fence)


def differing(composition: Composition, request: CompositionRequest | None = None) -> set[str]:
    return {check.name for check in rendered_again(composition, request) if check.verdict is Verdict.DIFFERS}


@MODES
@pytest.mark.parametrize("fence", Fence)
def test_what_was_rendered_agrees(mode: RenderMode, fence: Fence):
    request = CompositionRequest(max_tokens=MAX_TOKENS, mode=mode, fence=fence)
    checks = list(rendered_again(sample(mode, fence), request))
    assert [(check.name, check.verdict) for check in checks] == [
        (name, Verdict.AGREES) for name in ("blocks", "texts", "labels")
    ]


def first(**changes: object) -> Callable[[Composition], Composition]:
    return lambda one: replace(one, placed=(replace(one.placed[0], **changes), *one.placed[1:]))


CHANGES = [
    (lambda one: first(rendered=one.placed[0].rendered + " ")(one), "blocks"),
    (lambda one: first(frame=replace(one.placed[0].frame, content="other"))(one), "blocks"),
    (lambda one: first(citation_label="another")(one), "labels"),
    (lambda one: replace(one, citations=one.citations[1:]), "labels"),
    (lambda one: replace(one, preamble=one.preamble + " "), "texts"),
    (lambda one: replace(one, closing=one.closing + " "), "texts"),
    (lambda one: replace(one, separator=one.separator + " "), "texts"),
]


@MODES
@pytest.mark.parametrize(("change", "name"), CHANGES)
def test_a_change_is_found(mode: RenderMode, change: Callable[[Composition], Composition], name: str):
    request = CompositionRequest(max_tokens=MAX_TOKENS, mode=mode)
    assert name in differing(change(sample(mode)), request)


@pytest.mark.parametrize("mode", [RenderMode.FENCED, RenderMode.MARKDOWN])
def test_a_seal_is_taken_as_it_stands_but_not_another_for_the_same_content(mode: RenderMode):
    composed_once = sample(mode)
    (mark,) = {part for part in _words(composed_once.placed[0].rendered) if len(part) == 10 and part.isupper()}
    exchanged = replace(
        composed_once,
        placed=tuple(replace(one, rendered=one.rendered.replace(mark, "A" * 10)) for one in composed_once.placed),
    )
    assert differing(exchanged) == set()
    half = first(rendered=composed_once.placed[0].rendered.replace(mark, "A" * 10, 1))(composed_once)
    assert differing(half) == {"blocks"}


def _words(text: str) -> list[str]:
    return text.replace('"', " ").replace("=", " ").replace("\n", " ").replace(">", " ").split()


def test_a_mode_that_the_request_did_not_ask_for_is_found():
    request = CompositionRequest(max_tokens=MAX_TOKENS, mode=RenderMode.JSON)
    assert differing(sample(RenderMode.FENCED), request) == {"texts"}
