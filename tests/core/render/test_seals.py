"""A seal depends on content and key alone."""

from __future__ import annotations

import base64
import hmac
import re

from hypothesis import given
from hypothesis import strategies as st

from broker.core.frames import content_digest
from broker.core.render.seals import SEAL, SEAL_LENGTH, seal_of, sealer_of
from broker.core.request import Fence

KEY = b"sixteen bytes at"
DIGEST = content_digest("content")


def test_the_same_content_under_the_same_key_has_the_same_seal_and_no_other():
    assert seal_of(DIGEST, KEY) == seal_of(DIGEST, KEY)
    assert seal_of(content_digest("other"), KEY) != seal_of(DIGEST, KEY)
    assert seal_of(DIGEST, KEY + b"!") != seal_of(DIGEST, KEY)


def test_a_seal_is_ten_base32_characters():
    assert re.fullmatch(SEAL, seal_of(DIGEST, KEY))
    assert len(seal_of(DIGEST, KEY)) == SEAL_LENGTH


def test_a_plain_fence_has_none():
    assert sealer_of(Fence.PLAIN, KEY) is None
    assert sealer_of(Fence.SEALED, KEY)(DIGEST) == seal_of(DIGEST, KEY)


@given(st.text(max_size=80), st.binary(max_size=200))
def test_it_is_the_start_of_an_hmac_in_base32(digest, key):
    mac = hmac.digest(key, digest.encode(), "sha256")
    assert seal_of(digest, key) == base64.b32encode(mac).decode()[:SEAL_LENGTH]
