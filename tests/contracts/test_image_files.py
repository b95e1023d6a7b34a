"""A podman that fails while an image is read: the reader is told so, and a volume is not filled by half (N13)."""

import asyncio
import io
import os
import tarfile
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from holdfast.adapters.runtime.podman import image_files
from holdfast.adapters.runtime.podman.libpod import Libpod
from holdfast.adapters.storage.directory import DirectoryStorage
from holdfast.errors import HoldfastError, TryLater
from tests.fleets.doors import OpenStorage

FOUND = b64encode(b'{"isDir": true, "linkTarget": "/data"}').decode()
HEAD = f"HTTP/1.1 200 OK\r\n{image_files.STAT}: {FOUND}\r\nConnection: close\r\n\r\n".encode()
GONE = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class NoKeeper:
    last_words = ""

    async def revive(self) -> bool:
        return False


def _tar() -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as made:
        top = tarfile.TarInfo("data")
        top.type, top.mode = tarfile.DIRTYPE, 0o750
        made.addfile(top)
        seed = tarfile.TarInfo("data/seed")
        seed.size = 100_000
        made.addfile(seed, io.BytesIO(b"s" * seed.size))
    return target.getvalue()


@asynccontextmanager
async def podman(path: Path, is_silent: bool, sent: int, head: bytes = HEAD) -> AsyncIterator[Libpod]:
    """It sends the first bytes of an export, and then nothing more: it hangs, or ends."""
    ended = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await reader.readuntil(b"\r\n\r\n")
        if b"/export " not in asked:
            writer.write(head if asked.startswith(b"HEAD") else GONE)
        else:
            whole = _tar()
            writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {len(whole)}\r\n\r\n".encode() + whole[:sent])
            await writer.drain()
            if is_silent:
                await ended.wait()
        writer.close()

    libpod = Libpod(str(path / "podman.sock"), NoKeeper())
    async with await asyncio.start_unix_server(answer, libpod.socket):
        yield libpod
        ended.set()
        await libpod.close()


async def filled(storage: OpenStorage, libpod: Libpod) -> bool:
    async with image_files.directory(libpod, "c" * 64, "/data") as found:
        assert found is not None
        work = partial(storage.fill, "web", "book", found)
        filling = asyncio.get_running_loop().run_in_executor(None, work)
        await asyncio.wait([filling], timeout=30.0)
        assert filling.done(), "it waits for ever"
        return await filling


@pytest.fixture
def storage(tmp_path: Path) -> OpenStorage:
    (tmp_path / "srv").mkdir()
    storage = OpenStorage(DirectoryStorage(str(tmp_path / "srv"), "w1"), str(tmp_path / "srv"))
    storage.volume("web", "book")
    return storage


@pytest.mark.parametrize("is_silent", [True, False], ids=["it falls silent", "it ends"])
@pytest.mark.parametrize("sent", [0, 50_000])
def test_a_podman_that_fails_meanwhile_is_tried_again_and_fills_nothing_n13(
    storage: OpenStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_silent: bool, sent: int
) -> None:
    monkeypatch.setattr(image_files, "SILENCE_S", 0.3)

    async def story() -> None:
        async with podman(tmp_path, is_silent, sent) as libpod:
            with pytest.raises(TryLater) as failed:
                await filled(storage, libpod)
            assert failed.value.code == "runtime_away" and "podman" in failed.value.message

    asyncio.run(story())
    assert storage.content("web/book").entries == 0 and os.listdir(tmp_path / "srv" / "web" / "book") == []


def test_the_same_reading_without_a_failure_fills_it_n13(storage: OpenStorage, tmp_path: Path) -> None:
    async def story() -> bool:
        async with podman(tmp_path, False, len(_tar())) as libpod:
            return await filled(storage, libpod)

    assert asyncio.run(story()) and storage.content("web/book").size_bytes == 100_000


def test_a_reader_that_was_removed_meanwhile_does_not_mean_that_the_image_has_no_directory_n13(tmp_path: Path) -> None:
    """`podman container prune` removes it, too. The volume would stay empty for ever."""

    async def story() -> None:
        async with podman(tmp_path, False, 0, head=GONE) as libpod:
            with pytest.raises(TryLater, match="is gone"):
                async with image_files.directory(libpod, "c" * 64, "/data"):
                    pass

    asyncio.run(story())


def test_a_podman_that_cannot_tell_does_not_mean_that_the_image_has_no_directory_n13(tmp_path: Path) -> None:
    async def story() -> None:
        async with podman(tmp_path, False, 0, head=GONE.replace(b"404 Not Found", b"500 Trouble")) as libpod:
            with pytest.raises(HoldfastError) as failed:
                async with image_files.directory(libpod, "c" * 64, "/data"):
                    pass
            assert "cannot read /data of the image" in failed.value.message

    asyncio.run(story())


def test_a_thread_that_still_reads_when_the_reading_is_over_is_told(tmp_path: Path) -> None:
    """A rollout that is cancelled: otherwise the thread waits for a podman that is not asked any more."""

    async def story() -> None:
        loop = asyncio.get_running_loop()
        async with podman(tmp_path, True, 50_000) as libpod:
            async with image_files.directory(libpod, "c" * 64, "/data") as found:
                assert found is not None
                reading = loop.run_in_executor(None, found.tar.read)
                await asyncio.sleep(0.2)
            for read, why in ((reading, "podman"), (loop.run_in_executor(None, found.tar.read), "was ended")):
                await asyncio.wait([read], timeout=30.0)
                assert read.done(), "it waits for ever"
                with pytest.raises(TryLater, match=why):
                    await read

    asyncio.run(story())
