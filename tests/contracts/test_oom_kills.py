"""Which containers the kernel killed for their memory: by a counter of control groups, version 2, or by its log."""

from pathlib import Path

import pytest

from holdfast.adapters.runtime.podman import oom_kills
from holdfast.adapters.runtime.podman.ends import End, Ends
from holdfast.adapters.runtime.podman.oom_kills import OomKills

ONE, TWO = "1" * 64, "2" * 64


def event(action: str, id: str, **attributes: str) -> bytes:
    shown = ",".join(f'"{name}":"{value}"' for name, value in attributes.items())
    return f'{{"Type":"container","Action":"{action}","Actor":{{"ID":"{id}","Attributes":{{{shown}}}}}}}'.encode()


def test_a_counter_above_the_container_counts_those_that_were_killed_below_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine with control groups of version 2 an agent in its unit reads this; it may not read the log."""
    (tmp_path / "machine.slice").mkdir()
    events = tmp_path / "machine.slice" / "memory.events"
    events.write_text("low 0\noom 9\noom_kill 3\noom_group_kill 0\n")
    (tmp_path / "77").mkdir()
    (tmp_path / "77" / "cgroup").write_text(f"0::/machine.slice/libpod-{ONE}.scope/container\n")
    monkeypatch.setattr(oom_kills, "PROC", str(tmp_path))
    kills = OomKills(str(tmp_path), str(tmp_path / "no-log"))
    kills.follow(ONE, 77)
    assert not kills.killed(ONE, 137), "those before count for nothing"
    events.write_text("low 0\noom 10\noom_kill 4\noom_group_kill 0\n")
    assert not kills.killed(TWO, 137), "it is in another group"
    assert not kills.killed(ONE, 1), "it ended by itself: another one below the same group was killed"
    assert kills.killed(ONE, 137) and not kills.killed(ONE, 137)
    kills.forget(ONE)
    kills.close()


def test_the_log_names_the_container(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"")
    kills = OomKills(str(tmp_path), str(log))
    with open(log, "ab") as file:
        file.write(b"6,1,2,-;oom-kill:constraint=X,task_memcg=/libpod_parent/libpod-%s,task=sh\n" % ONE.encode())
    assert not kills.killed(TWO, 137) and kills.killed(ONE, 137) and not kills.killed(ONE, 137)
    kills.close()


def test_without_a_log_and_a_counter_nothing_is_claimed(tmp_path: Path) -> None:
    kills = OomKills(str(tmp_path), str(tmp_path / "none"))
    kills.follow(ONE, 1)
    assert not kills.killed(ONE, 137)
    kills.close()


class Killed:
    def __init__(self, *ids: str) -> None:
        self.ids, self.forgotten = set(ids), list[str]()

    def killed(self, id: str, code: int) -> bool:
        return id in self.ids and code == 137

    def forget(self, id: str) -> None:
        self.forgotten.append(id)


def test_the_last_end_of_each_container_is_kept_until_it_is_removed() -> None:
    kills = Killed(TWO)
    ends = Ends(kills)
    for line in (
        b"",
        b"no event",
        event("start", ONE, containerExitCode="9"),
        event("died", ONE, containerExitCode="1"),
        event("died", ONE, containerExitCode="7"),
        event("died", TWO, containerExitCode="137"),
        event("died", "3" * 64, name="no code"),
        event("died", "4" * 64, containerExitCode="-1"),
        event("start", "5" * 64, containerExitCode="9"),
    ):
        ends.heard(line)
    assert (ends.last(ONE), ends.last(TWO)) == (End(7), End(137, oom=True))
    assert ends.last("3" * 64) is None and ends.last("4" * 64) is None
    assert ends.last("5" * 64) is None
    ends.heard(event("remove", ONE))
    assert ends.last(ONE) is None and kills.forgotten == [ONE]
