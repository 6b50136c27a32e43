"""A real PostgreSQL server of the tests' own: in a temporary folder, on a free port of loopback, ended with them."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

PLACES = ("/usr/lib/postgresql/17/bin", "/usr/lib/postgresql/16/bin", "/usr/lib/postgresql/15/bin")


def binaries() -> Path | None:
    """Where the server's programs are; None: there are none on this machine."""
    found = shutil.which("initdb")
    candidates = [Path(found).resolve().parent] if found else []
    candidates += [Path(place) for place in PLACES]
    return next((place for place in candidates if (place / "initdb").exists() and (place / "postgres").exists()), None)


class PostgresServer:
    """One server; ``stop`` and ``start`` as often as a test needs. The port stays the same."""

    def __init__(self, folder: Path, programs: Path) -> None:
        self._programs = programs
        # The server refuses to run as root.
        self._user = _unprivileged()
        if self._user is not None:
            os.chown(folder, self._user.pw_uid, self._user.pw_gid)
        self._data = folder / "data"
        with contextlib.closing(socket.socket()) as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._folder = folder
        self._run("initdb", "--pgdata", str(self._data), "--username", "broker", "--auth", "trust", "--no-sync")

    def dsn(self, database: str = "postgres") -> str:
        return f"postgresql://broker@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        options = f"-c listen_addresses=127.0.0.1 -p {self.port} -k {self._folder} -c fsync=off"
        log = str(self._folder / "log")
        self._run("pg_ctl", "--pgdata", str(self._data), "--options", options, "--log", log, "--wait", "start")

    def stop(self, mode: str = "fast") -> None:
        self._run("pg_ctl", "--pgdata", str(self._data), "--mode", mode, "--wait", "stop")

    def pid(self) -> int:
        """Of the server's first process."""
        return int((self._data / "postmaster.pid").read_text().split()[0])

    def create(self, database: str) -> str:
        """Makes an empty database; its address."""
        self._run("createdb", "--host", "127.0.0.1", "--port", str(self.port), "--username", "broker", database)
        return self.dsn(database)

    def _run(self, program: str, *arguments: str) -> None:
        as_user = (
            {} if self._user is None else {"user": self._user.pw_uid, "group": self._user.pw_gid, "extra_groups": []}
        )
        subprocess.run(
            [self._programs / program, *arguments],
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE if program == "initdb" else subprocess.DEVNULL,
            cwd=self._folder,
            timeout=60,
            **as_user,
        )


@contextlib.contextmanager
def running() -> Iterator[PostgresServer]:
    """A server until the block ends; skips the test where there is none on this machine."""
    programs = binaries()
    if programs is None:
        pytest.skip("there is no PostgreSQL server on this machine; install Debian's package postgresql")
    # Its socket's path must be short, and its folder reachable for another user.
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    try:
        server = PostgresServer(folder, programs)
        server.start()
        try:
            yield server
        finally:
            with contextlib.suppress(subprocess.SubprocessError):
                server.stop("immediate")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _unprivileged() -> pwd.struct_passwd | None:
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    return None
