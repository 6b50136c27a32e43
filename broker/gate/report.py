"""What the gate found, as lines of plain text: a table of verdicts, and counterexamples as tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from broker.core.composition import Composition
from broker.gate.run import CHECKS, Counterexample, Verdict
from broker.gate.samples import Sample, SampleFrame, SampleLane

_HEADINGS = ("provider", "scale", "frame", "bytes", "score", "floor", "rank", "becomes")


def verdict_lines(verdicts: Sequence[Verdict]) -> list[str]:
    """A row for each policy, a column for each property."""
    rows = [
        [verdict.name, *(verdict.results[name].value if name in verdict.results else "-" for name in CHECKS)]
        for verdict in verdicts
    ]
    return _table([["policy", *CHECKS], *rows])


def legend_lines() -> list[str]:
    """What each column of the verdicts stands for."""
    return [f"{name:<5}  {sentence}" for name, (sentence, _) in CHECKS.items()]


def counterexample_lines(example: Counterexample) -> Iterator[str]:
    """What is wrong, and the smallest set that shows it: of what changed, the values before and after."""
    finding, sample = example.finding, example.sample
    yield f"{example.property} is broken: {CHECKS[example.property][0]}"
    yield f"  {finding.says}"
    limits = [
        f"{name} {value}"
        for name, value in (
            ("max_tokens", sample.max_tokens),
            ("max_frames", sample.max_frames),
            ("max_frames_per_provider", sample.max_frames_per_provider),
        )
        if value is not None
    ]
    yield f"  sample {sample.seed}, {', '.join(limits) or 'no limits'}:"
    rows = [list(_HEADINGS)]
    for place, lane in enumerate(sample.lanes):
        other = lane if finding.changed is None else finding.changed.lanes[place]
        rows += [
            _row(finding.before, finding.after or finding.before, lane, other, index)
            for index in range(len(lane.frames))
        ]
    yield from (f"    {line}" for line in _table(rows))


def record(verdict: Verdict) -> dict[str, object]:
    """A verdict as a JSON record."""
    return {
        "name": verdict.name,
        "passed": verdict.passed,
        "properties": {name: result.value.lower() for name, result in verdict.results.items()},
        "counterexamples": [
            {
                "property": example.property,
                "says": example.finding.says,
                "seed": example.sample.seed,
                "before": _evidence(example.sample),
                "after": None if example.finding.changed is None else _evidence(example.finding.changed),
            }
            for example in verdict.counterexamples
        ],
    }


def _evidence(sample: Sample) -> dict[str, object]:
    return {
        "max_tokens": sample.max_tokens,
        "max_frames": sample.max_frames,
        "max_frames_per_provider": sample.max_frames_per_provider,
        "lanes": [
            {
                "provider": lane.provider,
                "scale": lane.scale.id,
                "floor": lane.floor,
                "frames": [
                    {"id": frame.id, "bytes": len(frame.content.encode()), "score": frame.score}
                    for frame in lane.frames
                ],
            }
            for lane in sample.lanes
        ],
    }


def _row(
    before: Composition | None, after: Composition | None, lane: SampleLane, other: SampleLane, index: int
) -> list[str]:
    frame, changed = lane.frames[index], other.frames[index]
    ranks, fates = zip(_fate(before, lane, frame), _fate(after, lane, frame), strict=True)
    return [
        lane.provider,
        f"{lane.scale.id}, {lane.scale.direction.value.replace('_', ' ')}",
        frame.id,
        str(len(frame.content.encode())),
        _both(_number(frame.score), _number(changed.score)),
        _both(_number(lane.floor), _number(other.floor)),
        _both(*ranks),
        _both(*fates),
    ]


def _fate(composition: Composition | None, lane: SampleLane, frame: SampleFrame) -> tuple[str, str]:
    """The rank of a frame, and what became of it."""
    rows = [] if composition is None else composition.audit
    found = [row for row in rows if (row.provider, row.frame_id) == (lane.provider, frame.id)]
    if not found:
        return "-", "-" if composition is None else "no row"
    return str(found[0].rank or "-"), f"placed {found[0].position}" if found[0].included else found[0].reason


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.6g}"


def _both(before: str, after: str) -> str:
    return before if before == after else f"{before} -> {after}"


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
