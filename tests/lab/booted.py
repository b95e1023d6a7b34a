"""Show the features that need rights of the machine under the shipped systemd units, in a whole booted Debian.

    .venv/bin/python tests/lab/booted.py [--btrfs] [--keep]

`make soak` runs it, with and without --btrfs. Needs root, the base that `make setup` builds, and some minutes. The
machine boots with its own systemd, is installed as docs/guides/nodes.md says, and is hub, worker and edge of a fleet;
the operator's commands run here. `--btrfs` puts /srv on btrfs, where checkpoints share blocks. `--keep` waits for Enter
before the machine is removed.

Each line says `ok` or `WRONG`. Exit 0, or 1 with a list of what is wrong. The machine is removed in both cases.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # this file is run as a script

from holdfast.agent.hub_silence import keeper  # noqa: E402
from holdfast.lab import fleet_file  # noqa: E402
from holdfast.reconcile import hub_silence  # noqa: E402
from tests.fleets import machine as machines  # noqa: E402
from tests.fleets.checklist import Checklist  # noqa: E402
from tests.fleets.deploy_scene import LABEL  # noqa: E402
from tests.fleets.fault_scene import Ear  # noqa: E402
from tests.fleets.machine import NAME, Machine  # noqa: E402
from tests.fleets.machine_base import Unfit  # noqa: E402
from tests.fleets.machine_fleet import MachineFleet  # noqa: E402
from tests.lab.product import Outcome  # noqa: E402

UNITS = ("holdfast-hub", "holdfast-agent", "holdfast-proxy")
PAPER, SPOKEN = "the value of a file", "the value of a variable"
USER = "1234:2345"
TOOL = """FROM {image}
ENV VERSION={version}
ENTRYPOINT []
CMD ["/bin/hello"]
"""
SEEDED = """FROM {image}
USER 0
RUN mkdir -p /data/deep && echo from the image > /data/seed && echo deep > /data/deep/page && chown -R 1000:1001 /data \
 && chmod 0750 /data && chmod 0640 /data/seed && chmod 2770 /data/deep
ENV VERSION={version}
USER 1000
VOLUME /data
ENTRYPOINT []
CMD ["/bin/hello"]
"""
HEALTH = 'health = { type = "tcp", port = 8080, start_period = "60s" }'
VOLUME = '[[components.volumes]]\nname = "files"\npath = "/data"\nprotect = "none"\n'
SERVICES = {
    "own": f"""[[components]]
name = "web"
image = "REGISTRY/tool:1"
user = "{USER}"
secrets = ["paper", {{ name = "spoken", env = "SPOKEN" }}]
{HEALTH}

[components.hooks]
pre_deploy = ["sh", "-c", "test $(id -u):$(id -g) = {USER} && cat /run/secrets/paper"]
post_deploy = ["sh", "-c", "echo $(id -u):$(id -g) $(cat /run/secrets/paper) $SPOKEN > /data/hook"]

{VOLUME}owner = "{USER}"

[[schedule]]
name = "note"
component = "web"
cron = "0 0 1 1 *"
cmd = ["sh", "-c", "echo $(id -u):$(id -g) $(cat /run/secrets/paper) $SPOKEN >> /data/runs"]

[[schedule]]
name = "tick"
component = "web"
cron = "* * * * *"
cmd = ["sh", "-c", "date +%H:%M >> /data/minutes"]
""",
    "seeded": f'[[components]]\nname = "web"\nimage = "REGISTRY/seeded:1"\n{HEALTH}\n\n{VOLUME}',
    "shop": f"""[[components]]
name = "web"
image = "REGISTRY/hello:1"
{HEALTH}

