"""Words for a value that is not what was expected, as errors show it."""

from __future__ import annotations

_MOST = 60


def given(value: object) -> str:
    """The value as an error names it: its type, and itself where it is plain and short."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if value is None or isinstance(value, bool):
        return repr(value)
    name = type(value).__name__
    if isinstance(value, str | bytes | int | float):
        shown = ascii(value[:_MOST] if isinstance(value, str | bytes) else value)
        return f"{name} {shown if len(shown) <= 2 * _MOST else f'{shown[:_MOST]}…'}"
    return with_article(name)


def with_article(name: str) -> str:
    """A type's name with the article that goes before it."""
    return f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"
