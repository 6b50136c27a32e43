"""A cross-encoder from a directory scores every pair, alone as in a batch, and a bad one is refused when loaded."""

from __future__ import annotations

import asyncio
import builtins
import threading
from pathlib import Path

import pytest

from broker.errors import ConfigError
from broker.rerankers.cross_encoder import BATCH, MAX_CHARACTERS, CrossEncoder
from broker.rerankers.reranker import RerankFailed
from tests.rerankers.models import make_model
from tests.rerankers.values import candidates

QUESTION = "shock wave heat"


@pytest.fixture(scope="module")
def directory(tmp_path_factory) -> Path:
    return make_model(tmp_path_factory.mktemp("model"))


async def score(encoder: CrossEncoder, *contents: str, question: str = QUESTION, title: str = "t") -> list[float]:
    return list((await encoder.score(question, candidates(*contents, title=title), 10.0)).scores)


async def test_each_pair_has_the_models_own_score(directory: Path):
    encoder = CrossEncoder(directory)
    assert await score(encoder, "Shock WAVE", "jam", "heat and wave and shock") == [2.0, 0.0, 3.0]
    assert await score(encoder, "shock wave", question="jam wing") == [0.0]


async def test_a_text_scores_the_same_alone_and_among_longer_ones_of_many_batches(directory: Path):
    encoder = CrossEncoder(directory)
    contents = [f"{'wave ' * (i % 3)}{'jam ' * i}{i}" for i in range(2 * BATCH + 3)]
    together = await score(encoder, *contents)
    assert together == [(await score(encoder, content))[0] for content in contents]
    assert len(set(together)) == 2


async def test_the_title_is_read_once(directory: Path):
    encoder = CrossEncoder(directory)
    both = {"question": "wave wave wave wave", "title": "wave"}
    assert await score(encoder, "jam", **both) == [1.0]
    assert await score(encoder, "wave jam", **both) == [1.0]


async def test_texts_are_cut_to_what_the_model_reads(directory: Path):
    encoder = CrossEncoder(directory, max_tokens=16)
    assert (await score(encoder, "jam " * 40 + "shock"))[0] == 0.0
    assert (await score(CrossEncoder(directory), "jam " * 40 + "shock"))[0] == 1.0
    assert (await score(CrossEncoder(directory), "j" * MAX_CHARACTERS + " shock"))[0] == 0.0


async def test_a_tokenizer_that_allows_fewer_tokens_has_its_way(tmp_path: Path):
    encoder = CrossEncoder(make_model(tmp_path, max_length=16))
    assert (await score(encoder, "jam " * 40 + "shock"))[0] == 0.0


async def test_a_tokenizer_that_pads_to_a_length_of_its_own_is_padded_to_the_longest(tmp_path: Path):
    encoder = CrossEncoder(make_model(tmp_path, padding=True))
    assert await score(encoder, "shock", "jam " * 100 + "wave") == [1.0, 1.0]


@pytest.mark.parametrize(
    "options",
    [{"number": "INT32"}, {"flat": True}, {"inputs": ("input_ids", "attention_mask")}],
    ids=["int32", "flat output", "no token types"],
)
async def test_other_exports_of_a_model_work_too(tmp_path: Path, options: dict):
    first, second = await score(CrossEncoder(make_model(tmp_path, **options)), "shock wave heat", "jam and nothing")
    assert first > second


def test_its_version_is_what_its_files_are(directory: Path, tmp_path: Path):
    version = CrossEncoder(directory).version
    assert version.startswith("sha256:")
    assert CrossEncoder(make_model(tmp_path / "same")).version == version
    assert CrossEncoder(make_model(tmp_path / "other", max_length=9)).version != version


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
def test_a_file_that_is_missing_or_is_none_is_named(tmp_path: Path, name: str):
    make_model(tmp_path)
    (tmp_path / name).write_text("{}")
    with pytest.raises(ConfigError, match=name):
        CrossEncoder(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(ConfigError, match=rf"no file {name}"):
        CrossEncoder(tmp_path)


def test_a_model_that_gives_no_one_number_for_each_pair_is_refused(tmp_path: Path):
    with pytest.raises(ConfigError, match="one number for each pair"):
        CrossEncoder(make_model(tmp_path, outputs=2))


def test_a_model_of_other_inputs_is_refused(tmp_path: Path):
    inputs = ("input_ids", "attention_mask", "token_type_ids", "pixels")
    with pytest.raises(ConfigError, match=r"pixels tensor\(int64\); expected whole numbers in attention_mask"):
        CrossEncoder(make_model(tmp_path, inputs=inputs))


def test_without_the_extra_it_says_what_to_install(directory: Path, monkeypatch: pytest.MonkeyPatch):
    real = builtins.__import__

    def without(name: str, *rest: object):
        if name == "onnxruntime":
            raise ImportError("No module named 'onnxruntime'", name="onnxruntime")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ConfigError, match=r"extra 'cross-encoder' \(onnxruntime is missing\)"):
        CrossEncoder(directory)


async def test_a_request_that_no_one_waits_for_ends_after_its_batch(directory: Path, monkeypatch: pytest.MonkeyPatch):
    encoder = CrossEncoder(directory)
    started, go_on, batches = threading.Event(), threading.Event(), []
    real = encoder._batch

    def held(question: str, texts: list[str]) -> list[float]:
        batches.append(len(texts))
        started.set()
        go_on.wait(20)
        return real(question, texts)

    monkeypatch.setattr(encoder, "_batch", held)
    scoring = asyncio.create_task(encoder.score(QUESTION, candidates(*map(str, range(3 * BATCH))), 10.0))
    await asyncio.to_thread(started.wait, 20)
    scoring.cancel()
    await asyncio.wait({scoring})
    go_on.set()
    assert await score(encoder, "wave") == [1.0]
    assert batches == [BATCH, 1]


async def test_a_fault_of_the_runtime_is_a_failure_and_not_told(directory: Path, monkeypatch: pytest.MonkeyPatch):
    encoder = CrossEncoder(directory)
    monkeypatch.setattr(encoder, "_inputs", {"input_ids": "int64"})
    with pytest.raises(RerankFailed, match="failed with"):
        await score(encoder, "wave")
