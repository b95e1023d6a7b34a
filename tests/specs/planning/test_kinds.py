"""The table of resource kinds is complete, and an entry has only the fields of its kind."""

from typing import Any, get_args

import pytest
from msgspec import Struct

from holdfast.model import ids
from holdfast.model.move import Move
from holdfast.model.need import Want
from holdfast.model.revision import Entry, NodeIdentity, Table
from holdfast.model.route import PublicRoute
from holdfast.planning.kinds.every import KINDS, holders, kind_at
from holdfast.planning.kinds.kind import EVERY_NODE, Kind, Section, check_own_fields
from holdfast.planning.unsound import Unsound

FULL: dict[str, Any] = {
    "digest": "0" * 64,
    "node": "w1",
    "epoch": 3,
    "containers": 1,
    "protect": True,
    "hostnames": ("a.example.test",),
    "ports": (80,),
    "images": {"web:1": "sha256:" + "0" * 64},
    "secrets": {"password": "1" * 64},
    "applies_to": ("fleet",),
    "identity": NodeIdentity("ssh-ed25519 AAAA"),
    "drained": True,
    "failover": ("w2",),
    "address": "100.64.0.1",
    "proxy": "public",
    "dns": True,
    "names": ("web.web.lab",),
    "public": {"a.example.test": PublicRoute("web", "http", "e1", "web.web.lab")},
    "move": Move("w2"),
    "wants": {"db": Want("postgres", "p1")},
}
NAMED = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


def test_the_names_of_kinds_are_those_of_addresses() -> None:
    assert [kind.name for kind in KINDS] == list(ids.KINDS)
    assert all(kind_at(kind.name) is kind for kind in KINDS)


def test_every_field_of_an_entry_belongs_to_a_kind() -> None:
    owned = {name for kind in KINDS for name in kind.view.__struct_fields__}
    assert owned == set(Entry.__struct_fields__) == set(FULL)


@NAMED
def test_an_entry_has_only_the_fields_of_its_kind(kind: Kind) -> None:
    own = {name: FULL[name] for name in kind.view.__struct_fields__}
    check_own_fields("x.y", Entry(**own), kind.view)
    for name in FULL.keys() - own.keys():
        with pytest.raises(Unsound):
            check_own_fields("x.y", Entry(**own, **{name: FULL[name]}), kind.view)


@NAMED
def test_a_kind_is_projected_into_a_field_that_manifests_have(kind: Kind) -> None:
    own: Struct = Entry(**{name: FULL[name] for name in kind.view.__struct_fields__})
    address = (
        kind.name if kind.name in ("fleet", "trust") else f"{kind.name}.{'w1.db' if kind.name == 'provides' else 'web'}"
    )
    table = Table({address: own})  # type: ignore[dict-item]
    places = list(kind.project(address, own, table))  # type: ignore[arg-type]
    assert {section for _, section in places} <= set(get_args(Section))
    nodes = {node for node, _ in places}
    assert holders(address, table) == (None if EVERY_NODE in nodes else nodes)


def test_who_holds_what() -> None:
    """A policy of a service goes where the service is; alerts go to no node."""
    web = Entry("0" * 64, node="w1", failover=("w2",))
    table = Table(
        {
            "service.web": web,
            "policy.all": Entry("1" * 64, applies_to=("fleet",)),
            "policy.web": Entry("2" * 64, applies_to=("service.web", "service.gone")),
            "policy.gone": Entry("2" * 64, applies_to=("service.gone",)),
            "alert.chat": Entry("3" * 64),
            "node.w1": Entry("4" * 64),
            "storage.nas": Entry("5" * 64),
            "provides.p1.postgres": Entry("6" * 64, node="p1"),
        }
    )
    found = {address: holders(address, table) for address in table.entries}
    assert found == {
        "service.web": {"w1", "w2"},
        "policy.all": None,
        "policy.web": {"w1", "w2"},
        "policy.gone": frozenset(),
        "alert.chat": frozenset(),
        "node.w1": {"w1"},
        "storage.nas": None,
        "provides.p1.postgres": {"p1"},
    }
