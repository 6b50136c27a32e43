"""Names as labels of metrics: few get a value of their own, for each costs memory in every system that keeps them."""

from __future__ import annotations

from collections.abc import Iterable

OTHER = "(other)"
"""The label that all further names share. No provider can be called so."""

INLINE = "(inline)"
"""The label of lanes that callers bring along, whatever they call them."""


class Names(dict[str, str]):
    """Labels by name: the first so many names that were learnt are their own labels, all others have :data:`OTHER`.

    Any name may be looked up, whoever made it up; that alone teaches none.
    """

    def __init__(self, most: int, known: Iterable[str] = ()) -> None:
        """Learns those in ``known`` first, at most ``most`` in all."""
        super().__init__()
        self._most = most
        for name in known:
            self.learn(name)

    def learn(self, name: str) -> str:
        """The label of a name that is known to exist; it has its own from now on, where there is room."""
        if len(self) < self._most:
            self[name] = name
        return self[name]

    def __missing__(self, name: str) -> str:
        return OTHER
