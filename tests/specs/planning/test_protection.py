"""Why a volume is not protected: told for each, and for none that a backup elsewhere holds whole (I-32, H-57)."""

from msgspec.structs import replace

from holdfast.model.applied import Applied
from holdfast.model.fleet import Service, Volume
from holdfast.planning.plan import plan
from holdfast.planning.protection import unprotected
from tests.fleets.build import digest_pinned, small_fleet
from tests.specs.planning.test_plan import after


def applied(node: str = "w1", *volumes: Volume | str) -> Applied:
    from holdfast.model.fleet import Component

    found = volumes or (Volume("book", "/b", "backup"), Volume("tmp", "/t", "none"), "/srv/web/x:/x", "/media:/m")
    service = Service((Component("main", digest_pinned("web:1"), volumes=found),), node=node)
    fleet = small_fleet({"web": service}, ("w1", "h1"))
    nodes = {**fleet.nodes, "h1": replace(fleet.nodes["h1"], roles=("hub", "worker"))}
    return after(plan(replace(fleet, nodes=nodes), None))


def whys(found: Applied, *backed_up: str) -> dict[str, str]:
    return {one.volume: one.why for one in unprotected(found, frozenset(backed_up))}


def test_before_the_first_backup_everything_is_unprotected() -> None:
    assert whys(applied()) == {
        "book": "no_backup",
        "tmp": "declared",
        "/srv/web/x:/x": "no_backup",
        "/media:/m": "outside",
    }


def test_a_backup_protects_what_it_holds_whole() -> None:
    assert whys(applied(), "web") == {"tmp": "declared", "/srv/web/x:/x": "partial", "/media:/m": "outside"}
    assert whys(applied(), "shop")["book"] == "no_backup"


def test_a_backup_on_the_machine_of_the_data_counts_as_none() -> None:
    assert whys(applied("h1"), "web") == {
        "book": "same_machine",
        "tmp": "declared",
        "/srv/web/x:/x": "same_machine",
        "/media:/m": "outside",
    }
