"""One door: whatever mounts, starts, stops, removes or runs takes a decision of the gate; every act has its place."""

import ast
import re
from pathlib import Path

import pytest

from holdfast.gate.acts import ACT_OF, Act
from holdfast.gate.callers import ASKED, JUDGED, NOT_BUILT
from holdfast.model.order import ACTIONS
from holdfast.ports import runtime, storage

SRC = Path(__file__).parents[2] / "src" / "holdfast"
# Only the gate makes these. A verified order is none of them: it says what is wanted, not that it may be done.
PROOFS = {
    "Allowed",
    "Discardable",
    "Placeable",
    "Receivable",
    "Restorable",
    "Purgeable",
    "Disposable",
    "Returnable",
    "Prunable",
    "Drillable",
    "Clearable",
}
STREAMS = {"logs", "exec"}  # orders that open a stream: the gate is asked for them too

# What a port can do to the world without a decision, and why nothing is mounted, started, stopped, removed, written
# over or deleted by it.
FREE = {
    "runtime": {
        "version": "reads",
        "containers": "reads",
        "container": "reads",
        "users": "reads",
        "is_alive": "reads",
        "has_image": "reads",
        "image_volumes": "reads",
        "pull": "adds an image, which no container uses yet",
        "ensure_network": "adds a network, or leaves the one that is there",
        "closed_network": "adds a network, or leaves the one that is there",
        "logs": "reads",
        "changed": "waits",
        "close": "ends this client",
    },
    "storage": {
        "directories": "reads",
        "directory": "reads",
        "create": "adds an empty directory, or leaves the one that is there",
        "content": "reads",
        "passport": "reads",
        "keep_passport": "writes what the agent knows about a volume; no data",
        "remove_empty": "the kernel refuses a directory that is not empty",
        "need": "reads",
        "copy_ahead": "adds a copy, which is no checkpoint yet",
        "drop_ahead": "deletes the storage's own half copy, which never was a checkpoint",
        "checkpoint": "adds a copy",
        "checkpoints": "reads",
        "aside": "answers a name",
        "set_aside_by": "reads",
        "asides": "reads",
    },
    "scratch": {
        "path": "answers a name",
        "room_bytes": "reads",
        "found": "reads",
    },
    "backup_target": {
        "put": "adds an object, or leaves the one that is there",
        "get": "reads",
        "has": "reads",
        "list": "reads",
        "look": "reads",
        "close": "ends this client",
    },
    "prober": {
        "probe": "runs a command only with the permission that it hands to the runtime; otherwise it connects",
    },
    "secret_files": {
        "put": "writes opened secrets into memory; the sealed ones are in the accepted revision",
        "forget": "the same files again: nothing is lost with them",
        "containers": "reads",
    },
    "certificate_store": {
        "names": "reads",
        "kept": "reads",
        "keep": "a certificate of this node, which can be issued again",
        "drop": "a certificate of this node, which can be issued again",
    },
    "proxy": {
        "follow": "starts and stops this agent's own proxy; which routes it has is judged with the revision (ROUTE)",
        "version": "reads",
        "known": "reads",
        "routes": "reads",
        "apply": "routes of the accepted revision, judged with it (ROUTE)",
        "drained": "waits",
        "changed": "waits",
    },
    "name_server": {
        "follow": "starts and stops this agent's own DNS server",
        "version": "reads",
        "names": "reads",
        "apply": "records of the accepted revision",
        "addresses": "reads",
    },
    "journal": {
        "set_aside": "a fact of the agent's own memory, which no container and no data is",
        "fact": "reads",
        "facts": "reads",
        "drop_fact": "a fact of the agent's own memory",
        "made_by": "reads",
        "note_made": "a note of the agent's own memory; the gate believes it, so the rooms that may write it are below",
        "is_scratch": "reads",
        "forget_made": "takes a right away, never gives one",
        "use": "notes an order",
        "used_counter": "reads",
        "highest_counter": "reads",
        "result_of": "reads",
        "unsent": "reads",
        "taken": "notes that a result arrived",
        "begin": "notes",
        "step": "notes",
        "steps": "notes",
        "finish": "notes",
        "unfinished": "reads",
        "entries": "reads",
        "check": "reads",
        "close": "ends this client",
    },
    "archive": {
        "pack": "reads data; writes objects that are new, and the archiver's own memory",
        "recall": "the archiver's own memory",
        "unpack": "fills a directory that is empty; storage puts it in its place, with a proof",
        "update": "changes a directory that `unpack` filled and no service has; storage places it, with a proof",
        "forget": "the archiver's own memory",
        "verify": "reads",
        "compare": "reads",
        "export": "writes a file that does not exist yet",
    },
    "acceptance": {
        "newest": "reads",
        "links": "reads",
        "accept": "keeps a revision that was judged (agent/acceptance/)",
        "blob": "reads",
        "missing": "reads",
        "close": "ends this client",
    },
}

