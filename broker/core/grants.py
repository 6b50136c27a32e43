"""The grants of one question: how many frames and tokens a provider may offer before its whole lane counts as a lie."""

from __future__ import annotations

from broker.core.frames import Frame, content_tokens


class Allowance:
    """What is left of a query's grants.

    Args:
        max_frames: Frames granted.
        max_tokens: Tokens granted, (UTF-8 bytes of content + 3) // 4 a frame.

    Attributes:
        told: What was granted at first, for people.
    """

    def __init__(self, max_frames: int, max_tokens: int) -> None:
        self._frames = max_frames
        self._tokens = max_tokens
        self.told = f"granted {max_frames} frames and {max_tokens} tokens"

    @property
    def spent(self) -> bool:
        """Whether no frame at all can be added: the smallest costs one token."""
        return self._frames < 1 or self._tokens < 1

    def take(self, frame: Frame) -> bool:
        """Pays for a frame if it fits, and says whether it did. A smaller one may still fit afterwards.

        A lone surrogate counts like any other character, although no broker takes such a frame.
        """
        return self.pay(content_tokens(len(frame.content.encode(errors="surrogatepass"))))

    def pay(self, tokens: int) -> bool:
        """As :meth:`take`, for a frame of so many tokens."""
        if self._frames < 1 or tokens > self._tokens:
            return False
        self._frames -= 1
        self._tokens -= tokens
        return True
