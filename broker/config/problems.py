"""What is wrong with a configuration, in words that name the key, where it was said, and the nearest right name."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from broker.config.keys import siblings
from broker.errors import ConfigError
from broker.settings import PREFIX, Config

COMMANDS_OWN = frozenset({"address", "admin_address", "client_cert", "client_key", "tls_ca", "token", "token_file"})
"""What the command line's variables are called that are not of the configuration, even where a key bears the name."""


def check_names(names: Mapping[str, str]) -> None:
    """Refuses names that would set nothing: of a section that there is none of, or misspelt.

    Others pass: the command line has variables of its own, and Kubernetes makes some for a service of this name.

    Args:
        names: What was given, for people, by ``section__key`` in lower case.

    Raises:
        ConfigError: Naming the first, and what was probably meant.
    """
    for name, told in names.items():
        section, nested, _ = name.partition("__")
        if nested and section not in Config.model_fields:
            raise ConfigError(f"{told}: there is no section {section!r}" + nearest(section, Config.model_fields))
        meant = None if nested else _meant(name)
        if meant is not None:
            raise ConfigError(f"{told} would set nothing; did you mean {PREFIX}{meant}?")


def _meant(name: str) -> str | None:
    """A variable's right spelling, where its name is a key without its section or has one underscore before it."""
    if name in COMMANDS_OWN:
        return None
    for section, field in Config.model_fields.items():
        if name.startswith(f"{section}_"):
            return f"{section}__{name.removeprefix(f'{section}_')}".upper()
        if name in getattr(field.annotation, "model_fields", ()):
            return f"{section}__{name}".upper()
    return None


def problems(errors: Iterable[ErrorDetails], origin: Callable[[tuple[str, ...]], str]) -> str:
    """All that pydantic found: one thing on one line, several under the place where they were said.

    Args:
        errors: What it found.
        origin: Where a key's value came from, for people.
    """
    by_source: dict[str, list[str]] = {}
    for error in errors:
        source, text = _problem(error, origin)
        by_source.setdefault(source, []).append(text)
    return "\n".join(
        f"{source}: {found[0]}" if len(found) == 1 else "\n  ".join((f"{source}:", *found))
        for source, found in by_source.items()
    )


def _problem(error: ErrorDetails, origin: Callable[[tuple[str, ...]], str]) -> tuple[str, str]:
    """Where one thing was said, and what is wrong with it."""
    key = tuple(str(part) for part in error["loc"])
    name = ".".join(key)
    source = origin(key)
    if error["type"] == "extra_forbidden":
        return source, f"there is no key {name!r}" + nearest(key[-1], siblings(key), key[:-1])
    text = error["msg"].removeprefix("Value error, ")
    given = error["input"]
    # What came from a secret file is not shown to whoever reads errors.
    told = isinstance(given, (dict, BaseModel)) or "; got " in text or source.startswith("secret file")
    shown = "" if told else f" (got {str(given)[:80]!r})"
    return source, f"{name}: {text[:1].lower()}{text[1:]}{shown}"


def nearest(wrong: str, known: Iterable[str], section: tuple[str, ...] = ()) -> str:
    """``; the nearest is …``, of the names that there are."""
    names = sorted(known)
    close = difflib.get_close_matches(wrong, names, n=1, cutoff=0.5)
    if close:
        return f"; the nearest is {'.'.join((*section, close[0]))!r}"
    return f"; there are {', '.join(names)}"
