"""One lab node: a process that holds its namespaces and mounts, and ways to start programs inside."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence

from holdfast.errors import Failed
from holdfast.lab import cgroups, command, network, podman_files, processes, record
from holdfast.lab.blueprint import MARK, Blueprint, Site
from holdfast.lab.place import MOUNTS, Place
from holdfast.lab.processes import NODE_MARK, Known

READY_S_MAX = 10.0
BOOT_ID, UUID = (f"/proc/sys/kernel/random/{name}" for name in ("boot_id", "uuid"))

# The first process of the node's pid namespace: ending it ends the node, containers included. It waits for its
# children all the time, so that orphans are reaped at once. /dev/shm is the node's own because podman keeps its locks
# there, /etc/containers because podman must not read the host's.
_HOLD = """
set -e
hostname "$1"; shift
while [ $# -gt 0 ]; do mount --bind "$1" "$2"; shift 2; done
mount -t tmpfs -o mode=1777,size=64m tmpfs /dev/shm
echo ready
exec </dev/null >/dev/null 2>&1
while :; do sleep 86400 & wait $! || :; done
"""


def boot(place: Place, blueprint: Blueprint, site: Site) -> int:
    """Create the namespaces and connect them; returns the host pid of the node's first process."""
    folders = _folders(place, site)
    init = _hold(place, blueprint, site, folders)
    network.plug_in(blueprint, site, init)
    return init


def _folders(place: Place, site: Site) -> list[str]:
    """Pairs of source and mount point. /run starts empty, as after every boot."""
    own = place.node(site.name)
    shutil.rmtree(own["run"], ignore_errors=True)
    pairs = [place.podman, podman_files.FOLDER]
    for kind, target in MOUNTS.items():
        os.makedirs(own[kind], mode=0o755, exist_ok=True)
        os.makedirs(target, exist_ok=True)  # a mount point; the mount hides the host's content
        pairs += [own[kind], target]
    for name in ("lock", "netns"):
        os.makedirs(os.path.join(own["run"], name), exist_ok=True)
    return [*pairs, _new_boot(own["run"]), BOOT_ID]


def _new_boot(folder: str) -> str:
    """A file with another boot id than the last time: the kernel of this machine did not boot, the node does."""
    path = os.path.join(folder, "boot_id")
    with open(UUID, encoding="ascii") as fresh, open(path, "w", encoding="ascii") as file:
        file.write(fresh.read())
    return path


def _hold(place: Place, blueprint: Blueprint, site: Site, folders: Sequence[str]) -> int:
    spaces = ["--net", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation=private"]
    holder = subprocess.Popen(
        ["unshare", *spaces, "sh", "-c", _HOLD, "holdfast-lab-node", site.name, *folders],
        env=environment(blueprint, site),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        text=True,
    )
    assert holder.stdout is not None
    with holder.stdout:
        said = holder.stdout.readline()
    if said != "ready\n":
        holder.kill()
        raise Failed(
            f"cannot create the namespaces of node {site.name}: {said.strip() or 'unshare printed no error'}",
            remedy="run as root on a kernel with net, mount, uts and pid namespaces (not in an unprivileged container)",
            code="no_namespaces",
        )
    outer, init = processes.known(holder.pid), processes.children(holder.pid)
    inner = processes.known(init[0]) if init else None
    if outer is None or inner is None:
        raise Failed(f"node {site.name} ended at once", remedy="`holdfast lab down`, then `holdfast lab up` again")
    record.note_part(place, f"{site.name}.node", inner)
    return inner.pid


def environment(blueprint: Blueprint, site: Site) -> dict[str, str]:
    """The environment of the node's processes, with its marks; only PATH comes from the caller."""
    path = os.environ.get("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    return {
        "PATH": path,
        "HOME": "/root",
        "LANG": "C.UTF-8",
        **podman_files.variables(),
        MARK: blueprint.id,
        NODE_MARK: site.name,
    }


def init_of(place: Place, site: Site) -> Known | None:
    """The node's first process, if the node is running."""
    found = record.part(place, f"{site.name}.node")
    return found if processes.lives(found) else None


def entering(init: int) -> list[str]:
    return ["nsenter", "-t", str(init), "-n", "-m", "-u", "-p", "--"]


def run(init: int, words: Sequence[str], env: Mapping[str, str], timeout_s: float = 60) -> str:
    return command.run([*entering(init), *words], env=env, timeout_s=timeout_s)


def launch(place: Place, init: int, part: str, words: Sequence[str], env: Mapping[str, str]) -> Known:
    """Start a daemon inside: a child of the node's first process, with its own log."""
    log = place.log(part)
    os.makedirs(os.path.dirname(log), exist_ok=True)
    # As many open files as the machine allows: the agent's proxy needs two for every connection.
    limit = 'ulimit -n "$(ulimit -H -n)"'
    script = f'log=$1; shift; cd /; {limit}; "$@" </dev/null >>"$log" 2>&1 & echo $!'
    said = run(init, ["setsid", "sh", "-c", script, "sh", log, *words], env)
    pid = processes.host_pid(int(said), init)
    process = processes.known(pid) if pid is not None else None
    if process is None:
        raise Failed(f"{part} ended at once: {last_words(log)}", remedy=f"read {log}", code="part_ended")
    record.note_part(place, part, process)
    return process


def last_words(log: str, lines: int = 3) -> str:
    try:
        with open(log, encoding="utf-8", errors="replace") as file:
            return " | ".join(file.read().strip().splitlines()[-lines:])[:1000]
    except OSError:
        return "there is no log"


def power_off(place: Place, blueprint: Blueprint, site: Site) -> None:
    """Like a power cut: killing the first process makes the kernel kill everything in its pid namespace."""
    mark, folder = f"{NODE_MARK}={site.name}", os.path.join(place.nodes, site.name)
    processes.end(lambda: processes.members(blueprint.mark, mark, folder))
    network.unplug(site)
    cgroups.remove(cgroups.container_ids(place.node(site.name)["containers"]))
