"""How much of one thing is held, by whom, and how much more each may take.

Two bounds hold always: what one holder has, and what all have together. Between them stands a third, so that many
greedy holders never leave a newcomer without room: a holder may have at most as much as is free, or more where its own
bound is more than half of all. One holder alone reaches its own bound; N greedy ones end at about 1/(N + 1) of all
each, and as much stays free.

Source: A. K. Choudhury and E. L. Hahne, "Dynamic queue length thresholds for shared-memory packet switches", IEEE/ACM
Transactions on Networking 6(2), 1998: a queue's threshold is a multiple of the free space; the multiple is 1 here.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

from broker.errors import ResourceExhausted


class Shares:
    """What each holder has of one thing.

    Attributes:
        name: The thing, for people, such as ``requests in flight``.
        total: What all may have together.
        each: What one holder may have.
        used: What all have now.
    """

    def __init__(
        self,
        name: str,
        reason: str,
        *,
        each: int,
        each_key: str,
        total: int,
        total_key: str,
        retry_after: float,
    ) -> None:
        """Makes shares of which nothing is held.

        Args:
            name: The thing, for people.
            reason: Stable UPPER_SNAKE reason of a refusal.
            each: What one holder may have, at least 1 and at most ``total``.
            each_key: The configuration's key of ``each``.
            total: What all may have together.
            total_key: The configuration's key of ``total``.
            retry_after: Seconds after which there may be room again.
        """
        self.name = name
        self.total = total
        self.each = each
        self.used = 0
        self._reason = reason
        self._each_key = each_key
        self._total_key = total_key
        self._retry_after = retry_after
        self._held: dict[str, int] = {}

    def resize(self, *, each: int, total: int) -> None:
        """Sets other bounds; who holds more than they allow keeps it, and is given no more."""
        self.each = each
        self.total = total

    def held(self, holder: str) -> int:
        """What a holder has now."""
        return self._held.get(holder, 0)

    def check(self, holder: str, amount: int = 1) -> None:
        """Refuses what a holder may not take now.

        Raises:
            ResourceExhausted: With the reason and the key of the bound that was reached.
        """
        if not amount:
            # A holder may have more than would be given to it now: others have come since.
            return
        held = self._held.get(holder, 0)
        if held + amount > self.each:
            raise self._refusal(self._each_key, f"{held} of your {self.each} {self.name} are taken")
        # At least as much as is free; so much more that one alone reaches its own bound.
        beside = self.total - self.each
        free = self.total - self.used
        if amount > free or (held + amount) * beside > max(beside, self.each) * free:
            # Without numbers: they would tell one of what others do.
            raise self._refusal(self._total_key, f"too many {self.name} are taken by all together")

    def take(self, holder: str, amount: int = 1) -> None:
        """Takes some; to be given back with :meth:`give`.

        Raises:
            ResourceExhausted: As for :meth:`check`; nothing was taken.
        """
        if amount:
            self.check(holder, amount)
            self.used += amount
            self._held[holder] = self._held.get(holder, 0) + amount

    def give(self, holder: str, amount: int = 1) -> None:
        """Gives back what was taken; a holder of nothing is forgotten."""
        left = self._held[holder] - amount
        assert left >= 0, "no more is given back than was taken"
        self.used -= amount
        if left:
            self._held[holder] = left
        else:
            del self._held[holder]

    def holding(self, holder: str) -> Holding:
        """What one call takes, bit by bit, and gives back when its ``with`` block is left."""
        return Holding(self, holder)

    def _refusal(self, key: str, taken: str) -> ResourceExhausted:
        text = f"{taken}; wait for some to end, or ask the operator for a larger {key}"
        return ResourceExhausted(self._reason, text, quota=key, retry_after=self._retry_after)


class Holding:
    """What one call has taken of its holder's share.

    Attributes:
        amount: How much, what was reserved included.
    """

    __slots__ = ("_holder", "_shares", "_spare", "amount")

    def __init__(self, shares: Shares, holder: str) -> None:
        self._shares = shares
        self._holder = holder
        self._spare = 0
        self.amount = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()

    def take(self, amount: int = 1) -> None:
        """Takes more: of what was reserved first.

        Raises:
            ResourceExhausted: There is no room for it; what was taken before stays.
        """
        beyond = amount - self._spare
        if beyond <= 0:
            self._spare -= amount
            return
        self._shares.take(self._holder, beyond)
        self._spare = 0
        self.amount += beyond

    def reserve(self, amount: int) -> None:
        """Takes what will be needed later, so that it is there then.

        Raises:
            ResourceExhausted: There is no room for it; what was taken before stays.
        """
        self._shares.take(self._holder, amount)
        self._spare += amount
        self.amount += amount

    def settle(self) -> None:
        """Gives back what was reserved and not needed; idempotent."""
        spare, self._spare = self._spare, 0
        self.amount -= spare
        if spare:
            self._shares.give(self._holder, spare)

    def release(self) -> None:
        """Gives all of it back; idempotent."""
        amount, self.amount, self._spare = self.amount, 0, 0
        if amount:
            self._shares.give(self._holder, amount)
