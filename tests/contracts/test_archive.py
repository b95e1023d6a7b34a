"""An archive comes back as it was, ships what changed, goes on after a cut and shows any damage (M-89, M-91, R12)."""

import asyncio
import time
from pathlib import Path

import pytest

from holdfast.errors import Conflict, Corrupt, HoldfastError
from holdfast.model.archive import Header, Purpose
from holdfast.ports.archive import Rules
from tests.fleets.archives import PLACES, Place

TREE = {
    "config.toml": b"key = 1\n",
    "app.txt": b"a" * 5000,
    "sub/one": b"one",
    "sub/deep/two": b"two" * 1000,
    "sub/empty": b"",
    "zzz": b"last",
}


@pytest.fixture(params=sorted(PLACES))
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return PLACES[request.param](tmp_path)


def aged() -> None:
    """Files younger than the clock's tick are read again (settled.RECENT_NS)."""
    time.sleep(0.1)


def test_what_is_packed_comes_back(place: Place) -> None:
    place.write(TREE)
    packed = place.pack()
    assert place.unpack(packed).files == packed.files == len(TREE)
    assert place.read("restored") == TREE
    assert packed.size_bytes == sum(map(len, TREE.values()))
    assert {one.digest for one in packed.packs} == set(place.shipped)


def test_an_unchanged_tree_ships_nothing_and_still_comes_back(place: Place) -> None:
    place.write(TREE)
    aged()
    place.pack()
    again = place.pack()
    assert place.shipped == [] and again.new_packs == again.new_bytes == 0
    assert place.unpack(again) and place.read("restored") == TREE


def test_a_change_ships_what_changed_and_nothing_else(place: Place) -> None:
    place.write({**TREE, "large": bytes(range(256)) * 4000})
    aged()
    before = place.pack()
    place.write({"sub/one": b"another"})
    place.remove("zzz")
    after = place.pack()
    assert after.new_packs == 1 and after.new_bytes < before.new_bytes
    place.unpack(after)
    wanted = {**TREE, "large": bytes(range(256)) * 4000, "sub/one": b"another"}
    del wanted["zzz"]
    assert place.read("restored") == wanted
    place.unpack(before, "older")
    assert place.read("older")["zzz"] == b"last", "an older backup is not touched by a newer one"


def test_a_pack_that_is_mostly_dead_is_written_again(place: Place) -> None:
    place.write({f"f{n}": bytes([n]) * 3000 for n in range(4)})
    aged()
    (old,) = place.pack().packs
    place.write({f"f{n}": b"new" * 1000 for n in range(3)})
    place.pack()
    place.sequence += 1
    third = place.pack()  # what the second found dead, the third writes again
    assert old.digest not in {one.digest for one in third.packs}
    place.unpack(third)
    assert place.read("restored")["f3"] == bytes([3]) * 3000


def test_a_cut_run_goes_on_with_what_was_shipped(place: Place) -> None:
    """Issue 15: resumable after a cut."""
    place.write({f"f{n:02}": bytes([n]) * (6 << 20) for n in range(9)})
    aged()
    place.ships_max = 1
    with pytest.raises(ConnectionError):
        place.pack()
    assert len(place.store) == 1
    place.ships_max = 10**9
    packed = place.pack()
    assert len(place.shipped) == len(packed.packs) - 1, "the first was not shipped again"
    place.unpack(packed)
    assert len(place.read("restored")) == 9


def test_a_pack_that_a_target_lost_is_shipped_again(place: Place) -> None:
    place.write(TREE)
    aged()
    first = place.pack()
    again = place.pack(alive=())
    assert again.new_packs and not {one.digest for one in first.packs} & {one.digest for one in again.packs}


def test_a_node_that_lost_its_copy_reads_again_and_ships_nothing(place: Place) -> None:
    place.write(TREE)
    packed = place.pack()
    home = str(place.folder / "another-home")
    asyncio.run(place.archiver.recall(place.unpack_job(packed, "unused", home=home), place.fetch))
    again = place.pack(home=home)
    assert again.new_packs == 0 and {one.digest for one in again.packs} == {one.digest for one in packed.packs}
    place.unpack(again)
    assert place.read("restored") == TREE


