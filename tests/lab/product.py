"""The product as lab tests meet it: a fleet directory of its own, a HOME of its own, and the real command line.

Commands run in two ways. `Place.run` starts `python -m holdfast` as a user would. A `Warm` interpreter has everything
imported and forks for each command, which saves nine tenths of the time; it may stand under strace as a whole, since
strace counts calls for each forked command anew.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.fleets.waiting import wait_until

PYTHON = sys.executable
KILLED = -signal.SIGKILL
INTERPRETER = Path(__file__).with_name("warm_interpreter.py")

IDLE_MAX = 2000


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> dict[str, str]:
        """The refusal of a command that ran with --json: the last line on stderr."""
        found = json.loads(self.err.strip().splitlines()[-1])
        assert found["code"] and found["message"] and found["remedy"], found
        assert isinstance(found, dict)
        return found

    def ok(self) -> Outcome:
        assert self.code == 0, self
        return self

    def refused(self, code: int, name: str = "") -> dict[str, str]:
        """Exit code, error code, and everything an error must have; run the command with --json."""
        assert "Traceback" not in self.err, self.err
        assert self.code == code, self
        if name:
            assert self.error["code"] == name, self.error
        return self.error


@dataclass(frozen=True)
class Place:
    """One operator's home and fleet directory below `root`."""

    root: Path

    @property
    def fleet(self) -> Path:
        return self.root / "fleet"

    @property
    def ledger(self) -> Path:
        return self.fleet / ".ledger"

    @property
    def database(self) -> Path:
        return self.ledger / "ledger.db"

    @property
    def key(self) -> Path:
        return self.root / "home" / ".ssh" / "id_ed25519"

    @property
    def hub_key(self) -> Path:
        """Where the public key of the hub that runs is noted, so that commands know whom they speak to."""
        return self.root / "hub.pub"

    @property
    def environ(self) -> dict[str, str]:
        pinned = {"HOLDFAST_HUB_KEY": self.hub_key.read_text()} if self.hub_key.exists() else {}
        return pinned | {
            "HOME": str(self.root / "home"),
            "XDG_STATE_HOME": str(self.root / "state"),
            "PATH": os.environ["PATH"],
            "USER": "alice",
            "NO_COLOR": "1",
            "TMPDIR": str(self.root),
        }

    def command(self, *words: str) -> list[str]:
        return [PYTHON, "-m", "holdfast", *words]

    def run(
        self, *words: str, wrap: Sequence[str] = (), env: Mapping[str, str] | None = None, timeout_s: float = 180
    ) -> Outcome:
        """A cold start, as from a shell. `wrap` is a command that runs it, strace for example."""
        done = subprocess.run(
            [*wrap, *self.command(*words)],
            cwd=self.fleet if self.fleet.is_dir() else self.root,
            env={**self.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    def applied_before(self) -> None:
        """Apply the directory as a release would that accepts keys without an effect in silence."""
        done = subprocess.run(
            [PYTHON, "-c", _ACCEPTING, "apply", "--yes"],
            cwd=self.fleet,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )
        Outcome(done.returncode, done.stdout, done.stderr).ok()

    # ---- the directory

    def service(self, name: str, env: str = "", **values: object) -> Path:
        """Write services/<name>.toml; every value is a top-level key. `env` makes its content unlike others'."""
        lines = [f"{key} = {json.dumps(value)}" for key, value in {"tier": "worker", **values}.items()]
        component = ["", "[[components]]", 'name = "web"', f'image = "{IMAGE}"', f'env = {{ E = "{env}" }}', ""]
        path = self.fleet / "services" / f"{name}.toml"
        path.write_text("\n".join(lines + component))
        return path

    def replace(self, name: str, old: str, new: str) -> None:
        path = self.fleet / name
        text = path.read_text()
        assert old in text, f"{name} lacks {old!r}"
        path.write_text(text.replace(old, new))

    def copy(self, root: Path) -> Place:
        shutil.copytree(self.root, root, symlinks=True)
        return Place(root)


_ACCEPTING = """
import sys
from holdfast.declared import without_effect
without_effect.judge = lambda fleet, applied: without_effect.Judged((), ())
from holdfast.__main__ import main
sys.exit(main())
"""

IMAGE = "docker.io/library/busybox@sha256:73aaf090f3d85aa34ee199857f03fa3a95c8ede2ffd4cc2cdb5b94e566b11662"


def new_place(root: Path, *words: str) -> Place:
    """A fleet made by `holdfast init`, not applied yet."""
    place = Place(root)
    (root / "home").mkdir(parents=True)
    place.run("init", str(place.fleet), "--name", "lab", "--yes", *words).ok()
    return place


@contextmanager
def locked(database: Path, lock: str) -> Iterator[None]:
    """Another process holds the write lock of that database."""
    script = "import apsw, sys; db = apsw.Connection(sys.argv[1]); db.execute('BEGIN ' + sys.argv[2]); "
    words = [PYTHON, "-c", script + "print(flush=True); sys.stdin.read()", str(database), lock]
    holder = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None and holder.stdout.readline()
        yield
        assert holder.poll() is None
    finally:
        holder.communicate()


def make_key(path: Path, passphrase: str = "") -> str:
    """An operator's key as ssh-keygen makes it; returns the public line."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-C", "", "-f", str(path)], check=True)
    return path.with_suffix(".pub").read_text().strip()


def fingerprints(folder: Path) -> dict[str, tuple[int, str]]:
    """Names, sizes and digests of everything below a directory."""
    return {
        str(path.relative_to(folder)): (path.stat().st_size, sha256(path.read_bytes()).hexdigest())
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


# ---- commands without a cold start -----------------------------------------------------------------------------------


def strace(log: Path, faults: Sequence[str], watched: Sequence[str] = ()) -> list[str]:
    """A fault is written as strace writes it: fsync:error=EIO:when=2. Injects nothing under --seccomp-bpf (6.1)."""
    calls = ",".join(dict.fromkeys([*watched, *(fault.partition(":")[0] for fault in faults)]))
    words = ["strace", "-f", "-qq", "-y", "-e", "signal=none", "-o", str(log), "-e", f"trace={calls}"]
    return words + [word for fault in faults for word in ("-e", f"inject={fault}")]


class Warm:
    """With `faults` strace looks over its shoulder; each forked command meets them with counters of its own.

    `watched` calls are only written down.
    """

    def __init__(
        self, faults: Sequence[str] = (), env: Mapping[str, str] | None = None, watched: Sequence[str] = ()
    ) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._wire = ours
        self._streams = TemporaryDirectory(prefix="holdfast-streams-")
        self._wire.settimeout(180)
        self._process = subprocess.Popen(
            [PYTHON, str(INTERPRETER), str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            env={"PATH": os.environ["PATH"], **(env or {})},
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        theirs.close()
        self._mark = 0
        self._log = Path(self._streams.name) / "strace"
        self._tracer: subprocess.Popen[bytes] | None = None
        try:
            assert self._wire.recv(16) == b"ready"
            if faults or watched:
                self._tracer = subprocess.Popen([*strace(self._log, faults, watched), "-p", str(self._process.pid)])
                wait_until(self._is_traced, "strace holds the interpreter")
        except BaseException:
            self.close()
            raise

    def _is_traced(self) -> bool:
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return "TracerPid:\t0\n" not in status

    def run(self, place: Place, *words: str, idle: Mapping[str, int] | None = None, timeout_s: float = 180) -> Outcome:
        """`idle` names how many calls of each kind are used up before the command begins."""
        folder = Path(self._streams.name)
        cwd = place.fleet if place.fleet.is_dir() else place.root
        order = {
            "words": words,
            "cwd": str(cwd),
            "env": place.environ,
            "streams": str(folder),
            "idle": dict(idle or {}),
        }
        self._mark = self._log.stat().st_size if self._tracer is not None else 0
        self._wire.send(json.dumps(order).encode())
        self._wire.settimeout(timeout_s)
        try:
            answer = self._wire.recv(65536)
        except TimeoutError:
            os.killpg(self._process.pid, signal.SIGKILL)  # the command and the interpreter that waits for it
            raise
        assert answer, "the warm interpreter is gone"
        return Outcome(json.loads(answer), (folder / "out").read_text(), (folder / "err").read_text())

    def seen(self) -> list[str]:
        """The faulty and watched calls of the last command, as strace wrote them, with the paths behind handles."""
        return self._log.read_bytes()[self._mark :].decode(errors="replace").splitlines()

    def injected(self) -> list[str]:
        return [line for line in self.seen() if "(INJECTED" in line]

    def close(self) -> None:
        self._wire.close()
        for process in (self._process, self._tracer):
            if process is not None:
                end(process)
        self._streams.cleanup()


def end(process: subprocess.Popen[Any], patience_s: float = 5) -> None:
    """Wait a little, then kill it together with its session."""
    try:
        process.wait(patience_s)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL) if os.getpgid(process.pid) == process.pid else process.kill()
        process.wait()


@contextmanager
def warm(
    faults: Sequence[str] = (), env: Mapping[str, str] | None = None, watched: Sequence[str] = ()
) -> Iterator[Warm]:
    interpreter = Warm(faults, env, watched)
    try:
        yield interpreter
    finally:
        interpreter.close()
