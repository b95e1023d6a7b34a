"""Every credential is verified where it arrives, by what is already there; no service is asked, no engine run."""

import ast
import socket
import tomllib
from pathlib import Path

import pytest

from holdfast.gate import decide
from holdfast.hub.http import permissions
from holdfast.model import canonical, fleet, ssh_key
from holdfast.model.principal import KINDS, Principal
from holdfast.model.session import NAMESPACE, SessionCertificate, SessionGrant
from holdfast.model.token import StoredToken
from holdfast.model.trust import Trust
from holdfast.trust import enrolment, orders, sessions, tokens
from tests.fleets import enrolments
from tests.fleets import orders as order_cases
from tests.fleets.build import ALICE, ALICE_SIGNER, START_S, small_fleet
from tests.fleets.desks import key_of

ROOT = Path(__file__).parents[3]
SRC = ROOT / "src" / "holdfast"
WAYS_OUT = {"socket", "ssl", "http", "urllib", "aiohttp", "asyncio", "subprocess", "selectors", "ftplib", "xmlrpc"}


def imported(room: str) -> set[str]:
    found: set[str] = set()
    for path in (SRC / room).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                found.add(node.module or "")
    return found


@pytest.mark.parametrize("room", ["trust", "wire", "gate"])
def test_the_rooms_that_verify_have_no_way_out(room: str) -> None:
    """D-25: no identity service that could be down. C-07: and the gate reads nothing but its arguments."""
    assert not {name.partition(".")[0] for name in imported(room)} & (WAYS_OUT | {"os", "pathlib", "configparser"})


def test_every_kind_of_credential_is_verified_without_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """D-25, C-06: session, token, invite and order, with every socket forbidden."""

    def forbidden(*_: object, **__: object) -> None:
        raise AssertionError("a credential was not verified offline")

    for name in ("socket", "create_connection", "getaddrinfo"):
        monkeypatch.setattr(socket, name, forbidden)
    declared = small_fleet()
    trust = Trust(declared.operators, declared.thresholds)
    session = key_of("session")
    grant = canonical.encode(
        SessionGrant("f" * 64, ssh_key.line(ALICE_SIGNER.public_key), session.line, int(START_S), int(START_S) + 60)
    )
    certificate = SessionCertificate(grant, ALICE_SIGNER.sign(grant, NAMESPACE))
    assert sessions.verify_session(certificate, session.line, "f" * 64, trust, START_S).name == ALICE.name
    id, text = tokens.mint(b"r" * (tokens.ID_BYTES + tokens.SECRET_BYTES))
    made_s = int(START_S)
    stored = StoredToken(id, "ci", "read", "alice", made_s, made_s + 60, hash=tokens.digest(text))
    assert tokens.check(stored, text, START_S).kind == "viewer"
    joined = enrolments.enrolment(enrolments.signed_invite(enrolments.invite()))
    assert enrolment.verify(joined, order_cases.FLEET, enrolments.TRUST, order_cases.NOW_S)
    order = order_cases.signed(order_cases.purge(), order_cases.ANN_SIGNER)
    proof = orders.verify(order, order_cases.FLEET, "w1", order_cases.LONE_TRUST, order_cases.NOW_S)
    assert proof.order.action == "purge"


def test_permission_is_one_lookup_in_one_table() -> None:
    """F-25, F-26, C-32: kind × operation, nothing else; the table cannot be written to and no engine is shipped."""
    for operation in [*permissions.ALLOWED, "made-up"]:
        for kind in KINDS:
            allowed = kind in permissions.ALLOWED.get(operation, frozenset())
            for name in ("", "w1", "alice"):
                assert (permissions.may(Principal(kind, name, grade="root"), operation) is None) is allowed
    assert all(isinstance(kinds, frozenset) for kinds in permissions.ALLOWED.values())
    ships = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert not [
        name for name in ships if any(engine in name for engine in ("cedar", "opa", "casbin", "oso", "biscuit"))
    ]


def test_the_gate_is_compiled_in() -> None:
    """C-07, M-18: what a stolen hub cannot do is no setting; no key of fleet.toml and no argument speaks of it."""
    assert list(decide.decide.__annotations__) == ["deed", "return"]
    tables = [each for each in vars(fleet).values() if isinstance(each, type) and hasattr(each, "__struct_fields__")]
    keys = {key for table in tables for key in table.__struct_fields__}
    assert len(keys) > 60 and not [key for key in keys if "gate" in key or "unsafe" in key or "trust_hub" in key]
