"""The door to a volume: a container gets it only with a passport that admits it, whatever the rollout decided."""

import pytest
from msgspec.structs import replace

from holdfast.adapters.clock.loop import LoopClock
from holdfast.adapters.identity_key.memory import MemoryIdentityKey
from holdfast.adapters.journal.memory import MemoryJournal
from holdfast.adapters.runtime.memory import MemoryRuntime
from holdfast.adapters.storage.memory import ROOT, MemoryStorage
from holdfast.agent.services.data.filling import Filling
from holdfast.agent.services.data.mounts import Mounts
from holdfast.agent.services.data.passports import Passports
from holdfast.agent.services.data.volumes import Admission, Volumes
from holdfast.agent.services.door import Door
from holdfast.errors import Failed, NotPermitted, TryLater
from holdfast.model.checkpoint import Taken
from holdfast.model.container import Mount, Part
from holdfast.model.passport import TAKEN_OVER, Passport
from holdfast.model.proven_address import ProvenAddress
from holdfast.reconcile.writers import writers_of
from tests.fleets.virtual import VirtualLoop
from tests.specs.reconcile.guests import FLEET, guest, part

BASE = part("db", "1")
DB = replace(BASE, spec=replace(BASE.spec, mounts=(Mount(f"{ROOT}/shop/book", "/data"),)))
APPROVED = frozenset({f"{ROOT}/approved/book"})
RUN = replace(DB.spec, command=("rm", "-rf", "/data"))


def passports(storage: MemoryStorage, journal: MemoryJournal, node: str = "w1") -> Passports:
    key = MemoryIdentityKey(b"k" * 32)
    return Passports(journal=journal, storage=storage, key=key, fleet=FLEET, node=node)


def volumes(storage: MemoryStorage, journal: MemoryJournal) -> Volumes:
    mounts = Mounts(storage, lambda address: ProvenAddress(1, address, APPROVED), "w1", ROOT)
    known = passports(storage, journal)
    door = Door(MemoryRuntime(LoopClock(VirtualLoop(), 0.0)), journal, lambda address: ProvenAddress(1, address), "w1")
    filling = Filling(known, storage, mounts, door)
    return Volumes(passports=known, journal=journal, storage=storage, mounts=mounts, filling=filling, data_dir=ROOT)


@pytest.fixture
def storage() -> MemoryStorage:
    return MemoryStorage("w1")


@pytest.fixture
def served(storage: MemoryStorage) -> Volumes:
    """`DB` serves and has written."""
    found = volumes(storage, MemoryJournal())
    found.attach(DB.spec, Admission(writers_of(DB), "d1"))
    found.proven(guest(DB), 1)
    storage.contents["shop"]["book/page"] = b"1"
    return found


