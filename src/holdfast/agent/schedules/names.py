"""Names of the containers of runs: what they are for can be read from them."""

import re

from msgspec import Struct

from holdfast.model.container import ContainerSpec

_NAME = re.compile(
    r"hf-[^-]{6}-(?P<service>[^_]+)_run-(?P<schedule>[^_]+)-(?P<due>[0-9a-f]{1,10})-(?P<attempt>[0-9]{1,2})"
)


def container_name(spec: ContainerSpec, schedule: str, due_s: float) -> str:
    """Of the first attempt. No other minute, schedule, service or fleet has it."""
    return f"hf-{spec.fleet[:6]}-{spec.service}_run-{schedule}-{int(due_s):x}-1"


class Named(Struct, frozen=True):
    """What the name of a run's container says."""

    service: str
    schedule: str
    due_s: float
    attempt: int

    def of(self, spec: ContainerSpec) -> str:
        return attempt_name(container_name(spec, self.schedule, self.due_s), self.attempt)


def parsed(name: str) -> Named | None:
    """The inverse of `attempt_name`. Names of services and schedules have no underscore."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    return Named(found["service"], found["schedule"], float(int(found["due"], 16)), int(found["attempt"]))


def attempt_name(container: str, attempt: int) -> str:
    return f"{container.rpartition('-')[0]}-{attempt}"
