"""What commands print with --json has the keys, the order, the types and the fixed values it had."""

import io
import json
import os
from argparse import Namespace
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from shutil import rmtree
from typing import Any

import msgspec
from msgspec.structs import replace

from holdfast.adapters.journal.sqlite import SqliteJournal
from holdfast.adapters.sqlite.agent_file import AgentFile
from holdfast.cli import main
from holdfast.cli.agent import agent_join, agent_state
from holdfast.cli.hub import import_ledger
from holdfast.cli.terminal import Terminal
from holdfast.hub.ledger.restore import Restored
from holdfast.model.deployment import ServiceState, StepResult
from holdfast.model.invite import JoinToken, encode_token
from holdfast.model.journal import Operation, OrderUse
from holdfast.model.lab import LabNode, LabStatus
from holdfast.model.order import OrderResult
from holdfast.model.report import (
    CertificateState,
    ContainerState,
    Departure,
    NodeFinding,
    Parked,
    RetiredData,
)
from holdfast.model.revision import Head
from holdfast.wiring import cli as wiring
from tests.fleets.build import START_S, small_fleet, small_service
from tests.fleets.desks import Rig
from tests.fleets.directories import files
from tests.fleets.enrolments import OTHER_KEY, invite, signed_invite
from tests.fleets.public import HOST, public_service
from tests.fleets.tools import HUB, HUB_KEY
from tests.golden import masks, stored
from tests.specs.cli import test_order_verbs, test_token_verbs
from tests.specs.cli.test_public_result import Public, public_scene

Run = Callable[..., tuple[int, str, str]]


class Book:
    """Commands in the order they ran, with exit code and documents."""

    def __init__(self, run: Run, home: Path, mask: Callable[[Any], Any] = masks.volatile) -> None:
        self._run, self._home, self._mask = run, str(home), mask
        self.pages: dict[str, Any] = {}

    def note(self, *words: str, title: str = "") -> None:
        code, out, err = self._run(*words, "--json")
        name = title or " ".join(words)
        assert name not in self.pages, f"{name} twice"
        self.pages[name] = {"exit": code, "stdout": self._documents(out)}
        if code:
            self.pages[name]["stderr"] = self._documents(err)

    def _documents(self, text: str) -> list[Any]:
        lines = text.replace(self._home, "/home").splitlines()
        return [self._mask(_document(line)) for line in lines if line.strip()]


