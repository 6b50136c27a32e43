"""What came of a replay, as lines and as records."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from broker.cli.output import Style
from broker.cli.text import clean
from broker.core.checks import Check, Verdict

WORDS = {Verdict.AGREES: "agrees", Verdict.DIFFERS: "DIFFERS", Verdict.NOT_RECOMPUTED: "not recomputed"}
"""What a verdict is called."""

_TINTS = {Verdict.AGREES: "green", Verdict.DIFFERS: "red", Verdict.NOT_RECOMPUTED: "yellow"}


def replay_lines(checks: Sequence[Check], style: Style) -> Iterator[str]:
    """Each check with what could not be worked out and what differs, then what they say together."""
    indent = " " * 30
    for check in checks:
        verdict = style.paint(f"{WORDS[check.verdict]:<14}", _TINTS[check.verdict], bold=True)
        first, *rest = textwrap.wrap(check.told, style.width - len(indent)) or [""]
        yield f"  {check.name:<11} {verdict}  {first}"
        yield from (indent + line for line in rest)
        for limit in textwrap.wrap(f"but: {clean(check.limits)}" if check.limits else "", style.width - len(indent)):
            yield indent + limit
        for difference in check.differences:
            yield from textwrap.wrap(
                clean(difference), style.width, initial_indent=f"{indent}! ", subsequent_indent=f"{indent}  "
            )
    yield f"  {verdict_text(checks)}"


def verdict_text(checks: Sequence[Check]) -> str:
    """What the checks say together."""
    counts = Counter(check.verdict for check in checks)
    left = counts[Verdict.NOT_RECOMPUTED]
    limited = sum(check.verdict is Verdict.AGREES and bool(check.limits) for check in checks)
    rest = f"; {limited} of these only as far as the document goes" if limited else ""
    rest += f"; for {left} the document does not hold enough" if left else ""
    if counts[Verdict.DIFFERS]:
        return f"{counts[Verdict.DIFFERS]} of {len(checks)} checks differ, {counts[Verdict.AGREES]} agree{rest}"
    return f"{counts[Verdict.AGREES]} of {len(checks)} checks agree, none differs{rest}"


def check_record(check: Check) -> dict[str, Any]:
    """One check: ``event: check``."""
    return {
        "event": "check",
        "name": check.name,
        "verdict": check.verdict.value,
        "told": check.told,
        "limits": check.limits,
        "differences": list(check.differences),
    }
