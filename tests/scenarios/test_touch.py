"""A fleet with `destroy_requires = "touch"`: command line, hub and agent each refuse a key that needs no touch (A7)."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli import main
from holdfast.errors import Corrupt, HoldfastError, SignatureRequired
from holdfast.model import canonical, ssh_key
from holdfast.model.fleet import Thresholds
from holdfast.wiring.hubs import SystemHubs
from tests.fleets.agents import Lone, PaperHub, turn
from tests.fleets.authenticator import Authenticator
from tests.fleets.build import ALICE, ALICE_SIGNER, commit, mailbox, small_fleet, small_service
from tests.fleets.tools import Box
from tests.fleets.virtual import VirtualLoop, run
from tests.scenarios import test_agent_orders as ordering
from tests.scenarios.test_agent_accepts import chain, node_of, with_volume

DEE = Authenticator("dee")
UNTOUCHED = Authenticator("dee", flags=0)
OPERATORS = (ALICE, DEE.operator("root"))
TOUCH = Thresholds(destroy_requires="touch")


def fleet(thresholds: Thresholds = TOUCH, **services: Any) -> Any:
    return small_fleet(services or {"web": 1}, ("w1",), OPERATORS, thresholds)


# ---- hub


def test_the_hub_takes_a_revision_that_destroys_by_a_touch_only() -> None:
    hub = mailbox()
    commit(hub, fleet(), DEE)
    commit(hub, fleet(web=2), ALICE_SIGNER)  # grade apply
    bigger = small_fleet({"web": 2}, ("w1", "w2"), OPERATORS, TOUCH)
    for signer, error in ((ALICE_SIGNER, SignatureRequired), (UNTOUCHED, Corrupt)):
        with pytest.raises(error):
            commit(hub, bigger, signer)
    assert commit(hub, bigger, DEE).number == 3


def test_the_hub_lets_only_a_touch_found_such_a_fleet_or_take_the_touch_back() -> None:
    with pytest.raises(SignatureRequired):
        commit(mailbox(), fleet(), ALICE_SIGNER)
    hub = mailbox()
    commit(hub, fleet(), DEE)
    with pytest.raises(SignatureRequired):
        commit(hub, fleet(Thresholds()), ALICE_SIGNER)
    assert commit(hub, fleet(Thresholds()), DEE).number == 2


def test_no_signature_brings_a_touch_that_no_operator_can_give() -> None:
    """The hub and every command line judge the trust again (`planning/kinds/trust.py`)."""
    hub = mailbox()
    commit(hub, small_fleet(operators=(ALICE,)))
    with pytest.raises(HoldfastError, match="only 0 operators could sign for grade destroy with a security key"):
        commit(hub, small_fleet(operators=(ALICE,), thresholds=TOUCH))


# ---- agent


def test_an_agent_parks_what_a_key_without_touch_signed() -> None:
    async def scene(loop: VirtualLoop) -> None:
        one = fleet(web=small_service("web"), db=with_volume(1, "data"))
        dropped = fleet(web=small_service("web", 2), db=with_volume(1))
        candidates = chain((one, DEE), (dropped, ALICE_SIGNER))
        hub = PaperHub(candidates[0])
        agent = await Lone(loop, hub, node_of("db", candidates)).turned()
        hub.candidates.append(candidates[1])
        await turn(agent)
        assert [parked.address for parked in agent.accepting.parked] == ["service.db"]
        assert "security keys" in agent.accepting.parked[0].reason

        touched = chain((one, DEE), (dropped, DEE))
        hub = PaperHub(*touched)
        agent = await Lone(loop, hub, node_of("db", touched)).turned()
        assert agent.accepting.seen == hub.head and agent.accepting.parked == ()

    run(scene)


def test_an_agent_destroys_data_by_a_touched_order_only(monkeypatch: pytest.MonkeyPatch) -> None:
    founded = chain((fleet(), DEE))
    trust = json.loads(founded[0].header)["trust"]
    monkeypatch.setattr(ordering, "CANDIDATES", founded)
    monkeypatch.setattr(ordering, "FLEET", canonical.digest(founded[0].blobs[trust]))

    async def scene(s: ordering.Scene) -> None:
        agent = await s.ready()
        for counter, (signer, code) in enumerate(
            ((ALICE_SIGNER, "signature_required"), (UNTOUCHED, "signature_invalid")), 1
        ):
            await ordering.deliver(agent, s, refused := ordering.order(counter=counter, signer=signer))
            assert [(r.outcome, r.code) for r in s.results(ordering.id_of(refused))][:1] == [("refused", code)]
        assert "old" in s.data
        await ordering.deliver(agent, s, touched := ordering.order(counter=3, signer=DEE))
        assert [r.outcome for r in s.results(ordering.id_of(touched))][:1] == ["done"]
        assert "old" not in s.data

    ordering.play(scene)


# ---- command line

FLEET_TOML = """\
[fleet]
name = "home"
[[nodes]]
name = "w1"
roles = ["worker"]
[[operators]]
name = "alice"
grade = "root"
key = "{alice}"
[[operators]]
name = "dee"
grade = "root"
key = "{dee}"
[trust]
"""
W2 = '[[nodes]]\nname = "w2"\nroles = ["worker"]\n'


class Desk(Box):
    """A fleet directory with a ledger beside it."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.hubs = SystemHubs(self)
        self.dir = home / "home"
        self.dir.mkdir()
        lines = {"alice": ssh_key.line(ALICE_SIGNER.public_key), "dee": ssh_key.line(DEE.public_key)}
        self.file = self.dir / "fleet.toml"
        self.file.write_text(FLEET_TOML.format_map(lines))

    def runs(self, by: Any, *words: str, code: int = 0) -> dict[str, str]:
        self.by = by
        for stream in (self.out, self.err):
            stream.seek(0)
            stream.truncate()
        flags = ("--fleet", str(self.dir), "--hub", str(self.home / "ledger"), "--yes", "--json")
        assert main.run([*words, *flags], self) == code, self.err.getvalue()
        return json.loads(self.err.getvalue()) if code else {}


