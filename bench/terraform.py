"""`holdfast plan` and `apply` beside Terraform with as many resources. Cold processes on both sides."""

import os
import subprocess
from collections.abc import Iterator

from bench.figures import Figure
from bench.fleets import write_counted_terraform, write_terraform
from bench.place import Place, apply_args, plan_args
from bench.stopwatch import Lap, interleaved, lap

TERRAFORM = "/usr/local/bin/terraform"
TARGETS = {"create plan": 0.6, "no-op plan": 0.35, "apply": 0.05}


def is_installed() -> bool:
    return os.path.exists(TERRAFORM)


class Peer:
    """One directory to plan from nothing, and one that is applied again and again."""

    def __init__(self, place: Place, services: int, same_facts: bool) -> None:
        self._env = place.env
        self.new, self.applied = place.path("terraform-new"), place.path("terraform-applied")
        for folder in (self.new, self.applied):
            (write_terraform if same_facts else write_counted_terraform)(folder, services)
            subprocess.run([TERRAFORM, "init"], cwd=folder, env=self._env, check=True, stdout=subprocess.DEVNULL)

    def plan(self, folder: str) -> Lap:
        return lap([TERRAFORM, "plan", "-input=false"], self._env, folder)

    def apply(self) -> Lap:
        for name in ("terraform.tfstate", "terraform.tfstate.backup"):
            if os.path.exists(os.path.join(self.applied, name)):
                os.unlink(os.path.join(self.applied, name))
        return lap([TERRAFORM, "apply", "-auto-approve", "-input=false"], self._env, self.applied)


class Ours:
    def __init__(self, place: Place, services: int) -> None:
        self._place = place
        self.new, self.applied = place.fleet("new", services), place.fleet("applied", services)

    def plan(self, folder: str) -> Lap:
        return lap(plan_args(folder), self._place.env)

    def apply(self) -> Lap:
        self._place.forget(self.applied)
        return lap(apply_args(self.applied), self._place.env)


def measure(place: Place, services: int, plan_rounds: int, apply_rounds: int, same_facts: bool) -> Iterator[Figure]:
    """Judged beside Terraform's fastest form. With the same facts it takes several times as long; that is only told."""
    if not is_installed():
        raise SystemExit(f"the peer is missing: {TERRAFORM} does not exist; install Terraform there")
    ours, peer = Ours(place, services), Peer(place, services, same_facts)
    applies = interleaved(apply_rounds, ours.apply, peer.apply)
    creates = interleaved(plan_rounds, lambda: ours.plan(ours.new), lambda: peer.plan(peer.new))
    no_ops = interleaved(plan_rounds, lambda: ours.plan(ours.applied), lambda: peer.plan(peer.applied))
    for name, (mine, theirs) in (("create plan", creates), ("no-op plan", no_ops), ("apply", applies)):
        yield Figure(
            f"{name}, {services:,} services" + (" (same facts)" if same_facts else ""),
            "s",
            mine.wall_s,
            theirs.wall_s,
            None if same_facts else TARGETS[name],
            note=f"processor time {mine.cpu_s:.2f} : {theirs.cpu_s:.2f} s",
        )


def measure_alone(place: Place, services: int) -> Iterator[Figure]:
    """Ours once, where the peer is not installed."""
    ours = Ours(place, services)
    for name, work in (
        ("apply", ours.apply),
        ("create plan", lambda: ours.plan(ours.new)),
        ("no-op plan", lambda: ours.plan(ours.applied)),
    ):
        yield Figure(f"{name}, {services:,} services", "s", work().wall_s, note="Terraform is not installed")
