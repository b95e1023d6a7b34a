"""A person at a terminal, in a fleet directory with a space in its name, who pastes what remedies say."""

import io
import os
import re
import shlex
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from holdfast.cli import main
from holdfast.cli.terminal import Terminal
from holdfast.cli.tools import Toolbox
from holdfast.wiring import cli as wiring
from tests.architecture.remedies import chain

HOME = "~"  # in the tables, in place of the home directory
KEY = ".ssh/id_ed25519"
NO_TERMINAL = " < /dev/null"
IMAGE = f"registry.test/web@sha256:{'1' * 64}"
WEB = f"""node = "w1"
[[components]]
name = "web"
image = "{IMAGE}"
[[components.routes]]
name = "http"
port = 8080
"""


class Typing(io.StringIO):
    """A keyboard that answers every question."""

    def isatty(self) -> bool:
        return True

    def readline(self, *_: object) -> str:  # type: ignore[override]
        return "yes\n"


class Person(Terminal):
    def secret(self, prompt: str) -> str:
        return "a value"


OURS, THEIRS = "remedy: ", "the hub suggests: "


class Result(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def remedies(self) -> list[str]:
        lines = (self.err + self.out).splitlines()
        found = [one for line in lines if (one := line.strip()).startswith((OURS, THEIRS))]
        return [one.removeprefix(OURS).removeprefix(THEIRS) for one in found]


class Seat:
    """Runs lines as a shell does: those of Holdfast in this process, others in a shell. `~` is the home directory."""

    def __init__(self, home: Path, box: Callable[[Terminal, Mapping[str, str]], Toolbox] | None = None) -> None:
        self.home = home
        self.box = box or wiring.SystemToolbox
        own = {"HOME": str(home), "HOLDFAST_STATE": str(home / "state"), "SSH_AUTH_SOCK": str(home / "agent")}
        self.environ = own | {"PATH": os.environ["PATH"], "USER": "alice"}

    def run(self, line: str) -> Result:
        """One line, also `first && second`."""
        done = Result(0, "", "")
        for command in chain(line) if "|" not in line else [line]:
            done = self._run(command)
            if done.code:
                break
        return done

    def _run(self, command: str) -> Result:
        if command == "cd ~":
            os.chdir(self.home)
            return Result(0, "", "")
        if not command.startswith("holdfast"):
            shell = subprocess.run(
                ["bash", "-c", command], env=self.environ, capture_output=True, text=True, stdin=subprocess.DEVNULL
            )
            return Result(shell.returncode, shell.stdout, shell.stderr)
        keyboard = io.StringIO() if command.endswith(NO_TERMINAL) else Typing()
        words = shlex.split(command.removesuffix(NO_TERMINAL))[1:]
        words = [re.sub(r"^~(?=/|$)", str(self.home), word) for word in words]
        if words[:1] == ["hub"] and "--state-dir" not in words:  # else it would be /var/lib/holdfast/hub
            words += ["--state-dir", str(self.home / "hub")]
        out, err = io.StringIO(), io.StringIO()
        box = self.box(Person(out, err, keyboard, environ_no_colour=True), self.environ)
        try:
            code = main.run(words, box)
        finally:
            getattr(box, "close", lambda: None)()
        return Result(code, out.getvalue(), err.getvalue())

    def fleet_id(self) -> str:
        return str(re.findall(r"\b[0-9a-f]{64}\b", self.run("holdfast validate").out)[0])

    def plain(self, text: str) -> str:
        """With ~ for the home directory, whose name has a space: so a path in it is quoted where it is an argument."""
        return re.sub(rf"'{re.escape(str(self.home))}([^' ]*)'|{re.escape(str(self.home))}", rf"{HOME}\1", text)


def seat(home: Path) -> Seat:
    """In a new fleet with the service web on w1; nothing is applied."""
    home.mkdir(parents=True)
    found = Seat(home)
    os.chdir(home)
    for line in (
        "mkdir .ssh",
        f"ssh-keygen -q -t ed25519 -N '' -C alice -f {KEY}",
        "holdfast init 'my fleet' --yes --name small --operator alice",
    ):
        assert found.run(line).code == 0, line
    os.chdir(home / "my fleet")
    Path("services/hello.toml").unlink()
    Path("services/web.toml").write_text(WEB)
    with Path("fleet.toml").open("a") as file:
        file.write('\n[[nodes]]\nname = "w1"\nroles = ["worker"]\n')
    return found
