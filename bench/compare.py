"""Compares the speed of two checkouts that take turns in one run.

`bench/compare.py OLD NEW` needs two checkouts of this repository, each with its own `.venv` (`make setup` in each).
Each checkout measures itself: its own `bench/sampler.py` runs in its own environment. So an old commit needs the bench
of a newer one, with the old names of modules: `git -C OLD checkout BRANCH -- bench`, where BRANCH is the last commit
that has the old source and this bench.

One round measures each figure once in OLD and once in NEW; which of the two is first changes from round to round.
After 7 rounds it prints, for each figure, both medians, the spread and the ratio NEW : OLD. Less is better in every
figure. The spread is the larger one of both sides' distances between the first and the third quartile. A figure is
flagged WORSE when its new median is worse by more than 10 % and by more than the spread. Exit 1: a figure is flagged.

`--only GROUP` (may be repeated) measures a part: starts, plans, commits, check-ins, reads, changes, deploys.
`deploys` needs root, makes a lab for each checkout, and with 50 containers takes about 70 seconds for each round.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

GROUPS = ("starts", "plans", "commits", "check-ins", "reads", "changes", "deploys")
ROUNDS, CONTAINERS, IDLE_S = 7, 50, 20.0
WORSE_RATIO = 1.10
STOP_S_MAX = 120.0


@dataclass(frozen=True)
class Compared:
    """All samples of one figure, in seconds (or a share of a core)."""

    name: str
    old: Sequence[float]
    new: Sequence[float]

    @property
    def medians(self) -> tuple[float, float]:
        return statistics.median(self.old), statistics.median(self.new)

    @property
    def spread(self) -> float:
        return max(_quartile_distance(self.old), _quartile_distance(self.new))

    @property
    def is_worse(self) -> bool:
        old, new = self.medians
        return new > old * WORSE_RATIO and new - old > self.spread


def _quartile_distance(values: Sequence[float]) -> float:
    if len(values) < 2:
        return 0.0
    first, _, third = statistics.quantiles(values, n=4, method="inclusive")
    return third - first


class Checkout:
    """The sampler of one checkout, from `with` to its end."""

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        self._python = os.path.join(self.path, ".venv", "bin", "python")
        if not os.path.exists(self._python):
            raise SystemExit(f"{self.path} has no .venv/bin/python; run `make setup` there")
        if not os.path.exists(os.path.join(self.path, "bench", "sampler.py")):
            raise SystemExit(f"{self.path} has no bench/sampler.py; see `git checkout … -- bench` in {__file__}")

    def __enter__(self) -> "Checkout":
        self._process = subprocess.Popen(
            [self._python, "-m", "bench.sampler"], cwd=self.path, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        return self

    def __exit__(self, *trouble: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=STOP_S_MAX)

    def sample(self, group: str, containers: int, idle_s: float) -> Mapping[str, float]:
        assert self._process.stdin is not None and self._process.stdout is not None
        request = {"figure": group, "containers": containers, "idle_s": idle_s}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit(f"the sampler of {self.path} ended while it measured {group}")
        values: Mapping[str, float] = json.loads(answer)["values"]
        return values


def compare(old: Checkout, new: Checkout, args: argparse.Namespace) -> list[Compared]:
    taken: dict[str, tuple[list[float], list[float]]] = {}
    for group in args.only or GROUPS:
        for number in range(args.rounds):
            sides = [(0, old), (1, new)]
            for at, side in sides if number % 2 == 0 else reversed(sides):
                for name, value in side.sample(group, args.containers, args.idle).items():
                    taken.setdefault(name, ([], []))[at].append(value)
            load = os.getloadavg()[0]
            print(f"{group}: round {number + 1} of {args.rounds}, load {load:.1f}", file=sys.stderr, flush=True)
    return [Compared(name, *sides) for name, sides in taken.items()]


def table(figures: Sequence[Compared]) -> str:
    lines = ["| figure | old | new | spread | new : old | verdict |", "|---|---|---|---|---|---|"]
    for figure in figures:
        old, new = figure.medians
        verdict = "WORSE" if figure.is_worse else "ok"
        lines.append(f"| {figure.name} | {old:.4g} | {new:.4g} | {figure.spread:.2g} | {new / old:.3f} | {verdict} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", help="a checkout with its own .venv")
    parser.add_argument("new", help="another one")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--containers", type=int, default=CONTAINERS)
    parser.add_argument(
        "--idle", type=float, default=IDLE_S, metavar="SECONDS", help="of the idle agent; 0: not at all"
    )
    parser.add_argument("--only", metavar="GROUP", action="append", choices=GROUPS)
    args = parser.parse_args()
    with Checkout(args.old) as old, Checkout(args.new) as new:
        found = compare(old, new, args)
    print(table(found))
    samples = [{"name": one.name, "old": one.old, "new": one.new, "worse": one.is_worse} for one in found]
    print(json.dumps({"old": args.old, "new": args.new, "load": os.getloadavg()[0], "figures": samples}))
    return int(any(figure.is_worse for figure in found))


if __name__ == "__main__":
    sys.exit(main())
