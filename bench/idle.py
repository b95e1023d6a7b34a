"""What an idle agent without containers costs, beside an idle salt-minion in the same minute.

`python -m bench.idle --seconds 60` makes a lab of two nodes and, in `build/salt`, a Salt master with one minion, waits
until both are connected, and prints one JSON document. Everything is ended by its process id. `--no-salt` measures
the agent and the hub alone and installs nothing.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence

from bench.hub_process import memory_mb
from bench.place import HOLDFAST

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SALT = os.path.join(ROOT, "build", "salt")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
UV = os.path.join(ROOT, "build", "uv", "bin", "uv")
MASTER = "interface: 127.0.0.1\npublish_port: {0}\nret_port: {1}\nroot_dir: {2}\nauto_accept: True\nworker_threads: 2\n"
MINION = "master: 127.0.0.1\npublish_port: {0}\nmaster_port: {1}\nroot_dir: {2}\nid: idle\n"


def cpu_s(pid: int) -> float:
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def family(pid: int) -> list[int]:
    """A process and everything it started."""
    found, at = [pid], 0
    while at < len(found):
        with open(f"/proc/{found[at]}/task/{found[at]}/children", encoding="ascii") as file:
            found += [int(child) for child in file.read().split()]
        at += 1
    return found


class Salt:
    """A master and a minion of their own, in a directory of their own."""

    def __init__(self, folder: str) -> None:
        if not os.path.exists(os.path.join(SALT, "bin", "salt-minion")):
            subprocess.run([UV, "venv", "--quiet", SALT], check=True)
            subprocess.run([UV, "pip", "install", "--quiet", "--python", SALT, "salt"], check=True)
        self.folder = folder
        for name, text in (("master", MASTER), ("minion", MINION)):
            with open(os.path.join(folder, name), "w", encoding="ascii") as file:
                file.write(text.format(24505, 24506, os.path.join(folder, "root")))
        os.makedirs(os.path.join(folder, "root", "etc", "salt"))
        self.master = self._start("salt-master")
        self.minion = self._start("salt-minion")

    def _start(self, name: str) -> "subprocess.Popen[bytes]":
        args = [os.path.join(SALT, "bin", name), "-c", self.folder, "-l", "quiet"]
        return subprocess.Popen(args, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def wait(self) -> None:
        ping = [os.path.join(SALT, "bin", "salt"), "-c", self.folder, "-t", "5", "idle", "test.ping"]
        for _ in range(20):
            if b"True" in subprocess.run(ping, check=False, capture_output=True).stdout:
                return
        raise SystemExit("the minion never answered its master")

    def stop(self) -> None:
        for process in (self.minion, self.master):
            members = family(process.pid)
            process.terminate()
            process.wait(30)
            for pid in members[1:]:
                try:
                    os.kill(pid, 9)
                except ProcessLookupError:
                    continue


def lab(folder: str, *args: str) -> str:
    done = subprocess.run(
        [HOLDFAST, "lab", *args, "--dir", os.path.join(folder, "lab")], check=False, text=True, capture_output=True
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout


def taken(sides: Mapping[str, Sequence[int]], seconds: float) -> dict[str, object]:
    """Memory and processor time of each side over the same seconds."""
    before = {name: sum(map(cpu_s, pids)) for name, pids in sides.items()}
    time.sleep(seconds)
    found: dict[str, object] = {"load": os.getloadavg()[0]}
    for name, pids in sides.items():
        found[f"{name}_rss_mb"] = round(sum(memory_mb(pid)["Rss"] for pid in pids), 1)
        found[f"{name}_pss_mb"] = round(sum(memory_mb(pid)["Pss"] for pid in pids), 1)
        used_s = sum(map(cpu_s, pids)) - before[name]
        found[f"{name}_cpu_percent"] = round(100 * used_s / seconds, 3)
    return found


def our_sides(folder: str) -> dict[str, Sequence[int]]:
    nodes = {node["name"]: node["pids"] for node in json.loads(lab(folder, "status", "--json"))["nodes"]}
    return {"agent": [nodes["w1"]["agent"]], "hub": [nodes["hub1"]["hub"]]}


def beside_salt(folder: str, seconds: float) -> dict[str, object]:
    os.mkdir(os.path.join(folder, "salt"))
    salt = Salt(os.path.join(folder, "salt"))
    try:
        salt.wait()
        time.sleep(10)  # until the process that answered the ping has ended
        return taken({**our_sides(folder), "salt_minion": family(salt.minion.pid)}, seconds)
    finally:
        salt.stop()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--no-salt", action="store_true", help="without the peer")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="holdfast-idle-") as folder:
        lab(folder, "up", "--nodes", "hub1:hub,w1:worker")
        try:
            found = taken(our_sides(folder), args.seconds) if args.no_salt else beside_salt(folder, args.seconds)
        finally:
            lab(folder, "down")
    print(json.dumps(found, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