def test_only_the_default_set_and_what_is_included(place: Place) -> None:
    """M-91, M-92: relative to the service's directory."""
    place.write({**TREE, "sub/x.pem": b"pem", "vol/any": b"any", "vol/tmp/cache": b"c", "keep/this": b"k"})
    rules = Rules(whole=False, volumes=("vol",), include=("keep/this",), exclude=("vol/tmp",))
    place.unpack(place.pack(rules=rules))
    assert sorted(place.read("restored")) == ["config.toml", "keep/this", "sub/x.pem", "vol/any"]


@pytest.mark.parametrize("others", [{}, {"!first": b"1", "a": b"2", "vol/b": b"3"}, {".holdfast-dump": b"not this"}])
def test_a_dump_is_one_more_file_whatever_else_is_taken_m91(place: Place, others: dict[str, bytes]) -> None:
    place.write({"db/raw": b"raw", **others})
    header = Header(purpose=place.purpose, node="w1", sequence=1, dump=".holdfast-dump", method="exec: x")
    rules = Rules(whole=True, exclude=("db",))
    aged()
    for content in (b"first" * 1000, b"second"):
        packed = place.pack(header=header, dump=place.elsewhere(content), rules=rules)
        name = content[:5].decode()
        assert place.unpack(packed, name).header.dump == ".holdfast-dump"
        assert place.read(name) == {**others, ".holdfast-dump": content}
        assert place.verify(packed) == []
    for _ in range(2):  # a pack that is mostly dead is written again first
        again = place.pack(header=header, dump=place.elsewhere(b"second"), rules=rules)
    assert again.new_packs == 0, "an unchanged dump keeps its pack"


def test_nothing_is_unpacked_over_data(place: Place) -> None:
    place.write(TREE)
    packed = place.pack()
    place.write({"there": b"already"}, "restored")
    with pytest.raises(Conflict):
        place.unpack(packed)
    assert place.read("restored") == {"there": b"already"}


def test_another_key_opens_nothing(place: Place) -> None:
    place.write(TREE)
    packed = place.pack()
    with pytest.raises(Corrupt):
        place.unpack(packed, identity=place.keys.fresh().identity)


@pytest.mark.parametrize(
    "purpose", [Purpose("e" * 64, "web", 1), Purpose("f" * 64, "mail", 1), Purpose("f" * 64, "web", 2)]
)
def test_an_archive_for_another_purpose_is_refused(place: Place, purpose: Purpose) -> None:
    place.write(TREE)
    with pytest.raises(Corrupt, match="web"):
        place.unpack(place.pack(), purpose=purpose)


def test_a_manifest_that_the_receipt_does_not_name_is_refused(place: Place) -> None:
    """R12: an older archive presented as the newest has another digest."""
    place.write(TREE)
    older = place.pack()
    place.write({"zzz": b"newer"})
    newer = place.pack()
    with pytest.raises(Corrupt):
        place.unpack(newer, manifest=older.manifest)


def test_verify_finds_nothing_wrong_with_what_is_whole(place: Place) -> None:
    place.write(TREE)
    assert place.verify(place.pack()) == []


def test_verify_names_what_is_damaged(place: Place) -> None:
    place.write(TREE)
    packed = place.pack()
    digest = packed.packs[0].digest
    place.store[digest] = place.store[digest][:-1]
    (flaw,) = place.verify(packed)
    assert digest in flaw.what
    with pytest.raises(Corrupt, match=digest):
        place.unpack(packed)
    (flaw,) = place.verify(packed, manifest=packed.manifest[:-1])
    assert packed.digest in flaw.what


def test_an_error_of_the_target_is_the_callers(place: Place) -> None:
    place.write(TREE)
    packed = place.pack()

    async def gone(digest: str) -> bytes:
        raise ConnectionError("the target is gone")

    with pytest.raises(ConnectionError):
        place.unpack(packed, fetch=gone)


def test_a_job_can_be_cancelled(place: Place) -> None:
    place.write(TREE)

    async def hang(digest: str, content: bytes) -> None:
        await asyncio.Event().wait()

    async def run() -> None:
        task = asyncio.create_task(place.archiver.pack(place.job(), hang, lambda progress: None))
        await asyncio.sleep(0.5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    place.unpack(place.pack())
    assert place.read("restored") == TREE


def test_errors_have_a_remedy(place: Place) -> None:
    place.write(TREE)
    with pytest.raises(HoldfastError) as found:
        place.unpack(place.pack(), manifest=b"nonsense")
    assert found.value.remedy and found.value.code == "archive_damaged"
