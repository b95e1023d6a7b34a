"""Drills on real podman: red for what cannot be restored, green otherwise, no way out, and nothing left behind."""

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fleets.counts import SOAK
from tests.fleets.lab import LabUnderTest, lab
from tests.fleets.lab_pasting import runs
from tests.fleets.waiting import wait_until
from tests.lab.product import Outcome

pytestmark = pytest.mark.lab

NAME, OTHER = "notes", "other"
PAGE = 4096

SERVICE = """
[[components]]
name = "web"
image = "{image}"

[[components.routes]]
name = "{name}-http"
port = 8080

[components.health]
type = "http"
path = "/health"
port = 8080

[[components.volumes]]
name = "files"
path = "/data"
protect = "backup"

[[components]]
name = "helper"
image = "{image}"

[components.health]
type = "exec"
cmd = ["sh", "-c", "test ! -e /data/poison"]

[[components.volumes]]
name = "more"
path = "/data"
protect = "backup"
"""
DRILL = '\n[drill]\ntimeout = "1m"\ncmd = ["sh", "-c", {script}]\n'


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabUnderTest]:
    with lab(tmp_path_factory.mktemp("drills"), nodes="hub1:hub,w1:worker") as found:
        found.lab("fast").ok()
        found.write(OTHER, SERVICE.format(image=f"{found.registry}/hello:1", name=OTHER))
        write(found, "test $(wc -c < /data/db) -eq 4096")
        found.run("apply", "--yes").ok()
        (data(found) / "db").write_bytes(b"x" * PAGE)
        yield found


def write(made: LabUnderTest, script: str) -> None:
    """The service, with this cmd of its drill. A variable of the copy says that it is one."""
    service = SERVICE.format(image=f"{made.registry}/hello:1", name=NAME)
    made.write(NAME, service + DRILL.format(script=json.dumps(script)))


def data(made: LabUnderTest, volume: str = "files") -> Path:
    return Path(made.node("w1")["dirs"]["data"]) / NAME / volume


def store(made: LabUnderTest) -> Path:
    (found,) = (Path(made.node("hub1")["dirs"]["state"]) / "hub" / "backups").glob(f"**/{NAME}")
    return found


def back_up(made: LabUnderTest) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(made.run("backup", NAME, "--wait", "--json").ok().out)
    return found


def drill(made: LabUnderTest, *more: str) -> tuple[int, dict[str, Any]]:
    done = made.run("drill", NAME, "--json", *more)
    return done.code, json.loads(done.out)


def remains(made: LabUnderTest) -> list[str]:
    def listed(*words: str) -> list[str]:
        return made.lab("exec", "w1", "--", "podman", *words).ok().out.split()

    found = [*listed("ps", "--all", "--format", "{{.Names}}"), *listed("network", "ls", "--format", "{{.Name}}")]
    return [name for name in found if "_drill-" in name] + unpacked(made)


def unpacked(made: LabUnderTest) -> list[str]:
    """Is there from the beginning of a drill to its end, and takes no time to look at."""
    return [str(path) for path in (Path(made.node("w1")["dirs"]["data"]) / ".drills").glob("*")]


def address_of(made: LabUnderTest, container: str) -> str:
    form = "{{range .NetworkSettings.Networks}}{{.IPAddress}} {{end}}"
    names = made.lab("exec", "w1", "--", "podman", "ps", "--format", "{{.Names}}").ok().out.split()
    name = next(one for one in names if container in one)
    return made.lab("exec", "w1", "--", "podman", "inspect", "--format", form, name).ok().out.split()[0]


