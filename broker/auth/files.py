"""Files that say who may do what: read at the start, read again when they change."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from broker.errors import ConfigError

MAX_BYTES = 4 * 1024 * 1024
"""Of such a file."""

T = TypeVar("T")

_Signature = tuple[int, ...]
"""How a file looks from outside; empty where there is none."""


class WatchedFile(Generic[T]):
    """A file's meaning, which a running broker learns anew.

    A change is taken once the file has looked the same at two polls, so that one that is being written is not taken
    for a short one. A file that cannot be used, or is gone, changes nothing: what was read last stays, and the problem
    is told. (To revoke everything, write an empty file.)

    Attributes:
        value: What it says.
    """

    def __init__(self, path: Path, key: str, parse: Callable[[bytes], T]) -> None:
        """Reads the file.

        Args:
            path: The file.
            key: The configuration's key that names it, for errors.
            parse: What its bytes mean; raises ValueError with what is wrong, which holds no secret.

        Raises:
            ConfigError: It cannot be read, can be changed by every user of this machine, or means nothing.
        """
        self._path = path
        self._key = key
        self._parse = parse
        self._seen = self._signature()
        self._pending: _Signature | None = None
        self.value = self._read()

    def poll(self) -> bool:
        """Whether :attr:`value` was read anew.

        Raises:
            ConfigError: The file has changed into one that cannot be used; raised once for each change.
        """
        now = self._signature()
        if now == self._seen:
            self._pending = None
            return False
        if now != self._pending:
            self._pending = now
            return False
        self._seen, self._pending = now, None
        self.value = self._read()
        return True

    def _signature(self) -> _Signature:
        try:
            found = self._path.stat()
        except OSError:
            return ()
        return (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino, found.st_dev)

    def _read(self) -> T:
        try:
            with self._path.open("rb") as file:
                mode = os.fstat(file.fileno()).st_mode
                content = file.read(MAX_BYTES + 1)
        except OSError as error:
            raise ConfigError(f"{self._key}: {self._path}: {error.strerror or error}") from None
        if mode & stat.S_IWOTH:
            raise ConfigError(f"{self._key}: {self._path} can be changed by all users of this machine; chmod o-w it")
        if len(content) > MAX_BYTES:
            raise ConfigError(f"{self._key}: {self._path} has more than {MAX_BYTES} bytes")
        try:
            return self._parse(content)
        except ValueError as wrong:
            found = str(wrong)
            # A line for each mistake, where there are several.
            told = "\n  ".join(("", *found.splitlines())) if "\n" in found else f" {found}"
            raise ConfigError(f"{self._key}: {self._path}:{told}") from None
