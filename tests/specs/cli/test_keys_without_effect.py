"""`plan`, `apply`, `validate`, `rollback` and `status` on keys that nothing carries out yet."""

from pathlib import Path

from msgspec.structs import replace

from holdfast.model.fleet import Component, Fleet, Service, Snapshot, Volume
from tests.fleets.build import commit, digest_pinned, small_fleet
from tests.fleets.commands import Scene, changed, scene

INVALID = 2
DATA = Volume("data", "/data", "backup")


def with_volumes(*volumes: Volume | str, **more: object) -> Service:
    return Service((Component("main", digest_pinned("db"), volumes=volumes),), **more)  # type: ignore[arg-type]


def fleet_of(service: Service) -> Fleet:
    return small_fleet({"web": 1, "db": service}, ("w1", "w2"))


SNAPSHOT = fleet_of(with_volumes(DATA, snapshot=Snapshot("exec: dump")))


def declare(one: Scene, fleet: Fleet) -> None:
    one.operator.fleet = replace(fleet, settings=one.operator.fleet.settings)


def test_a_plan_and_an_apply_refuse_a_key_that_is_new_with_its_line(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        declare(one, SNAPSHOT)
        before = one.rig.head
        for verb in ("plan", "apply", "sync", "deploy"):
            one.operator.does(verb, *(["db"] if verb == "deploy" else []), "--json", code=INVALID)
            said = one.operator.complaint
            assert said["code"] == "invalid_fleet"
            assert "services/db.toml:" in said["message"] and "no command would bring the dump back" in said["message"]
            assert "write restore = " in said["message"]
        assert one.rig.head == before

    scene(tmp_path, story)


def test_where_the_key_is_applied_a_plan_warns_and_changes_nothing(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        found = one.operator.shows("plan")
        assert [change["address"] for change in found["changes"]] == ["node.w1"], "the key it joined with"
        assert len(found["warnings"]) == 1
        assert "services/db.toml: snapshot.method" in found["warnings"][0]
        one.operator.fleet = changed(one.operator.fleet, web=2)
        found = one.operator.shows("plan")
        assert [change["address"] for change in found["changes"]] == ["node.w1", "service.web"]
        assert len(found["warnings"]) == 1
        assert "Warning: no command would bring" in one.operator.does("plan")

    scene(tmp_path, story, SNAPSHOT)


def test_a_rollback_to_a_revision_with_such_a_key_is_not_refused(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        with_key = one.rig.head.number
        declare(one, fleet_of(with_volumes(DATA)))
        commit(one.rig.hub, one.operator.fleet)
        one.operator.does("rollback", str(with_key), "--detach")
        applied = one.rig.hub.applied()
        assert applied is not None and one.rig.head.number == with_key + 2
        assert b"snapshot" in applied.contents[applied.table.entries["service.db"].digest]
        one.operator.does("history")

    scene(tmp_path, story, SNAPSHOT)


def test_validate_warns_because_it_does_not_know_what_is_applied(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        declare(one, SNAPSHOT)
        found = one.operator.shows("validate")
        assert found["valid"] is True and len(found["warnings"]) == 1
        assert "holdfast plan refuses it if it is new" in found["warnings"][0]
        one.operator.does("validate")
        assert "warning: no command would bring" in one.operator.err.getvalue()
        declare(one, small_fleet())
        assert one.operator.shows("validate")["warnings"] == []

    scene(tmp_path, story)


def test_validate_names_the_fleet(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        assert one.operator.shows("validate")["fleet"] == "oslo"
        assert "oslo is valid" in one.operator.does("validate")

    scene(tmp_path, story, small_fleet(nodes=("w1", "w2"), name="oslo"))


def test_status_lists_the_volumes_that_nothing_protects(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        whole = {"service": "db", "component": "main", "node": "w1"}
        assert one.operator.shows("status")["unprotected"] == [
            {**whole, "volume": "data", "protect": "backup", "why": "no_backup"},
            {**whole, "volume": "tmp", "protect": "none", "why": "declared"},
            {**whole, "volume": "/srv/x:/x", "protect": "", "why": "outside"},
        ]
        text = one.operator.does("status")
        assert "Volumes without a backup yet (holdfast backup list): db/data" in text
        assert "as declared: db/tmp" in text and "which no backup holds: db//srv/x:/x" in text

    scene(tmp_path, story, fleet_of(with_volumes(DATA, Volume("tmp", "/t", "none"), "/srv/x:/x", node="w1")))


def test_status_names_ten_volumes_and_counts_the_others(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        assert len(one.operator.shows("status")["unprotected"]) == 12
        text = one.operator.does("status")
        assert "db/v9, 2 more" in text and "db/v10" not in text

    volumes = [Volume(f"v{number}", f"/v{number}", "none") for number in range(12)]
    scene(tmp_path, story, fleet_of(with_volumes(*volumes)))


def test_status_without_volumes_says_nothing_of_them(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        assert one.operator.shows("status")["unprotected"] == []
        assert "backup" not in one.operator.does("status")

    scene(tmp_path, story)