def test_a_copy_of_a_drill_reaches_nothing_but_its_own_components_and_leaves_nothing(made: LabUnderTest) -> None:
    """Not the hub, the node, another service, the client of the lab, the registry, the internet, nor any link address;
    and each of the first ones answers the node itself, so that the question is a fair one."""
    hub, node = made.node("hub1")["address"], made.node("w1")["address"]
    outside, port = made.registry.split(":")
    other = address_of(made, "other_web")
    places = [(hub, 9555), (node, 443), (outside, int(port)), (other, 8080), ("1.1.1.1", 53)]
    places += [(f"10.{second}.{third}.1", 443) for second, third in ((88, 0), (89, 0), (89, 1), (89, 2), (89, 3))]
    tried = "; ".join(f"nc -w 2 {host} {number} -e /bin/true && exit 7" for host, number in places)
    script = f"""
        {tried}
        ip -6 addr show dev eth0 | grep -q inet6 && exit 8
        ip route | grep -q default && exit 9
        nslookup other.svc.lab.test && exit 10
        wget -q -O - http://helper:8080/health || exit 11
        test $(wc -c < /data/db) -eq 4096 || exit 12
        touch /data/written-by-the-drill
        exit 0
    """
    fair = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 5)"
    for host, number in places[:1] + places[2:4]:
        made.lab("exec", "w1", "--", "python3", "-c", fair, host, str(number)).ok()
    write(made, script)
    made.run("apply", "--yes").ok()
    back_up(made)
    code, result = drill(made)
    assert (code, result["verdict"]) == (0, "verified"), result
    assert not (data(made) / "written-by-the-drill").exists(), "the real volume is not touched"
    assert [line for line in result["checks"] if "web is healthy: http 8080 /health" in line]
    assert [line for line in result["checks"] if "helper is healthy" in line]
    assert remains(made) == []
    rows = json.loads(made.run("ps", NAME, "--json").ok().out)["services"]
    assert sorted(row["component"] for row in rows) == ["helper", "web"]
    listed = json.loads(made.run("backup", "list", NAME, "--json").ok().out)
    assert listed["services"][0]["last_proven"] and listed["services"][0]["drill"]["verdict"] == "verified"
    shown = json.loads(made.run("backup", "show", NAME, "--json").ok().out)
    assert shown["proven"] and shown["verdict"] == "verified"


def test_commands_that_remedies_name_work_when_they_are_pasted(made: LabUnderTest) -> None:
    def typed(line: str) -> Outcome:
        words = line.split()
        return made.run(*words[1:]) if words[0] == "holdfast" else made.enter("w1", *words)

    id = back_up(made)["id"]
    runs("holdfast drill {}", (NAME,), typed)
    runs("holdfast drill {} --backup ID", (NAME,), typed, ID=id)
    runs("holdfast restore {} --backup ID --beside", (NAME,), typed, ID=id)
    runs("podman network inspect {}", ("podman",), typed)


