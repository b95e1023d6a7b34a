"""Secrets that go along with a service: sealed to its new node too, for the same purpose, and for no other service."""

from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.adapters.sealing import age
from holdfast.cli.moves import resealed
from holdfast.cli.moves.resealed import Resealed
from holdfast.cli.secrets import purposes
from holdfast.errors import Conflict
from holdfast.model import purpose as purposed
from holdfast.model.applied import Applied
from holdfast.model.purpose import Purpose
from holdfast.model.revision import NodeIdentity
from holdfast.planning.plan import Inputs, plan
from holdfast.ports.sealing import CannotOpen
from tests.fleets.agents import applied_after
from tests.fleets.build import ALICE, signed, small_fleet, small_service
from tests.fleets.sealing import CANARY, node_key, node_opener, person, person_file, sealed_to

KNOWN = {name: NodeIdentity(node_key(name)) for name in ("w1", "w2")}
PEOPLE = (replace(ALICE, recipient=person("alice")),)
FLEET_ID = applied_after(signed(plan(small_fleet(operators=PEOPLE), None)), None).fleet_id


def applied(plain: bytes, *others: str) -> Applied:
    """web runs on w1 with this secret, which w2 cannot open. So do these."""
    part = replace(small_service("web").components[0], secrets=("pass",))
    found = {name: replace(small_service(name), components=(part,), node="w1") for name in ("web", *others)}
    fleet = small_fleet(found, ("w1", "w2"), PEOPLE)
    sealed = sealed_to("w1", "@alice", value=plain)
    planned = plan(replace(fleet, secrets={"pass": sealed}), None, Inputs(identities=KNOWN))
    return applied_after(signed(planned), None)


def for_w2(found: Applied, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Resealed:
    monkeypatch.setattr(purposes, "note", lambda *_: None)
    (folder / "identity").write_bytes(person_file("alice"))
    keys = SimpleNamespace(
        opener=lambda path: age.from_identity_file(Path(path).read_bytes(), path),
        sealer=age.AgeSealer,
    )
    box: Any = SimpleNamespace(environ={}, keys=keys)
    return resealed.for_node("web", "w2", found, Namespace(identity=str(folder / "identity")), box)


def meant(*addresses: str, **changed: str) -> bytes:
    return purposed.wrapped(CANARY, Purpose(**{"fleet": FLEET_ID, "name": "pass", "addresses": addresses, **changed}))  # type: ignore[arg-type]


def test_it_is_sealed_to_the_new_node_and_the_people_for_the_purpose_that_it_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = for_w2(applied(meant("service.web")), tmp_path, monkeypatch)
    (content,) = found.contents.values()
    alice = age.from_identity_file(person_file("alice"), "alice")
    assert node_opener("w2").open(content) == alice.open(content) == meant("service.web")
    with pytest.raises(CannotOpen):
        node_opener("w1").open(content)
    bare = for_w2(applied(CANARY), tmp_path, monkeypatch)
    assert [node_opener("w2").open(one) for one in bare.contents.values()] == [CANARY]


@pytest.mark.parametrize(
    "plain",
    [meant("service.db"), meant("service.web", name="other"), meant("service.web", fleet="0" * 64)],
    ids=["service", "name", "fleet"],
)
def test_what_is_sealed_for_another_service_is_opened_for_no_other_node(
    plain: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key of web names the ciphertext of db's secret as its own: of no use on the node of web, but to be opened on a
    machine of an intruder, if it moved there."""
    with pytest.raises(Conflict, match=r"the secret pass of service\.web") as raised:
        for_w2(applied(plain), tmp_path, monkeypatch)
    assert raised.value.code == "secret_not_for_it"


def test_a_service_that_stays_opens_it_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = for_w2(applied(meant("service.api", "service.web"), "api"), tmp_path, monkeypatch)
    (content,) = found.contents.values()
    assert node_opener("w1").open(content) == node_opener("w2").open(content)
