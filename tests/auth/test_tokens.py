"""A token stands for the subject that its hash's line names, and for no one else."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.auth.files import WatchedFile
from broker.auth.parts import Identified, Kind, Presented, Refused
from broker.auth.tokens import MAX_SUBJECT, MIN_TOKEN, Tokens, new_token, parse_tokens, token_line


def tokens(folder: Path, text: str) -> Tokens:
    file = folder / "tokens"
    file.write_text(text)
    return Tokens(WatchedFile(file, "auth.tokens_file", parse_tokens))


def bearing(token: str) -> Presented:
    return Presented("c", (f"Bearer {token}",))


def test_a_new_token_is_known_by_the_line_that_goes_with_it(tmp_path: Path) -> None:
    token, other = new_token(), new_token()
    known = tokens(tmp_path, f"# of the search team\n\n  {token_line(token, 'spiffe://a/search')}\n")
    assert known.identify(bearing(token), 0.0) == Identified("spiffe://a/search", frozenset({Kind.TOKENS}))
    with pytest.raises(Refused, match="token unknown"):
        known.identify(bearing(other), 0.0)


def test_the_hash_is_sha_256_of_the_token(tmp_path: Path) -> None:
    token = "t" * MIN_TOKEN
    assert token_line(token, "me") == f"sha256:{sha256(token.encode()).hexdigest()} me"


def test_a_new_token_has_256_bits_and_can_be_sent() -> None:
    made = {new_token() for _ in range(100)}
    assert len(made) == 100
    assert all(len(token) == len("cbt_") + 43 and bearing(token).bearer() == token for token in made)


@pytest.mark.parametrize("word", ["changeme", "secret", "x" * (MIN_TOKEN - 1)])
def test_a_word_that_someone_chose_is_no_token_even_where_its_hash_is_known(tmp_path: Path, word: str) -> None:
    known = tokens(tmp_path, token_line(word, "me"))
    with pytest.raises(Refused, match="too short"):
        known.identify(bearing(word), 0.0)


def test_the_hash_itself_opens_nothing(tmp_path: Path) -> None:
    token = new_token()
    line = token_line(token, "me")
    known = tokens(tmp_path, line)
    for wrong in (line.partition(" ")[0], line.partition(" ")[0].removeprefix("sha256:")):
        with pytest.raises(Refused):
            known.identify(bearing(wrong), 0.0)


HASH = "sha256:" + "0" * 64


@pytest.mark.parametrize(
    "line",
    [
        "cbt_a-token-that-someone-wrote-here-by-mistake me",
        HASH,
        f"{HASH.upper()} me",
        f"{HASH}0 me",
        f"{HASH[:-1]} me",
        f"sha512:{'0' * 128} me",
        f"{HASH} two words",
        f"{HASH} {'x' * (MAX_SUBJECT + 1)}",
        f"{HASH} in\x7fvisible",
    ],
)
def test_a_line_of_another_form_is_refused_by_its_number_and_not_shown(line: str) -> None:
    with pytest.raises(ValueError, match=r"^line 2") as error:
        parse_tokens(f"# first\n{line}\n".encode())
    assert "mistake" not in str(error.value)


def test_one_hash_cannot_stand_for_two_subjects() -> None:
    assert parse_tokens(f"{HASH} a\n{HASH} a\n".encode()) == {"0" * 64: "a"}
    with pytest.raises(ValueError, match="line 2: its hash stands on an earlier line for another subject"):
        parse_tokens(f"{HASH} a\n{HASH} b\n".encode())


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(ValueError, match="not UTF-8 at byte 2"):
        parse_tokens(b"# \xff")


@given(st.binary())
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    try:
        found = parse_tokens(content)
    except ValueError:
        return
    assert all(len(digest) == 64 and subject for digest, subject in found.items())
