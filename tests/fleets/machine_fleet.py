"""A fleet of one booted machine that is hub and node, made by the blocks of docs/guides/nodes.md; its operator is here.

What a test believes comes from systemd, podman and DNS inside the machine; `run` is what the product says of them.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dns import exception, message, query, rdatatype

from tests.fleets.machine import Machine
from tests.fleets.machine_base import CHECKOUT
from tests.lab.product import PYTHON, Outcome

GUIDE = CHECKOUT / "docs" / "guides" / "nodes.md"
INSTALL, PREPARE = "on both machines, as root", "on every node, as root"
HUB, OPERATOR = "on the hub's machine, as root", "on your own machine, in the fleet directory"
CALL_S = 400.0
NODE = "w1"  # as in the guide
# Where ssh leads: the words are joined and given to a shell, as ssh does.
SSH = '#!/bin/sh\nshift\nexec {entering} sh -c "$*"\n'


def blocks() -> dict[str, str]:
    """Blocks that are run on machines, by what their first line says."""
    found = re.findall(r"^```bash\n# (.*?)\n(.*?)^```$", GUIDE.read_text(), re.DOTALL | re.MULTILINE)
    assert [where for where, _ in found] == [INSTALL, PREPARE, HUB, OPERATOR], found
    return dict(found)


def filled(where: str, values: Mapping[str, str]) -> str:
    """A block of the guide with what a reader fills in."""
    text = blocks()[where]
    for word, value in values.items():
        assert word in text, f"the guide does not say {word!r} {where}"
        text = text.replace(word, value)
    return text


class MachineFleet:
    def __init__(self, machine: Machine, room: Path) -> None:
        self.machine, self.room = machine, room
        self.fleet, self.home = room / "fleet", room / "home"
        self.home.mkdir()
        self._ssh(room / "bin")

    def _ssh(self, folder: Path) -> None:
        folder.mkdir()
        (folder / "ssh").write_text(SSH.format(entering=shlex.join(self.machine.entering)))
        (folder / "ssh").chmod(0o755)
        os.symlink(Path(sys.prefix) / "bin" / "holdfast", folder / "holdfast")

    # ---- the guide

    def install(self) -> None:
        self.inside(INSTALL, {"git clone URL-OF-THIS-REPOSITORY /opt/holdfast && ": ""})
        self.inside(PREPARE, {})

    def inside(self, where: str, values: Mapping[str, str]) -> str:
        return self.machine.run("bash", "-ec", filled(where, values)).ok().out

    def begin(self) -> None:
        """An operator's key, and a fleet without services."""
        key = self.home / "key"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
        self.run("init", str(self.fleet), "--key", str(key), "--yes").ok()
        (self.fleet / "services" / "hello.toml").unlink()

    def start_hub(self) -> str:
        """Its key."""
        trust = self.run("validate", "--json").ok().json["trust"]
        said = self.inside(HUB, {"TRUST": trust, "hub.example.com": self.machine.site.address})
        (hub_key,) = re.findall(r'hub_key = "(.*)"', said)
        return str(hub_key)

    def join(self, hub_key: str) -> str:
        address = self.machine.site.address
        filling = {"hub.example.com": address, "HUB_KEY": hub_key, "100.64.0.7": address}
        text = filled(OPERATOR, {**filling, "holdfast apply": "holdfast apply --yes"})
        return self._shell(["bash", "-ec", text]).ok().out

    # ---- commands

    def run(self, *words: str) -> Outcome:
        return self._shell([PYTHON, "-m", "holdfast", *words])

    def _shell(self, words: list[str]) -> Outcome:
        env = {
            "PATH": f"{self.room / 'bin'}:{os.environ['PATH']}",
            "HOME": str(self.home),
            "NO_COLOR": "1",
            "HOLDFAST_FLEET": str(self.fleet),
            "HOLDFAST_KEY": str(self.home / "key"),
        }
        quiet = subprocess.DEVNULL
        cwd = self.fleet if self.fleet.is_dir() else self.home
        done = subprocess.run(words, cwd=cwd, env=env, stdin=quiet, capture_output=True, text=True, timeout=CALL_S)
        return Outcome(done.returncode, done.stdout, done.stderr)

    def write(self, service: str, text: str) -> None:
        """REGISTRY in it is the registry of the machine."""
        text = text.replace("REGISTRY", self.machine.blueprint.registry)
        (self.fleet / "services" / f"{service}.toml").write_text(text)

    def gone(self, service: str) -> None:
        (self.fleet / "services" / f"{service}.toml").unlink()

    # ---- what is there

    def row(self, service: str) -> dict[str, Any]:
        (found,) = self.run("ps", service, "--json").ok().json["services"]
        return dict(found)

    def findings(self) -> list[str]:
        said = self.run("status", "--json")
        return [f"{one['code']} {one.get('address', '')} {one['message']}" for one in said.json["findings"]]

    def unit(self, name: str, key: str) -> str:
        """What systemd says of a unit."""
        return self.machine.sh(f"systemctl show --property {key} --value {name}").strip()

    def asked(self, name: str) -> list[str] | None:
        """What the machine's DNS says: addresses, [] for no such name, None if there is no answer."""
        try:
            reply = query.udp(message.make_query(name, rdatatype.A), self.machine.site.address, timeout=3.0)
        except (OSError, exception.DNSException):
            return None
        return sorted(str(each) for answer in reply.answer if answer.rdtype == rdatatype.A for each in answer)
