"""Ways of a key of grade apply, helped by a hub that the same attacker owns, to destroy, read or reach what is not
theirs (X01, X02, X06, X22). None succeeds; behind a weakened door each one does."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest

from holdfast.adapters.storage.directory import DirectoryStorage
from holdfast.agent.acceptance import demanded
from holdfast.model import mounts
from holdfast.model.container import LABEL_FLEET, LABEL_SERVICE, LABEL_SPEC, Container
from holdfast.model.fleet import Fleet, Health, Hooks, Service, Volume
from holdfast.model.schedule import Schedule
from holdfast.ports.prober import Verdict
from tests.fleets.build import ALICE_SIGNER
from tests.fleets.deploying import Scene, component, image, play, service
from tests.fleets.raid import DATA, PAGE, Raid, fleet, kept, raided, weaken

WIPE = ("sh", "-c", "rm -rf /data/*")
DAILY = Schedule("wipe", "main", "0 3 * * *", WIPE)
FIRST = fleet({"web": kept(), "db": kept()})
PROTECTED = fleet({"web": kept(), "db": Service(kept().components, protect=True)})

ATTACKS: dict[str, tuple[Callable[[Raid], Awaitable[bool]], Fleet]] = {}


def attack(name: str, first: Fleet = FIRST) -> Callable[[Callable[[Raid], Awaitable[bool]]], None]:
    return lambda story: ATTACKS.__setitem__(name, (story, first))


# ---- another program gets the only copy of data


def writer(name: str, make: Callable[[], Service]) -> None:
    async def story(raid: Raid) -> bool:
        await raid.signs(web=make())
        return raid.serves() and not raid.copied()

    attack(f"the data is written by {name}")(story)


writer("another command", lambda: kept(cmd=WIPE))
writer("another variable", lambda: kept(env={"MODE": "wipe"}))
writer("another image", lambda: kept(2))
writer("a hook", lambda: kept(hooks=Hooks(post_deploy=WIPE)))
writer("a health check", lambda: kept(health=Health("exec", cmd=WIPE, start_period="8s")))
writer("a schedule", lambda: Service((component(1, volumes=(DATA,)),), schedule=(DAILY,)))
writer("a second component", lambda: Service((component(1, volumes=(DATA,)), component(2, "evil", volumes=(DATA,)))))


@attack("another image gets the data after an undeploy")
async def _(raid: Raid) -> bool:
    await raid.signs(web=None)
    await raid.signs(web=kept(2))
    return raid.serves() and not raid.copied()


@attack("a second attempt gets what was written after the first one failed")
async def _(raid: Raid) -> bool:
    raid.machine.prober.script(image(2), *[Verdict(False, "answered 500")] * 40, Verdict(True))
    await raid.signs(web=kept(2))
    raid.write("web", b"written since")
    raid.machine.prober.script(image(2), Verdict(True))
    await raid.signs(web=kept(2, env={"TRY": "2"}))
    return raid.serves() and not raid.copied(text=b"written since")


@attack("another image gets the data of a retired service")
async def _(raid: Raid) -> bool:
    await raid.alice(db=None)
    await raid.signs(db=kept(7))
    return raid.serves("db") and not raid.copied("db")


# ---- paths


@attack("a directory made by hand is mounted by a service of its name")
async def _(raid: Raid) -> bool:
    raid.machine.storage.contents["git"] = {"book/page": PAGE}
    await raid.signs(git=kept())
    return raid.mounts("git", "/memory/git/book")


@attack("a directory made by hand is mounted as a path in the service's own directory")
async def _(raid: Raid) -> bool:
    raid.machine.storage.contents["git"] = {"book/page": PAGE}
    await raid.signs(git=service(1, volumes=("/srv/git/book:/data",)))
    return raid.mounts("git", "/memory/git/book")


def path(name: str, source: str, mounted: str, **changed: Any) -> None:
    async def story(raid: Raid) -> bool:
        raid.machine.storage.elsewhere.update({source, mounted})
        await raid.signs(spy=service(1, volumes=(f"{source}:/loot",), **changed))
        return raid.mounts("spy", mounted)

    attack(f"a service mounts {name}")(story)


path("a file of the host", "/etc/hosts", "/etc/hosts")
path("the data of another service", "/srv/db/book", "/memory/db/book")
path("the data of all services", "/srv", "/memory")
path("the checkpoints of another service", "/srv/.checkpoints/db", "/memory/.checkpoints/db")
path("the passports of the node", "/srv/.passports", "/memory/.passports")
path("the data of another service by a detour", "/srv/spy/../db/book", "/memory/spy/../db/book")
path("the state of the agent, for a hook", "/var/lib/holdfast", "/var/lib/holdfast", hooks=Hooks(post_deploy=WIPE))


@attack("a second component of a service mounts the host")
async def _(raid: Raid) -> bool:
    raid.machine.storage.elsewhere.add("/etc/hosts")
    evil = component(2, "evil", volumes=("/etc/hosts:/loot",))
    await raid.signs(web=Service((component(1, volumes=(DATA,)), evil)))
    return raid.mounts("web", "/etc/hosts")


@attack("a service mounts what was approved for another one")
async def _(raid: Raid) -> bool:
    raid.machine.storage.elsewhere.add("/etc/hosts")
    await raid.alice(trusted=service(1, volumes=("/etc/hosts:/x",)))
    assert raid.mounts("trusted", "/etc/hosts")
    await raid.signs(trusted=None, spy=service(2, volumes=("/etc/hosts:/x",)))
    return raid.mounts("spy", "/etc/hosts")


@attack("a service mounts again what was approved and then taken from it")
async def _(raid: Raid) -> bool:
    raid.machine.storage.elsewhere.add("/etc/hosts")
    await raid.alice(trusted=service(1, volumes=("/etc/hosts:/x",)))
    await raid.alice(trusted=service(1))
    assert not raid.mounts("trusted", "/etc/hosts")
    await raid.signs(trusted=service(2, volumes=("/etc/hosts:/x",)))
    return raid.mounts("trusted", "/etc/hosts")


@attack("a hub withholds the manifest that brought a path, and shows one that was signed well")
async def _(raid: Raid) -> bool:
    raid.machine.storage.elsewhere.add("/etc/hosts")
    before = len(raid.hub.candidates)
    await raid.scene.kill()
    await raid.signs(spy=service(1, volumes=("/etc/hosts:/x",)))
    header = msgspec.json.decode(raid.hub.candidates[before].header)
    raid.hub.lost.add(header["manifests"]["w1"])
    await raid.alice(web=kept(env={"GOOD": "1"}))
    raid.scene.start()
    await raid.rest(2 * 3600.0)
    return raid.mounts("spy", "/etc/hosts")


@attack("a service mounts a directory and one inside it, which it can replace by a link")
async def _(raid: Raid) -> bool:
    with pytest.MonkeyPatch.context() as patch:  # this attacker has a planner of their own
        patch.setattr(mounts, "nested", lambda *ignored: None)
        nested = service(1, volumes=("/srv/spy:/all", "/srv/spy/inner:/inner"))
        raid.hub.candidates.append(raid.next(spy=nested))
    await raid.rest()
    return raid.mounts("spy", "/memory/spy", "/memory/spy/inner")


@attack("two containers write into one volume at once")
async def _(raid: Raid) -> bool:
    await raid.signs(db=kept(replicas=2))
    return len([one for one in raid.scene.ours() if one.service == "db" and one.running]) > 1


@attack("a service mounts the data of another service by a link that its container made")
async def _(raid: Raid) -> bool:
    with TemporaryDirectory() as root:
        await raid.scene.kill()
        book = Path(root) / "db" / "book"
        book.mkdir(parents=True)
        (Path(root) / "spy").mkdir()
        (Path(root) / "spy" / "inner").symlink_to(book)
        raid.machine.storage, raid.machine.data_dir = DirectoryStorage(root, "w1"), root  # type: ignore[assignment]
        raid.scene.start()
        await raid.signs(spy=service(1, volumes=("/srv/spy/inner:/loot",)))
        return raid.mounts("spy", f"{root}/spy/inner")


# ---- owners

THEIRS = msgspec.structs.replace(DATA, owner="33:33")


@attack("all data is given to another owner")
async def _(raid: Raid) -> bool:
    await raid.signs(web=kept(volumes=(THEIRS,)))
    return raid.machine.storage.owners.get("web/book") == "33:33"


@attack("all data is given to another owner after an undeploy")
async def _(raid: Raid) -> bool:
    await raid.signs(web=None)
    await raid.signs(web=kept(volumes=(THEIRS,)))
    return raid.machine.storage.owners.get("web/book") == "33:33"


# ---- protection


@attack("a volume is detached")
async def _(raid: Raid) -> bool:
    await raid.signs(web=service(1))
    return raid.serves()


@attack("a volume is named otherwise, so that the service begins with an empty one")
async def _(raid: Raid) -> bool:
    await raid.signs(web=service(1, volumes=(Volume("other", "/data", "none"),)))
    return raid.serves()


@attack("a protected service is taken away", PROTECTED)
async def _(raid: Raid) -> bool:
    await raid.signs(db=None)
    return raid.in_force("db") is None


@attack("a protected service loses its protection", PROTECTED)
async def _(raid: Raid) -> bool:
    await raid.signs(db=kept())
    return raid.serves("db")


# ---- containers that this agent did not make


def stranger(raid: Raid, **labels: str) -> None:
    raid.machine.runtime.place(Container("s" * 64, "by-hand", "running", True, labels, "img", 99))


@attack("a container with the fleet's label is stopped")
async def _(raid: Raid) -> bool:
    stranger(raid, **{LABEL_FLEET: raid.scene.rig.fleet_id})
    await raid.signs(node={"orphans": "stop"})
    return not raid.runs("by-hand")


@attack("a container that was made by hand is removed")
async def _(raid: Raid) -> bool:
    stranger(raid)
    await raid.signs(node={"orphans": "remove", "orphans_foreign": True})
    return not raid.runs("by-hand")


@attack("a container that carries the labels of a service leaves with it")
async def _(raid: Raid) -> bool:
    fleet_id = raid.scene.rig.fleet_id
    stranger(raid, **{LABEL_FLEET: fleet_id, LABEL_SERVICE: "web", LABEL_SPEC: "0" * 64})
    await raid.signs(web=None)
    return not raid.runs("by-hand")


# ---- orders


@attack("data is purged")
async def _(raid: Raid) -> bool:
    await raid.alice(db=None)
    await raid.sends(raid.order("purge", "data.db"))
    return not raid.has_data("db")


@attack("data in use is purged")
async def _(raid: Raid) -> bool:
    await raid.sends(raid.order("purge", "data.web"))
    return not raid.has_data("web")


@attack("a directory made by hand is attached by an order")
async def _(raid: Raid) -> bool:
    raid.machine.storage.contents["git"] = {"book/page": PAGE}
    await raid.signs(git=kept())
    await raid.sends(raid.order("adopt", "data.git"))
    return raid.mounts("git", "/memory/git/book")


@attack("an order for another node is shown to this one")
async def _(raid: Raid) -> bool:
    await raid.alice(db=None)
    await raid.sends(raid.order("purge", "data.db", ALICE_SIGNER, node="w2"))
    return not raid.has_data("db")


@attack("a purge is shown again when new data is there")
async def _(raid: Raid) -> bool:
    await raid.alice(db=None)
    purge = raid.order("purge", "data.db", ALICE_SIGNER, now="yes")
    await raid.sends(purge)
    assert not raid.has_data("db")
    await raid.alice(db=kept())
    raid.write("db")
    await raid.alice(db=None)
    await raid.sends(purge)
    return not raid.has_data("db")


@attack("an order is shown after its time")
async def _(raid: Raid) -> bool:
    await raid.alice(db=None)
    purge = raid.order("purge", "data.db", ALICE_SIGNER)
    await raid.rest(7200)
    await raid.sends(purge)
    return not raid.has_data("db")


@attack("an order of alice is changed into a purge")
async def _(raid: Raid) -> bool:
    await raid.alice(db=None)
    restart, purge = raid.order("restart", "service.web", ALICE_SIGNER), raid.order("purge", "data.db")
    await raid.sends(msgspec.structs.replace(purge, signatures=restart.signatures))
    return not raid.has_data("db")


def outcome(name: str) -> bool:
    story, first = ATTACKS[name]
    found: list[bool] = []

    async def scene(one: Scene) -> None:
        found.append(await raided(one, first, story))

    play(first, scene)
    return found[0]


@pytest.mark.parametrize("name", ATTACKS)
def test_a_key_of_grade_apply_gets_nothing_that_is_not_its_own_x01_x02_x06(name: str) -> None:
    assert not outcome(name)


@pytest.mark.parametrize("name", ATTACKS)
def test_behind_a_weakened_door_the_attack_succeeds(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    weaken(monkeypatch)
    assert outcome(name)


PATHS = [
    name for name in ATTACKS if name.startswith("a service mounts") and "again" not in name and "inside" not in name
]


@pytest.mark.parametrize("name", PATHS)
def test_paths_of_the_host_are_refused_even_if_the_grades_of_a_revision_were_not_asked(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node has its own note of what grade destroy approved: a second lock beside the rules of planning (X02)."""
    monkeypatch.setattr(demanded, "missing", lambda *ignored: None)
    assert not outcome(name)


def test_a_container_that_was_not_made_here_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    """X22: even if the grades of a revision were not asked. The finding says which signature is lacking, and ends with
    the container."""
    monkeypatch.setattr(demanded, "missing", lambda *ignored: None)

    async def story(scene: Scene) -> None:
        await scene.kill()
        raid = Raid(scene, FIRST)
        await raid.begun()
        stranger(raid, **{LABEL_FLEET: raid.scene.rig.fleet_id})
        await raid.signs(node={"orphans": "stop"})
        assert "grade destroy" in scene.findings()["orphan_parked"]
        raid.machine.runtime.vanish("s" * 64)
        await raid.rest(60)
        assert "orphan_parked" not in scene.findings()

    play(FIRST, story)


def test_there_are_enough_of_them() -> None:
    assert len(ATTACKS) >= 25