def test_the_command_line_says_who_can_touch_before_it_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    desk = Desk(tmp_path)
    desk.runs(ALICE_SIGNER, "apply")
    desk.file.write_text(desk.file.read_text() + 'destroy_requires = "touch"\n')
    refused = desk.runs(ALICE_SIGNER, "apply", code=4)
    assert "needs a security key as well, of one of: dee; yours needs no touch" in refused["message"]
    signers = iter((None, ALICE_SIGNER, DEE, None))  # of plan, sign, sign, apply
    for command in refused["remedy"].split(" && "):
        desk.runs(next(signers), *shlex.split(command.partition(" --")[0])[1:])

    desk.file.write_text(desk.file.read_text() + W2)
    refused = desk.runs(ALICE_SIGNER, "apply", code=4)
    assert "the key of alice needs no touch" in refused["message"]
    assert refused["message"].endswith("operators who can sign: dee")
    assert desk.runs(UNTOUCHED, "apply", code=7)["code"] == "signature_invalid"
    desk.runs(DEE, "apply")
    services = desk.dir / "services"
    services.mkdir()
    pinned = small_service("web").components[0].image
    (services / "web.toml").write_text(f'[[components]]\nname = "web"\nimage = "{pinned}"\n')
    desk.runs(ALICE_SIGNER, "apply")  # grade apply


def test_the_key_of_trust_needs_an_operator_who_can_touch(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    text = desk.file.read_text().replace(ssh_key.line(DEE.public_key), ssh_key.line(Authenticator("x").public_key))
    desk.file.write_text(text.replace('"root"\nkey = "sk', '"apply"\nkey = "sk') + 'destroy_requires = "touch"\n')
    refused = desk.runs(ALICE_SIGNER, "plan", code=2)
    assert "leaves 0 operators who can sign for grade destroy" in refused["message"]
    assert "ssh-keygen -t ed25519-sk" in refused["message"]