# Ports with no verb that mounts, starts, stops, removes, overwrites or deletes something on a node.
ELSEWHERE = {
    "own_files": "copies files of the agent itself into a directory of its own, and deletes these copies",
    "target_care": "writes the marker of a bucket, or frees space of what was deleted with a proof",
    "agent_link": "calls another program",
    "archive_keys": "computes",
    "audit_log": "appends",
    "backup_objects": "the store of a hub: the agent does not have it",
    "calendar": "computes",
    "certificates": "issues for this node, from its own key",
    "clock": "reads and waits",
    "conversation": "bytes of a connection that a runtime has made, with the permission of the gate",
    "disk": "files of an operator's machine and of the hub: the agent does not have it",
    "fleet_directory": "reads",
    "fleet_link": "calls the hub",
    "handshake": "reads",
    "high_water": "one number, which only grows",
    "http_server": "connections",
    "hub_copy": "copies the file of the hub into a directory of its own, and deletes this copy",
    "hub_file_maker": "a file in the state directory of a hub: the agent does not have it",
    "hub_files": "the state directory of a hub: the agent does not have it",
    "hub_link": "calls the hub",
    "identity_key": "signs",
    "lab": "the throw-away nodes of a lab: the agent does not have it",
    "ledger_store": "the ledger of a hub: the agent does not have it",
    "machine": "reads",
    "move_lines": "a directory of the agent's own: copies of what another node has; and calls that node",
    "need_files": "values of needs in a memory-backed directory of the agent itself, and deletes these files",
    "need_handler": "logins to what a provider gives: no verb deletes a resource or its data",
    "nonces": "appends",
    "notifier": "sends a message",
    "public_authority": "orders a certificate",
    "random_source": "reads",
    "registry": "reads",
    "sealing": "computes",
    "sessions": "the session key of an operator: the agent does not have it",
    "signer": "signs",
    "stream_link": "connections",
}
NOT_OF_THE_AGENT = ("backup_objects", "disk", "lab", "ledger_store", "sessions")

# Where the agent writes down that it made something: the gate believes these notes.
NOTES_MADE = {
    "agent/services/data/asides.py": "what a purge set aside, by its order",
    "agent/services/data/checkpoints.py": "what a restore replaced",
    "agent/services/rollout/inventory.py": "after a lost journal, a container that is what the accepted revision wants",
    "agent/services/rollout/operations.py": "the containers of a rollout before they are created",
    "agent/drills/remains.py": "the containers and the directory of a drill before they are made, marked as scratch",
    "agent/schedules/attempts.py": "the container of a run before it is created",
    "agent/backups/restores/initialising.py": "the container that loads a dump before it is created",
    "agent/services/rollout/steps/data.py": "a checkpoint",
}
ADAPTERS = {
    "Podman": "adapters/runtime/podman/runtime.py",
    "MemoryRuntime": "adapters/runtime/memory.py",
    "DirectoryScratch": "adapters/storage/scratch.py",
    "MemoryScratch": "adapters/storage/memory_scratch.py",
    "DirectoryStorage": "adapters/storage/directory.py",
    "MemoryStorage": "adapters/storage/memory.py",
}
TARGETS = {
    "MemoryTarget": "adapters/backup_target/memory.py",
    "LocalDir": "adapters/backup_target/local_dir.py",
    "S3Target": "adapters/backup_target/s3.py",
    "HubTarget": "adapters/backup_target/hub.py",
    "ResticTarget": "adapters/backup_target/restic.py",
    "UsbDisk": "adapters/backup_target/usb.py",
    "Line": "adapters/move_lines/line.py",
    "Spool": "adapters/move_lines/spool.py",
    "MemoryLine": "adapters/move_lines/memory.py",
}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def methods(path: str, name: str) -> dict[str, Function]:
    tree = ast.parse((SRC / path).read_text())
    (found,) = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == name]
    return {one.name: one for one in found.body if isinstance(one, Function) and not one.name.startswith("_")}


