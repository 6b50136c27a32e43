"""A digest is that of the bytes, however many there are."""

from __future__ import annotations

import hashlib

import pytest

from broker.core.frames import content_digest, digest_of, digests_of


@pytest.mark.parametrize("size", [0, 1, 2046, 2047, 2048, 4093, 4094, 4095, 100_000])
def test_a_digest_is_the_standard_s(size: int) -> None:
    data = bytes(number % 251 for number in range(size))
    assert digest_of(data) == f"sha256:{hashlib.sha256(data).hexdigest()}"


def test_a_content_s_digest_is_that_of_its_utf_8() -> None:
    assert content_digest("größer") == digest_of("größer".encode())


def test_the_digests_of_many_are_those_of_each() -> None:
    many = [bytes(size) for size in (0, 1, 2046, 2047, 2048, 5000, 1)]
    assert digests_of(many) == [f"sha256:{hashlib.sha256(data).hexdigest()}" for data in many]
