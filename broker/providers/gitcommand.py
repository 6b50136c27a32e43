"""The ``git`` command: bounded time and output, no shell, and none of a repository's own settings that run code."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Timer

TIMEOUT_SECONDS = 60.0
"""Seconds after which a git command is killed."""

MAX_OUTPUT_BYTES = 64 * 1024 * 1024
"""Bytes of output that are read from one git command; it is killed when it writes more."""

_CODE_FREE = ("core.fsmonitor=false", "log.showSignature=false", "core.quotePath=false")

# A git hook, or a shell that works on another repository, leaves these set: they would win over the folder asked for.
_OTHER_REPOSITORY = (
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_DIR",
    "GIT_GRAFT_FILE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_NAMESPACE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
)


class GitMissing(Exception):
    """There is no git command on this machine."""


@dataclass(frozen=True, slots=True)
class GitResult:
    """What a git command gave.

    Attributes:
        code: Its exit status; 0 is success, and also when it was stopped for writing too much.
        output: What it wrote, at most :data:`MAX_OUTPUT_BYTES`.
        cut: Whether it wrote, or would have written, more.
        message: The first line of what it said on standard error.
    """

    code: int
    output: bytes
    cut: bool
    message: str


def git(
    folder: Path, *arguments: str, timeout: float = TIMEOUT_SECONDS, max_bytes: int = MAX_OUTPUT_BYTES
) -> GitResult:
    """Runs git in a folder. A command that outlives its time is killed and reports a code other than 0.

    Raises:
        GitMissing: There is no git command.
    """
    command = shutil.which("git")
    if command is None:
        raise GitMissing
    settings = [part for setting in _CODE_FREE for part in ("-c", setting)]
    environment = {name: value for name, value in os.environ.items() if name not in _OTHER_REPOSITORY}
    environment |= {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1"}
    with tempfile.TemporaryFile() as said:
        with subprocess.Popen(  # noqa: S603 - no shell, a fixed command, arguments of our own
            [command, "--no-pager", *settings, *arguments],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=said,
            start_new_session=True,
        ) as process:
            assert process.stdout is not None
            timer = Timer(timeout, _kill, (process,))
            timer.daemon = True
            timer.start()
            try:
                output = process.stdout.read(max_bytes + 1)
                if len(output) > max_bytes:
                    _kill(process)
                process.wait()
            finally:
                timer.cancel()
                _kill(process)
        said.seek(0)
        message = said.read(2000).decode(errors="replace").strip().partition("\n")[0]
    cut = len(output) > max_bytes
    return GitResult(0 if cut else process.returncode, output[:max_bytes], cut, message)


def _kill(process: subprocess.Popen[bytes]) -> None:
    # The whole session: a child of git's would hold the pipe open, and the reader with it. While git is not waited for,
    # its number is no other process's.
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
