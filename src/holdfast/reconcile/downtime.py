"""How long a service is down while its data gets another writer: learned from the last rollout, or estimated. Pure."""

from collections.abc import Sequence

from msgspec import Struct

from holdfast.model.deployment import StepResult

STOP_S = 0.3  # of a program that was never stopped here
CHECKPOINT_S, FILE_S, BYTES_S = 0.2, 15e-6, 8e9  # the last pass: a look at each file, and big files compared
SLOWER_MAX = 10.0  # one checkpoint on a busy machine does not make the next forecast absurd


class Learned(Struct, frozen=True, omit_defaults=True):
    """Of the last rollout that ended well. `down_s`: from stop to switch, without the checkpoint. `slower`: how many
    times as long as the constants say its checkpoint took on this node; 0 before the first one. `at_s`: its end."""

    down_s: float = 0.0
    slower: float = 0.0
    at_s: float = 0.0


def learned(steps: Sequence[StepResult], before: Learned, written_bytes: int = 0, files: int = 0) -> Learned:
    """`before`, if these steps are of no such rollout. Bytes and files are those that its checkpoint had to look at."""
    if any(one.outcome == "failed" for one in steps):
        return before
    ends = [one.at_s + one.took_s for one in steps if one.name == "switch" and one.outcome == "done"]
    stops = [one.at_s for one in steps if one.name.startswith("stop ") and (not ends or one.at_s < ends[-1])]
    starts = [one.at_s for one in steps if one.name.startswith("start ")]
    begins = stops or starts
    if not ends or not begins or ends[-1] == before.at_s:  # learned already; its data may have grown since
        return before
    paused = [one.took_s for one in steps if one.name.startswith("checkpoint ")]
    down_s = ends[-1] - begins[0] - sum(paused) + (0.0 if stops else STOP_S)
    slower = sum(paused) / (len(paused) * _checkpoint_s(written_bytes, files)) if paused else before.slower
    return Learned(round(max(down_s, 0.0), 2), round(min(slower, SLOWER_MAX), 1), ends[-1])


def is_abandoned(steps: Sequence[StepResult]) -> bool:
    """Data was copied ahead, and no checkpoint followed."""
    names = [one.name for one in steps if one.outcome == "done" or one.name.startswith("copy ")]
    return any(
        name.startswith("copy ") and name.replace("copy", "checkpoint", 1) not in names[at:]
        for at, name in enumerate(names)
    )


def estimated_s(known: Learned, written_bytes: int, files: int) -> float:
    """What a checkpoint shares with another, or with the data by its blocks, is not compared. A checkpoint that was
    faster than the constants may have found nothing changed, so that it does not make the forecast shorter."""
    return known.down_s + _checkpoint_s(written_bytes, files) * max(known.slower, 1.0)


def _checkpoint_s(written_bytes: int, files: int) -> float:
    return CHECKPOINT_S + files * FILE_S + written_bytes / BYTES_S


def two_digits(value: float) -> float:
    return float(f"{value:.1e}")
