"""The exit code files that container supervisors leave for podman: one per container, in one folder."""

import os
from contextlib import suppress

from holdfast.adapters.process import process


def folder(conmon_pid: int) -> str | None:
    """From the command line of a running supervisor."""
    words = process.arguments(conmon_pid)
    if "--exit-dir" in words[:-1]:
        return words[words.index("--exit-dir") + 1]
    return None


def usual_folder(runtime_dir: str | None) -> str | None:
    for path in ("/run/libpod/exits", f"{runtime_dir}/libpod/tmp/exits" if runtime_dir else ""):
        if path and os.path.isdir(path):
            return path
    return None


def leave(folder: str, id: str, code: int) -> None:
    """Keeps a code that the supervisor wrote. If the folder is not writable, podman gives up waiting later."""
    path = os.path.join(folder, id)
    if not os.path.exists(path):
        with suppress(OSError):
            with open(f"{path}.new", "w", encoding="ascii") as file:
                file.write(str(code))
            os.rename(f"{path}.new", path)