[[components.routes]]
name = "http"
port = 8080
public = true
""",
    "gone": f'[[components]]\nname = "web"\nimage = "REGISTRY/tool:1"\n{HEALTH}\n\n{VOLUME}',
    "foreign": f'[[components]]\nname = "web"\nimage = "REGISTRY/tool:1"\n{HEALTH}\n\n{VOLUME}',
    "outside": f'[[components]]\nname = "web"\nimage = "REGISTRY/tool:1"\n{HEALTH}\nvolumes = ["/var/outside:/data"]\n',
    "sick": '[[components]]\nname = "web"\nimage = "REGISTRY/hello:sick"\n'
    'health = { type = "http", path = "/health", port = 8080, start_period = "3s" }\n',
}
AT_FIRST = ("own", "seeded", "shop", "gone")
NO_POWER = {
    **{f"Cap{which}:": ["0" * 16] for which in ("Inh", "Prm", "Eff", "Amb")},
    "NoNewPrivs:": ["1"],
    "Seccomp:": ["2"],
}
PUBLIC_NAME = "shop.example.test"

# Every kind of file that a copy has to keep, made as root in a volume.
DRESS = """
import os, struct, sys
os.chdir(sys.argv[1])
def file(name, content, mode, uid, gid):
    with open(name, "wb") as out:
        out.write(content)
    os.chown(name, uid, gid)
    os.chmod(name, mode)
file("private", b"of 4000", 0o600, 4000, 5000)
file("program", b"set-uid", 0o4755, 1000, 1001)
file("able", b"has a capability", 0o755, 0, 0)
os.setxattr("able", "security.capability", struct.pack("<IIIII", 0x02000001, 1 << 10, 0, 0, 0))
file("noted", b"has a note", 0o644, 1000, 1001)
os.setxattr("noted", "user.note", b"kept")
acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *one) for one in (
    (1, 6, 0xFFFFFFFF), (2, 4, 4242), (4, 4, 0xFFFFFFFF), (16, 4, 0xFFFFFFFF), (32, 0, 0xFFFFFFFF)))
file("listed", b"has an access list", 0o640, 1000, 1001)
os.setxattr("listed", "system.posix_acl_access", acl)
os.link("private", "private-again")
os.symlink("/etc/shadow", "link")
os.chown("link", 1000, 1001, follow_symlinks=False)
os.mkfifo("pipe", 0o600)
os.chown("pipe", 1000, 1001)
os.mkdir("group")
os.chown("group", 1000, 2000)
os.chmod("group", 0o2770)
file("group/sealed", b"no right at all", 0o000, 1000, 2000)
file("big", os.urandom(1 << 20) * 80, 0o640, 1000, 1001)
os.truncate("big", 200 << 20)
"""
LIST = """
import hashlib, json, os, stat, sys
top, found = sys.argv[1], {}
for folder, folders, files in os.walk(top):
    for path in [folder] + [os.path.join(folder, name) for name in files + folders]:
        about = os.lstat(path)
        one = [stat.filemode(about.st_mode), about.st_uid, about.st_gid, about.st_mtime_ns]
        if not stat.S_ISDIR(about.st_mode):
            one += [about.st_nlink, about.st_size]
        if stat.S_ISREG(about.st_mode):
            with open(path, "rb") as file:
                one.append(hashlib.file_digest(file, "sha256").hexdigest())
        if stat.S_ISLNK(about.st_mode):
            one.append(os.readlink(path))
        else:
            one.append({name: os.getxattr(path, name).hex() for name in sorted(os.listxattr(path))})
        found[os.path.relpath(path, top)] = one
