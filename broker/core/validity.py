"""Timestamps and validity windows, compared exactly: no float, no time zone but UTC, no clock."""

from __future__ import annotations

import re
from datetime import datetime

from broker.core.frames import Frame

_TIMESTAMP = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9])(?:\.([0-9]{1,9}))?Z",
)

Moment = tuple[str, str]
"""Seconds as written and nine digits of their fraction. Moments compare as strings do, which is as times do."""


def moment(text: str) -> Moment | None:
    """Reads ``YYYY-MM-DDTHH:MM:SS[.f]Z`` with one to nine digits of fraction.

    Returns:
        The moment; None where the text has another form or names no moment of the calendar, such as month 13.
        Leap seconds are not read.
    """
    found = _TIMESTAMP.fullmatch(text)
    if found is None:
        return None
    seconds, fraction = found.groups("")
    try:
        datetime.fromisoformat(seconds)
    except ValueError:
        return None
    return seconds, fraction.ljust(9, "0")


def holds(frame: Frame, as_of: Moment) -> bool:
    """Whether a checked frame's window ``[valid_from, valid_to)`` holds a moment; an absent end is open."""
    start = moment(frame.valid_from) if frame.valid_from else None
    end = moment(frame.valid_to) if frame.valid_to else None
    return (start is None or start <= as_of) and (end is None or as_of < end)
