"""Build container images as bytes: layer, configuration, manifest. Pure; same input, same digests."""

import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from hashlib import sha256

from msgspec import Struct

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"  # not compressed: it stays on one machine


class Image(Struct, frozen=True):
    """A name, a tag, and the content that a registry needs."""

    name: str
    tag: str
    blobs: tuple[bytes, ...]
    manifest: bytes


def digest(content: bytes) -> str:
    return f"sha256:{sha256(content).hexdigest()}"


def layer(files: Mapping[str, bytes], links: Mapping[str, str], folders: Sequence[str]) -> bytes:
    """Executable files, symbolic links and folders; without timestamps, so that digests are stable."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name in folders:
            archive.addfile(_member(name, tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755))
        for name, content in files.items():
            member = _member(name, tarfile.REGTYPE, 0o755)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        for name, towards in links.items():
            member = _member(name, tarfile.SYMTYPE, 0o777)
            member.linkname = towards
            archive.addfile(member)
    return target.getvalue()


def _member(name: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.mode = kind, mode
    return member


def image(name: str, tag: str, layers: Sequence[bytes], command: Sequence[str], env: Mapping[str, str]) -> Image:
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {
            "Env": ["PATH=/bin", *(f"{key}={value}" for key, value in env.items())],
            "Entrypoint": list(command),
            "ExposedPorts": {"8080/tcp": {}},
        },
        "rootfs": {"type": "layers", "diff_ids": [digest(content) for content in layers]},
        "history": [{"created_by": "holdfast lab"} for _ in layers],  # podman builds on an image only if it has one
    }
    encoded = json.dumps(config, sort_keys=True).encode()
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": _descriptor(CONFIG, encoded),
        "layers": [_descriptor(LAYER, content) for content in layers],
    }
    return Image(name, tag, (encoded, *layers), json.dumps(manifest, sort_keys=True).encode())


def _descriptor(kind: str, content: bytes) -> dict[str, str | int]:
    return {"mediaType": kind, "digest": digest(content), "size": len(content)}
