"""Fields of a JSON record, read with their types; what is wrong is said with the field's path."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Any, TypeVar

_Member = TypeVar("_Member", bound=Enum)
_Value = TypeVar("_Value")


class WrongField(ValueError):
    """What is wrong with one field, with its path."""


class Fields:
    """One JSON object.

    Args:
        record: The object.
        path: Where it stands in its record; empty for the record itself.
    """

    def __init__(self, record: Mapping[str, Any], path: str = "") -> None:
        self._record = record
        self._path = path

    def __contains__(self, name: str) -> bool:
        return self._record.get(name) is not None

    def names(self) -> Iterator[str]:
        """The names of its fields."""
        return iter(self._record)

    def raw(self, name: str) -> Any:
        """Any JSON value, as it stands."""
        if name not in self._record:
            raise WrongField(f"{self._at(name)!r} is missing")
        return self._record[name]

    def text(self, name: str) -> str:
        """A text."""
        return self._typed(name, str, "a text")

    def flag(self, name: str) -> bool:
        """True or false."""
        return self._typed(name, bool, "true or false")

    def count(self, name: str) -> int:
        """A whole number, at least 0."""
        value = self.raw(name)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise WrongField(f"{self._at(name)!r} is not a whole number from 0: {_shown(value)}")
        return value

    def number(self, name: str) -> float:
        """A number; the texts ``Infinity`` and ``-Infinity`` are numbers too."""
        value = self.raw(name)
        if value in ("Infinity", "-Infinity"):
            return float(value)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise WrongField(f"{self._at(name)!r} is not a number: {_shown(value)}")
        try:
            return float(value)
        except OverflowError:
            raise WrongField(f"{self._at(name)!r} is too large for a number") from None

    def part(self, name: str) -> Fields:
        """An object."""
        return Fields(self._typed(name, dict, "an object"), self._at(name))

    def parts(self, name: str) -> list[Fields]:
        """A list of objects."""
        items = self._typed(name, list, "a list")
        for index, item in enumerate(items):
            if not isinstance(item, dict):
                raise WrongField(f"'{self._at(name)}[{index}]' is not an object: {_shown(item)}")
        return [Fields(item, f"{self._at(name)}[{index}]") for index, item in enumerate(items)]

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts."""
        items = self._typed(name, list, "a list")
        for index, item in enumerate(items):
            if not isinstance(item, str):
                raise WrongField(f"'{self._at(name)}[{index}]' is not a text: {_shown(item)}")
        return tuple(items)

    def member(self, name: str, members: type[_Member]) -> _Member:
        """A value of an enumeration."""
        value = self.text(name)
        try:
            return members(value)
        except ValueError:
            known = ", ".join(str(member.value) for member in members)
            raise WrongField(f"{self._at(name)!r} is {value[:64]!a}, and may be {known}") from None

    def optional(self, name: str, read: Callable[[str], _Value]) -> _Value | None:
        """What ``read`` gives; None where the field is missing or null."""
        return read(name) if name in self else None

    def wrong(self, name: str, what: str) -> WrongField:
        """An error of one field, to be raised."""
        return WrongField(f"{self._at(name)!r} {what}")

    def _typed(self, name: str, kind: type[_Value], what: str) -> _Value:
        value = self.raw(name)
        if not isinstance(value, kind):
            raise WrongField(f"{self._at(name)!r} is not {what}: {_shown(value)}")
        return value

    def _at(self, name: str) -> str:
        return f"{self._path}.{name}" if self._path else name


def _shown(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= 40 else text[:37] + "..."
