"""New work is refused from a part of the limit on, and the limit is the least that the machine tells of."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.errors import ResourceExhausted
from broker.limits.memory import CHECK_SECONDS, MemoryWatch, memory_limit, resident_bytes

MACHINE = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
MIB = 2**20


@given(st.integers(1, 2000), st.lists(st.integers(0, 2000), max_size=20))
def test_work_is_refused_exactly_while_the_process_is_at_or_above_its_part(limit: int, sizes: list[int]) -> None:
    resident = 0
    watch = MemoryWatch(limit * 10, 0.9, lambda: resident)
    for number, size in enumerate(sizes):
        resident = size * 10
        assert watch.shedding(number * CHECK_SECONDS * 2) == (resident >= 9 * limit)


def test_a_refusal_names_the_limit_and_when_to_come_back() -> None:
    watch = MemoryWatch(100, 0.9, lambda: 90)
    with pytest.raises(ResourceExhausted) as caught:
        watch.check(5.0)
    assert (caught.value.reason, caught.value.quota) == ("MEMORY", "limits.memory_bytes")
    assert caught.value.retry_after
    MemoryWatch(100, 0.9, lambda: 89).check(5.0)


def test_a_flood_does_not_read_the_size_for_every_call() -> None:
    read = []
    watch = MemoryWatch(100, 0.9, lambda: len(read.append(1) or read))
    for number in range(1000):
        watch.shedding(1.0 + number * CHECK_SECONDS / 100)
    assert 8 <= len(read) <= 11


def test_the_process_knows_its_own_size() -> None:
    before = resident_bytes()
    held = bytearray(os.urandom(64)) * MIB
    assert before + 32 * MIB < resident_bytes() < before + 128 * MIB
    assert len(held) == 64 * MIB


@pytest.fixture
def groups(tmp_path: Path) -> Path:
    """A file of control groups of which none has a limit."""
    file = tmp_path / "cgroup"
    file.write_text("9:name=systemd:/\n4:cpu,memory:/pod/box\n0::/pod/box\n")
    return file


def put(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_without_a_control_group_the_limit_is_the_machine(groups: Path, tmp_path: Path) -> None:
    assert memory_limit(groups, tmp_path / "mount") == MACHINE
    assert memory_limit(tmp_path / "absent", tmp_path / "mount") == MACHINE


@pytest.mark.parametrize(
    "file", ["pod/box/memory.max", "pod/memory.max", "memory.max", "memory/pod/box/memory.limit_in_bytes"]
)
def test_the_limit_is_what_a_control_group_or_one_above_it_allows(groups: Path, tmp_path: Path, file: str) -> None:
    put(tmp_path / "mount" / file, f"{64 * MIB}\n")
    put(tmp_path / "mount" / "memory.max.other", "1\n")
    assert memory_limit(groups, tmp_path / "mount") == 64 * MIB


def test_the_least_of_several_limits_counts_and_none_at_all_is_passed_over(groups: Path, tmp_path: Path) -> None:
    put(tmp_path / "mount" / "pod" / "box" / "memory.max", "max\n")
    put(tmp_path / "mount" / "pod" / "memory.max", f"{512 * MIB}\n")
    put(tmp_path / "mount" / "memory" / "memory.limit_in_bytes", f"{256 * MIB}\n")
    assert memory_limit(groups, tmp_path / "mount") == 256 * MIB


def test_a_container_that_is_told_its_groups_path_on_the_host_finds_its_own(groups: Path, tmp_path: Path) -> None:
    put(tmp_path / "mount" / "memory.max", f"{128 * MIB}\n")
    assert memory_limit(groups, tmp_path / "mount") == 128 * MIB


def test_a_limit_above_what_there_is_is_none(groups: Path, tmp_path: Path) -> None:
    put(tmp_path / "mount" / "memory" / "memory.limit_in_bytes", "9223372036854771712\n")
    assert memory_limit(groups, tmp_path / "mount") == MACHINE


def test_this_process_has_a_limit() -> None:
    assert 0 < memory_limit() <= MACHINE


def test_another_limit_holds_from_then_on() -> None:
    watch = MemoryWatch(100, 0.9, lambda: 90)
    assert watch.shedding(0.0)
    watch.configure(1000, 0.9)
    assert not watch.shedding(1.0)
    watch.configure(1000, 0.09)
    assert watch.shedding(2.0)
