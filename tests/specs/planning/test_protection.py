"""Why a volume is not protected: told for each, and for none that a backup elsewhere holds whole (I-32, H-57)."""

from holdfast.model.applied import Applied
from holdfast.model.fleet import Component, Service, Volume
from holdfast.planning.plan import plan
from holdfast.planning.protection import unprotected
from tests.fleets.build import digest_pinned, small_fleet
from tests.specs.planning.test_plan import after


def applied() -> Applied:
    volumes = (Volume("book", "/b", "backup"), Volume("tmp", "/t", "none"), "/srv/web/x:/x", "/media:/m")
    service = Service((Component("main", digest_pinned("web:1"), volumes=volumes),), node="w1")
    return after(plan(small_fleet({"web": service}), None))


def whys(found: Applied, **backups: tuple[str, ...]) -> dict[str, str]:
    return {one.volume: one.why for one in unprotected(found, backups)}


def test_before_the_first_backup_everything_is_unprotected() -> None:
    assert whys(applied()) == {
        "book": "no_backup",
        "tmp": "declared",
        "/srv/web/x:/x": "no_backup",
        "/media:/m": "outside",
    }


def test_a_backup_protects_what_it_holds_whole() -> None:
    assert whys(applied(), web=("hub",)) == {"tmp": "declared", "/srv/web/x:/x": "partial", "/media:/m": "outside"}
    assert whys(applied(), shop=("hub",))["book"] == "no_backup"


def test_a_backup_on_the_machine_of_the_data_counts_as_none() -> None:
    assert whys(applied(), web=()) == {
        "book": "same_machine",
        "tmp": "declared",
        "/srv/web/x:/x": "same_machine",
        "/media:/m": "outside",
    }
