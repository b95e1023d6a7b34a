"""The images every lab offers: hello in four moods and witness, compiled once and kept in build/."""

import os
from hashlib import sha256
from shutil import which

from holdfast.errors import Invalid
from holdfast.lab import command, oci_image
from holdfast.lab.oci_image import Image

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
SOURCES = os.path.join(ROOT, "examples")
KEPT = os.path.join(ROOT, "build", "lab")
# fmt: off
APPLETS = (
    "sh", "cat", "cp", "date", "df", "dd", "echo", "env", "false", "find", "grep", "head", "hostname", "id", "kill",
    "ln", "ls", "mkdir", "mv", "nc", "ping", "printenv", "ps", "pwd", "rm", "sed", "sleep", "sort", "stat", "sync",
    "tail", "tar", "test", "touch", "tr", "true", "uname", "vi", "wc", "wget",
)
# fmt: on
COMPILE = ("cc", "-std=gnu11", "-O2", "-static", "-s", "-pthread")


def images() -> list[Image]:
    base = _base()
    hello = oci_image.layer({"bin/hello": _program("hello")}, {}, [])
    witness = oci_image.layer({"bin/witness": _program("witness")}, {}, ["data"])
    moods = {"1": {}, "2": {}, "sick": {"HELLO_MODE": "sick"}, "broken": {"HELLO_MODE": "broken"}}
    made = [
        oci_image.image("hello", tag, [base, hello], ["/bin/hello"], {"HELLO_VERSION": tag, **mood})
        for tag, mood in moods.items()
    ]
    return [*made, oci_image.image("witness", "1", [base, witness], ["/bin/witness"], {})]


def _base() -> bytes:
    """A shell and what it needs, so that hooks and `exec` work in every image."""
    busybox = which("busybox")
    assert busybox is not None, "asked for before anything began"
    with open(busybox, "rb") as file:
        content = file.read()
    links = {f"bin/{applet}": "busybox" for applet in APPLETS}
    folders = ["bin", "dev", "etc", "proc", "root", "run", "sys", "tmp", "var"]
    return oci_image.layer({"bin/busybox": content}, links, folders)


def _program(name: str) -> bytes:
    """Kept under the digest of its sources, so that a changed source is compiled anew."""
    kept = os.path.join(KEPT, f"{name}-{_digest(name)}")
    if not os.path.exists(kept):
        os.makedirs(KEPT, exist_ok=True)
        draft = f"{kept}.{os.getpid()}"
        source = os.path.join(SOURCES, name, f"{name}.c")
        command.run([*COMPILE, "-o", draft, source], remedy="apt-get install --no-install-recommends gcc libc6-dev")
        os.replace(draft, kept)
    with open(kept, "rb") as file:
        return file.read()


def _digest(name: str) -> str:
    total = sha256(" ".join(COMPILE).encode())
    for path in (f"hello{os.sep}http.h", f"{name}{os.sep}{name}.c"):
        try:
            with open(os.path.join(SOURCES, path), "rb") as file:
                total.update(file.read())
        except FileNotFoundError:
            raise Invalid(
                f"the lab compiles its images from {os.path.join(SOURCES, path)}, which is not there",
                remedy="run holdfast from a checkout of its repository (pip install --editable .)",
                code="no_sources",
            ) from None
    return total.hexdigest()[:16]