def port_of(adapter: str) -> str:
    return next(port for port in ("runtime", "scratch", "storage") if port in ADAPTERS[adapter])


def verbs(path: str) -> dict[str, Function]:
    """Of all Protocols of a port."""
    classes = [node for node in ast.walk(ast.parse((SRC / path).read_text())) if isinstance(node, ast.ClassDef)]
    ports = [one for one in classes if any(isinstance(base, ast.Name) and base.id == "Protocol" for base in one.bases)]
    return {one.name: one for port in ports for one in port.body if isinstance(one, Function)}


def proofs(function: Function) -> set[str]:
    given = [*function.args.args, *function.args.kwonlyargs]
    return {one.annotation.id for one in given if isinstance(one.annotation, ast.Name)} & PROOFS


@pytest.mark.parametrize("port", FREE)
def test_a_verb_that_touches_containers_or_data_takes_a_decision_x01_x02(port: str) -> None:
    found = verbs(f"ports/{port}.py")
    assert found
    assert [verb for verb, one in found.items() if not proofs(one) and verb not in FREE[port]] == []
    assert [verb for verb in FREE[port] if verb not in found or proofs(found[verb])] == [], "it is not free"


def test_every_port_is_looked_at() -> None:
    ports = {path.stem for path in (SRC / "ports").glob("*.py") if verbs(f"ports/{path.name}")}
    assert ports == FREE.keys() | ELSEWHERE.keys() and not FREE.keys() & ELSEWHERE.keys()
    agent = "\n".join(path.read_text() for path in sorted((SRC / "agent").rglob("*.py")))
    assert [port for port in NOT_OF_THE_AGENT if f"holdfast.ports.{port} " in agent] == []


def test_only_what_makes_something_writes_down_that_it_was_made() -> None:
    sources = {str(path.relative_to(SRC)): path.read_text() for path in (SRC / "agent").rglob("*.py")}
    noting = {name for name, text in sources.items() if ".note_made(" in text or "begin(operation, None, [MADE" in text}
    assert noting == NOTES_MADE.keys()


@pytest.mark.parametrize("name", [name for name in ADAPTERS if not name.startswith("Memory")])
def test_an_adapter_has_no_verb_beside_its_port(name: str) -> None:
    port = port_of(name)
    assert methods(ADAPTERS[name], name).keys() - verbs(f"ports/{port}.py").keys() == set()


@pytest.mark.parametrize("name", ADAPTERS)
def test_an_adapter_takes_the_proofs_of_its_port(name: str) -> None:
    """Python does not compare them; a verb that takes more names than its port would be a way around the proof."""
    port = verbs(f"ports/{port_of(name)}.py")
    found = methods(ADAPTERS[name], name)
    assert {verb: proofs(found[verb]) for verb in port} == {verb: proofs(one) for verb, one in port.items()}
    taken = {verb: [one.arg for one in found[verb].args.args] for verb in port}
    assert taken == {verb: [one.arg for one in port[verb].args.args] for verb in port}


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_deletes_nothing_without_the_proof_about_this_object(name: str) -> None:
    """Besides its port it has at most `attach` and `adopt`, which add a marker, and `tidy`, which frees space."""
    port, found = verbs("ports/backup_target.py"), methods(TARGETS[name], name)
    assert found.keys() - port.keys() <= {"attach", "adopt", "tidy"}
    assert {verb: proofs(found[verb]) for verb in port} == {verb: proofs(one) for verb, one in port.items()}
    first = found["delete"].body[0]
    assert isinstance(first, ast.If) and ast.unparse(first.test) == "proof.key != key"


def checks_first(function: Function) -> bool:
    body = [one for one in function.body if not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))]
    first = body[0]
    return (
        isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Call)
        and isinstance(first.value.func, ast.Name)
        and first.value.func.id == "check"
        and isinstance(first.value.args[0], ast.Name)
        and first.value.args[0].id == "allowed"
    )


