"""Reading the daemon's configuration: flags over environment over secret files over a TOML file over defaults.

``CONTEXT_BROKER_SECTION__KEY`` is the environment's spelling of ``key`` in ``[section]``; lists are JSON or parted by
commas. ``CONTEXT_BROKER_CONFIG`` names the file where no flag does, and ``CONTEXT_BROKER_SECRETS`` the directory of
secret files. A key that is not known is an error that names the nearest one that is: a limit that was misspelt must
not be dropped in silence.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsError,
)

from broker.config.documents import document
from broker.config.problems import check_names, problems
from broker.config.secret_files import secret_files
from broker.errors import ConfigError
from broker.settings import PREFIX, Config

CONFIG_VARIABLE = f"{PREFIX}CONFIG"
"""The environment variable that names the file."""

SECRETS_VARIABLE = f"{PREFIX}SECRETS"
"""The environment variable that names the directory of secret files."""

DEFAULT = "default"
"""The origin of what no one set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """A configuration, and where each of its values came from.

    Attributes:
        config: The configuration.
        file: The TOML file; None: there is none.
        secrets: The directory of secret files; None: there is none.
    """

    config: Config
    file: Path | None
    secrets: Path | None
    _layers: _Layers = field(repr=False)

    def origin(self, key: tuple[str, ...]) -> str:
        """Where a key's value came from, for people; :data:`DEFAULT` where nothing was said of it."""
        return self._layers.origin(key) or DEFAULT

    def is_secret(self, key: tuple[str, ...]) -> bool:
        """Whether a key's value is what a secret file holds: nothing to be shown."""
        return self._layers.holds_secret(key)


def load(
    flags: Mapping[str, Mapping[str, object]] | None = None, *, file: Path | None = None, secrets: Path | None = None
) -> Config:
    """The configuration of this process; :func:`read` without the origins, with its arguments and errors."""
    return read(flags, file=file, secrets=secrets).config


def read(
    flags: Mapping[str, Mapping[str, object]] | None = None, *, file: Path | None = None, secrets: Path | None = None
) -> Read:
    """The configuration of this process, with the origin of each value.

    Args:
        flags: What the command line says, by section and key; only what was really given.
        file: The TOML file; None: the one that ``CONTEXT_BROKER_CONFIG`` names, if any.
        secrets: The directory of secret files; None: the one that ``CONTEXT_BROKER_SECRETS`` names, if any.

    Raises:
        ConfigError: A key, a value or a file is wrong; the message names every such key.
    """
    file = file or _named(CONFIG_VARIABLE)
    secrets = secrets or _named(SECRETS_VARIABLE)
    given: dict[str, Any] = {section: dict(keys) for section, keys in (flags or {}).items() if keys}
    layers = _Layers(
        given, {} if secrets is None else secret_files(secrets), {} if file is None else document(file), file
    )
    check_names(layers.named())

    class FromLayers(Config):
        """The configuration out of these layers."""

        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
            file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            from_secrets = _Spelled(settings_cls, {name: value for name, (value, _) in layers.secrets.items()})
            return init_settings, env_settings, from_secrets, InitSettingsSource(settings_cls, init_kwargs=layers.file)

    try:
        config = FromLayers(**given)
    except ValidationError as wrong:
        raise ConfigError(problems(wrong.errors(), layers.source)) from None
    except SettingsError as wrong:
        raise ConfigError(f"{wrong}; a section is JSON there, and a list is JSON or parted by commas") from None
    return Read(config=config, file=file, secrets=secrets, _layers=layers)


def _named(variable: str) -> Path | None:
    named = os.environ.get(variable, "")
    return Path(named) if named else None


class _Spelled(EnvSettingsSource):
    """Values by names that are spelt as environment variables are, without the prefix."""

    def __init__(self, settings_cls: type[BaseSettings], values: Mapping[str, str]) -> None:
        self._values = values
        super().__init__(settings_cls, env_prefix="")

    def _load_env_vars(self) -> Mapping[str, str]:
        return self._values


@dataclass(frozen=True, slots=True)
class _Layers:
    """What was said, and where: the highest first."""

    flags: Mapping[str, Mapping[str, object]]
    secrets: Mapping[str, tuple[str, Path]]
    file: dict[str, Any]
    path: Path | None

    def named(self) -> dict[str, str]:
        """Every name that is spelt as an environment variable, with what it is for people."""
        ours = (each for each in os.environ if each.upper().startswith(PREFIX))
        variables = {each.upper().removeprefix(PREFIX).lower(): f"environment variable {each}" for each in ours}
        files = {name: f"secret file {path}" for name, (_, path) in self.secrets.items()}
        return variables | files

    def origin(self, key: tuple[str, ...]) -> str | None:
        """Where a key's value came from; None: nowhere."""
        if len(key) > 1 and key[1] in self.flags.get(key[0], ()):
            return "flag"
        spelt = "__".join(key)
        variables = {
            each.upper().removeprefix(PREFIX).lower(): each for each in os.environ if each.upper().startswith(PREFIX)
        }
        for name in _leading(spelt):
            if name in variables:
                return f"environment variable {variables[name]}"
        for name in _leading(spelt):
            if name in self.secrets:
                return f"secret file {self.secrets[name][1]}"
        value: Any = self.file
        for part in key:
            if not isinstance(value, Mapping) or part not in value:
                # A list of tables, or a table that is one value: what holds the key was said there.
                return None if isinstance(value, Mapping) else f"configuration file {self.path}"
            value = value[part]
        return f"configuration file {self.path}"

    def source(self, key: tuple[str, ...]) -> str:
        """Where to look for what is wrong with a key."""
        found = self.origin(key) if key else None
        if found is None:
            # What is wrong between several keys was said in all of their places.
            inner = {origin for origin in map(self.origin, _below(key, self)) if origin}
            found = inner.pop() if len(inner) == 1 else None
        if found == "flag":
            return "a flag"
        if found is None:
            return "the configuration" if self.path is None else f"configuration file {self.path}"
        return found

    def holds_secret(self, key: tuple[str, ...]) -> bool:
        """Whether a key's value is the content of a secret file, not its name."""
        origin = self.origin(key) or ""
        spelt = (name for name in _leading("__".join(key)) if name in self.secrets)
        found = next(spelt, None)
        return (
            found is not None
            and origin.startswith("secret file")
            and self.secrets[found][0] != str(self.secrets[found][1])
        )


def _leading(spelt: str) -> list[str]:
    """A name, and those of all that holds it: ``a__b__c``, ``a__b``, ``a``."""
    parts = spelt.split("__")
    return ["__".join(parts[:count]) for count in range(len(parts), 0, -1)]


def _below(key: tuple[str, ...], layers: _Layers) -> list[tuple[str, ...]]:
    """Keys that were named one by one within a section."""
    spelt = "__".join(key)
    names = [*layers.secrets, *(each.upper().removeprefix(PREFIX).lower() for each in os.environ)]
    return [tuple(name.split("__")) for name in names if spelt and name.startswith(f"{spelt}__")]
