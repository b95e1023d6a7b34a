"""Registry credentials from the files that podman and docker write. Read only, never shown."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from holdfast.adapters.registry.image_name import HUB, Image

AUTH_FILE_BYTES_MAX = 1024 * 1024
HUB_NAMES = ("https://index.docker.io/v1/", "index.docker.io")  # as `docker login` writes it


def usual_auth_files(environ: Mapping[str, str]) -> tuple[str, ...]:
    if chosen := environ.get("REGISTRY_AUTH_FILE"):
        return (chosen,)
    home = environ.get("HOME")
    return (f"{home}/.config/containers/auth.json", f"{home}/.docker/config.json") if home else ()


def basic(files: Sequence[str], image: Image) -> str | None:
    """The value of a Basic header for this image, from the first file that has one. Never logged."""
    parts = image.name.split("/")
    keys = [f"{image.host}/{'/'.join(parts[:length])}" for length in range(len(parts), 0, -1)]
    keys += [image.host, f"https://{image.host}", *(HUB_NAMES if image.host == HUB else ())]
    for file in files:
        with suppress(Exception):  # a missing or broken file is a file without credentials
            known = _auths(file)
            for key in keys:
                if auth := _well_formed(known.get(key)):
                    return f"Basic {auth}"
    return None


def _auths(file: str) -> dict[str, Any]:
    import json

    with open(file, "rb") as opened:
        content = opened.read(AUTH_FILE_BYTES_MAX + 1)
    assert len(content) <= AUTH_FILE_BYTES_MAX
    known = json.loads(content)["auths"]
    assert isinstance(known, dict)
    return known


def _well_formed(entry: object) -> str | None:
    from base64 import b64decode

    auth = entry.get("auth") if isinstance(entry, dict) else None
    if isinstance(auth, str) and b":" in b64decode(auth, validate=True):
        return auth
    return None