@pytest.mark.parametrize("name", [name for name in ADAPTERS if "Scratch" not in name])
def test_an_adapter_checks_first_that_the_decision_fits(name: str) -> None:
    """A permission to start does not remove, and one for this container does not stop another. The proofs of scratch
    name the one directory that they are for."""
    taking = {verb: one for verb, one in methods(ADAPTERS[name], name).items() if "Allowed" in proofs(one)}
    assert len(taking) >= 3
    assert [verb for verb, function in taking.items() if not checks_first(function)] == []


def test_the_rule_about_checks_bites() -> None:
    weak = ast.parse("def start(self, id, allowed: Allowed):\n    self.begin(id)\n    check(allowed, STARTS, id)\n")
    assert not checks_first(weak.body[0])  # type: ignore[arg-type]


def test_the_acts_that_permit_a_verb_are_acts_of_the_gate() -> None:
    tables = [getattr(port, name) for port in (runtime, storage) for name in vars(port) if name.isupper()]
    named = {act for table in tables if isinstance(table, frozenset) for act in table}
    assert {"CREATE", "RETIRE", "MOUNT"} <= named <= {act.name for act in Act}


# ---- every act has a caller or a mark


def acts_named(path: str) -> set[Act]:
    tree = ast.parse((SRC / path).read_text())
    return {
        Act[node.attr]
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Act"
        if node.attr in Act.__members__
    }


def texts(path: str) -> str:
    tree = ast.parse((SRC / path).read_text())
    found = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return "\n".join(found)


def test_every_act_is_asked_judged_or_not_built() -> None:
    """Of the acts that the hostile trial met, 23 of 41 had no caller."""
    assert [act for act in Act if sum(act in table for table in (ASKED, JUDGED, NOT_BUILT)) != 1] == []


ORDERED = {ACT_OF[name] for name, rule in ACTIONS.items() if rule.built or name in STREAMS}


@pytest.mark.parametrize("act", ASKED, ids=lambda act: act.name)
def test_an_act_that_is_asked_has_its_caller(act: Act) -> None:
    module = ASKED[act]
    if module == "agent/orders/order_gate.py":
        assert act in ORDERED and "ACT_OF[" in (SRC / module).read_text()
    else:
        assert act in acts_named(module)


@pytest.mark.parametrize("act", JUDGED, ids=lambda act: act.name)
def test_an_act_that_is_judged_with_the_revision_has_its_demand(act: Act) -> None:
    assert JUDGED[act].words in texts(JUDGED[act].module)


def test_an_act_that_is_not_built_is_asked_by_nothing() -> None:
    asking = {
        act: str(path.relative_to(SRC))
        for path in sorted(SRC.rglob("*.py"))
        if path.parent.name != "gate" or path.name in ("copies.py", "mounts.py", "containers.py")
        for act in acts_named(str(path.relative_to(SRC)))
    }
    assert {act.name: module for act, module in asking.items() if act in NOT_BUILT} == {}
    assert {act.name for act in ORDERED & NOT_BUILT.keys()} == set()


# ---- the page about security


def protected() -> list[str]:
    page = (SRC.parents[1] / "docs" / "security.md").read_text()
    part = page.partition("## What is protected")[2].partition("\n## ")[0]
    return part.split("\n- ")[1:]


def test_each_line_about_what_is_protected_names_a_test_that_exists() -> None:
    lines = protected()
    assert len(lines) > 25
    tests = SRC.parents[1] / "tests"
    functions = "\n".join(path.read_text() for path in sorted(tests.rglob("test_*.py")))
    for line in lines:
        files = re.findall(r"`(tests/[\w/]+\.py)`", line)
        named = re.findall(r"`(test_\w+)`", line)
        assert files or named, f"no test is named: {line[:80]}"
        assert [name for name in files if not (SRC.parents[1] / name).exists()] == []
        assert [name for name in named if f"def {name}(" not in functions] == []


def test_each_line_about_an_act_names_a_test_that_exists() -> None:
    page = (SRC.parents[1] / "docs" / "reference" / "gate.md").read_text()
    rows = [line for line in page.partition("## Where each act")[2].splitlines() if line.startswith("| ")][1:]
    assert len(rows) == len(Act)
    for row in rows:
        (named,) = re.findall(r"`(tests/[\w/]+\.py)` \|$", row)
        assert (SRC.parents[1] / named).exists(), row