def _document(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return "<no JSON>"


# ---- a ledger in a directory, no hub


def test_with_a_ledger_in_a_directory(tmp_path: Path) -> None:
    home, fleet = tmp_path, tmp_path / "fleet"

    def run(*words: str) -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()
        terminal = Terminal(out, err, io.StringIO(), environ_no_colour=True)
        box = wiring.SystemToolbox(terminal, {"HOME": str(home), "HOLDFAST_STATE": str(home / "state")})
        try:
            return main.run([*words, "--fleet", str(fleet), "--yes"], box), out.getvalue(), err.getvalue()
        finally:
            box.close()  # else its ledger stays open until the next garbage collection

    book = Book(run, tmp_path)
    book.note("init", str(fleet), "--name", "home", "--operator", "alice", title="init")
    _declare(fleet)
    book.note("validate")
    book.note("plan", "--offline")
    book.note("plan", "--offline", "--explain", "service.web")
    saved = str(tmp_path / "change.plan")
    book.note("plan", "--offline", "-o", saved, title="plan -o")
    book.note("sign", saved, title="sign")
    book.note("apply", saved, title="apply FILE")
    book.note("sync", "--offline", title="sync, no change")
    _change(fleet)
    book.note("sync", "--dry-run", "--offline", title="sync --dry-run")
    book.note("deploy", "web", "--offline", title="deploy")
    book.note("history")
    book.note("history", "show", "2", title="history show")
    book.note("history", "show", "9", title="history show, none")
    book.note("rollback", "1", title="rollback")
    book.note("status")
    book.note("ps")
    book.note("retired")
    book.note("node", "list", title="node list")
    book.note("node", "show", "w1", title="node show")
    book.note("edge", "list", title="edge list")
    book.note("edge", "status", title="edge status")
    book.note("ca", "bundle", title="ca bundle")
    book.note("audit")
    book.note("order", "list", title="order list")
    order = str(tmp_path / "one.order")
    book.note("order", "sign", "--node", "w1", "--action", "ping", "-o", order, title="order sign")
    book.note("order", "submit", order, title="order submit, no hub")
    (tmp_path / "value").write_text("hunter2")
    book.note("secret", "set", "key", "--file", str(tmp_path / "value"), title="secret set")
    book.note("secret", "list", title="secret list")
    book.note("secret", "rotate", "key", "--file", str(tmp_path / "value"), title="secret rotate")
    book.note("undeploy", "web", title="undeploy")
    book.note("undeploy", "web", title="undeploy, none")
    book.note("hub", "check", "--state-dir", str(fleet / ".ledger"), title="hub check")
    book.note("hub", "init", "--trust", "ab" * 32, "--state-dir", str(tmp_path / "hub"), title="hub init")
    (fleet / "services" / "bad.toml").write_text('nope = 1\n[[components]]\nname = "x"\n')
    book.note("validate", title="validate, with mistakes")
    for words in (["nonsense"], ["exec"], ["node"], ["plan", "--nonsense"], ["restart", "web"]):
        book.note(*words, title=f"{' '.join(words)}, refused")
    stored.check("json/offline.json", stored.pretty(book.pages))


def _declare(fleet: Path) -> None:
    for old in (fleet / "services").iterdir():
        old.unlink()
    (fleet / "services" / "web.toml").write_text(_web(1))
    with (fleet / "fleet.toml").open("a") as file:
        file.write('\n[[nodes]]\nname = "w1"\nroles = ["worker"]\n')


def _web(replicas: int) -> str:
    image = f"registry.test/web@sha256:{'1' * 64}"
    return (
        f'node = "w1"\n[[components]]\nname = "web"\nimage = "{image}"\nreplicas = {replicas}\n'
        '[[components.routes]]\nname = "http"\nport = 8080\n'
    )


def _change(fleet: Path) -> None:
    (fleet / "services" / "web.toml").write_text(_web(2))


# ---- an agent's directory


def test_of_an_agent(tmp_path: Path) -> None:
    state = tmp_path / "agent"

    def run(*words: str) -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()
        box = wiring.SystemToolbox(Terminal(out, err, io.StringIO(), environ_no_colour=True), {"HOME": str(tmp_path)})
        return main.run([*words, "--state-dir", str(state)], box), out.getvalue(), err.getvalue()

    book = Book(run, tmp_path)
    book.note("agent", "check", title="agent check, never joined")
    token = JoinToken(signed_invite(invite()), b"\x01" * 32, "https://127.0.0.1:1", OTHER_KEY.line, Head(3, "a" * 64))
    book.note("agent", "join", encode_token(token), title="agent join, another one-time key")
    book.note("agent", "join", "hfj_nonsense", title="agent join, no token")
    fitting = replace(token, once=sha256(b"once").digest())
    book.note("agent", "join", encode_token(fitting), title="agent join, no hub")
    before = sorted(os.listdir(state))
    journal = SqliteJournal(AgentFile(str(state / "agent.db")))
    use = OrderUse("a" * 32, 1, "b" * 32, int(START_S) + 900)
    journal.begin(Operation("one", "restart", "web", START_S, {"signed": "x"}, "a" * 32, 1), use)
    journal.step("one", "stopped", START_S, "a note")
    journal.finish("one", "done", OrderResult("a" * 32, 1, "done", "", "a message", "", START_S))
    journal.begin(Operation("two", "deploy", "web", START_S))
    journal.close()
    book.note("agent", "journal", title="agent journal")
    book.note("agent", "check", title="agent check")
    book.pages["files after join"] = before
    stored.check("json/agent.json", stored.pretty(book.pages))


# ---- a hub over memory, with nodes that say what they are told to say


def test_with_a_hub(tmp_path: Path) -> None:
    async def story(one: Public) -> None:
        def run(*words: str) -> tuple[int, str, str]:
            for stream in (one.operator.out, one.operator.err):
                stream.seek(0)
                stream.truncate()
            code = _run_in(one, words)
            return code, one.operator.out.getvalue(), one.operator.err.getvalue()

        book = Book(run, tmp_path)
        one.then(lambda: one.everybody())
        book.note("plan", title="plan, nothing to do")
        one.operator.fleet = replace(
            one.operator.fleet, services={**one.operator.fleet.services, "web": public_service(node="w1")}
        )
        book.note("deploy", "web", "--detach", title="deploy --detach")
        _speak(one)
        for words in (
            ["node", "list"],
            ["node", "show", "w1"],
            ["node", "show", "e1"],
            ["node", "show", "w9"],
            ["ps"],
            ["ps", "web"],
            ["status"],
            ["edge", "list"],
            ["edge", "status"],
            ["edge", "status", HOST],
            ["history"],
            ["history", "show", "2"],
            ["retired"],
            ["audit"],
            ["audit", "--verify"],
            ["ca", "bundle"],
        ):
            book.note(*words)
        one.operator.fleet = replace(
            one.operator.fleet, services={**one.operator.fleet.services, "web": public_service(2, node="w1")}
        )
        one.then(lambda: one.everybody())
        book.note("deploy", "web", title="deploy and wait")
        one.then(lambda: one.everybody(one.state("failed", step="start web 0", code="unhealthy", message="ill")))
        one.operator.fleet = replace(
            one.operator.fleet, services={**one.operator.fleet.services, "web": public_service(3, node="w1")}
        )
        book.note("deploy", "web", title="deploy that fails")
        one.then(lambda: one.everybody())
        book.note("rollback", "3", title="rollback and wait")
        book.note("node", "invite", "w1", "--replace", title="node invite --replace")
        book.note("node", "drain", "w2", "--detach", title="node drain")
        book.note("undeploy", "web", "--detach", title="undeploy --detach")
        book.note("node", "revoke", "w2", title="node revoke")
        book.note("node", "list", title="node list, one revoked")
        stored.check("json/hub.json", stored.pretty(book.pages))

    public_scene(tmp_path, story)


def _run_in(one: Public, words: tuple[str, ...]) -> int:
    """In the operator's fleet directory, as declared at this moment."""
    operator, directory = one.operator, one.operator.home / "fleet"
    rmtree(directory / "services", ignore_errors=True)
    for path, text in files(operator.fleet).items():
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_bytes(text)
    return main.run([*words, "--fleet", str(directory), "--hub", HUB, "--yes"], operator)


def _speak(one: Public) -> None:
    """A worker and an edge that have something of everything to say."""
    steps = (StepResult("pull web:1", "done", START_S, 0.2), StepResult("start web 0", "failed", START_S, 0.1, "ill"))
    containers = (
        ContainerState("web", "web", "running", "web:1", 1, "c1", 0, "d" * 16, 77, START_S, ("100.64.0.11:2→8080",)),
        ContainerState("ghost", "", "stopped", orphan=True),
    )
    certificate = CertificateState((HOST,), "d" * 64, "0a1b", "acme", START_S, START_S + 8_640_000.0, 2, START_S)
    one.worker(
        one.state("converged", steps=steps),
        ServiceState("blog", "failed", "0" * 16, step="start", code="unhealthy", message="ill", remedy="mend"),
        containers=containers,
        retired=(RetiredData("old", "/srv/old", 3 * 1024**2, 17, 1),),
        left=(Departure("gone", steps[:1]),),
        parked=(Parked("service.web", "a reason", "a remedy", START_S),),
        findings=(NodeFinding("disk_full", "a message", "a remedy", START_S, "node.w1"),),
        health="degraded",
        address="100.64.0.11",
        arch="x86_64",
        certificates=(certificate,),
    )
    one.edge(one.edge_state(certificate=certificate, address="100.64.0.11", port=443, steps=steps[:1]))


# ---- orders and tokens


def _by_counter(document: Any) -> Any:
    """Orders of one moment are listed by their ids, which are random."""
    if isinstance(document, dict) and all("counter" in one for one in document.get("orders", ())):
        document = {key: sorted(v, key=_counter) if key == "orders" else v for key, v in document.items()}
    return masks.volatile(document)


def _counter(order: dict[str, Any]) -> int:
    return int(order["counter"])


def test_orders(tmp_path: Path) -> None:
    def story(rig: Rig, box: Any, w1: Any, w2: Any) -> None:
        def run(*words: str) -> tuple[int, str, str]:
            for stream in (box.out, box.err):
                stream.seek(0)
                stream.truncate()
            fleet = box.home / "fleet"
            fleet.mkdir(exist_ok=True)
            hub_key = HUB_KEY
            (fleet / "fleet.toml").write_text(f'[fleet]\nname = "small"\nhub_key = "{hub_key}"\n')
            code = main.run([*words, "--fleet", str(fleet), "--hub", HUB], box)
            return code, box.out.getvalue(), box.err.getvalue()

        book = Book(run, tmp_path, _by_counter)
        for verb in test_order_verbs.SERVICE_VERBS:
            book.note(verb, "web")
        book.note("restart", "web", "--detach")
        w1.outcome, w1.code, w1.message, w1.remedy = "failed", "runtime_away", "a message", "a remedy"
        book.note("restart", "web", title="restart that fails")
        w1.outcome, w1.code, w1.message, w1.remedy = "done", "", "", ""
        w1.away = True
        book.note("stop", "web", "--timeout", "40s", title="stop of a silent node")
        w1.away = False
        test_order_verbs.retired(w1)
        book.note("retired")
        book.note("purge", "old", title="purge without a node")
        book.note("purge", "old", "-n", "w1", "--yes", title="purge")
        book.note("order", "list", title="order list")
        file = str(tmp_path / "one.order")
        book.note("order", "sign", "--node", "w1", "--action", "ping", "-o", file, title="order sign")
        book.note("order", "submit", file, title="order submit")
        book.note("order", "sign", "--node", "w1", "--action", "nonsense", title="order sign, unknown action")
        box.by = test_order_verbs.BOB_SIGNER
        book.note("purge", "old", "-n", "w1", "--yes", title="purge with too low a grade")
        rig.commit(small_fleet({"new": small_service("new")}, ("w1", "w2")))
        book.note("restart", "web", title="restart of what is gone")
        stored.check("json/orders.json", stored.pretty(book.pages))

    test_order_verbs.scene(tmp_path, story)


def test_tokens() -> None:
    box = test_token_verbs.Box()

    def run(*words: str) -> tuple[int, str, str]:
        ran = test_token_verbs.Ran(box, *words)
        return ran.code, ran.out, ran.err

    book = Book(run, Path("/nowhere"), lambda document: document)
    book.note("token", "create", "--name", "ci", "--expires", "12h", title="token create")
    book.note("token", "list", title="token list")
    name = book.pages["token list"]["stdout"][0]["tokens"][0]["id"]
    book.note("token", "revoke", name, title="token revoke")
    book.pages = masks.texts(book.pages)
    stored.check("json/tokens.json", stored.pretty(book.pages))


# ---- documents whose stories need a lost ledger, a hub that admits a machine, or a real lab


def test_last_steps(tmp_path: Path) -> None:
    out = io.StringIO()
    box = wiring.SystemToolbox(Terminal(out, io.StringIO(), io.StringIO(), environ_no_colour=True), {})
    restored = Restored(Head(4, "a" * 64), 2, 9, ("alert.chat",))
    assert import_ledger._say(restored, "/state", Namespace(json=True), box) == 0
    state = str(tmp_path / "agent")
    token = JoinToken(
        signed_invite(invite()), sha256(b"once").digest(), "https://hub.x", OTHER_KEY.line, Head(3, "a" * 64)
    )
    member, _ = agent_join.prepare(token, state, "", None, box)
    agent_state.write(state, replace(member, joined=True), box)
    assert main.run(["agent", "join", encode_token(token), "--state-dir", state, "--json"], box) == 0
    lab = LabStatus("100.64.0.1:5000", (LabNode("w1", ("worker",), "100.64.0.2", {"agent": 7}, {"data": "/srv"}),))
    imported, joined = (json.loads(line) for line in out.getvalue().splitlines())
    pages = {"import ledger": imported, "agent join": masks.volatile(joined), "lab status": msgspec.to_builtins(lab)}
    stored.check("json/last_steps.json", stored.pretty(pages))
