"""How long a service is down while its data gets another writer: learned from the last rollout, or estimated. Pure."""

from collections.abc import Sequence

from msgspec import Struct

from holdfast.model.deployment import StepResult

STOP_S = 0.3  # of a program that was never stopped here
CHECKPOINT_S, FILE_S, BYTES_S = 0.2, 15e-6, 8e9  # the last pass: a look at each file, and big files compared


class Learned(Struct, frozen=True, omit_defaults=True):
    """Of the last rollout that ended well: from stop to switch, without the checkpoint."""

    down_s: float = 0.0


def learned(steps: Sequence[StepResult], before: Learned) -> Learned:
    """`before`, if these steps are of no such rollout."""
    if any(one.outcome == "failed" for one in steps):
        return before
    ends = [one.at_s + one.took_s for one in steps if one.name == "switch" and one.outcome == "done"]
    stops = [one.at_s for one in steps if one.name.startswith("stop ") and (not ends or one.at_s < ends[-1])]
    starts = [one.at_s for one in steps if one.name.startswith("start ")]
    begins = stops or starts
    if not ends or not begins:
        return before
    paused_s = sum(one.took_s for one in steps if one.name.startswith("checkpoint "))
    down_s = ends[-1] - begins[0] - paused_s + (0.0 if stops else STOP_S)
    return Learned(round(max(down_s, 0.0), 2))


def is_abandoned(steps: Sequence[StepResult]) -> bool:
    """Data was copied ahead, and no checkpoint followed."""
    names = [one.name for one in steps if one.outcome == "done" or one.name.startswith("copy ")]
    return any(
        name.startswith("copy ") and name.replace("copy", "checkpoint", 1) not in names[at:]
        for at, name in enumerate(names)
    )


def estimated_s(known: Learned, written_bytes: int, files: int) -> float:
    """What a checkpoint shares with another, or with the data by its blocks, is not compared."""
    return known.down_s + CHECKPOINT_S + files * FILE_S + written_bytes / BYTES_S


def two_digits(value: float) -> float:
    return float(f"{value:.1e}")
