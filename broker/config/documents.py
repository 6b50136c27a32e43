"""The configuration file: TOML, or a plain error that says what is wrong with it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from broker.errors import ConfigError

_TABLE = re.compile(r"\s*\[([^\[\]]+)\]")
_KEY = re.compile(r"\s*([A-Za-z0-9_.-]+)\s*=")


def document(path: Path) -> dict[str, Any]:
    """What a TOML file says.

    Raises:
        ConfigError: It cannot be read, or is no TOML.
    """
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
