"""Watching what functions are called with while something else runs, by Python itself and without a stand-in.

What is watched is the code that serves: nothing has to be put in its place, so that nothing can differ from it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType, FunctionType
from typing import Any


@contextmanager
def calls_of(functions: Collection[Callable[..., Any]]) -> Iterator[list[Mapping[str, object]]]:
    """Notes the arguments of every call of some functions, by their names, that this thread makes meanwhile.

    Args:
        functions: Functions of Python's own.
    """
    codes = {function.__code__ for function in functions if isinstance(function, FunctionType)}
    calls: list[Mapping[str, object]] = []

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code in codes:
            calls.append(dict(frame.f_locals))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(before)
