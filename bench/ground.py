"""Where deployments are measured: a lab with a node for ours and one, without an agent, for the peers.

Both nodes run on the same machine with the same podman, the same limits and the same two images, which are on them
before anything is measured: nobody is timed while he downloads.
"""

import json
import os
import subprocess
from collections.abc import Sequence

from bench.place import HOLDFAST
from holdfast.lab import podman_files

OURS, PEERS = "w1", "p1"
PORT = 8080
COMMAND_S_MAX = 600.0
IMAGES = ("hello:1", "hello:2")  # of the lab: busybox with a small program that ends when it is asked to


class Ground:
    """`bare` has no fleet: enough for whoever measures the peers alone."""

    def __init__(self, folder: str, bare: bool = False) -> None:
        self.folder, self._bare = folder, bare
        self.dir = os.path.join(folder, "lab")
        self.env = {**os.environ, **podman_files.variables()}
        self.images: tuple[str, str] = ("", "")

    # ---- made and taken away

    def __enter__(self) -> "Ground":
        try:
            self.lab("up", "--nodes", f"hub1:hub,{PEERS}:worker,{OURS}:worker", *(["--bare"] if self._bare else []))
            self.env |= {**json.loads(self.lab("env", "--json")), "NO_COLOR": "1"}
            found = json.loads(self.lab("status", "--json"))
            self.nodes = {node["name"]: node for node in found["nodes"]}
            self.registry = str(found["registry"])
            self.images = (self._image(IMAGES[0]), self._image(IMAGES[1]))
            for node in (OURS, PEERS):
                for image in self.images:
                    self.inside(node, "podman", "pull", "--quiet", image)
            if not self._bare:
                self.lab("kill", PEERS, "--agent")  # it would look at every container the peers make
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *trouble: object) -> None:
        self.lab("down")

    def _image(self, name: str) -> str:
        """By digest, as ours are pulled and run; for peers it is the same image under the same name."""
        tag = f"{self.registry}/{name}"
        self.inside(PEERS, "podman", "pull", "--quiet", tag)
        digest = self.inside(PEERS, "podman", "image", "inspect", "--format", "{{.Digest}}", tag).strip()
        return f"{tag.rpartition(':')[0]}@{digest}"

    # ---- used

    def lab(self, *words: str) -> str:
        return self._run([HOLDFAST, "lab", *words, "--dir", self.dir])

    def holdfast(self, *words: str) -> str:
        return self._run([HOLDFAST, *words])

    def entering(self, node: str) -> list[str]:
        """Without the half second a command line of ours would cost a peer."""
        return ["nsenter", "-t", str(self.nodes[node]["pids"]["node"]), "-n", "-m", "-u", "-p", "--"]

    def inside(self, node: str, *words: str) -> str:
        return self._run([*self.entering(node), *words])

    def start_inside(self, node: str, *words: str) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [*self.entering(node), *words], env=self.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def run_path(self, node: str, name: str) -> str:
        """A path below the node's /run as the host sees it."""
        return os.path.join(self.nodes[node]["dirs"]["run"], name)

    def _run(self, command: Sequence[str]) -> str:
        done = subprocess.run(
            command,
            env=self.env,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            text=True,
            capture_output=True,
            timeout=COMMAND_S_MAX,
        )
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)} ended with {done.returncode}: {done.stderr or done.stdout}")
        return done.stdout
