"""Provider names are lower-case ASCII, and none of them means more than one provider."""

from __future__ import annotations

import pytest

from broker.core.names import provider_name_problem


@pytest.mark.parametrize("name", ["a", "0", "tickets", "a.b_c-d", "x" * 63, "all-hands", "defaults"])
def test_a_right_name_has_no_problem(name):
    assert provider_name_problem(name) is None


@pytest.mark.parametrize(
    "name",
    ["", "*", "%", "a*", "^a", "A", "-a", ".a", "a b", "a\n", "x" * 64, "аlice", "a/b", "all", "default", "\u202ea"],
)
def test_a_wrong_name_is_told_in_plain_ascii(name):
    problem = provider_name_problem(name)
    assert problem is not None
    assert problem.isascii()
    assert problem.isprintable()
