"""``python -m tests.bench.growth``: how the cost of each stage grows with frames, providers and the size of contents.

The stages of one request in one process, without gRPC: batches are read, checked, ranked, finished and encoded, and the
composition is recorded and told of. One JSON line a series: the points, in milliseconds of processor time (the best of
a few runs), and each stage's exponent, which is the slope of a straight line through the upper half of the points on
logarithmic scales. With ``--plot FILE`` they are drawn, which takes matplotlib (extra ``bench``).
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from broker.core.compose import finish
from broker.core.composition import Composition
from broker.core.intake import LaneIntake
from broker.core.lanes import Grant, Lane, LaneEnd
from broker.core.plan import rank_lanes
from broker.core.request import CompositionRequest, Policy
from broker.core.scores import UNIT
from broker.wire.compositions import encoded_parts, response_of
from broker.wire.reading import BatchFrames
from tests.bench.beside import beside
from tests.bench.loads import Load, provider_batches, provider_name

SERIES: Mapping[str, Sequence[Load]] = {
    "frames": [Load(str(n), 8, n // 8, 512, 1) for n in (96, 320, 1000, 3200, 10_000, 32_000, 100_000)],
    "providers": [Load(str(n), n, 10, 512, 1) for n in (2, 5, 10, 25, 50, 100, 250, 500)],
    "content_bytes": [Load(str(n), 8, 16, n, 1) for n in (256, 1024, 4096, 16_384, 65_536)],
}
BUDGET_TOKENS = 32_000
"""What a prompt holds, however much is offered."""

_AMPLE = Grant(1_000_000, 1_000_000_000)
_MAX_FRAME_BYTES = 192 * 1024
_POLICY = Policy(seal_key=b"the key of the benchmark")


def stages(load: Load, *, repeats: int) -> dict[str, float]:
    """Milliseconds of processor time of each stage of one request, at best."""
    batches = {provider_name(place): provider_batches(load, place) for place in range(load.providers)}
    request = CompositionRequest(max_tokens=BUDGET_TOKENS)
    best: dict[str, float] = {}
    for _ in range(repeats):
        watch = _Watch(best)
        read = watch("read", _read, batches)
        lanes = watch("check", _checked, read)
        plan = watch("rank", rank_lanes, lanes, request, _POLICY)
        composition = watch("finish", finish, plan)
        watch("encode", _encoded, composition)
    return {name: round(value, 3) for name, value in best.items()}


def beside_stages(load: Load, *, repeats: int) -> dict[str, float]:
    """The same of what a daemon does besides, where the composition is recorded in memory."""
    lanes = _checked(_read({provider_name(place): provider_batches(load, place) for place in range(load.providers)}))
    composition = finish(rank_lanes(lanes, CompositionRequest(max_tokens=BUDGET_TOKENS), _POLICY))
    best: dict[str, float] = {}
    with beside() as daemon:
        for _ in range(repeats):
            watch = _Watch(best)
            watch("record", daemon.record, composition, lanes)
            watch("tell", daemon.tell, composition)
    return {name: round(value, 3) for name, value in best.items()}


def exponent(points: Sequence[tuple[float, float]]) -> float:
    """The slope of the straight line nearest to the points on logarithmic scales."""
    logs = [(math.log(x), math.log(y)) for x, y in points]
    across, along = (sum(values) / len(logs) for values in zip(*logs, strict=True))
    return sum((x - across) * (y - along) for x, y in logs) / sum((x - across) ** 2 for x, _ in logs)


def series(loads: Sequence[Load], *, repeats: int) -> dict[str, Any]:
    """One series' points and exponents."""
    points = {load.name: stages(load, repeats=repeats) | beside_stages(load, repeats=repeats) for load in loads}
    upper = [load.name for load in loads[len(loads) // 2 :]]
    names = list(next(iter(points.values())))
    return {
        "points_ms": points,
        "exponents": {
            name: round(exponent([(float(x), max(points[x][name], 1e-3)) for x in upper]), 2) for name in names
        },
    }


class _Watch:
    """Times what it calls; of several runs the best counts."""

    def __init__(self, best: dict[str, float]) -> None:
        self._best = best

    def __call__(self, name: str, work: Callable[..., Any], *args: Any) -> Any:
        began = time.process_time()
        result = work(*args)
        self._best[name] = min(self._best.get(name, math.inf), (time.process_time() - began) * 1000)
        return result


def _read(batches: Mapping[str, Sequence[bytes]]) -> dict[str, list[Any]]:
    return {
        provider: [frame for batch in own for frame in BatchFrames(batch, _MAX_FRAME_BYTES)[:]]
        for provider, own in batches.items()
    }


def _checked(read: Mapping[str, Sequence[Any]]) -> list[Lane]:
    lanes = []
    for provider, frames in read.items():
        intake = LaneIntake(provider, UNIT, _AMPLE)
        intake.take(frames, decoded=True)
        lanes.append(intake.close(LaneEnd.COMPLETE))
    return lanes


def _encoded(composition: Composition) -> list[bytes]:
    return [response_of(part.joined()) for part in encoded_parts(composition)]


def plot(lines: Sequence[Mapping[str, Any]], path: str) -> None:
    """Draws the series side by side."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(lines), figsize=(6 * len(lines), 5), squeeze=False)
    for axis, line in zip(axes[0], lines, strict=True):
        for stage, power in line["exponents"].items():
            points = [(float(x), max(values[stage], 1e-3)) for x, values in line["points_ms"].items()]
            axis.loglog(*zip(*points, strict=True), marker="o", label=f"{stage} (exponent {power})")
        axis.set(title=f"One request against {line['growth']}", xlabel=line["growth"], ylabel="ms of processor time")
        axis.grid(visible=True, which="both", alpha=0.3)
        axis.legend()
    figure.tight_layout()
    figure.savefig(path)


def main() -> None:
    """Measures, prints, and draws where that is asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.growth", description=__doc__)
    parser.add_argument("--series", nargs="*", choices=[*SERIES], default=[*SERIES])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--plot", metavar="FILE")
    asked = parser.parse_args()
    lines = []
    for name in asked.series:
        lines.append({"growth": name, **series(SERIES[name], repeats=asked.repeats)})
        print(json.dumps(lines[-1]), flush=True)
    if asked.plot:
        plot(lines, asked.plot)


if __name__ == "__main__":
    main()
