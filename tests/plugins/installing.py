"""A distribution of plugins as pip would leave it: modules beside a ``dist-info`` with real entry points."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

MODULE = "example_ranking"

SOURCE = '''
import sys
import time

from broker.plugins import Parameter


class KindFirst:
    """Frames of one kind before all others."""

    name = "kind_first"
    version = "1.2.0"
    description = "Frames of one kind first, then the others, each in round robin. Compares kinds and local ranks."
    parameters = (
        Parameter("kind", "name of a kind", "doc", "The kind that comes first."),
        Parameter("turns", "integer", "1", "Frames of a lane in a turn."),
        Parameter("mood", "text", "", "How it answers: raising, endless, empty or numbers of other types."),
    )

    def order(self, handles, params):
        mood = params.get("mood", "")
        if mood == "raising":
            raise KeyError("a secret of the plugin's")
        if mood == "endless":
            return iter(lambda: 0, 1)
        if mood == "empty":
            return None
        turns = params["turns"]
        key = lambda h: (h.kind != params["kind"], (h.local_rank - 1) // turns, h.lane_order, h.local_rank)
        return [h.index for h in sorted(handles, key=key)]


class Base:
    version, description, parameters = "0.1", "A bad example.", ()


class Hashed(Base):
    name = "hashed"

    def order(self, handles, params):
        return [h.index for h in sorted(handles, key=lambda h: (h.local_rank, hash(h.provider)))]


class Walker(Base):
    name = "walker"

    def order(self, handles, params):
        frame, scores = sys._getframe(), {}
        while frame is not None and not scores:
            for value in frame.f_locals.values():
                for entry in value if isinstance(value, list) else ():
                    score = getattr(getattr(entry, "candidate", None), "score", None)
                    if score is not None:
                        scores[entry.provider, entry.candidate.frame.id] = float(score.shown().value)
            frame = frame.f_back
        return [h.index for h in sorted(handles, key=lambda h: -scores.get((h.provider, h.frame_id), 0.0))]


class Careless(Base):
    name = "careless"

    def order(self, handles, params):
        return [h.index for h in handles[1:]]


class Moody(Base):
    name = "moody"

    def order(self, handles, params):
        raise RuntimeError("not today")


class Slow(Base):
    name = "slow"

    def order(self, handles, params):
        time.sleep(3600)


class Nothing:
    name = "nothing"
    version = "1"


class Misnamed(Base):
    name = "another"

    def order(self, handles, params):
        return [h.index for h in handles]


class RoundRobin(Misnamed):
    name = "round_robin"


made = KindFirst()
made.name = "an_object"


class Longest:
    name = "longest"
    version = "3"
    description = "The longer a text, the better."

    def scores(self, question, candidates):
        return [len(candidate.content) for candidate in candidates]


class Numbered(Longest):
    name = "numbered"
    version = 3


class Silent(Longest):
    name = "silent"
    scores = ()
'''

STRATEGIES: Mapping[str, str] = {
    "kind_first": "KindFirst",
    "an_object": "made",
    "hashed": "Hashed",
    "walker": "Walker",
    "careless": "Careless",
    "moody": "Moody",
    "slow": "Slow",
    "nothing": "Nothing",
    "misnamed": "Misnamed",
    "round_robin": "RoundRobin",
    "missing": "NoSuchThing",
    "No Name": "KindFirst",
}
"""Entry points by name; more than one of them is wrong."""


def write(folder: Path, name: str = "example-ranking", group_of: Mapping[str, Mapping[str, str]] | None = None) -> Path:
    """Writes a distribution into a folder, which then has to stand on the path.

    Args:
        folder: Where to.
        name: Of the distribution.
        group_of: Entry points by group; None: those of the example.
    """
    groups = group_of or {
        "context_broker.strategies": {
            **{point: f"{MODULE}:{attribute}" for point, attribute in STRATEGIES.items()},
            "uninvited": "uninvited_ranking:Uninvited",
            "absent": "no_such_module:Thing",
        },
        "context_broker.rerankers": {
            "longest": f"{MODULE}:Longest",
            "nothing": f"{MODULE}:Nothing",
            "longer": f"{MODULE}:Longest",
            "numbered": f"{MODULE}:Numbered",
            "silent": f"{MODULE}:Silent",
        },
    }
    (folder / f"{MODULE}.py").write_text(SOURCE)
    (folder / "uninvited_ranking.py").write_text("raise SystemExit('nobody asked for this module')\n")
    info = folder / f"{name.replace('-', '_')}-2.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 2.0\n")
    lines = []
    for group, points in groups.items():
        lines += [f"[{group}]", *(f"{point} = {target}" for point, target in points.items()), ""]
    (info / "entry_points.txt").write_text("\n".join(lines))
    return folder


@contextmanager
def installed(folder: Path) -> Iterator[Path]:
    """The example distribution on this process's path, and gone without a trace afterwards."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(write(folder))
        yield folder
    for module in (MODULE, "uninvited_ranking"):
        sys.modules.pop(module, None)
