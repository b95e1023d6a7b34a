"""Pull an image: report podman's progress line by line, and translate its errors."""

import json
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from holdfast.adapters.registry.credentials import basic
from holdfast.adapters.registry.image_name import parse
from holdfast.adapters.runtime.podman.libpod import Libpod, Refused
from holdfast.errors import Failed, HoldfastError, TryLater
from holdfast.ports.runtime import Progress

PULL_S = 1800.0  # one limit for the whole pull: a big layer is one progress line, so a pause means nothing
LINE_BYTES_MAX = 1024 * 1024
LAYER = "Copying blob"  # podman names the layers one by one, not how many there are nor their sizes

# An error that is not in these tables may be a network failure and is retried.
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
            held, layers = b"", set[str]()
            async for piece in answer.content.iter_any():
                *whole, held = (held + piece).split(b"\n")
                for line in filter(None, whole):
                    said = msgspec.json.decode(line, type=_Line)
                    if text := said.stream.strip():
                        progress(_progress(text, layers))
                    error = said.error or error
                assert len(held) <= LINE_BYTES_MAX
    except Refused as no:
        error = no.message
    if error:
        raise trouble(reference, error)


def _progress(text: str, layers: set[str]) -> str:
    if not text.startswith(LAYER):
        return text
    layers.update(text.removeprefix(LAYER).split()[:1])
    return f"layer {len(layers)}"


def authorization(reference: str, auth_files: Sequence[str]) -> dict[str, str]:
    """The registry's credential in podman's format; empty if no file has one."""
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
            f"{host} does not allow this node to pull {reference}",
            remedy=f"on the node, as root: podman login {host}",
            code="image_forbidden",
        )
    if any(word in plain for word in BROKEN):
        return Failed(
            f"{host} sent an image that does not match {reference}: {_end(said)}",
            remedy="push the image again, or correct `image` in the service's file",
            code="image_broken",
        )
    if any(word in plain for word in UNKNOWN):
        return Failed(
            f"{host} has no image {reference}",
            remedy="push it there, or correct `image` in the service's file",
            code="image_unknown",
        )
    if any(word in plain for word in FULL):
        return Failed(
            f"no space is left on this node for {reference}: {_end(said)}",
            remedy="free space for images; on the node: podman image prune",
            code="disk_full",
        )
    if PLAIN in plain:
        return Failed(
            f"{host} serves plain HTTP, but podman requires HTTPS",
            remedy=f'give it a certificate, or allow plain HTTP on the node: [[registry]] location = "{host}", '
            "insecure = true in /etc/containers/registries.conf, then restart podman's service there",
            code="registry_plain",
        )
    return TryLater(
        f"cannot pull {reference} now: {_end(said)}",
        remedy=f"check that the node can reach {host}",
        code="registry_away",
    )


def _end(said: str) -> str:
    return said[-300:]
