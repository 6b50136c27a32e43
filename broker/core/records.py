"""What is asked and said of compositions that are on record, as plain immutable values.

Times are whole microseconds since the epoch.
"""

from __future__ import annotations

from msgspec import Struct


class Filter(Struct, frozen=True, gc=False, kw_only=True):
    """Which compositions are meant: those that all of this is true of.

    Attributes:
        made_from: Made then or later; None: at any time.
        made_before: Made before then; None: at any time.
        provider: Had a lane; empty: any. With ``frame_id`` or ``reason`` it is also whose frame is meant.
        frame_id: Was offered; empty: any.
        document: Such a frame is of this document, as :func:`path_of` has it, or has this id; empty: of any.
        placed: Whether such a frame was placed (True) or left out (False); None: either.
        reason: Why such a frame was left out; empty: for any reason.
    """

    made_from: int | None = None
    made_before: int | None = None
    provider: str = ""
    frame_id: str = ""
    placed: bool | None = None
    reason: str = ""
    document: str = ""

    @property
    def about_frames(self) -> bool:
        """Whether it says anything of a frame."""
        return bool(self.frame_id or self.reason or self.document) or self.placed is not None


def path_of(source: str) -> str:
    """A source, or a frame's id, without what leads into a document: what stands behind its first ``#``."""
    return source.partition("#")[0].removeprefix("./").rstrip("/")


class Observation(Struct, frozen=True, gc=False):
    """What was seen to become of one placed frame; each of the three is an observation of its own (CGP §14).

    Attributes:
        provider: Whose frame it is.
        frame_id: Its id.
        selected: The agent chose it.
        rendered: It stood in the prompt that the model saw.
        cited: The model's answer cites it.
    """

    provider: str
    frame_id: str
    selected: bool = False
    rendered: bool = False
    cited: bool = False


class ProviderStatistics(Struct, frozen=True, gc=False, kw_only=True):
    """One provider over a window of time.

    Attributes:
        provider: The provider.
        asked: Requests that asked it, or waited for its push.
        answered: Those that it answered whole.
        late: Those that it did not answer whole in time.
        failed: Those in which it said that it could not, or was lost.
        lied: Those in which it lied.
        not_asked: Those that would have asked it while it was away or sat out.
        offered: Frames offered.
        placed: Frames placed.
        tokens_placed: Tokens of their blocks.
        selected: Placed frames that an agent was seen to choose.
        rendered: Placed frames that were seen in a prompt.
        cited: Placed frames that an answer was seen to cite.
    """

    provider: str
    asked: int = 0
    answered: int = 0
    late: int = 0
    failed: int = 0
    lied: int = 0
    not_asked: int = 0
    offered: int = 0
    placed: int = 0
    tokens_placed: int = 0
    selected: int = 0
    rendered: int = 0
    cited: int = 0

    @property
    def tokens_per_citation(self) -> float | None:
        """Tokens placed for each citation; None: none was seen."""
        return self.tokens_placed / self.cited if self.cited else None
