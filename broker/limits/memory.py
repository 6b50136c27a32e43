"""Memory: how much this process has, how much it may have, and when to take no more work.

New requests are refused from a part of the limit on, so that those in flight have the rest to finish in.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from broker.errors import ResourceExhausted
from broker.limits import garbage

CHECK_SECONDS = 0.02
"""Between two readings; one takes about 10 µs, and a broker can take in a few MiB meanwhile."""

RECLAIM_SECONDS = 300.0
"""Between two times that garbage is looked for, since it takes up to a second and may find none."""

RETRY_AFTER = 1.0
"""Seconds after which requests in flight may have ended."""

_CGROUP = Path("/sys/fs/cgroup")
_GROUPS = Path("/proc/self/cgroup")


def _opened(path: str) -> int | None:
    try:
        return os.open(path, os.O_RDONLY)
    except OSError:
        return None


_STATM = _opened("/proc/self/statm")
"""Open from the start: a process that is out of descriptors must still know its size."""


class MemoryWatch:
    """Says when the process is too large to take new work.

    Attributes:
        limit: Bytes that it may have.
        threshold: Bytes from which on new work is refused.
        resident: Gives the bytes that it has now.
    """

    def __init__(
        self, limit: int, shed_at: float, resident: Callable[[], int], reclaim: Callable[[], object] = garbage.reclaim
    ) -> None:
        """Watches a process.

        Args:
            limit: Bytes that it may have.
            shed_at: The part of them from which on new work is refused, above 0 and at most 1.
            resident: Bytes that it has now.
            reclaim: Frees what can be freed, before work is refused.
        """
        self.resident = resident
        self._reclaim = reclaim
        self._reclaimed_at: float | None = None
        self._read_at: float | None = None
        self._bytes = 0
        self.configure(limit, shed_at)

    def configure(self, limit: int, shed_at: float) -> None:
        """Sets another limit, and the part of it from which on new work is refused."""
        self.limit = limit
        self.threshold = int(limit * shed_at)

    def shedding(self, now: float) -> bool:
        """Whether new work is to be refused; ``now`` is in monotonic seconds."""
        if self._read_at is None or now - self._read_at >= CHECK_SECONDS:
            self._read_at = now
            self._bytes = self.resident()
            if self._bytes >= self.threshold and self._is_due(now):
                self._reclaimed_at = now
                self._reclaim()
                self._bytes = self.resident()
        return self._bytes >= self.threshold

    def _is_due(self, now: float) -> bool:
        return self._reclaimed_at is None or now - self._reclaimed_at >= RECLAIM_SECONDS

    def check(self, now: float) -> None:
        """Refuses new work where the process is too large for it.

        Raises:
            ResourceExhausted: ``MEMORY``.
        """
        if self.shedding(now):
            raise ResourceExhausted(
                "MEMORY",
                "the broker is short of memory (limits.memory_bytes) and finishes what it has begun; ask again in a "
                "moment, or ask another one",
                quota="limits.memory_bytes",
                retry_after=RETRY_AFTER,
            )


def resident_bytes() -> int:
    """Bytes of this process that are in memory; 0 where the system does not say so in ``/proc``."""
    return 0 if _STATM is None else int(os.pread(_STATM, 256, 0).split()[1]) * os.sysconf("SC_PAGE_SIZE")


def memory_limit(groups: Path = _GROUPS, mount: Path = _CGROUP) -> int:
    """Bytes that this process may have: the least that its control groups allow, else all that the machine has.

    Args:
        groups: The file that names the process's control groups.
        mount: Where control groups are mounted.
    """
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min((total, *_group_limits(groups, mount)))


def _group_limits(groups: Path, mount: Path) -> Iterable[int]:
    try:
        lines = groups.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            root, name = mount, "memory.max"
        elif "memory" in controllers.split(","):
            root, name = mount / "memory", "memory.limit_in_bytes"
        else:
            continue
        group = root / path.lstrip("/")
        # A container sees its own group at the root, whatever path the host knows it by.
        for folder in (group, *group.parents):
            limit = _number(folder / name)
            if limit is not None:
                yield limit
            if folder == root:
                break


def _number(file: Path) -> int | None:
    """What a file holds; None: no number, which is how a group without a limit says so, or no file."""
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return None
