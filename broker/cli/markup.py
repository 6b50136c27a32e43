"""HTML and SVG built so that text can only ever be text: what is not :class:`Markup` is escaped."""

from __future__ import annotations

import html
import re

from broker.cli.text import clean

_JOINERS = re.compile("([\u200c\u200d])")


class Markup(str):
    """Markup that was built by this module, and is not escaped again."""

    __slots__ = ()


Child = str | None
"""What stands inside an element: markup as it is, any other text escaped, None for nothing."""


def tag(name: str, /, *children: Child, **attributes: object) -> Markup:
    """An element.

    Args:
        name: Of the element, a constant.
        children: What stands in it.
        attributes: Their names with ``_`` for ``-``, and without one at their end (``class_``); a value of None or
            False leaves the attribute out. Numbers are written with at most one decimal.
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_value(value)}"'
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if name in _VOID:
        return Markup(f"<{name}{written}>")
    return Markup(f"<{name}{written}>{joined(*children)}</{name}>")


def joined(*children: Child) -> Markup:
    """Children one after the other."""
    return Markup("".join(child if isinstance(child, Markup) else text(child) for child in children if child))


def text(value: str) -> Markup:
    """Text of anyone's: escaped, and each control, invisible or direction-changing character shown as ``⟦U+XXXX⟧``.

    Joiners stay: they change how letters and emoji are drawn, and no order of anything.
    """
    return Markup(html.escape(visible(value)))


def visible(value: str) -> str:
    """The text with what does not show as itself made visible, on one line."""
    if value.isascii():
        return clean(value)
    return "".join(part if _JOINERS.fullmatch(part) else clean(part) for part in _JOINERS.split(value))


def isolated(value: str, **attributes: object) -> Markup:
    """Text of a provider or caller, which cannot reorder what stands beside it whatever its direction."""
    return tag("bdi", value, **attributes)


def breakable(value: str) -> Markup:
    """A name that may be broken behind its underscores."""
    first, *rest = value.split("_")
    return tag("bdi", first, *(part for word in rest for part in ("_", tag("wbr"), word)))


def block(value: str, **attributes: object) -> Markup:
    """Text of several lines, with its line breaks and indents."""
    lines = value.expandtabs(4).removesuffix("\n").split("\n")
    return tag("pre", Markup("\n" + "\n".join(text(line) for line in lines)), dir="auto", **attributes)


_VOID = frozenset({"meta", "wbr"})


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.1f}".removesuffix(".0")
    return html.escape(visible(str(value)))
