"""A directory of secrets: one file for each key, named ``section__key``, as containers and systemd hand them over.

A file holds the value of its key, white space around it apart. A key that names a file, such as ``store.dsn_file``, is
given the very file that bears its name: the directory then needs no other place for what is secret.
"""

from __future__ import annotations

import stat
from collections.abc import Mapping
from pathlib import Path

from broker.config.keys import annotation_of
from broker.errors import ConfigError

MAX_BYTES = 64 * 1024
"""Of a file that holds a value."""


def secret_files(directory: Path) -> Mapping[str, tuple[str, Path]]:
    """What the files of a directory say; those whose names begin with a dot are not looked at.

    Args:
        directory: The directory.

    Returns:
        By ``section__key``: the value, and the file.

    Raises:
        ConfigError: The directory or a file cannot be read, a file with a value is readable by all, is too long or not
            UTF-8.
    """
    try:
        files = sorted(each for each in directory.iterdir() if not each.name.startswith("."))
        return {file.name.lower(): (_value(file), file) for file in files if file.is_file()}
    except OSError as error:
        raise ConfigError(f"directory of secrets {error.filename or directory}: {error.strerror or error}") from None


def _value(file: Path) -> str:
    if "__" not in file.name:
        raise ConfigError(f"secret file {file} would set nothing; name it SECTION__KEY, such as store__dsn_file")
    if Path in annotation_of(file.name.lower().split("__")):
        return str(file)
    if file.stat().st_mode & stat.S_IROTH:
        raise ConfigError(f"secret file {file} is readable by all users of this machine; chmod o-r it")
    content = file.read_bytes()
    if len(content) > MAX_BYTES:
        raise ConfigError(f"secret file {file} has more than {MAX_BYTES} bytes")
    try:
        return content.decode().strip()
    except UnicodeDecodeError as error:
        raise ConfigError(f"secret file {file} is not UTF-8: {error.reason} at byte {error.start}") from None
