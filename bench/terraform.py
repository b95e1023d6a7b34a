"""`holdfast plan` and `apply` of 1,000 services beside Terraform with 1,000 resources. Cold processes on both sides."""

import os
import subprocess
from collections.abc import Iterator

from bench.figures import Figure
from bench.fleets import write_terraform
from bench.place import Place, apply_args, plan_args
from bench.stopwatch import Lap, interleaved, lap

SERVICES = 1_000
TERRAFORM = "/usr/local/bin/terraform"
TARGETS = {"create plan": 0.6, "no-op plan": 0.35, "apply": 0.05}


class Peer:
    """One directory to plan from nothing, and one that is applied again and again."""

    def __init__(self, place: Place, lean: bool) -> None:
        self._env = place.env
        self.new, self.applied = (place.path(f"terraform-{kind}-{lean}") for kind in ("new", "applied"))
        for folder in (self.new, self.applied):
            write_terraform(folder, SERVICES, lean)
            subprocess.run([TERRAFORM, "init"], cwd=folder, env=self._env, check=True, stdout=subprocess.DEVNULL)

    def plan(self, folder: str) -> Lap:
        return lap([TERRAFORM, "plan", "-input=false"], self._env, folder)

    def apply(self) -> Lap:
        for name in ("terraform.tfstate", "terraform.tfstate.backup"):
            if os.path.exists(os.path.join(self.applied, name)):
                os.unlink(os.path.join(self.applied, name))
        return lap([TERRAFORM, "apply", "-auto-approve", "-input=false"], self._env, self.applied)


class Ours:
    def __init__(self, place: Place) -> None:
        self._place = place
        self.new, self.applied = place.fleet("new", SERVICES), place.fleet("applied", SERVICES)

    def plan(self, folder: str) -> Lap:
        return lap(plan_args(folder), self._place.env)

    def apply(self) -> Lap:
        self._place.forget(self.applied)
        return lap(apply_args(self.applied), self._place.env)


def measure(place: Place, plan_rounds: int, apply_rounds: int, lean: bool) -> Iterator[Figure]:
    """Against lean resources the targets are judged; against the same facts the figures are only told."""
    ours, peer = Ours(place), Peer(place, lean)
    applies = interleaved(apply_rounds, ours.apply, peer.apply)
    creates = interleaved(plan_rounds, lambda: ours.plan(ours.new), lambda: peer.plan(peer.new))
    no_ops = interleaved(plan_rounds, lambda: ours.plan(ours.applied), lambda: peer.plan(peer.applied))
    for name, (mine, theirs) in (("create plan", creates), ("no-op plan", no_ops), ("apply", applies)):
        yield Figure(
            f"{name}, 1,000 services" + ("" if lean else " (same facts)"),
            "s",
            mine.wall_s,
            theirs.wall_s,
            TARGETS[name] if lean else None,
            note=f"processor time {mine.cpu_s:.2f} : {theirs.cpu_s:.2f} s",
        )
