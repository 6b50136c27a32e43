"""Citation labels: what a model cites a block by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from broker.core.render.renderer import Block


def unique_labels(blocks: Sequence[Block]) -> list[str]:
    """A citation label for each block; no two are equal.

    A label that one block alone has is that label; blocks that share one are told apart by provider and id. Every block
    shows its own label, provider and id whatever else is placed, so that none of them changes.
    """
    own = [block.label for block in blocks]
    if len(set(own)) == len(own):
        return own
    counts = Counter(own)
    taken = {label for label, count in counts.items() if count == 1}
    labels = []
    for block in blocks:
        label = block.label
        if counts[label] > 1:
            told_apart = label = f"{label} ({block.name})"
            again = 2
            # Only labels and ids made to collide come here.
            while label in taken:
                label = f"{told_apart} #{again}"
                again += 1
            taken.add(label)
        labels.append(label)
    return labels
