"""What checks say together counts each verdict, and says where a document does not hold enough."""

from __future__ import annotations

import pytest

from broker.cli.replay_view import verdict_text
from broker.core.checks import Check, Verdict

AGREES, LIMITED = Check("a", Verdict.AGREES, "told"), Check("b", Verdict.AGREES, "told", "the seals")
DIFFERS, UNKNOWN = Check("c", Verdict.DIFFERS, "told", "", ("x",)), Check("d", Verdict.NOT_RECOMPUTED, "told", "no key")

ALL = (
    "1 of 4 checks differ, 2 agree; 1 of these only as far as the document goes; "
    "for 1 the document does not hold enough"
)


@pytest.mark.parametrize(
    ("checks", "text"),
    [
        ([AGREES, AGREES], "2 of 2 checks agree, none differs"),
        ([AGREES, LIMITED], "2 of 2 checks agree, none differs; 1 of these only as far as the document goes"),
        ([AGREES, UNKNOWN], "1 of 2 checks agree, none differs; for 1 the document does not hold enough"),
        ([AGREES, LIMITED, DIFFERS, UNKNOWN], ALL),
    ],
)
def test_every_verdict_is_counted(checks: list[Check], text: str):
    assert verdict_text(checks) == text
