"""A directory that an archive was unpacked into is brought to later ones: only what differs is fetched (issue 16)."""

import asyncio
import random
from pathlib import Path

import pytest

from holdfast.errors import Conflict, Corrupt
from tests.fleets.archives import PLACES, Place

PASSES = 6


@pytest.fixture(params=sorted(PLACES))
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return PLACES[request.param](tmp_path)


def test_a_directory_follows_from_pass_to_pass(place: Place) -> None:
    chance = random.Random(16)
    place.write({f"d{n % 3}/f{n}": chance.randbytes(3000) for n in range(20)})
    place.unpack(place.pack(), "copy", keep=True)
    for _ in range(PASSES):
        files = place.read("data")
        place.write({path: chance.randbytes(2000) for path in chance.sample(sorted(files), 3)})
        place.write({f"new/{chance.random()}": chance.randbytes(100), f"{chance.random()}": b""})
        place.remove(chance.choice(sorted(files)))
        packed = place.pack()
        done = place.update(packed, "copy")
        assert place.read("copy") == place.read("data")
        assert (done.files, done.size_bytes, done.header.sequence) == (
            packed.files, packed.size_bytes, place.sequence,
        )  # fmt: skip


def test_only_packs_that_a_change_needs_are_fetched(place: Place) -> None:
    place.write({f"f{n}": bytes([n]) * 5000 for n in range(9)})
    first = place.pack()
    place.unpack(first, "copy", keep=True)
    place.write({"f3": b"changed"})
    place.remove("f5")
    second, fetched = place.pack(), list[str]()

    async def fetch(digest: str) -> bytes:
        fetched.append(digest)
        return place.store[digest]

    place.update(second, "copy", fetch)
    assert fetched == place.shipped and len(fetched) == 1
    place.update(second, "copy", fetch)
    assert len(fetched) == 1, "nothing is left to do"
    assert place.read("copy") == place.read("data")


def test_a_directory_that_is_not_known_is_refused(place: Place) -> None:
    place.write({"a": b"one"})
    packed = place.pack()
    place.unpack(packed, "copy")
    with pytest.raises(Conflict) as found:
        place.update(packed, "copy")
    assert found.value.code == "not_the_tree" and place.read("copy") == {"a": b"one"}


def test_a_damaged_pack_is_named_and_a_right_one_repairs(place: Place) -> None:
    place.write({f"f{n}": bytes([n]) * 9000 for n in range(6)})
    place.unpack(place.pack(), "copy", keep=True)
    place.write({f"f{n}": b"new" * (n + 1) for n in range(3)})
    place.remove("f5")
    second = place.pack()

    async def damaged(digest: str) -> bytes:
        return place.store[digest][:-1] + b"?"

    for _ in range(2):
        with pytest.raises(Corrupt):
            place.update(second, "copy", damaged)
    place.write({"f0": b"newer"})
    place.update(place.pack(), "copy")
    assert place.read("copy") == place.read("data")


def test_a_damaged_manifest_touches_nothing(place: Place) -> None:
    place.write({"a": b"one", "b": b"two"})
    first = place.pack()
    place.unpack(first, "copy", keep=True)
    before = place.read("data")
    place.write({"a": b"changed"})
    second = place.pack()
    with pytest.raises(Corrupt):
        place.update(second, "copy", manifest=second.manifest[:-1] + b"?")
    with pytest.raises(Corrupt):
        place.update(second, "copy", purpose=type(place.purpose)("e" * 64, "web", 1))
    assert place.read("copy") == before
    place.update(second, "copy")
    assert place.read("copy") == place.read("data")


def test_what_is_forgotten_is_not_updated_any_more(place: Place) -> None:
    place.write({"a": b"one"})
    packed = place.pack()
    place.unpack(packed, "copy", keep=True)
    home = place.update_job(packed, "copy").home
    for _ in range(2):  # the second time there is nothing
        asyncio.run(place.archiver.forget(home))
    assert not Path(home).exists()
    with pytest.raises(Conflict):
        place.update(packed, "copy")
    assert place.read("copy") == {"a": b"one"}


def test_a_pack_after_what_was_shipped_is_forgotten_ships_all_of_it(place: Place) -> None:
    place.write({"a": b"one"})
    place.pack()
    first = list(place.shipped)
    asyncio.run(place.archiver.forget(place.job().home))
    place.shipped.clear()
    place.pack()
    assert len(place.shipped) == len(first) == 1
