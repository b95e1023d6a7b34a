"""Fetch an image: podman's progress line by line, its trouble in our words."""

import json
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from holdfast.adapters.registry.credentials import basic
from holdfast.adapters.registry.image_name import parse
from holdfast.adapters.runtime.libpod import Libpod, Refused
from holdfast.errors import Failed, HoldfastError, TryLater
from holdfast.ports.runtime import Progress

PULL_S = 1800.0  # one bound for all of it: a big layer is a single line of progress, so silence says nothing
LINE_BYTES_MAX = 1024 * 1024

# Whatever is not in this table may be the network's fault and is tried again.
UNKNOWN = ("manifest unknown", "name unknown", "not found", "repository name not known", "short-name")
FORBIDDEN = ("unauthorized", "authentication required", "denied", "403 (forbidden)", "401 (unauthorized)")
BROKEN = ("digest did not match", "does not match", "digest mismatch", "invalid reference format", "unsupported digest")


FULL = ("no space left on device", "disk quota exceeded")
PLAIN = "server gave http response to https client"


class _Line(Struct, frozen=True):
    stream: str = ""
    error: str = ""


async def pull(libpod: Libpod, reference: str, auth_files: Sequence[str], progress: Progress) -> None:
    headers = authorization(reference, auth_files)
    params = {"reference": reference}
    error = ""
    try:
        async with libpod.open("POST", "images/pull", params=params, headers=headers, timeout_s=PULL_S) as answer:
            held = b""
            async for piece in answer.content.iter_any():
                *whole, held = (held + piece).split(b"\n")
                for line in filter(None, whole):
                    error = _told(line, progress) or error
                assert len(held) <= LINE_BYTES_MAX
    except Refused as no:
        error = no.message
    if error:
        raise trouble(reference, error)


def _told(line: bytes, progress: Progress) -> str:
    said = msgspec.json.decode(line, type=_Line)
    if said.stream.strip():
        progress(said.stream.strip())
    return said.error


def authorization(reference: str, auth_files: Sequence[str]) -> dict[str, str]:
    """The registry's credential as podman wants it; nothing if no file knows one."""
    image = parse(reference.partition("@")[0])
    found = basic(auth_files, image) if image is not None else None
    if found is None:
        return {}
    user, _, password = b64decode(found.removeprefix("Basic ")).decode().partition(":")
    packed = json.dumps({"username": user, "password": password}).encode()
    return {"X-Registry-Auth": urlsafe_b64encode(packed).decode()}


def trouble(reference: str, said: str) -> HoldfastError:
    plain, host = said.lower(), reference.partition("/")[0]
    if any(word in plain for word in FORBIDDEN):
        return Failed(
            f"{host} does not let this node pull {reference}",
            remedy=f"podman login {host} on the node (as root)",
            code="image_forbidden",
        )
    if any(word in plain for word in BROKEN):
        return Failed(
            f"what {host} sent is not {reference}: {_end(said)}",
            remedy="push the image again, or correct image in the service's file",
            code="image_broken",
        )
    if any(word in plain for word in UNKNOWN):
        return Failed(
            f"{host} has no image {reference}",
            remedy="push it there, or correct image in the service's file",
            code="image_unknown",
        )
    if any(word in plain for word in FULL):
        return Failed(
            f"{reference} does not fit on this node: {_end(said)}",
            remedy="free space where podman keeps images: podman image prune on the node",
            code="disk_full",
        )
    if PLAIN in plain:
        return Failed(
            f"{host} speaks plain HTTP, and podman asks it for HTTPS",
            remedy=f'give it a certificate, or let podman trust it as it is: [[registry]] location = "{host}", '
            "insecure = true in /etc/containers/registries.conf on the node, and restart podman's service there",
            code="registry_plain",
        )
    return TryLater(
        f"{reference} cannot be pulled now: {_end(said)}",
        remedy=f"see that the node reaches {host}",
        code="registry_away",
    )


def _end(said: str) -> str:
    return said[-300:]
