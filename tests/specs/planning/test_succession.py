"""What no signature waives: the hub judges every step again."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.errors import HoldfastError
from holdfast.model import canonical
from holdfast.model.applied import Applied
from holdfast.model.plan import Plan
from holdfast.model.revision import Table, decode_table
from holdfast.planning.plan import plan
from holdfast.planning.succession import judge
from tests.specs.planning.test_plan import DATA, IMAGE, after, fleet, service

BASE = after(plan(fleet(a=service(), gold=service(protect=True), d=service(volumes=DATA)), None))


def stepped(found: Plan, change: Callable[[Table], Table] = lambda table: table) -> Any:
    assert found.candidate is not None
    table = change(decode_table(found.candidate.table))
    contents = {**found.candidate.blobs, **{d: BASE.contents[d] for d in BASE.contents}}
    return judge(BASE.table, table, contents, contents, 2)


def edited(state: Applied = BASE) -> Plan:
    return plan(fleet(a=service(active=False), gold=service(protect=True), d=service(volumes=DATA)), state)


def entry(table: Table, address: str, **fields: Any) -> Table:
    return replace(table, entries={**table.entries, address: replace(table.entries[address], **fields)})


def test_an_honest_step_is_judged_as_planned() -> None:
    judged = stepped(edited())
    assert [change.address for change in judged.changes] == ["service.a"]
    assert (judged.grade, judged.removals) == ("apply", ())


def test_a_removal_is_judged_with_its_address() -> None:
    declared = fleet(gold=service(protect=True), d=service(volumes=DATA))
    judged = stepped(plan(declared, BASE))
    assert judged.removals == ("service.a",)


DISHONEST: dict[str, Callable[[Table], Table]] = {
    "no trust": lambda t: replace(t, entries={a: e for a, e in t.entries.items() if a != "trust"}),
    "no fleet": lambda t: replace(t, entries={a: e for a, e in t.entries.items() if a != "fleet"}),
    "a silent removal": lambda t: replace(t, entries={a: e for a, e in t.entries.items() if a != "service.a"}),
    "an invented tombstone": lambda t: replace(
        t, tombstones={"service.z": canonical.decode(b'{"digest":"' + b"0" * 64 + b'","removed_in":2}', _stone(), "x")}
    ),
    "an older epoch": lambda t: entry(t, "service.a", epoch=0),
    "a move without a new epoch": lambda t: entry(t, "service.a", node="w2"),
    "protection that only the table lifts": lambda t: entry(t, "service.gold", protect=False),
    "a hidden hostname": lambda t: entry(t, "service.a", hostnames=("x.test",)),
    "a node that does not exist": lambda t: entry(t, "service.a", node="w9", epoch=9),
    "an address of no kind": lambda t: replace(t, entries={**t.entries, "secret.x": t.entries["service.a"]}),
    "a content nobody has": lambda t: entry(t, "service.a", digest="f" * 64),
    "an epoch far ahead": lambda t: entry(t, "service.a", epoch=2**53 - 1),
    "an image resolved that nobody uses": lambda t: entry(t, "service.a", images={"x:1": "sha256:" + "0" * 64}),
    "an image resolved to no digest": lambda t: entry(t, "service.a", images={IMAGE: "latest"}),
    "secrets that are not built": lambda t: entry(t, "service.a", secrets={"x": "0" * 64}),
    "a binding on a service": lambda t: entry(t, "service.a", applies_to=("fleet",)),
    "data moved by the table alone": lambda t: entry(
        t, "service.d", node="w2" if _home("d") == "w1" else "w1", epoch=2
    ),
    "metadata on a node": lambda t: entry(t, "node.w1", epoch=3),
    "a node under another's address": lambda t: entry(t, "node.w1", digest=t.entries["node.w2"].digest),
    "a node gone from under a service": lambda t: _without(t, f"node.{_home('d')}"),
    "a node in place of a service": lambda t: entry(t, "service.a", digest=t.entries["node.w1"].digest),
}


def _home(name: str) -> str:
    return str(BASE.table.entries[f"service.{name}"].node)


def _without(table: Table, address: str) -> Table:
    from holdfast.planning.table import tombstones

    entries = {a: e for a, e in table.entries.items() if a != address}
    return Table(entries, tombstones(BASE.table, entries, 2))


def _stone() -> Any:
    from holdfast.model.revision import Tombstone

    return Tombstone


@pytest.mark.parametrize("lie", DISHONEST)
def test_a_table_that_lies_is_refused_whoever_signed_it(lie: str) -> None:
    with pytest.raises(HoldfastError) as refused:
        stepped(edited(), DISHONEST[lie])
    assert refused.value.exit_code in (2, 3, 7)


def test_a_protected_service_cannot_be_removed_by_a_hand_made_revision() -> None:
    declared = fleet(a=service(), d=service(volumes=DATA))
    with pytest.raises(HoldfastError, match="protected"):
        stepped(plan(declared, BASE))


@pytest.mark.parametrize(
    "odd",
    [
        {"volumes": (DATA[0], replace(DATA[0], protect="none"))},
        {"volumes": (replace(DATA[0], path="/data/../etc"),)},
        {"volumes": ("/srv/a/../b:/x",)},
    ],
)
def test_a_content_that_the_directory_would_refuse_is_refused_by_the_hub_too(odd: dict[str, Any]) -> None:
    declared = fleet(a=service(**odd), gold=service(protect=True), d=service(volumes=DATA))
    with pytest.raises(HoldfastError):
        stepped(plan(declared, BASE))


def test_two_services_cannot_claim_one_hostname() -> None:
    from holdfast.model.fleet import Component, Route, Service

    def named(image: str) -> Service:
        return Service((Component("web", image, routes=(Route("http", 80, hostname="www.test"),)),))

    declared = fleet(a=named(IMAGE), b=named(IMAGE), gold=service(protect=True), d=service(volumes=DATA))
    with pytest.raises(HoldfastError, match=r"both claim www\.test"):
        stepped(plan(declared, BASE))


def test_a_revision_that_changes_nothing_is_refused() -> None:
    with pytest.raises(HoldfastError, match="changes nothing"):
        judge(BASE.table, BASE.table, BASE.contents, BASE.contents, 2)
