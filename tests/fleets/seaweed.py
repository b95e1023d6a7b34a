"""A real S3 server on the loopback address: SeaweedFS, with one bucket and one identity."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import obstore
from msgspec import Struct
from obstore.store import S3Store

from holdfast.adapters.backup_target.s3 import Credentials
from holdfast.model.storage_target import Bucket
from tests.fleets.ports import free_port
from tests.fleets.waiting import wait_until

HOST, BUCKET = "127.0.0.1", "backups"
MINE = Credentials("key-of-a-test", "secret-of-a-test")
WEED = Path(sys.executable).parent / "weed"
PARTS = ("master", "volume", "filer", "s3")
TRIES = 5


class Seaweed(Struct):
    endpoint: str
    process: Any
    begin: Any = None  # makes the same process again

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(60)

    def start_again(self) -> None:
        """On its ports, with what its disk has."""
        self.process = self.begin()
        wait_until(lambda: _answers(self), "the S3 server answers again")

    def bucket(self, prefix: str = "") -> Bucket:
        return Bucket(endpoint=self.endpoint, name=BUCKET, prefix=prefix)

    def store(self) -> S3Store:
        """As any other program sees the bucket."""
        return S3Store(
            BUCKET,
            endpoint=self.endpoint,
            access_key_id=MINE.access_key_id,
            secret_access_key=MINE.secret_access_key,
            region="us-east-1",
            client_options={"allow_http": True, "timeout": timedelta(seconds=5)},
            retry_config={"max_retries": 0},
        )


@contextmanager
def seaweed(place: Path, host: str = HOST) -> Iterator[Seaweed]:
    place.mkdir(exist_ok=True)
    (place / "data").mkdir(exist_ok=True)
    identity = {
        "name": "test",
        "credentials": [{"accessKey": MINE.access_key_id, "secretKey": MINE.secret_access_key}],
        "actions": ["Admin", "Read", "Write", "List"],
    }
    (place / "s3.json").write_text(json.dumps({"identities": [identity]}))
    found = _started(place, host)
    try:
        yield found
    finally:
        found.kill()


def _started(place: Path, host: str) -> Seaweed:
    """Another process may take a port that was free a moment ago: then the server ends, and others are chosen."""
    for _ in range(TRIES):
        found = _begun(place, host)
        wait_until(lambda: _has_ended(found) or _answers(found), lambda: (place / "log").read_text()[-3000:])  # noqa: B023
        if not _has_ended(found):
            return found
    raise AssertionError(f"the S3 server ends: {(place / 'log').read_text()[-3000:]}")


def _begun(place: Path, host: str) -> Seaweed:
    ports = {part: free_port() for part in PARTS}
    words = [
        str(WEED), "server", f"-dir={place / 'data'}", f"-ip={host}", f"-ip.bind={host}", "-filer", "-s3",
        "-s3.autoCreateBucket", f"-s3.config={place / 's3.json'}", "-master.telemetry=false", "-volume.max=20",
        "-master.volumeSizeLimitMB=64", "-volume.minFreeSpace=1", "-s3.iam=false", "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        f"-filer.localSocket={place / 'filer.sock'}", f"-s3.localSocket={place / 's3.sock'}",
        *(f"-{part}.port={port}" for part, port in ports.items()),
        *(f"-{part}.port.grpc={free_port()}" for part in PARTS),
    ]  # fmt: skip

    def begin() -> subprocess.Popen[bytes]:
        with (place / "log").open("ab") as log:
            return subprocess.Popen(words, cwd=place, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    return Seaweed(f"http://{host}:{ports['s3']}", begin(), begin)


def _has_ended(found: Seaweed) -> bool:
    return found.process.poll() is not None


def _answers(found: Seaweed) -> bool:
    try:
        asyncio.run(_written(found))
    except Exception:
        return False
    return True


async def _written(found: Seaweed) -> None:
    await obstore.put_async(found.store(), "hello", b"hello")
