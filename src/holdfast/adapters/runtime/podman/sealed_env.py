"""Secret environment variables that `podman inspect` does not show. Pure, except for finding busybox.

Podman 4.3 shows every variable that it is given, its own secrets included. So it is given none: a mounted static
busybox reads them from a mounted file inside the container and then executes the real command.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from holdfast.errors import Failed
from holdfast.model.container import LABEL_SEALED

FOLDER = "/.holdfast"
PROGRAM, FILE = f"{FOLDER}/busybox", f"{FOLDER}/env"
CANDIDATES = ("/bin/busybox", "/usr/bin/busybox")
PT_INTERP = 3

# The command is looked up here because a static busybox would run its built-in `sh` or `sleep`, not the image's.
_BECOME = """\
. /.holdfast/env
case $1 in */*) exec "$@" ;; esac
IFS=:
for folder in $PATH; do
  [ -f "$folder/$1" ] && [ -x "$folder/$1" ] && { found=$folder/$1; shift; unset IFS; exec "$found" "$@"; }
done
echo "$1: not found" >&2
exit 127
"""


class Image(Struct, frozen=True, rename="pascal"):
    """What an image runs by default."""

    entrypoint: list[str] | None = None
    cmd: list[str] | None = None


def content(variables: Sequence[tuple[str, bytes]]) -> bytes:
    return b"".join(b"export %s='%s'\n" % (name.encode(), value.replace(b"'", b"'\\''")) for name, value in variables)


def wrapped(command: Sequence[str]) -> list[str]:
    return [PROGRAM, "sh", "-c", _BECOME, "holdfast", *command]


def additions(image: Image, command: Sequence[str], secret: str) -> dict[str, Any]:
    """Changes to the create request; `secret` is podman's name of the file."""
    real = [*(image.entrypoint or ()), *(command or image.cmd or ())]
    return {
        "entrypoint": wrapped(())[:-1],
        "command": ["holdfast", *real],
        "secrets": [{"Source": secret, "Target": FILE, "UID": 0, "GID": 0, "Mode": 0o444}],
    }


def mount(program: str) -> dict[str, Any]:
    return {"type": "bind", "source": program, "destination": PROGRAM, "options": ["bind", "rprivate", "ro"]}


def is_sealed(labels: Mapping[str, str]) -> bool:
    return bool(labels.get(LABEL_SEALED))


def static_busybox() -> str:
    for path in CANDIDATES:
        if is_static(path):
            return path
    raise Failed(
        "this node has no static busybox, which sets secrets that are variables, and checks the health in drills and "
        "of restored databases",
        remedy="on the node: apt install busybox-static; or mount the secret as a file (omit env)",
        code="no_busybox",
    )


def is_static(path: str) -> bool:
    """An ELF program without a dynamic loader: it runs in any image."""
    try:
        with open(os.path.realpath(path), "rb") as file:
            head = file.read(4096)
    except OSError:
        return False
    if head[:4] != b"\x7fELF" or head[4:6] != b"\x02\x01":  # 64 bit, little endian: all supported machines
        return False
    start, size, count = _number(head, 32, 8), _number(head, 54, 2), _number(head, 56, 2)
    return all(_number(head, start + index * size, 4) != PT_INTERP for index in range(count))


def _number(head: bytes, at: int, length: int) -> int:
    return int.from_bytes(head[at : at + length], "little")
