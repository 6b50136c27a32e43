"""What was seen to become of a composition's placed frames, each named as an agent knows it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from difflib import get_close_matches

from broker.core.composition import Citation, Composition
from broker.core.frames import FrameRef
from broker.core.records import Observation
from broker.core.render.escaping import unescape
from broker.errors import InvalidArgument

_SHOWN = 200
"""Characters of a name that are shown."""


def observations(
    composition: Composition,
    *,
    selected: Iterable[FrameRef] = (),
    rendered: Iterable[FrameRef] = (),
    cited: Iterable[FrameRef] = (),
) -> list[Observation]:
    """What was seen, an observation for each frame in prompt order: the stronger brings the weaker along."""
    quoted = frozenset(cited)
    shown = quoted.union(rendered)
    chosen = shown.union(selected)
    refs = (citation.frame for citation in composition.citations)
    return [Observation(ref.provider, ref.frame_id, True, ref in shown, ref in quoted) for ref in refs if ref in chosen]


def named(composition: Composition, name: str) -> FrameRef:
    """The placed frame of a label, as it stands in the prompt or with its escapes turned back, or of ``provider/id``.

    Raises:
        InvalidArgument: There is none (``FRAME_NOT_PLACED``), or several share the label (``LABEL_AMBIGUOUS``).
    """
    meant: dict[str, list[Citation]] = defaultdict(list)
    for citation in composition.citations:
        ref = citation.frame
        for text in dict.fromkeys((citation.label, unescape(citation.label), f"{ref.provider}/{ref.frame_id}")):
            meant[text].append(citation)
    found = meant.get(name, [])
    if not found:
        near = get_close_matches(name[:_SHOWN], meant, 1)
        advice = f"did you mean {near[0]!r}?" if near else "give a label of its prompt, or provider/id"
        raise InvalidArgument("FRAME_NOT_PLACED", f"the composition placed no frame {name[:_SHOWN]!r}; {advice}")
    if len(found) > 1:
        names = ", ".join(f"{one.frame.provider}/{one.frame.frame_id}" for one in found)
        text = f"several frames share the label {name[:_SHOWN]!r}; name one of them: {names}"
        raise InvalidArgument("LABEL_AMBIGUOUS", text)
    return found[0].frame
