"""Every block has a citation label of its own, and none changes what another is called without need."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker.core.render.labels import unique_labels
from broker.core.render.renderer import Block


def blocks(*labels_and_names: tuple[str, str]) -> list[Block]:
    return [Block(0, 0, label, name) for label, name in labels_and_names]


def test_a_label_that_one_block_has_is_its_own():
    assert unique_labels(blocks(("x", "a/1"), ("y", "a/2"))) == ["x", "y"]


def test_blocks_of_one_label_are_told_apart_by_provider_and_id():
    assert unique_labels(blocks(("x", "a/1"), ("y", "a/2"), ("x", "b/1"))) == ["x (a/1)", "y", "x (b/1)"]


def test_a_label_made_to_collide_takes_nobodys_place():
    labels = unique_labels(blocks(("x", "a/1"), ("x", "b/1"), ("x (a/1)", "c/1"), ("x (a/1) #2", "c/2")))
    assert labels == ["x (a/1) #3", "x (b/1)", "x (a/1)", "x (a/1) #2"]


short = st.sampled_from(["x", "x (a/1)", "x (a/1) #2", "y"])


@given(st.lists(st.tuples(short, st.sampled_from(["a/1", "a/1) (b/2", "b/2"]))))
def test_labels_are_unique_whatever_they_are(pairs):
    labels = unique_labels(blocks(*pairs))
    assert len(set(labels)) == len(pairs)
