"""`holdfast plan` and `apply` of 1,000 services beside Terraform with 1,000 resources. Cold processes on both sides."""

import os
import subprocess
from collections.abc import Iterator

from bench.figures import Figure
from bench.fleets import write_counted_terraform, write_terraform
from bench.place import Place, apply_args, plan_args
from bench.stopwatch import Lap, interleaved, lap

SERVICES = 1_000
TERRAFORM = "/usr/local/bin/terraform"
TARGETS = {"create plan": 0.6, "no-op plan": 0.35, "apply": 0.05}


class Peer:
    """One directory to plan from nothing, and one that is applied again and again."""

    def __init__(self, place: Place, same_facts: bool) -> None:
        self._env = place.env
        self.new, self.applied = place.path("terraform-new"), place.path("terraform-applied")
        for folder in (self.new, self.applied):
            (write_terraform if same_facts else write_counted_terraform)(folder, SERVICES)
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


def measure(place: Place, plan_rounds: int, apply_rounds: int, same_facts: bool) -> Iterator[Figure]:
    """Judged beside Terraform's fastest form. With the same facts it takes several times as long; that is only told."""
    ours, peer = Ours(place), Peer(place, same_facts)
    applies = interleaved(apply_rounds, ours.apply, peer.apply)
    creates = interleaved(plan_rounds, lambda: ours.plan(ours.new), lambda: peer.plan(peer.new))
    no_ops = interleaved(plan_rounds, lambda: ours.plan(ours.applied), lambda: peer.plan(peer.applied))
    for name, (mine, theirs) in (("create plan", creates), ("no-op plan", no_ops), ("apply", applies)):
        yield Figure(
            f"{name}, 1,000 services" + (" (same facts)" if same_facts else ""),
            "s",
            mine.wall_s,
            theirs.wall_s,
            None if same_facts else TARGETS[name],
            note=f"processor time {mine.cpu_s:.2f} : {theirs.cpu_s:.2f} s",
        )
