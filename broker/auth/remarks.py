"""What is odd about who may call: files that can be used, and that let in no one, or not whom they seem to."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from broker.auth.parts import Kind
from broker.auth.principals import Principal

_SHOWN = 5
"""Subjects that a remark names."""


def remarks(principals: Mapping[str, Principal], tokens: Collection[str] | None) -> Iterator[str]:
    """What an operator would want to know, one a line; nothing where all is as it seems.

    Args:
        principals: By subject.
        tokens: Subjects that a token of the tokens file stands for; None: the policy has no tokens.
    """
    known = frozenset(tokens or ())
    by_token = [each.subject for each in principals.values() if each.by == {Kind.TOKENS}]
    tokenless = [] if tokens is None else [subject for subject in by_token if subject not in known]
    if not principals:
        yield "no one with a credential can call: auth.principals_file has no principal"
    elif len(tokenless) == len(principals):
        yield "no one with a credential can call: auth.tokens_file has no token of any principal"
    elif tokenless:
        yield f"no token stands for {_told(tokenless)}, whom nothing else may name: no one can call as these"
    strangers = known - principals.keys()
    if strangers and principals:
        yield f"tokens stand for {_told(strangers)}, and no principal does: who shows these is refused"


def _told(subjects: Collection[str]) -> str:
    names = [ascii(each) for each in sorted(subjects)]
    more = [f"{len(names) - _SHOWN} more"] if len(names) > _SHOWN else []
    return ", ".join((*names[:_SHOWN], *more))
