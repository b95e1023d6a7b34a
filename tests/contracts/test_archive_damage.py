"""R12: every damaged archive is flagged, no whole one is. Each damage is tried with the key and, where it is of bytes,
without."""

import asyncio
import random
import shutil
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from holdfast.errors import Corrupt, HoldfastError
from holdfast.model import backup_key
from holdfast.model.archive import Purpose
from holdfast.model.backup_key import FLEET_DIGITS
from holdfast.ports.archive import Fetch, Packed, Stored
from tests.fleets.archives import Place, process_place
from tests.fleets.counts import SOAK

GUESTS, ARCHIVES = (5, 4) if SOAK else (2, 2)
FLIPS, CUTS, DELETED, SWAPPED, OLDER, WHOLE = (200, 50, 20, 20, 20, 100) if SOAK else (8, 4, 2, 2, 2, 4)


class Kept(NamedTuple):
    place: Place
    packed: Packed


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> list[list[Kept]]:
    """For each guest its archives, oldest first. All have one key: swapping is not found by the key alone."""
    chance = random.Random(12)
    found: list[list[Kept]] = []
    for guest in range(GUESTS):
        place = process_place(tmp_path_factory.mktemp(f"guest{guest}"))
        place.purpose = Purpose("f" * 64, f"guest{guest}", 1)
        place.pair = found[0][0].place.pair if found else place.pair
        archives: list[Kept] = []
        for _ in range(ARCHIVES):
            changed = {f"d{n}/f{chance.randrange(20)}": chance.randbytes(chance.randrange(1, 9000)) for n in range(12)}
            place.write({**changed, "long": chance.randbytes(18 << 20)} if not archives else changed)
            archives.append(Kept(place, place.pack()))
        found.append(archives)
    return found


def is_flagged(place: Place, packed: Packed, store: dict[str, bytes], **more: Any) -> bool:
    async def fetch(digest: str) -> bytes:
        if digest not in store:
            raise HoldfastError(f"{digest} is not there", remedy="")
        return store[digest]

    try:
        return bool(place.verify(packed, fetch=fetch, **more))
    except HoldfastError:
        return True


def is_refused(place: Place, packed: Packed, store: dict[str, bytes], **more: Any) -> bool:
    """By a restore, which drills and exports make too."""
    into = place.folder / "refused"

    async def fetch(digest: str) -> bytes:
        if digest not in store:
            raise HoldfastError(f"{digest} is not there", remedy="")
        return store[digest]

    try:
        place.unpack(packed, into.name, fetch=fetch, **more)
    except HoldfastError:
        return True
    finally:
        shutil.rmtree(into)
    return False


def is_flagged_without_key(place: Place, packed: Packed, store: dict[str, bytes]) -> bool:
    async def fetch(digest: str) -> bytes:
        return store[digest]

    stored = [*packed.packs, Stored(packed.digest, len(packed.manifest))]
    is_flagged = bool(asyncio.run(place.archiver.compare(stored, fetch, lambda progress: None)))
    assert is_flagged == any(is_wrong(one.digest, store) for one in stored), "the daily read-back judges as this does"
    return is_flagged


def is_wrong(digest: str, store: dict[str, bytes]) -> bool:
    """As a node and `holdfast backup verify` judge what a target gives out."""
    if digest not in store:
        return True
    try:
        backup_key.check_stored(backup_key.parse(f"{'f' * FLEET_DIGITS}/web/g1/packs/{digest}"), store[digest])
    except Corrupt:
        return True
    return False


def damages(kept: list[list[Kept]]) -> Iterator[tuple[str, Kept, dict[str, bytes]]]:
    chance = random.Random(310)
    every = [one for archives in kept for one in archives]
    for kind, count in (("flip", FLIPS), ("cut", CUTS), ("deleted", DELETED)):
        for _ in range(count):
            one = chance.choice(every)
            digest = chance.choice([one.packed.digest, *(pack.digest for pack in one.packed.packs)])
            content = bytearray(one.place.store[digest])
            store = dict(one.place.store)
            if kind == "flip":
                at = chance.randrange(len(content))
                content[at] ^= 1 << chance.randrange(8)
                store[digest] = bytes(content)
            elif kind == "cut":
                store[digest] = bytes(content[: chance.randrange(len(content))])
            else:
                del store[digest]
            yield kind, one, store


@pytest.mark.timeout(1800)
def test_r12_every_damaged_object_is_flagged(kept: list[list[Kept]]) -> None:
    missed, count = [], 0
    for kind, one, store in damages(kept):
        manifest = store.get(one.packed.digest, b"")
        count += 1
        if not is_flagged(one.place, one.packed, store, manifest=manifest):
            missed.append(f"{kind}, with the key")
        if not is_refused(one.place, one.packed, store, manifest=manifest):
            missed.append(f"{kind}, by a restore")
        if not is_flagged_without_key(one.place, one.packed, store):
            missed.append(f"{kind}, without a key")
    assert missed == [] and count == FLIPS + CUTS + DELETED
    print(f"{count} of {count} damaged archives flagged")


@pytest.mark.timeout(1800)
def test_r12_archives_swapped_between_guests_are_flagged(kept: list[list[Kept]]) -> None:
    chance = random.Random(20)
    for _ in range(SWAPPED):
        first, second = chance.sample(kept, 2)
        mine, other = chance.choice(first), chance.choice(second)
        store = {**mine.place.store, **other.place.store}
        for flags in (is_flagged, is_refused):
            assert flags(mine.place, other.packed, store), "even if a receipt named it"
            assert flags(mine.place, mine.packed, store, manifest=other.packed.manifest)


@pytest.mark.timeout(1800)
def test_r12_an_older_archive_presented_as_the_newest_is_flagged(kept: list[list[Kept]]) -> None:
    chance = random.Random(21)
    for _ in range(OLDER):
        older, *_, newest = chance.choice(kept)
        for flags in (is_flagged, is_refused):
            assert flags(newest.place, newest.packed, newest.place.store, manifest=older.packed.manifest)


@pytest.mark.timeout(1800)
def test_r12_no_whole_archive_is_flagged(kept: list[list[Kept]]) -> None:
    every = [one for archives in kept for one in archives]
    for number in range(WHOLE):
        place, packed = every[number % len(every)]
        assert not is_flagged(place, packed, place.store) and not is_refused(place, packed, place.store)
        assert not is_flagged_without_key(place, packed, place.store)


def test_the_result_names_the_file(kept: list[list[Kept]]) -> None:
    one = kept[0][0]
    digest = one.packed.packs[0].digest
    (flaw,) = one.place.verify(one.packed, fetch=_cutting(one.place, digest))
    assert digest in flaw.what and ("long" in flaw.what or "d" in flaw.what.split(": ")[1])


def _cutting(place: Place, damaged: str) -> Fetch:
    async def fetch(digest: str) -> bytes:
        return place.store[digest][:-9] if digest == damaged else place.store[digest]

    return fetch