@pytest.mark.parametrize("cut", ["keep_passport", "set_aside"])
def test_killed_between_journal_and_signed_copy_the_same_act_again_writes_both(
    storage: MemoryStorage, cut: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a lost journal, or a purge that is taken back, would bring the passport of before back."""
    journal = MemoryJournal()
    passports(storage, journal).keep(Passport("shop/book", "shop", "d1", writers=("old",)))
    with monkeypatch.context() as killed, pytest.raises(KeyboardInterrupt):
        killed.setattr(storage if cut == "keep_passport" else journal, cut, _die)
        passports(storage, journal).keep(Passport("shop/book", "shop", "d1", writers=("new",)))
    passports(storage, journal).keep(Passport("shop/book", "shop", "d1", writers=("new",)))
    for found in (passports(storage, journal), passports(storage, MemoryJournal())):
        now = found.of("shop/book")
        assert now is not None and now.writers == ("new",)


def _die(*given: object) -> None:
    raise KeyboardInterrupt


def test_a_signed_copy_that_the_disk_refused_is_written_the_next_time(
    storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a lost journal would bring the passport of before back, and a writer of before with it."""
    journal = MemoryJournal()
    known = passports(storage, journal)
    known.keep(Passport("shop/book", "shop", "d1", writers=("old",)))
    refused = Failed("no space is left", remedy="free space")
    with monkeypatch.context() as full:
        full.setattr(storage, "keep_passport", lambda place, text: (_ for _ in ()).throw(refused))
        with pytest.raises(Failed):
            known.keep(Passport("shop/book", "shop", "d1", writers=("new",)))
    assert known.known == passports(storage, journal).known, "as the journal has it"
    known.keep(Passport("shop/book", "shop", "d1", writers=("new",)))
    found = passports(storage, MemoryJournal()).of("shop/book")
    assert found is not None and found.writers == ("new",)
    monkeypatch.setattr(storage, "keep_passport", lambda place, text: pytest.fail("it is there as it is"))
    known.keep(Passport("shop/book", "shop", "d1", writers=("new",)))


def test_a_container_that_was_not_admitted_does_not_get_data_x01(served: Volumes) -> None:
    served.attach(DB.spec)
    with pytest.raises(TryLater) as refused:
        served.attach(RUN)
    assert refused.value.code == "checkpoint_owed" and f"{ROOT}/shop/book" in refused.value.message


def test_a_volume_that_was_made_just_now_is_new_and_a_directory_deeper_in_the_data_is_not(
    storage: MemoryStorage,
) -> None:
    """Only a volume is filled from the image. Its passport says which deployment made it."""
    found = volumes(storage, MemoryJournal())
    found.prepare(DB.spec, "d1")
    found.prepare(replace(DB.spec, mounts=(Mount(f"{ROOT}/shop/more", "/data"),)), "")
    found.prepare(replace(DB.spec, mounts=(Mount(f"{ROOT}/shop/conf/inner", "/data"),)), "d2")
    made = {place: (one.maker, one.is_new) for place, one in found._passports.known.items()}
    assert made == {"shop/book": ("d1", True), "shop/more": (TAKEN_OVER, True), "shop/conf/inner": ("d2", False)}


def test_an_attempt_admits_its_own_deployment_only(served: Volumes) -> None:
    with_run = replace(DB, runs=(RUN.command,))
    served.checkpointed(with_run, "d2", "c1")
    served.attach(RUN, Admission(writers_of(with_run), "d2"))
    for other in ("", "d3"):
        with pytest.raises(TryLater):
            served.attach(RUN, Admission(frozenset(), other))
    served.failed("shop")
    with pytest.raises(TryLater):
        served.attach(RUN, Admission(writers_of(with_run), "d2"))
    served.attach(DB.spec)  # what served before goes on


def test_a_proven_deployment_ends_what_was_admitted_before(served: Volumes) -> None:
    with_run = replace(DB, runs=(RUN.command,))
    served.checkpointed(with_run, "d2", "c1")
    served.proven(guest(with_run, deployment="d2"), 1)
    served.attach(RUN)
    served.checkpointed(DB, "d3", "c2")
    served.proven(guest(DB, deployment="d3"), 1)
    with pytest.raises(TryLater):
        served.attach(RUN)


# ---- an agent that died right after the switch

OTHER = part("web", "1")
WEB = replace(OTHER, spec=replace(OTHER.spec, mounts=(Mount(f"{ROOT}/shop/files", "/data"),)))
NEW_WEB = replace(WEB, runs=(RUN.command,))


@pytest.fixture
def both(served: Volumes, storage: MemoryStorage) -> Volumes:
    """`DB` and `WEB` serve and have written."""
    served.attach(WEB.spec, Admission(writers_of(WEB), "d1"))
    served.proven(guest(DB, WEB), 1)
    storage.contents["shop"]["files/page"] = b"1"
    return served


def admitted(found: Volumes, *places: str) -> list[tuple[str, ...]]:
    return [found._passports.known[place].writers for place in places]


def writers(one: Part) -> tuple[str, ...]:
    return tuple(sorted(writers_of(one)))


def test_what_serves_is_made_up_with_all_its_volumes(both: Volumes) -> None:
    fewer, after = replace(DB, runs=(RUN.command,)), guest(DB, NEW_WEB, deployment="d3")
    both.checkpointed(fewer, "d2", "c1")
    both.proven(guest(fewer, WEB, deployment="d2"), 2)
    both.checkpointed(NEW_WEB, "d3", "c2")
    both.make_up(after, 3)
    assert admitted(both, "shop/book", "shop/files") == [writers(DB), writers(NEW_WEB)]
    assert both._passports.revision("shop") == 3 and not both._passports.has_writers_of("shop", "d3")


def test_what_was_written_down_is_not_made_up(both: Volumes) -> None:
    both.make_up(guest(DB, WEB), 9)
    assert both._passports.revision("shop") == 1


def test_what_serves_owes_a_checkpoint_of_restored_data_also_after_a_crash_between_two_of_them_x01(
    both: Volumes,
) -> None:
    serving = guest(DB, WEB)
    both._passports.restored("shop", Taken(), False, "c1", "o-1")
    both.checkpointed(DB, serving.deployment, "c2")
    both.make_up(serving, 1)
    assert both.owed(serving, False) == {"web"}
    with pytest.raises(TryLater):
        both.attach(WEB.spec)


def test_what_another_deployment_may_have_written_stays_known_when_the_one_before_is_made_up_x01(
    both: Volumes,
) -> None:
    newer = replace(DB, runs=(RUN.command,))
    both.checkpointed(NEW_WEB, "d2", "c1")
    both.checkpointed(newer, "d3", "c2")
    both.make_up(guest(DB, NEW_WEB, deployment="d2"), 2)
    assert both._passports.has_writers_of("shop", "d3") and not both._passports.has_writers_of("shop", "d2")
    both.attach(RUN, Admission(writers_of(newer), "d3"))


def test_a_copy_of_another_node_or_fleet_proves_nothing(served: Volumes, storage: MemoryStorage) -> None:
    mine = passports(storage, MemoryJournal()).of("shop/book")
    assert mine is not None and mine.writers == tuple(sorted(writers_of(DB)))
    assert passports(storage, MemoryJournal(), node="w2").of("shop/book") is None


def test_a_place_inside_another_service_is_no_volume_of_this_one(served: Volumes, storage: MemoryStorage) -> None:
    """Such a mount is a path of the host, which signatures of grade destroy must have approved; it gets no passport."""
    for other in ("approved", "other"):
        storage.elsewhere.add(f"{ROOT}/{other}/book")
        storage.contents[other] = {"book/page": b"2"}
    served.attach(replace(DB.spec, mounts=(Mount(f"{ROOT}/approved/book", "/data"),)))
    assert "approved/book" not in storage.passports
    with pytest.raises(NotPermitted, match="reach into the host"):
        served.attach(replace(DB.spec, mounts=(Mount(f"{ROOT}/other/book", "/data"),)))
    with pytest.raises(NotPermitted):
        served.attach(replace(DB.spec, service="other", mounts=(Mount(f"{ROOT}/other/book", "/data"),)))


# ---- volumes that no container has had


def test_a_volume_that_no_container_has_had_owes_no_checkpoint_whatever_runs(served: Volumes) -> None:
    served.prepare(WEB.spec, "d1")
    assert served.owed(guest(DB, WEB), runs=True) == frozenset()
    served.attach(WEB.spec, Admission(writers_of(WEB), "d1"))
    served.failed("shop")
    assert served.owed(guest(DB, WEB), runs=True) == {"web"}, "what failed may still write into it"
    assert served.owed(guest(DB, WEB), runs=False) == frozenset(), "it wrote nothing"


@pytest.mark.parametrize("place", ["shop", "shop/files/deeper"])
def test_one_that_another_container_reaches_from_outside_or_inside_is_not_unused(served: Volumes, place: str) -> None:
    served.prepare(WEB.spec, "d1")
    served._passports.keep(Passport(place, "shop", "o1"))
    assert served.owed(guest(WEB), runs=True) == {"web"}


def test_what_was_put_into_it_by_hand_is_copied_first(served: Volumes, storage: MemoryStorage) -> None:
    served.prepare(WEB.spec, "d1")
    storage.contents["shop"]["files/by-hand"] = b"1"
    assert served.owed(guest(WEB), runs=False) == {"web"}
    with pytest.raises(TryLater):
        served.attach(WEB.spec, Admission(writers_of(WEB), "d1"))


def test_a_restored_volume_has_been_used(served: Volumes) -> None:
    served.prepare(WEB.spec, "d1")
    served._passports.restored("shop", Taken(), True, "c1", "o1")
    assert served._passports.known["shop/files"].began == ()


def test_one_that_was_proven_without_a_start_has_been_used(served: Volumes) -> None:
    served.prepare(WEB.spec, "d1")
    served.proven(guest(DB, WEB), 1)
    assert served.owed(guest(DB, NEW_WEB, deployment="d2"), runs=True) == {"web"}


def test_an_empty_directory_that_this_agent_did_not_make_may_be_in_use(served: Volumes, storage: MemoryStorage) -> None:
    """Its passport may be lost, and a container that runs may write into it in a moment."""
    storage.contents["shop"]["files/"] = b""
    served.prepare(WEB.spec, "d1")
    assert served.owed(guest(DB, WEB), runs=True) == {"web"}


def test_an_adoption_leaves_a_volume_that_is_not_there_to_be_new_n13(storage: MemoryStorage) -> None:
    """Else it would never get what its image has."""
    mounts = (Mount(f"{ROOT}/shop/book", "/data"), Mount(f"{ROOT}/shop/seed", "/seed"))
    both = replace(BASE, spec=replace(BASE.spec, mounts=mounts))
    storage.contents["shop"] = {"book/page": b"1"}
    found = volumes(storage, MemoryJournal())
    with pytest.raises(NotPermitted):
        found.prepare(both.spec, "d1")
    assert found.adopt("shop", "order", guest(both)) == [f"{ROOT}/shop/book"]
    found.prepare(both.spec, "d1")
    known = passports(storage, MemoryJournal())
    seed, book = known.of("shop/seed"), known.of("shop/book")
    assert seed is not None and book is not None and (seed.is_new, book.is_new) == (True, False)


def test_an_adoption_attaches_what_was_shown_and_nothing_else(storage: MemoryStorage) -> None:
    """All volumes of a component that are refused are shown at once; what came later was not seen by an operator."""
    mounts = tuple(Mount(f"{ROOT}/shop/{name}", f"/{name}") for name in ("book", "films", "later"))
    both = replace(BASE, spec=replace(BASE.spec, mounts=mounts))
    storage.contents["shop"] = {"book/page": b"1", "films/one": b"2"}
    found = volumes(storage, MemoryJournal())
    assert found.adopt("shop", "order", guest(both)) == [], "nothing was shown yet"
    with pytest.raises(NotPermitted):
        found.prepare(both.spec, "d1")
    assert [one.path for one in found.unattached] == [f"{ROOT}/shop/book", f"{ROOT}/shop/films"]
    storage.contents["shop"]["later/secret"] = b"3"
    assert found.adopt("shop", "order", guest(both)) == [f"{ROOT}/shop/book", f"{ROOT}/shop/films"]
    with pytest.raises(NotPermitted, match="later"):
        found.prepare(both.spec, "d1")
