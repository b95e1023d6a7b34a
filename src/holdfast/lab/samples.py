"""The sample images of every lab: four variants of hello, greeter and witness; compiled once into build/."""

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
LIBRARIES = {"greeter": ("-lnghttp2",)}
PACKAGES = "gcc libc6-dev libnghttp2-dev"


def images() -> list[Image]:
    base = _base()
    hello = oci_image.layer({"bin/hello": _content("hello")}, {}, [])
    greeter = oci_image.layer({"bin/greeter": _content("greeter")}, {}, [])
    witness = oci_image.layer({"bin/witness": _content("witness")}, {}, ["data"])
    moods = {"1": {}, "2": {}, "sick": {"HELLO_MODE": "sick"}, "broken": {"HELLO_MODE": "broken"}}
    made = [
        oci_image.image("hello", tag, [base, hello], ["/bin/hello"], {"HELLO_VERSION": tag, **mood})
        for tag, mood in moods.items()
    ]
    return [
        *made,
        oci_image.image("greeter", "1", [base, greeter], ["/bin/greeter"], {"GREETER_VERSION": "1"}),
        oci_image.image("witness", "1", [base, witness], ["/bin/witness"], {}),
    ]


def _base() -> bytes:
    """A shell and common tools, so that hooks and `exec` work in every image."""
    busybox = which("busybox")
    assert busybox is not None, "command.require() checks this first"
    with open(busybox, "rb") as file:
        content = file.read()
    links = {f"bin/{applet}": "busybox" for applet in APPLETS}
    folders = ["bin", "dev", "etc", "proc", "root", "run", "sys", "tmp", "var"]
    return oci_image.layer({"bin/busybox": content}, links, folders)


def _content(name: str) -> bytes:
    with open(program(name), "rb") as file:
        return file.read()


def program(name: str) -> str:
    """Stored under the digest of its sources, so that a changed source is compiled again."""
    kept = os.path.join(KEPT, f"{name}-{_digest(name)}")
    if not os.path.exists(kept):
        os.makedirs(KEPT, exist_ok=True)
        draft = f"{kept}.{os.getpid()}"
        source = os.path.join(SOURCES, name, f"{name}.c")
        words = [*COMPILE, "-o", draft, source, *LIBRARIES.get(name, ())]
        command.run(words, remedy=f"apt-get install --no-install-recommends {PACKAGES}")
        os.replace(draft, kept)
    return kept


def _digest(name: str) -> str:
    """Covers all sources of the program, and hello's headers, which the others include."""
    total = sha256(" ".join([*COMPILE, *LIBRARIES.get(name, ())]).encode())
    for folder in dict.fromkeys(("hello", name)):
        for path in _sources(os.path.join(SOURCES, folder), name):
            with open(path, "rb") as file:
                total.update(file.read())
    return total.hexdigest()[:16]


def _sources(folder: str, name: str) -> list[str]:
    wanted = (".h", f"{name}.c")
    found = [entry for entry in os.listdir(folder) if entry.endswith(wanted)] if os.path.isdir(folder) else []
    if not found:
        raise Invalid(
            f"the lab compiles its sample images from {folder}, but there are no sources",
            remedy="run holdfast from a checkout of its repository (`pip install --editable .`)",
            code="no_sources",
        )
    return [os.path.join(folder, entry) for entry in sorted(found)]