def test_red_for_a_backup_that_cannot_be_restored_and_green_again_afterwards(made: LabUnderTest) -> None:
    """An empty archive, a truncated database, an app that starts and is not healthy."""
    write(made, "test $(wc -c < /data/db) -eq 4096")
    made.run("apply", "--yes").ok()
    db = data(made) / "db"
    db.write_bytes(b"x" * (PAGE // 2))
    back_up(made)
    code, result = drill(made)
    assert (code, result["verdict"]) == (1, "failed") and "cmd of [drill] ended with exit code 1" in result["reason"]
    db.unlink()
    back_up(made)
    code, result = drill(made)
    assert (code, result["verdict"]) == (1, "failed"), result
    db.write_bytes(b"x" * PAGE)
    (data(made, "more") / "poison").write_bytes(b"")
    back_up(made)
    code, result = drill(made)
    assert (code, result["verdict"]) == (1, "failed") and "helper is not healthy" in result["reason"], result
    status = made.run("status")
    assert "drill_failed" in status.out and "is not good" in status.out
    (data(made, "more") / "poison").unlink()
    back_up(made)
    assert drill(made)[1]["verdict"] == "verified"
    wait_until(lambda: "drill_failed" not in made.run("status").out, "the finding is over")
    assert remains(made) == []


def test_red_for_damaged_foreign_and_older_bytes_at_the_hub(made: LabUnderTest) -> None:
    made.run("backup", OTHER, "--wait").ok()
    (data(made) / "page").write_bytes(b"of this backup only")
    done = back_up(made)
    (receipt,) = store(made).glob(f"receipts/*{done['id']}*")
    packs = sorted(store(made).glob("*/packs/*"), key=lambda path: path.stat().st_mtime)
    foreign = sorted(store(made).parent.glob(f"{OTHER}/receipts/*"))[-1]
    aside = receipt.parent.parent.parent.parent / "aside"
    for path, content, words in (
        (packs[-1], b"\0" * 1024, "digest"),  # an empty tar
        (packs[-1], packs[-1].read_bytes()[:-100], "digest"),
        (receipt, foreign.read_bytes(), ""),
        (receipt, None, "is missing where it was stored: the newest one there is number"),
    ):
        shutil.copy2(path, aside)
        if content is None:
            path.unlink()
        else:
            path.write_bytes(content)
        code, result = drill(made)
        shutil.copy2(aside, path)
        assert (code, result["verdict"]) == (1, "failed") and words in result["reason"], (path, result)
    aside.unlink()
    code, result = drill(made)
    assert (code, result["verdict"], result["backup"]) == (0, "verified", done["id"])
    assert remains(made) == []


@pytest.mark.parametrize("delay_s", [0.1 * number for number in range(24)] if SOAK else [0.7])
def test_a_kill_during_a_drill_leaves_nothing_behind(made: LabUnderTest, delay_s: float) -> None:
    write(made, "sleep 1; test $(wc -c < /data/db) -eq 4096")
    made.run("apply", "--yes").ok()
    back_up(made)
    made.run("drill", NAME, "--detach").ok()
    wait_until(lambda: unpacked(made), lambda: f"the drill has begun; {made.run('order', 'list').out}")
    time.sleep(delay_s)
    made.lab("kill", "w1", "--agent").ok()
    made.lab("start", "w1").ok()
    wait_until(lambda: made.run("drill", NAME, "--json").code == 0, "the next one is good")
    assert remains(made) == []


def test_a_volume_that_no_backup_holds_begins_with_what_its_image_has(made: LabUnderTest) -> None:
    """Its program is in the volume: on an empty one nothing of it would start."""
    helper, tools = '\n[[components]]\nname = "helper"', 'name = "tools"\npath = "/bin"\nprotect = "none"\n'
    service = SERVICE.format(image=f"{made.registry}/hello:1", name="seeded")
    made.write("seeded", service.replace(helper, f"\n[[components.volumes]]\n{tools}{helper}"))
    made.run("deploy", "seeded", "--yes").ok()
    made.run("backup", "seeded", "--wait").ok()
    found = json.loads(made.run("drill", "seeded", "--json").ok().out)
    assert found["verdict"] == "verified", found
    wait_until(lambda: remains(made) == [], lambda: str(remains(made)))


# ---- a volume that a backup did not bring


SEEDED = """
[[components]]
name = "web"
image = "{image}"

[components.health]
type = "exec"
cmd = ["sh", "-c", {check}]

[[components.volumes]]
name = "files"
path = "/data"
protect = "backup"
"""
LISTS = """
[[components.volumes]]
name = "lists"
path = "/lists"
protect = "backup"
"""


def test_a_volume_that_a_backup_did_not_bring_has_what_the_image_has_in_a_drill_and_in_a_restore(
    made: LabUnderTest, tmp_path: Path
) -> None:
    """It was declared later. Both begin with the same data, so that a green drill says what a restore will do."""
    (tmp_path / "Containerfile").write_text(
        "ARG REGISTRY\nFROM $REGISTRY/hello:1\nRUN mkdir /lists && echo seed > /lists/words\n"
    )
    image = made.lab("image", "build", str(tmp_path), "--name", "seeded:1").ok().out.strip()
    made.write("seeded", SEEDED.format(image=image, check='"true"'))
    made.run("deploy", "seeded", "--yes").ok()
    id = json.loads(made.run("backup", "seeded", "--wait", "--json").ok().out)["id"]
    made.write("seeded", SEEDED.format(image=image, check='"grep -q seed /lists/words"') + LISTS)
    made.run("deploy", "seeded", "--yes").ok()
    place = Path(made.node("w1")["dirs"]["data"]) / "seeded" / "lists"
    assert (place / "words").read_text() == "seed\n"
    drilled = json.loads(made.run("drill", "seeded", "--backup", id, "--json").ok().out)
    assert drilled["verdict"] == "verified"
    (place / "words").write_text("others\n")
    made.run("restore", "seeded", "--backup", id, "--yes").ok()
    assert (place / "words").read_text() == "seed\n"
    wait_until(lambda: '"running"' in made.run("ps", "seeded", "--json").out, "it serves on it")
    assert remains(made) == []
