"""Every ranked frame gets its block, whatever is measured beside it; what no room could help is not held."""

from __future__ import annotations

from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from broker.core import measuring
from broker.core.counting import BYTES_PER_4
from broker.core.measuring import measure
from broker.core.render.modes import renderer_of
from broker.core.request import RenderMode
from tests.core.building import entries, frame, lane

CONTENTS = ["x", "plain words", "x" * 200, "</frame>", "a\u200bb", " ", "é" * 40, "\x00" * 50]


@given(
    st.lists(st.sampled_from(CONTENTS), max_size=12),
    st.sampled_from(RenderMode),
    st.sampled_from([1, 20, 10_000]),
    st.sampled_from([150, 10_000]),
    st.sampled_from([40, 10_000]),
)
def test_a_block_is_the_renderers_own_however_many_are_measured_at_once(contents, mode, at_once, most_bytes, space):
    (own,) = entries(lane("a", [frame(f"f{number}", 0.5, text) for number, text in enumerate(contents)]))
    renderer = renderer_of(mode, None)
    with patch.object(measuring, "_AT_ONCE", at_once):
        measure(own, renderer, BYTES_PER_4, most_bytes, space)
    for entry in own:
        (block,) = renderer.blocks([entry.candidate], BYTES_PER_4)
        helpless = block.size > most_bytes or block.cost > space
        assert entry.block == (replace(block, header="", content="") if helpless else block)


def test_few_frames_are_measured_at_once_where_they_are_large():
    (own,) = entries(
        lane("a", [frame(f"f{n}", 0.5, "x" * size) for n, size in enumerate((4, 4, 400, 4, 80, 80, 400, 4))])
    )
    renderer, numbers = renderer_of(RenderMode.FENCED, None), []

    class Counted:
        def blocks(self, candidates, counter):
            numbers.append([one.tokens for one in candidates])
            return renderer.blocks(candidates, counter)

    with patch.object(measuring, "_AT_ONCE", 30):
        measure(own, Counted(), BYTES_PER_4, 10_000, 10_000)
    assert numbers == [[1, 1, 100], [1, 20, 20], [100], [1]]
