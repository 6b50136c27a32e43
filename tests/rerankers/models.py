"""A tiny cross-encoder: real ONNX and a real tokenizer, whose score is the number of words that pair has in common."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

WORDS = ("shock", "wave", "laminar", "heat", "flow", "jam", "wing")
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")


def make_model(
    directory: Path,
    *,
    inputs: Sequence[str] = ("input_ids", "attention_mask", "token_type_ids"),
    number: str = "INT64",
    outputs: int = 1,
    flat: bool = False,
    padding: bool = False,
    max_length: int | None = None,
) -> Path:
    """Writes ``model.onnx`` and ``tokenizer.json``; skips the test where what makes them is not installed."""
    directory.mkdir(parents=True, exist_ok=True)
    _make_tokenizer(directory / "tokenizer.json", padding=padding, max_length=max_length)
    _make_network(directory / "model.onnx", inputs, number, outputs, flat)
    return directory


def _make_network(file: Path, inputs: Sequence[str], number: str, outputs: int, flat: bool) -> None:
    onnx = pytest.importorskip("onnx", reason="onnx is not installed: install the dev extra")
    np = pytest.importorskip("numpy", reason="numpy is not installed: install the dev extra")
    helper, tensor = onnx.helper, onnx.numpy_helper.from_array
    kind = getattr(onnx.TensorProto, number)
    size = len(SPECIAL) + len(WORDS)
    # Each word is a direction of its own, and special tokens are none.
    embedding = np.eye(size, dtype=np.float32)
    embedding[: len(SPECIAL)] = 0
    constants = [
        tensor(embedding, "embedding"),
        tensor(np.asarray([2], dtype=np.int64), "last"),
        tensor(np.asarray([1], dtype=np.int64), "along"),
        tensor(np.float32(1), "one"),
        tensor(np.ones((1, outputs), dtype=np.float32), "copies"),
    ]

    def cast(name: str) -> object:
        return helper.make_node("Cast", [name], [f"{name}_float"], to=onnx.TensorProto.FLOAT)

    def bag(weights: str, name: str) -> list[object]:
        return [
            helper.make_node("Unsqueeze", [weights, "last"], [f"{name}_column"]),
            helper.make_node("Mul", ["vectors", f"{name}_column"], [f"{name}_vectors"]),
            helper.make_node("ReduceSum", [f"{name}_vectors", "along"], [f"{name}_bag"], keepdims=0),
        ]

    nodes = [helper.make_node("Gather", ["embedding", "input_ids"], ["vectors"])]
    if "token_type_ids" in inputs:
        nodes += [
            cast("token_type_ids"),
            cast("attention_mask"),
            helper.make_node("Mul", ["token_type_ids_float", "attention_mask_float"], ["second"]),
            helper.make_node("Sub", ["one", "token_type_ids_float"], ["not_second"]),
            helper.make_node("Mul", ["not_second", "attention_mask_float"], ["first"]),
            *bag("first", "first"),
            *bag("second", "second"),
            helper.make_node("Min", ["first_bag", "second_bag"], ["common"]),
        ]
    else:
        nodes += [cast("attention_mask"), *bag("attention_mask_float", "all")]
        nodes += [helper.make_node("Identity", ["all_bag"], ["common"])]
    nodes.append(helper.make_node("ReduceSum", ["common", "along"], ["score"], keepdims=0 if flat else 1))
    if not flat:
        nodes.append(helper.make_node("Mul", ["score", "copies"], ["logits"]))
    shape = ["batch"] if flat else ["batch", outputs]
    graph = helper.make_graph(
        nodes,
        "overlap",
        [helper.make_tensor_value_info(name, kind, ["batch", "length"]) for name in inputs],
        [helper.make_tensor_value_info("score" if flat else "logits", onnx.TensorProto.FLOAT, shape)],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    file.write_bytes(model.SerializeToString())


def _make_tokenizer(file: Path, *, padding: bool, max_length: int | None) -> None:
    tokenizers = pytest.importorskip(
        "tokenizers", reason="tokenizers is not installed: install the extra cross-encoder"
    )
    vocabulary = {token: number for number, token in enumerate((*SPECIAL, *WORDS))}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = tokenizers.normalizers.Lowercase()
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])],
    )
    if padding:
        tokenizer.enable_padding(length=64, pad_id=0, pad_token="[PAD]")
    if max_length is not None:
        tokenizer.enable_truncation(max_length=max_length)
    tokenizer.save(str(file))
