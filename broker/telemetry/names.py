"""Names as labels of metrics: few get a value of their own, for each costs memory in every system that keeps them."""

from __future__ import annotations

from collections.abc import Iterable

OTHER = "(other)"
"""The label that all further names share. No provider can be called so."""

INLINE = "(inline)"
"""The label of lanes that callers bring along, whatever they call them."""


class Names:
    """The first so many names that were learnt are themselves; every other one is :data:`OTHER`."""

    def __init__(self, most: int, known: Iterable[str] = ()) -> None:
        """Learns those in ``known`` first, at most ``most`` in all."""
        self._most = most
        self._learnt: set[str] = set()
        for name in known:
            self.learn(name)

    def learn(self, name: str) -> str:
        """The label of a name that is known to exist; it has its own from now on, where there is room."""
        if len(self._learnt) < self._most:
            self._learnt.add(name)
        return self.of(name)

    def of(self, name: str) -> str:
        """The label of a name that anyone may have made up."""
        return name if name in self._learnt else OTHER