print(json.dumps(found))
"""
# What an agent keeps about alarms that it sent.
NOTED = f"""
import sqlite3
found = sqlite3.connect("file:/var/lib/holdfast/agent/agent.db?mode=ro", uri=True)
print(*(value.decode() for value, in found.execute("SELECT value FROM facts WHERE name = '{keeper.FACT}'")))
"""


class Booted(Checklist):
    def __init__(self, machine: Machine, room: Path) -> None:
        super().__init__()
        self.machine, self.room = machine, room
        self.place = MachineFleet(machine, room)
        self.fleet = self.place.fleet
        self.senders: list[str] = []
        self.ear = Ear(machine.visitor, self.look_at_sender)

    def close(self) -> None:
        self.ear.close()

    # ---- commands

    def step(self, part: Callable[[], None]) -> None:
        """One part; a failure inside it does not keep the others from running."""
        name = part.__name__.replace("_", " ")
        self.note(f"-- {name}")
        try:
            part()
        except Exception as trouble:
            self.check(False, f"the part `{name}` went through", f"{type(trouble).__name__}: {trouble}")

    def run(self, *words: str) -> Outcome:
        return self.place.run(*words)

    def exits_0(self, *words: str) -> Outcome:
        outcome = self.run(*words)
        self.check(outcome.code == 0, f"holdfast {' '.join(words)}", outcome)
        return outcome

    def declare(self, name: str, replaced: Mapping[str, str] | None = None) -> None:
        text = SERVICES[name]
        for before, after in (replaced or {}).items():
            text = text.replace(before, after)
        self.place.write(name, text)

    # ---- what is there

    def files_at(self, path: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.machine.python(LIST, path))
        return found

    def container(self, service: str) -> dict[str, Any]:
        (one,) = self.machine.podman("ps", "--all", "--quiet", "--filter", f"label={LABEL}={service}").split()
        (found,) = json.loads(self.machine.podman("inspect", one))
        return dict(found)

    def containers(self) -> dict[str, tuple[str, int]]:
        found = {}
        for path in (self.fleet / "services").iterdir():
            one = self.container(path.stem)
            if one["State"]["Running"]:
                found[path.stem] = (one["Id"], one["State"]["Pid"])
        return found

    def checkpoints(self, service: str = "") -> list[str]:
        found = self.run("checkpoint", "list", *([service] if service else []), "--json").ok().json["checkpoints"]
        return [one["id"] for one in found]

    def differences(self, before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
        names = sorted(before.keys() | after.keys())
        return {n: (before.get(n), after.get(n)) for n in names if before.get(n) != after.get(n)}

    # ---- the fleet

    def found(self) -> None:
        inside, site = self.machine, self.machine.site
        self.place.install()
        self.place.begin()
        hub_key = self.place.start_hub()
        path = self.fleet / "fleet.toml"
        path.write_text(fleet_file.settled(path.read_text(), inside.blueprint, hub_key))
        self.run("apply", "--yes").ok()
        token = self.run("node", "invite", NAME).ok().out
        inside.run("holdfast", "agent", "join", "-", "--address", site.address, given=token).ok()
        inside.sh("systemctl enable --now holdfast-agent")
        self.wait(lambda: f"signed by {NAME}" in self.run("node", "list").out, "the node reports")
        self.exits_0("apply", "--yes")

    def deploy(self) -> None:
        hello = f"{self.machine.blueprint.registry}/hello:1"
        for version in ("1", "2", "3"):
            self.machine.build(f"tool:{version}", TOOL.format(image=hello, version=version))
            self.machine.build(f"seeded:{version}", SEEDED.format(image=hello, version=version))
        for name in AT_FIRST:
            self.declare(name)
        for name, value in (("paper", PAPER), ("spoken", SPOKEN)):
            (self.room / name).write_text(value)
            self.run("secret", "set", name, "--file", str(self.room / name)).ok()
        self.exits_0("apply", "--yes")
        states = {unit: self.machine.run("systemctl", "is-active", unit).out.strip() for unit in UNITS}
        self.check(set(states.values()) == {"active"}, "hub, agent and proxy run under their units", states)

    # ---- 1, 2, 6: owners, seeds, secrets, schedules

    def owners(self) -> None:
        files = self.files_at("/srv/own/files")
        self.check(files["."][:3] == ["drwxr-xr-x", 1234, 2345], "`owner` owns the new volume", files)
        pid = self.container("own")["State"]["Pid"]
        ids = self.machine.sh(f"grep -E '^[UG]id:' /proc/{pid}/status").split()
        self.check(ids == ["Uid:", *["1234"] * 4, "Gid:", *["2345"] * 4], "the program runs as `user`", ids)
        self.wait(lambda: "hook" in self.files_at("/srv/own/files"), "post_deploy has run")
        said = self.machine.sh("cat /srv/own/files/hook").strip()
        self.check(said == f"{USER} {PAPER} {SPOKEN}", "hooks run as `user` and read the secrets", said)
        owner = self.files_at("/srv/own/files")["hook"][1:3]
        self.check(owner == [1234, 2345], "what a hook writes belongs to `user`", owner)

    def other_owner(self) -> None:
        """Last: the schedules of the service write as its user."""
        self.machine.sh("cd /srv/own/files && mkdir -p in && touch in/page && chown -h 7:7 in in/page && chmod 0700 in")
        self.declare("own", {USER: "1300:1400"})
        self.exits_0("deploy", "own", "--yes")
        owners = {name: one[1:3] for name, one in self.files_at("/srv/own/files").items()}
        wrong = {name: one for name, one in owners.items() if one != [1300, 1400]}
        self.check(not wrong, f"another `owner` owns all {len(owners)} files", wrong)
        said = self.machine.sh("cat /srv/own/files/hook").strip()
        self.check(said == f"1300:1400 {PAPER} {SPOKEN}", "hooks run as the other user", said)

    def seeds(self) -> None:
        found = {name: one[:3] for name, one in self.files_at("/srv/seeded/files").items()}
        wanted = {
            ".": ["drwxr-x---", 1000, 1001],
            "seed": ["-rw-r-----", 1000, 1001],
            "deep": ["drwxrws---", 1000, 1001],
            "deep/page": ["-rw-r--r--", 1000, 1001],
        }
        self.check(found == wanted, "a new volume has content, owners and modes of the image", found)
        self.machine.podman("exec", self.container("seeded")["Id"], "sh", "-c", "echo mine > /data/mine")
        self.check("mine" in self.files_at("/srv/seeded/files"), "the image's user writes into it")

    def schedules(self) -> None:
        self.exits_0("schedule", "run", "own", "note")
        said = self.machine.sh("cat /srv/own/files/runs").splitlines()
        self.check(said == [f"{USER} {PAPER} {SPOKEN}"], "a run runs once, as `user`, with the secrets", said)
        self.wait(lambda: "minutes" in self.files_at("/srv/own/files"), "a minute of a schedule came")

    def said_minutes(self) -> list[str]:
        return self.machine.sh("cat /srv/own/files/minutes").split()

    def minutes(self) -> None:
        self.wait(lambda: self.said_minutes()[1:] != [], "another minute of a schedule came")
        said = self.said_minutes()
        self.check(len(set(said)) == len(said), "no minute of a schedule ran twice", said)

    def edge(self) -> None:
        authorities = self.room / "authorities.pem"
        authorities.write_text(self.run("ca", "bundle").ok().out)
        to = f"{PUBLIC_NAME}:443:{self.machine.site.address}"
        words = ["curl", "-sf", "--noproxy", "*", "--cacert", str(authorities), "--resolve", to]

        def answer() -> str:
            done = subprocess.run([*words, f"https://{PUBLIC_NAME}/"], capture_output=True, text=True, timeout=60)
            return done.stdout

        self.wait(lambda: '"version":"1"' in answer(), "the public route answers through the proxy's unit", answer)

    def alerts(self) -> None:
        path = self.fleet / "fleet.toml"
        targets = {
            "sink": self.ear.url,
            "loop": "json://127.0.0.1:9/",
            "inner": f"json://{self.machine.site.address}:9/",
        }
        lines = "".join(f'\n[[alerts]]\nname = "{name}"\napprise = "{url}"\n' for name, url in targets.items())
        before = path.read_text()
        path.write_text(before + lines)
        self.exits_0("apply", "--yes")
        self.declare("sick")
        self.check(self.run("deploy", "sick", "--yes").code == 1, "a sick version is not deployed")
        failed = ("rollout_failed", "service.sick")
        self.wait(lambda: failed in self.ear.heard, "Apprise's process sends", self.undelivered)
        self.wait(lambda: len(self.undelivered()) == 2, "what it refuses is reported", self.undelivered)
        for name, word in (("loop", "loopback"), ("inner", "overlay")):
            said = [one for one in self.undelivered() if name in one]
            self.check(bool(said) and word in said[0], f"an alert is refused to {word} addresses", said)
        path.write_text(before)
        self.exits_0("undeploy", "sick", "--yes")
        (self.fleet / "services" / "sick.toml").unlink()
        self.exits_0("apply", "--yes", "--allow-removals", str(len(targets)))
        self.senders_without_power("holdfast-hub")

    def look_at_sender(self, port: int) -> None:
        """Before it gets its answer; afterwards it ends."""
        find = f"ss -Htnp 'sport = :{port}' | grep -o 'pid=[0-9]*' | cut -d = -f 2"
        about = f"pid=$({find}) && cat /proc/$pid/status /proc/$pid/cgroup /proc/$pid/limits"
        self.senders.append(self.machine.run("sh", "-c", about).out)

    def senders_without_power(self, unit: str) -> None:
        """All since the last call: not root, no capability, under the filter and in the group of their unit."""
        for said in self.senders:
            lines = [line.split() for line in said.splitlines()]
            found = {words[0]: words[1:] for words in lines if words}
            ids = {id for which in ("Uid:", "Gid:", "Groups:") for id in found.get(which, ["0"])}
            holds = found.items() >= NO_POWER.items() and "0" not in ids and f"/{unit}.service" in said
            holds &= ["Max", "file", "size", "0", "0", "bytes"] in lines
            self.check(holds, f"the process of {unit} that sends has no power (user {'/'.join(sorted(ids))})", said)
        self.check(bool(self.senders), f"processes of {unit} that send were seen ({len(self.senders)})")
        self.senders.clear()

    def undelivered(self) -> list[str]:
        found = self.run("status", "--json").json["findings"]
        return [f"{one.get('address')} {one['message']}" for one in found if one["code"] == "alert_undelivered"]

    # ---- 8: a node tells of a dead hub (X17)

    def told(self) -> list[str]:
        return [code for code, _ in list(self.ear.heard) if code in ("hub_silent", "hub_heard")]

    def hub_silence(self) -> None:
        """The target stays: restarts and boots of a machine with a living hub are no silence."""
        (self.room / "own-url").write_text(f"{self.ear.url}of-the-node")
        path = self.fleet / "fleet.toml"
        target = f'\n[[alerts]]\nname = "own"\nsecret = "own-url"\nnodes = ["{NAME}"]\nafter = "2m"\n'
        path.write_text(path.read_text() + target)
        self.run("secret", "set", "own-url", "--file", str(self.room / "own-url")).ok()
        self.exits_0("apply", "--yes")
        self.settled("a target of the node")
        before = self.containers()
        self.machine.sh("systemctl stop holdfast-hub")
        self.senders.clear()  # the hub may have sent a recovery meanwhile
        self.wait(lambda: self.told() != [], "the node tells that the hub is silent")
        self.wait(lambda: '"told":["own"]' in self.machine.python(NOTED), "the agent has noted it")
        for words in ("kill -s KILL", "restart"):
            life = self.agent()
            self.machine.sh(f"systemctl {words} holdfast-agent")
            self.wait(lambda life=life: self.agent() not in ("0", life), f"there is another agent after {words}")  # type: ignore[misc]
        time.sleep(hub_silence.START_S + 20)  # an agent that did not know of the alarm would have sent it
        self.check(self.told() == ["hub_silent"], "once, also when its agent starts again", self.told())
        self.machine.sh("systemctl start holdfast-hub")
        self.wait(lambda: "hub_heard" in self.told(), "the node tells that the hub is back")
        self.check(self.told() == ["hub_silent", "hub_heard"], "once", self.told())
        self.senders_without_power("holdfast-agent")
        self.check(before == self.containers(), "no container restarted without the hub", (before, self.containers()))

    # ---- 3: checkpoints

    def dress(self) -> None:
        self.machine.python(DRESS, "/srv/seeded/files")

    def update(self, version: str) -> tuple[dict[str, Any], list[str]]:
        before, had = self.files_at("/srv/seeded/files"), self.checkpoints("seeded")
        self.declare("seeded", {"seeded:1": f"seeded:{version}"})
        self.exits_0("deploy", "seeded", "--yes")
        fresh = [one for one in self.checkpoints("seeded") if one not in had]
        self.check(len(fresh) == 1, f"the update to version {version} made a checkpoint", fresh)
        changed = self.differences(before, self.files_at("/srv/seeded/files"))
        self.check(not changed, f"the update to version {version} changed no data", changed)
        return before, fresh

    def damage(self) -> None:
        self.machine.sh(
            "cd /srv/seeded/files && rm -rf group private && echo damaged > seed && chown 9:9 . program && chmod 777 . "
            "&& setfattr -x user.note noted 2>/dev/null; true"
        )

    def version(self) -> str:
        env = self.container("seeded")["Config"]["Env"]
        return str(next(one for one in env if one.startswith("VERSION=")).removeprefix("VERSION="))

    def checkpoint_and_restore(self) -> None:
        self.dress()
        before, (id, *_) = self.update("2")
        copy = self.files_at(f"/srv/.checkpoints/seeded/{id}/files")
        changed = self.differences(_without_links(before), _without_links(copy))  # checkpoints share files
        self.check(not changed, "the checkpoint has every owner, mode and attribute", changed)
        self.damage()
        self.exits_0("checkpoint", "restore", "seeded", id, "--yes")
        changed = self.differences(before, self.files_at("/srv/seeded/files"))
        self.check(not changed, "checkpoint restore brings back every owner, mode and attribute", changed)
        self.check(self.version() == "1", "and the version that wrote it", self.version())

    def rollback_with_data(self) -> None:
        before, _ = self.update("3")
        self.damage()
        self.exits_0("rollback", "--with-data", "--yes")
        changed = self.differences(before, self.files_at("/srv/seeded/files"))
        self.check(not changed, "rollback --with-data brings back every owner, mode and attribute", changed)
        self.check(self.version() == "1", "and the version that wrote it", self.version())
        id = self.checkpoints("seeded")[0]
        self.exits_0("checkpoint", "delete", "seeded", id, "--yes")
        left = self.machine.sh(f"find /srv/.checkpoints/seeded -name '*{id}*'").split()
        self.check(not left, "checkpoint delete leaves nothing of it", left)
        self.declare("seeded")
        planned = self.run("plan")
        self.check("No changes" in planned.out + planned.err, "the files and the applied revision agree", planned)

    # ---- 4, 5: purge, adopt

    def purge(self) -> None:
        canary = "canary" + os.urandom(12).hex()
        self.machine.sh(
            f"mkdir /srv/gone/files/deep && echo {canary} | tee /srv/gone/files/deep/bird > /srv/gone/files/bird"
        )
        self.machine.sh(
            "chown -R 77:77 /srv/gone/files && chmod 0 /srv/gone/files/bird && chmod 0500 /srv/gone/files/deep"
        )
        self.declare("gone", {"tool:1": "tool:2"})
        self.exits_0("deploy", "gone", "--yes")
        before = self.files_at("/srv/gone/files")
        self.exits_0("undeploy", "gone", "--yes")
        (self.fleet / "services" / "gone.toml").unlink()
        self.exits_0("purge", "gone", "-n", NAME, "--yes")
        kept = self.machine.sh("ls -A /srv").split()
        aside = [one for one in kept if one.startswith(".purging-")]
        self.check("gone" not in kept and len(aside) == 3, "purge keeps data, checkpoints and passports aside", kept)
        self.exits_0("retired", "restore", "gone", "--yes")
        changed = self.differences(before, self.files_at("/srv/gone/files"))
        self.check(not changed, "retired restore brings the data back", changed)
        self.exits_0("purge", "gone", "-n", NAME, "--now", "--yes")
        places = "/srv /var /run /tmp /root"
        found = self.machine.sh(f"grep -rlaF --devices=skip {canary} {places} || true").split()
        self.check(not found, "after purge --now no byte of the data is on the machine", found)
        left = self.machine.sh("find /srv -path '*gone*'").split()
        self.check(not left, "after purge --now no name of it is in the data directory", left)

    def adopt(self) -> None:
        self.machine.sh(
            "mkdir -p /srv/foreign/files/inner && cd /srv/foreign/files && echo theirs > inner/page && "
            "chown -R 33:44 . && chmod 0700 . inner && chmod 0600 inner/page"
        )
        before = self.files_at("/srv/foreign/files")
        self.declare("foreign")
        refused = self.run("deploy", "foreign", "--yes")
        self.check(
            refused.code == 1 and "holdfast volume adopt" in refused.out + refused.err,
            "foreign data is refused",
            refused,
        )
        adopted = self.exits_0("volume", "adopt", "foreign", "--yes")
        self.check("inner" in adopted.out + adopted.err, "`volume adopt` shows what is in it", adopted)
        self.exits_0("deploy", "foreign", "--yes")
        changed = self.differences(before, self.files_at("/srv/foreign/files"))
        self.check(not changed, "adopted data keeps its owners and modes", changed)
        self.check(len(self.checkpoints("foreign")) == 1, "there is a checkpoint of it", self.checkpoints("foreign"))
        found = self.machine.sh("find /srv/.passports -type f -printf '%P %m %u\\n'").splitlines()
        wanted = {f"{service}/files.json 600 root" for service in ("own", "seeded", "foreign")}
        self.check(wanted <= set(found), "passports are beside the data, readable for root alone", found)

    def paths_of_the_machine(self) -> None:
        self.machine.sh("mkdir -p /var/outside /home/outside")
        self.declare("outside")
        self.exits_0("deploy", "outside", "--yes")
        self.declare("outside", {"/var/": "/home/"})
        refused = self.run("deploy", "outside", "--yes")
        is_told = refused.code == 1 and "its systemd unit hides" in refused.err
        self.check(is_told, "a path that the unit hides is refused with that reason", refused)
        self.declare("outside")
        self.exits_0("deploy", "outside", "--yes")

    # ---- 7: restarts

    def settled(self, what: str) -> None:
        def is_settled() -> bool:
            ps = self.run("ps", "--json")
            return ps.code == 0 and not self.trouble()

        self.wait(is_settled, f"nothing is parked or found after {what}", self.trouble)

    def trouble(self) -> list[object]:
        shown = self.run("node", "show", NAME, "--json")
        status = self.run("status", "--json")
        if shown.code or status.code not in (0, 1):
            return [shown, status]
        fine = shown.json["status"] == "healthy" and status.json["ready"]
        return [
            *shown.json["parked"],
            *shown.json["findings"],
            *status.json["findings"],
            *([] if fine else [shown.out]),
        ]

    def restarts(self) -> None:
        self.settled("all of this")
        for what, words in (("a restart of the agent", "restart"), ("a kill of the agent", "kill -s KILL")):
            before, life = self.seen(), self.agent()
            self.machine.sh(f"systemctl {words} holdfast-agent")
            self.wait(lambda life=life: self.agent() not in ("0", life), f"there is another agent after {what}")  # type: ignore[misc]
            self.settled(what)
            self.same(before, what, True)

    def agent(self) -> str:
        return self.machine.sh("systemctl show --property MainPID --value holdfast-agent").strip()

    def boots(self) -> None:
        for what, act in (("a reboot", self.machine.reboot), ("a power cut", self.machine.cut_power)):
            before = self.seen()
            act()
            self.settled(what)
            self.same(before, what, False)
            failed = self.machine.run("systemctl", "list-units", "--failed", "--plain", "--no-legend").out
            self.check("holdfast" not in failed and "podman" not in failed, f"no unit failed after {what}", failed)
            self.edge()
            said = self.machine.podman("exec", self.container("own")["Id"], "cat", "/run/secrets/paper")
            self.check(said == PAPER, f"the secrets are there after {what}", said)

    def seen(self) -> dict[str, Any]:
        files = {name: self.files_at(f"/srv/{name}/files") for name in ("own", "seeded", "foreign")}
        files["own"] = {
            name: one for name, one in files["own"].items() if name == "hook"
        }  # a schedule writes the others
        return {"containers": self.containers(), "files": files, "checkpoints": self.checkpoints()}

    def same(self, before: dict[str, Any], what: str, with_containers: bool) -> None:
        after = self.seen()
        for key in ("files", "checkpoints"):
            changed = "" if before[key] == after[key] else (before[key], after[key])
            self.check(not changed, f"{key} are the same after {what}", changed)
        pair = (before["containers"], after["containers"])
        if with_containers:
            self.check(pair[0] == pair[1], f"no container restarted by {what}", pair)
        else:
            self.check(pair[0].keys() == pair[1].keys(), f"every service runs after {what}", pair)

    def lost_supervisor(self) -> None:
        """The agent writes the exit code of a container that ended without conmon, so that podman lets it start."""
        mounts = self.machine.sh(f"cut -d ' ' -f 5,6 /proc/{self.agent()}/mountinfo").splitlines()
        writable = [one for one in mounts if one.startswith("/run/libpod rw")]
        self.check(len(writable) == 1, "the agent may write podman's exit codes after a boot", mounts)
        state = self.container("shop")["State"]
        self.machine.sh(f"kill -KILL {state['ConmonPid']} && kill -KILL {state['Pid']}")

        def is_back() -> bool:
            return self.container("shop")["State"]["Pid"] not in (0, state["Pid"])

        self.wait(is_back, "a container that ended without its supervisor is started again")
        self.settled("that")

    # ---- at the end

    def records(self) -> None:
        inside = self.machine
        for words in (("hub", "check", "--state-dir", "/var/lib/holdfast/hub"), ("agent", "check")):
            outcome = inside.run("holdfast", *words)
            self.check(outcome.code == 0, f"holdfast {' '.join(words)} in the machine", outcome)
        self.exits_0("audit", "--verify")
        self.exits_0("audit", "--verify", "--node", NAME)
        self.check(self.told() == ["hub_silent", "hub_heard"], "restarts and boots told of no silence", self.told())
        for unit in UNITS:
            said = inside.sh(f"journalctl --no-pager --output cat --unit {unit}").splitlines()
            bad = [one for one in said if any(word in one for word in ("Traceback", "internal_error", "not permitted"))]
            self.check(not bad, f"{unit} logged no mistake of ours ({len(said)} lines)", bad[:5])

    def all(self) -> None:
        for part in (
            self.found,
            self.deploy,
            self.owners,
            self.seeds,
            self.schedules,
            self.edge,
            self.alerts,
            self.checkpoint_and_restore,
            self.rollback_with_data,
            self.purge,
            self.adopt,
            self.paths_of_the_machine,
            self.hub_silence,
            self.restarts,
            self.boots,
            self.lost_supervisor,
            self.minutes,
            self.other_owner,
            self.records,
        ):
            self.step(part)


def _without_links(found: dict[str, Any]) -> dict[str, Any]:
    return {name: one[:4] + one[5:] if one[0][0] != "d" else one for name, one in found.items()}


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="tests/lab/booted.py")
    parser.add_argument("--btrfs", action="store_true")
    parser.add_argument("--keep", action="store_true")
    args = parser.parse_args(words)
    try:
        return tried(args.btrfs, args.keep)
    except Unfit as trouble:
        print(trouble, file=sys.stderr)
        return 2


def tried(on_btrfs: bool, keep: bool) -> int:
    with (
        TemporaryDirectory(prefix="holdfast-booted-") as room,
        machines.booted(on_btrfs=on_btrfs) as machine,
        closing(Booted(machine, Path(room))) as booted,
    ):
        where = "btrfs" if on_btrfs else "the disk of this machine"
        booted.note(f"the machine has booted at {machine.site.address}; /srv is on {where}")
        booted.all()
        if keep:
            print(f"{shlex.join(machine.entering)} bash; then press Enter", flush=True)
            sys.stdin.readline()
    return booted.exit_code("Every check holds under the shipped units.")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
