"""Reading the daemon's configuration: flags over environment over a TOML file over defaults.

``CONTEXT_BROKER_SECTION__KEY`` is the environment's spelling of ``key`` in ``[section]``; lists are JSON or parted by
commas. ``CONTEXT_BROKER_CONFIG`` names the file where no flag does. A key that is not known is an error that names the
nearest one that is: a limit that was misspelt must not be dropped in silence.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, SettingsError

from broker.errors import ConfigError
from broker.settings import PREFIX, Config, ConfiguredReranker, KnownProvider

__all__ = ["CONFIG_VARIABLE", "Config", "load"]

_TABLE = re.compile(r"\s*\[([^\[\]]+)\]")
_KEY = re.compile(r"\s*([A-Za-z0-9_.-]+)\s*=")

_BY_NAME: Mapping[str, type[BaseModel]] = {"providers": KnownProvider, "rerankers": ConfiguredReranker}
"""Sections whose keys are names of the operator's choice, each of which holds a section."""

CONFIG_VARIABLE = f"{PREFIX}CONFIG"
"""The environment variable that names the file."""


def load(flags: Mapping[str, Mapping[str, object]] | None = None, *, file: Path | None = None) -> Config:
    """The configuration of this process.

    Args:
        flags: What the command line says, by section and key; only what was really given.
        file: The TOML file; None: the one that ``CONTEXT_BROKER_CONFIG`` names, if any.

    Raises:
        ConfigError: A key, a value or the file is wrong; the message names every such key.
    """
    named = os.environ.get(CONFIG_VARIABLE, "")
    path = file if file is not None else Path(named) if named else None
    document = {} if path is None else _document(path)
    _check_environment(os.environ)

    class FromFile(Config):
        """The configuration with this file as its lowest source."""

        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
            file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            return init_settings, env_settings, InitSettingsSource(settings_cls, init_kwargs=document)

    given: dict[str, Any] = {section: dict(keys) for section, keys in (flags or {}).items() if keys}
    try:
        return FromFile(**given)
    except ValidationError as wrong:
        sources = _Sources(given, path)
        raise ConfigError("; ".join(_problem(error, sources) for error in wrong.errors())) from None
    except SettingsError as wrong:
        raise ConfigError(f"{wrong}; a section is JSON there, and a list is JSON or parted by commas") from None


def _document(path: Path) -> dict[str, Any]:
    try:
        text = path.read_bytes().decode()
        return tomllib.loads(text)
    except OSError as error:
        raise ConfigError(f"configuration file {path}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"configuration file {path} is not UTF-8: {error.reason} at byte {error.start}") from None
    except RecursionError:
        raise ConfigError(f"configuration file {path} is not a configuration: nested too deeply") from None
    except tomllib.TOMLDecodeError as error:
        twice = _repeated(text)
        why = f"{error}" if twice is None else f"{error}; the key {twice!r} stands there twice"
        raise ConfigError(f"configuration file {path} is not TOML: {why}") from None


def _repeated(text: str) -> str | None:
    """The first key that stands twice in one table; the parser does not say which. None: none was found."""
    table, seen = "", set()
    for line in text.splitlines():
        if header := _TABLE.match(line):
            table = f"{header[1].strip()}."
        elif key := _KEY.match(line):
            name = table + key[1]
            if name in seen:
                return name
            seen.add(name)
    return None


def _check_environment(environ: Iterable[str]) -> None:
    """Refuses variables of sections that do not exist, and misspelt ones; within a section the settings refuse them.

    Others pass: the command line has some of its own, and Kubernetes makes some for a service of this name.
    """
    for variable in environ:
        if not variable.upper().startswith(PREFIX):
            continue
        name = variable.upper().removeprefix(PREFIX).lower()
        section, nested, _ = name.partition("__")
        if nested and section not in Config.model_fields:
            raise ConfigError(
                f"environment variable {variable}: there is no section {section!r}"
                + _nearest(section, Config.model_fields)
            )
        meant = None if nested else _meant(name)
        if meant is not None:
            raise ConfigError(f"environment variable {variable} would set nothing; did you mean {PREFIX}{meant}?")


def _meant(name: str) -> str | None:
    """A variable's right spelling, where its name is a key without its section or has one underscore before it."""
    for section, field in Config.model_fields.items():
        if name.startswith(f"{section}_"):
            return f"{section}__{name.removeprefix(f'{section}_')}".upper()
        if name in getattr(field.annotation, "model_fields", ()):
            return f"{section}__{name}".upper()
    return None


class _Sources:
    """Where a key's value came from, for people."""

    def __init__(self, flags: Mapping[str, Mapping[str, object]], path: Path | None) -> None:
        self._flags = flags
        self._path = path

    def of(self, key: tuple[str, ...]) -> str:
        section, name = key[0], key[1] if len(key) > 1 else ""
        variable = PREFIX + "__".join(key).upper()
        if name in self._flags.get(section, ()):
            return "a flag"
        if any(v.upper() == variable or v.upper() == PREFIX + section.upper() for v in os.environ):
            return f"environment variable {variable}"
        return f"configuration file {self._path}" if self._path is not None else "the configuration"


def _problem(error: ErrorDetails, sources: _Sources) -> str:
    key = tuple(str(part) for part in error["loc"])
    name = ".".join(key)
    source = sources.of(key) if key else "the configuration"
    if error["type"] == "extra_forbidden":
        return f"{source}: there is no key {name!r}" + _nearest(key[-1], _siblings(key), key[:-1])
    text = error["msg"].removeprefix("Value error, ")
    given = error["input"]
    told = isinstance(given, (dict, BaseModel)) or "; got " in text
    shown = "" if told else f" (got {str(given)[:80]!r})"
    return f"{source}: {name}: {text[:1].lower()}{text[1:]}{shown}"


def _nearest(wrong: str, known: Iterable[str], section: tuple[str, ...] = ()) -> str:
    names = sorted(known)
    close = difflib.get_close_matches(wrong, names, n=1, cutoff=0.5)
    if close:
        return f"; the nearest is {'.'.join((*section, close[0]))!r}"
    return f"; there are {', '.join(names)}"


def _siblings(key: tuple[str, ...]) -> Iterable[str]:
    """The keys that stand where a wrong one was found."""
    model: type[BaseModel] = Config
    parts = list(key[:-1])
    while parts:
        part = parts.pop(0)
        if part.isdigit():  # A place in a list of tables; the list's own part has led to the table already.
            continue
        if part in _BY_NAME and model is Config and parts:
            parts.pop(0)
            model = _BY_NAME[part]
            continue
        annotation = model.model_fields[part].annotation
        found = [a for a in (annotation, *getattr(annotation, "__args__", ())) if isinstance(a, type)]
        model = next((a for a in found if issubclass(a, BaseModel)), model)
    return model.model_fields
