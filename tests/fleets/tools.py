"""The real tools of a home directory, with a hub and an operator's key that a test gives."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast.cli import main
from holdfast.cli.terminal import Terminal
from holdfast.ports.clock import Clock
from holdfast.ports.signer import Signer
from holdfast.wiring import cli as wiring
from holdfast.wiring.hubs import SystemHubs
from holdfast.wiring.keys import SystemKeys
from tests.fleets.build import ALICE_SIGNER
from tests.fleets.desks import key_of

HUB = "https://hub.test:9555"
HUB_KEY = key_of("hub").line


class Box(wiring.SystemToolbox):
    """`by` signs; `wire` is the hub at HUB. Another hub is reached as always."""

    def __init__(self, home: Path, wire: Any = None, clock: Clock | None = None) -> None:
        self.out, self.err = io.StringIO(), io.StringIO()
        terminal = Terminal(self.out, self.err, io.StringIO(), environ_no_colour=True)
        super().__init__(terminal, {"HOME": str(home), "HOLDFAST_STATE": str(home / "state")})
        self.home = home
        self.clock = clock or self.clock
        self.wire = wire
        self.by: Signer = ALICE_SIGNER
        self.hubs, self.keys = GivenHub(self), GivenKey(self)

    def fresh(self) -> str:
        """Forget what was printed; a fleet directory that names the hub's key."""
        for stream in (self.out, self.err):
            stream.seek(0)
            stream.truncate()
        fleet = self.home / "fleet"
        fleet.mkdir(exist_ok=True)
        (fleet / "fleet.toml").write_text(f'[fleet]\nname = "small"\nhub_key = "{HUB_KEY}"\n')
        return str(fleet)

    def does(self, *words: str, code: int = 0) -> str:
        """Run a command; what it printed."""
        found = main.run([*words, "--fleet", self.fresh(), "--hub", HUB], self)
        assert found == code, self.err.getvalue()
        return self.out.getvalue()

    def shows(self, *words: str) -> Any:
        return json.loads(self.does(*words, "--json"))

    def fails(self, code: int, *words: str) -> dict[str, str]:
        self.does(*words, "--json", code=code)
        trouble: dict[str, str] = json.loads(self.err.getvalue())
        assert trouble["remedy"]
        return trouble


class GivenHub(SystemHubs):
    def __init__(self, box: Box) -> None:
        super().__init__(box)
        self.box = box

    def reader(self, target: str) -> Any:
        return self.box.wire if target == HUB else super().reader(target)

    def writer(self, target: str) -> Any:
        return self.box.wire


class GivenKey(SystemKeys):
    def __init__(self, box: Box) -> None:
        super().__init__(box)
        self.box = box

    def signer(self, key: str | None, known: Callable[[bytes], bool]) -> Signer:
        return self.box.by
