"""Remedies that need a hub, agents and containers: the mistake is made in a lab, and the printed remedy is pasted.

`pastes` and `runs` name the remedy or command; tests/scenarios/test_pasted_remedies.py reads these names from here.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.fleets.deploy_scene import DeployScene, web
from tests.fleets.lab_pasting import LabSeat
from tests.fleets.pasting import Result
from tests.fleets.waiting import wait_until

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

TOLD = "told"
VOLUME = '[[components.volumes]]\nname = "book"\npath = "/data"\nprotect = "none"\n'


def schedule(name: str, cmd: str) -> str:
    keys = {"name": name, "component": "web", "cron": "0 0 1 1 *", "cmd": ["sh", "-c", cmd]}
    return "[[schedule]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())


@pytest.fixture(scope="module")
def scene(deploy_lab: DeployScene, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeployScene]:
    text = f'FROM {deploy_lab.image("hello:1")}\nENTRYPOINT []\nCMD ["/bin/hello"]\n'
    deploy_lab.build(tmp_path_factory.mktemp("told"), "told:1", text)
    jobs = schedule("now", "sleep 1") + schedule("long", "until test -e /data/over; do sleep 0.2; done")
    jobs += schedule("bad", "test -e /data/ok || { echo it broke; exit 3; }")
    deploy_lab.write(TOLD, web(deploy_lab.image("told:1")) + VOLUME + jobs)
    deploy_lab.deploy(TOLD).ok()
    yield deploy_lab
    deploy_lab.gone(TOLD)
    deploy_lab.run("apply", "--yes", "--allow-removals", "1").ok()
    assert deploy_lab.foreign_untouched()


@pytest.fixture
def seat(scene: DeployScene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LabSeat:
    monkeypatch.chdir(tmp_path)
    return LabSeat(scene.made)


def worked(results: list[Result]) -> list[Result]:
    assert [done for done in results if done.code] == []
    return results


def ends(scene: DeployScene, code: str, address: str) -> None:
    wait_until(lambda: address not in [one["address"] for one in scene.findings(code)], lambda: scene.findings(code))


def test_a_stopped_service_is_started_and_its_schedule_runs(scene: DeployScene, seat: LabSeat) -> None:
    seat.run("holdfast stop told")
    assert not scene.running(TOLD)
    found = seat.run("holdfast status")
    refused = seat.run("holdfast schedule run told now")
    worked(seat.pastes("holdfast start told", found))
    ends(scene, "service_held", "service.told")
    wait_until(lambda: len(scene.running(TOLD)) == 1, "it runs")
    worked(seat.pastes("`holdfast start told` starts a stopped service; then repeat the command", refused))
    assert seat.run("holdfast schedule run told now").code == 0, "as the remedy says: repeat the command"


def test_a_failed_run_shows_its_lines_and_runs_when_its_data_is_correct(scene: DeployScene, seat: LabSeat) -> None:
    failed = seat.run("holdfast schedule run told bad")
    found = seat.run("holdfast status")
    (lines,) = worked(seat.pastes("holdfast schedule logs told bad", found))
    assert lines.out.strip() == "it broke"
    scene.data(TOLD, "book").joinpath("ok").touch()
    worked(seat.pastes("correct the command or its data, then: holdfast schedule run told bad", failed))
    ends(scene, "schedule_failed", "schedule.told.bad")
    seat.run("holdfast schedule run told long --detach")
    wait_until(lambda: any("_run-long" in one.name for one in scene.containers()), "it runs")
    busy = seat.run("holdfast schedule run told long")
    (listed,) = worked(seat.pastes("`holdfast schedule list told` shows it; repeat the command when it is over", busy))
    assert "long" in listed.out
    scene.data(TOLD, "book").joinpath("over").touch()
    seat.runs("holdfast restart {}", TOLD)


def test_data_in_use_is_purged_after_undeploy(scene: DeployScene, seat: LabSeat) -> None:
    in_use = seat.run("holdfast purge told")
    worked(seat.pastes("`holdfast undeploy told`, then purge it", in_use))
    removed = seat.run("holdfast restart told")
    data = scene.data(TOLD, "book")
    assert data.is_dir()
    wait_until(lambda: "told" in seat.run("holdfast retired").out, "its data is retired")
    without = seat.run("holdfast purge told")
    purged, listed = seat.pastes("`holdfast purge told -n w1`; `holdfast retired` lists retired data", without)
    assert purged.code == 0 and not data.exists(), purged
    assert listed.code == 0 and "kept until" in listed.out
    worked([seat.run("holdfast purge told -n w1 --now")])
    nothing = seat.run("holdfast purge told")
    remedy = "`holdfast purge told -n NODE`; `holdfast retired` lists retired data"
    worked(seat.pastes(remedy, nothing, NODE="w1"))
    _, again = worked(
        seat.pastes("`holdfast retired` shows the data; to run the service again: `holdfast deploy told`", removed)
    )
    assert scene.one(TOLD).running, again


def test_orders_are_signed_submitted_and_listed(scene: DeployScene, seat: LabSeat) -> None:
    worked(seat.pastes("holdfast order sign --node w1 --action ping --submit", seat.run("holdfast order sign")))
    by_hand = seat.run("holdfast order sign --node w1 --action logs")
    (shown,) = worked(seat.pastes("holdfast logs SERVICE", by_hand, SERVICE=TOLD))
    assert "serves on 8080" in shown.out
    assert "serves on 8080" in seat.runs("holdfast logs SERVICE", SERVICE=TOLD).out
    not_built = seat.run("holdfast order sign --node w1 --action verify")
    worked(seat.pastes("`holdfast order sign --help` lists the actions", not_built))
    Path("bad.order").write_text("{}")
    broken = seat.run("holdfast order submit bad.order")
    worked(
        seat.pastes(
            "create it again with `holdfast order sign --node NODE --action ACTION -o FILE`", broken,
            NODE="w1", ACTION="ping", FILE="bad.order",
        )
    )  # fmt: skip
    seat.runs("holdfast order submit FILE", FILE="bad.order")
    seat.runs("holdfast order sign --node {} --action {} --target {} --submit", "w1", "ping", "node.w1")
    seat.runs("holdfast order sign --node {} --action {} --target {} --submit --expires 7d", "w1", "ping", "node.w1")
    words = {"ACTION": "ping", "TARGET": "node.w1"}
    seat.runs("holdfast order sign --node {} --action ACTION --target TARGET --submit", "w1", **words)
    spare = scene.data("spare", "book")
    spare.mkdir(parents=True)
    seat.runs("holdfast order sign --node {} --action purge --target data.{} --submit", "w1", "spare")
    wait_until(lambda: not spare.exists(), "it is purged")
    seat.runs("holdfast order list --node {}", "w1")
    wait_until(lambda: "sent" not in seat.runs("holdfast order list").out, "every order has its result")
    assert " done " in seat.runs("holdfast order list").out


@contextmanager
def two_signatures(scene: DeployScene, seat: LabSeat) -> Iterator[str]:
    """Orders of grade destroy need two operators; the key of the other one."""
    path = Path(scene.env["HOLDFAST_FLEET"]) / "fleet.toml"
    before = path.read_text()
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "bob"], check=True)
    key = " ".join(Path("bob.pub").read_text().split()[:2])
    bob = f'\n[[operators]]\nname = "bob"\ngrade = "destroy"\nkey = "{key}"\n'
    path.write_text(before.replace("destroy = 1", "destroy = 2") + bob)
    assert (done := seat.run("holdfast apply")).code == 0, done
    try:
        yield str(Path("bob").absolute())
    finally:
        path.write_text(before)
        assert (done := seat.run("holdfast apply")).code == 0, done


def test_an_order_that_needs_two_operators_is_signed_by_both(scene: DeployScene, seat: LabSeat) -> None:
    (scene.data("lone", "book")).mkdir(parents=True)
    with two_signatures(scene, seat) as bob:
        alone = seat.run("holdfast purge lone -n w1")
        (done,) = seat.pastes(
            "holdfast order sign --node w1 --action purge --target data.lone --expires 1d -o w1-purge.order --key KEY "
            "&& holdfast sign w1-purge.order --key KEY2 && holdfast order submit w1-purge.order --wait",
            alone, KEY=scene.env["HOLDFAST_KEY"], KEY2=bob,
        )  # fmt: skip
        assert done.code == 0 and not scene.data("lone", "book").exists(), done
        half = seat.run("holdfast order sign --node w1 --action purge --target data.other --submit -o half.order")
        worked(seat.pastes("holdfast sign {} --key KEY && holdfast order submit {}", half, KEY=bob))


def test_tokens_are_created_listed_and_revoked(seat: LabSeat) -> None:
    seat.runs("holdfast token create")
    seat.runs("holdfast token create --expires 30d")
    (listed,) = worked(
        seat.pastes("`holdfast token list` shows ids: 16 hexadecimal digits", seat.run("holdfast token revoke x"))
    )
    for id in [line.split()[0] for line in listed.out.splitlines()]:
        seat.runs("holdfast token revoke ID", ID=id)
    unknown = seat.run(f"holdfast token revoke {'0' * 16}")
    (left,) = worked(seat.pastes("`holdfast token list` shows them", unknown))
    assert "revoked" in left.out or not left.out.strip() or "no tokens" in left.out


def test_a_plan_of_a_revision_that_was_never_seen_is_verified_by_the_hub(
    scene: DeployScene, seat: LabSeat, tmp_path: Path
) -> None:
    scene.write("new", web(scene.image("hello:1")))
    assert seat.run("holdfast plan -o new.plan").code == 0
    scene.gone("new")
    other = LabSeat(scene.made, HOLDFAST_STATE=str(tmp_path / "state"))
    for name in ("HOLDFAST_FLEET", "HOLDFAST_HUB"):
        other.environ.pop(name)
    unknown = other.run("holdfast sign new.plan")
    remedy = (
        "verify it with a fleet directory that you trust, by its hub or its fleet.lock: "
        "holdfast sign new.plan --fleet DIR"
    )
    worked(other.pastes(remedy, unknown, DIR=scene.env["HOLDFAST_FLEET"]))


def test_an_agent_s_files_are_private_again_and_its_journal_is_shown(scene: DeployScene, seat: LabSeat) -> None:
    seat.on("w1", "chmod 644 /var/lib/holdfast/agent/agent.db")
    found = seat.on("w1", "holdfast agent check")
    worked(seat.pastes("chmod 600 /var/lib/holdfast/agent/agent.db", found, on="w1"))
    assert "sound" in seat.runs("holdfast agent check", on="w1").out
    assert "told" in seat.runs("holdfast agent journal", on="w1").out


def test_the_lab_itself_says_what_to_do(scene: DeployScene, seat: LabSeat) -> None:
    worked(seat.pastes("holdfast lab exec w1 -- CMD", seat.run("holdfast lab exec w1"), CMD="true"))
    unknown = seat.run("holdfast lab curl http://nope.svc.lab.test/")
    remedy = "`holdfast ps` lists what runs; internal names are <component>.<service>.svc.lab.test"
    (listed,) = worked(seat.pastes(remedy, unknown))
    assert TOLD in listed.out


def test_programs_of_a_node_that_remedies_name(scene: DeployScene, seat: LabSeat) -> None:
    """Each shows or does what its sentence says."""
    told = scene.one(TOLD)
    address, port = told.ports[0][1].split(":")
    assert told.name in seat.runs("podman ps --all", on="w1").out
    assert told.name in seat.runs("podman ps -a", on="w1").out
    assert "graphRoot" in seat.runs("podman info", on="w1").out
    assert told.id in seat.runs("podman inspect {}", told.name, on="w1").out
    assert f"{address}:{port}" in seat.runs("ss -ltnp 'sport = :{}'", port, on="w1").out
    assert "dnsmasq" in seat.runs("ss -lnutp 'sport = :{}'", "53", on="w1").out
    assert scene.made.address("w1") in seat.runs("ip address", on="w1").out
    assert seat.runs("ip route", on="w1").out
    seat.runs("curl -v {}", f"http://{address}:{port}/health", on="w1")
    scene.podman("create", "--name", "idle", scene.image("hello:1"))
    seat.runs("podman rm {}", "idle", on="w1")
    scene.podman("run", "--detach", "--name", "busy", scene.image("hello:1"))
    seat.runs("podman rm --force {}", "busy", on="w1")
    left = scene.podman("ps", "--all", "--format", "{{.Names}}").split()
    assert not {"idle", "busy"} & set(left) and told.name in left
    seat.runs("podman image prune", on="w1", typed="y")
    assert (
        seat.on(
            "w1",
            "ip link add spare type veth peer name spare-peer && mkdir /run/spare && mount -t tmpfs none /run/spare",
        ).code
        == 0
    )
    seat.runs("ip link delete {}", "spare", on="w1")
    seat.runs("umount {}", "/run/spare", on="w1")
    assert "spare" not in seat.on("w1", "ip link; cat /proc/mounts").out
    archive = Path("saved.tar").absolute()
    seat.runs("podman save -o FILE IMAGE", on="w1", FILE=str(archive), IMAGE=scene.image("hello:1"))
    assert archive.stat().st_size > 0
    typed = seat.on("w1", "script -qec 'holdfast logs told --raw' /dev/null")
    shown = seat.runs("holdfast logs {} --raw | less", TOLD, on="w1")
    assert "--raw | less" in typed.out and "serves on 8080" in shown.out
