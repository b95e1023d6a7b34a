"""What hub and agent store has the names and forms it had: facts, operations, ledger records, SQLite tables."""

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import apsw
import msgspec

from holdfast.adapters.clock.virtual import VirtualClock
from holdfast.adapters.ledger_store.sqlite import schema as sqlite_schema
from holdfast.adapters.nonces.sqlite import SqliteNonces
from holdfast.adapters.sqlite.agent_file import AgentFile
from holdfast.ledger import keys
from tests.golden import masks, stored
from tests.golden.live import story
from tests.golden.sources import trees

FACT_CALLS = {"set_aside", "fact", "facts", "drop_fact"}
KEPT_SEGMENTS = {"pin", "rebuilt", "link", "manifest", "public"}


def value(content: bytes) -> Any:
    """JSON, or what kind of bytes it is."""
    try:
        return msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return "digits" if content.isdigit() else "text" if content.isascii() else "bytes"


# ---- the journal of an agent


def fact_pattern(name: str) -> str:
    first, slash, _ = name.split(" ")[-1].partition("/")
    return f"{first}/<name>" if slash else first


def test_facts_of_a_journal_and_the_form_of_their_values() -> None:
    found = {name: value(content) for name, content in story().facts.items()}
    stored.check("stored/facts.json", stored.pretty(masks.keyed(found, fact_pattern)))


def named_facts(tree: ast.Module) -> set[str]:
    """First arguments of calls that read or write a fact: a word, a constant of the module, or a text with gaps."""
    constants: dict[str, ast.expr] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            constants.setdefault(node.targets[0].id, node.value)
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            about = ast.unparse(node.func.value)
            if node.func.attr in FACT_CALLS and "journal" in about:
                found.add(_text(node.args[0], constants))
    return {text for text in found if text}


def _text(node: ast.expr, constants: dict[str, ast.expr]) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.Name(id=name) if name in constants:
            return _text(constants[name], constants)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _text(left, constants) + (_text(right, constants) or "<name>")
        case ast.JoinedStr(values=parts):
            return "".join(_text(part, constants) or "<name>" for part in parts)
    return ""


def test_names_of_facts_in_the_source() -> None:
    """Also those that the story above does not bring about. Names of modules play no part."""
    found = {name for tree in trees() for name in named_facts(tree)}
    stored.check("stored/fact_names.json", stored.pretty(sorted(found)))


def test_operations_of_a_journal() -> None:
    entries = [msgspec.json.decode(msgspec.json.encode(entry)) for entry in story().operations]
    by_kind: dict[str, list[Any]] = {}
    for entry in entries:
        by_kind.setdefault(entry["operation"]["kind"], []).append(entry)
    found = {kind: masks.shape(many) for kind, many in sorted(by_kind.items())}
    stored.check("stored/operations.json", stored.pretty(found))


# ---- the ledger


def key_pattern(key: str) -> str:
    whole = re.sub(r"SHA256:[A-Za-z0-9+/]{43}", "<fingerprint>", key)
    return "/".join(_segment(at, segment) for at, segment in enumerate(whole.split("/")))


def _segment(at: int, segment: str) -> str:
    if at == 0 or segment in KEPT_SEGMENTS or segment.startswith("<"):
        return segment
    if segment.isdigit():
        return f"<{len(segment)} digits>"
    if re.fullmatch(r"[0-9a-f]{16}|[0-9a-f]{32}|[0-9a-f]{64}", segment):
        return f"<{len(segment)} hex>"
    return "<name>"


def test_records_of_the_ledger_and_the_form_of_their_values() -> None:
    found = {key: value(content) for key, content in story().ledger.items()}
    # A thread delivers alerts: on a busy machine one may be seen only before that, without `done`.
    found = {key: one for key, one in found.items() if not key.startswith("alarm/") or "done" in one}
    stored.check("stored/ledger.json", stored.pretty(masks.keyed(found, key_pattern)))


def test_every_key_of_the_ledger() -> None:
    """Also those that the story above does not bring about: constants as they are, functions with fixed arguments."""
    found = set()
    for name, thing in vars(keys).items():
        if isinstance(thing, str) and not name.startswith("_"):
            found.add(thing)
        elif inspect.isfunction(thing):
            kinds = [parameter.annotation for parameter in inspect.signature(thing).parameters.values()]
            found.add(thing(*(7 if kind in (int, "int") else "<name>" for kind in kinds)))
    stored.check("stored/ledger_keys.json", stored.pretty(sorted(found)))


# ---- files


def schema(path: Path) -> dict[str, Any]:
    db = apsw.Connection(str(path))
    tables = [
        " ".join(str(sql).split()) for (sql,) in db.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")
    ]
    numbers = {name: db.pragma(name) for name in ("application_id", "user_version", "journal_mode")}
    db.close()
    return numbers | {"schema": sorted(tables)}


def test_tables_of_the_sqlite_files(tmp_path: Path) -> None:
    sqlite_schema.create(str(tmp_path / "ledger"))
    AgentFile(str(tmp_path / "agent")).close()
    SqliteNonces(str(tmp_path / "nonces"), VirtualClock(1_700_000_000.0)).close()
    found = {name: schema(tmp_path / name) for name in ("ledger", "agent", "nonces")}
    stored.check("stored/sqlite.json", stored.pretty(found))
