"""Host paths that containers mount: volumes below the data directory, and paths in service files.

Below the data directory every name is opened by handle and no symlink is followed: a container may have made one.
"""

import os
from collections.abc import Sequence

from holdfast.adapters.storage import permission, tree
from holdfast.errors import Failed, Invalid

OWN_MODE = 0o700  # of a service's directory: volumes are mounted from inside it, so no other user needs access
MOUNTED_MODE = 0o755  # of what a container sees; owned by root, as container engines create missing bind sources
# From an agent in its systemd unit: ProtectHome, PrivateTmp.
HIDDEN = ("/home", "/root", "/run/user", "/tmp", "/var/tmp")  # noqa: S108


def volume(root: int, root_path: str, service: str, name: str) -> str:
    steps = [(permission.check_name(service), OWN_MODE), (permission.check_name(name), MOUNTED_MODE)]
    os.close(_made_below(root, steps))
    return os.path.join(root_path, service, name)


def host_path(root: int, root_path: str, service: str, path: str) -> str:
    path = _plain(path)
    inside = os.path.relpath(path, root_path)
    if inside.split("/")[0] == permission.check_name(service):
        _make_mounted(root, inside.split("/"), path)
    elif os.path.exists(path):
        _refuse_agents_own(root_path, inside, path)
    else:
        raise _missing(service, path, inside.split("/")[0] == "..")
    return path


def _plain(path: str) -> str:
    if not path.startswith("/") or ".." in path.split("/") or "\0" in path:
        raise Invalid(
            f"{path!r} is not an absolute path without '..'", remedy="write it without '..', such as /srv/web/data"
        )
    return os.path.normpath("/" + path.lstrip("/"))


def _make_mounted(root: int, parts: Sequence[str], path: str) -> None:
    """The last part may be a file, such as a configuration; no part may be a symlink."""
    above, last = _made_below(root, [(part, MOUNTED_MODE) for part in parts[:-1]]), parts[-1]
    try:
        if not tree.exists(above, last):
            os.close(tree.made(last, above, MOUNTED_MODE))
        elif tree.is_link(above, last):
            raise permission.not_ours(f"{path} is a symbolic link")
    finally:
        os.close(above)


def _made_below(root: int, steps: Sequence[tuple[str, int]]) -> int:
    """The last directory of the path; missing ones are created with their mode."""
    at = os.dup(root)
    for name, mode in steps:
        try:
            below = tree.made(name, at, mode)
        finally:
            os.close(at)
        at = below
    return at


def _refuse_agents_own(root_path: str, inside: str, path: str) -> None:
    """No container may mount checkpoints or directories that were set aside or condemned."""
    real = os.path.relpath(os.path.realpath(path), os.path.realpath(root_path))
    first = real.split("/")[0]
    if first.startswith(".") and first not in (".", ".."):
        raise permission.not_ours(f"{path} belongs to the agent of this node")
    if inside.split("/")[0] != ".." and inside != real:
        raise permission.not_ours(f"{path} contains a symbolic link")


def _missing(service: str, path: str, is_elsewhere: bool) -> Failed:
    if is_elsewhere and path.startswith(tuple(f"{place}/" for place in HIDDEN)):
        return Failed(
            f"{service} mounts {path}, and the agent finds no such file or directory: its systemd unit hides what is "
            f"below {', '.join(HIDDEN)}",
            remedy=f"move it, to /var/lib/{service} for example, and correct the path in the volumes of {service}",
            code="no_such_path",
        )
    return Failed(
        f"{service} mounts {path}, but this node has no such file or directory",
        remedy=f"create it (`mkdir -p {path}`), or correct the path in the volumes of {service}",
        code="no_such_path",
    )
