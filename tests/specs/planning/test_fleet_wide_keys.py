"""Every key of fleet.toml needs grade destroy, unless one table lists it as harmless with a reason (X04, X22)."""

from collections.abc import Iterator
from typing import Any, get_args, get_type_hints

import pytest
from msgspec import UNSET, Struct

from holdfast.model import canonical
from holdfast.model.fleet import (
    Acme,
    AlertTarget,
    Backups,
    Dns,
    FleetDocument,
    FleetFile,
    Node,
    Overlay,
    Retain,
    Settings,
    Storage,
    StoragePolicy,
    Timeouts,
)
from holdfast.model.need import Provides
from holdfast.model.plan import Demand
from holdfast.model.revision import Entry
from holdfast.model.rules import Rules
from holdfast.planning import grades
from holdfast.planning.harmless import HARMLESS, changed, demands, is_harmless
from holdfast.planning.kinds.kind import Step

KEY = "ssh-ed25519 AAAA"
ROOT = {"operators", "trust"}  # who is trusted: grade root, whatever the key
BY_FILE = {"policies"}  # a policy is a file with its bindings, see test_grades.py


def fleet(**more: Any) -> FleetDocument:
    return FleetDocument(**{"settings": Settings("home"), **more})


def settings(**more: Any) -> FleetDocument:
    return fleet(settings=Settings("home", **more))


def given(**more: Any) -> Provides:
    return Provides(**{"node": "p1", "type": "db", "services": ("web",), **more})


def node(**more: Any) -> Node:
    return Node("w1", more.pop("roles", ("worker",)), **more)


def nas(**more: Any) -> Storage:
    return Storage("nas", more.pop("type", "nfs"), more.pop("durable_id", "server:/x"), **more)


def acme(directory: str = "https://ca.test/d", **more: Any) -> FleetDocument:
    return fleet(acme=Acme(directory, **more))


# key → (address, before, after): the most that grade apply could do with it
CHANGES: dict[str, tuple[str, Any, Any]] = {
    "fleet.name": ("fleet", fleet(), fleet(settings=Settings("other"))),
    "fleet.hub": ("fleet", settings(hub="https://a.test", hub_key=KEY), settings(hub="https://b.test", hub_key=KEY)),
    "fleet.hub_key": ("fleet", settings(), settings(hub_key=KEY)),
    "fleet.internal_zone": ("fleet", settings(), settings(internal_zone="svc.test")),
    "fleet.public_domains": ("fleet", settings(public_domains=("a.test",)), settings()),
    "fleet.overlay_cidr": ("fleet", settings(), settings(overlay_cidr="100.64.0.0/16")),
    "fleet.removals_max": ("fleet", settings(removals_max=3), settings(removals_max=4)),
    "fleet.nodes_max": ("fleet", settings(), settings(nodes_max=10_000)),
    "fleet.parallel": ("fleet", settings(), settings(parallel=64)),
    "backups.interval": ("fleet", fleet(), fleet(backups=Backups(interval="30d"))),
    "backups.retain": ("fleet", fleet(), fleet(backups=Backups(retain=1))),
    "backups.drill_interval": ("fleet", fleet(), fleet(backups=Backups(drill_interval="30d"))),
    "backups.cron": ("fleet", fleet(), fleet(backups=Backups(cron="@yearly"))),
    "backups.drill_cron": ("fleet", fleet(), fleet(backups=Backups(drill_cron="@yearly"))),
    "backups.timezone": (
        "fleet",
        fleet(backups=Backups(cron="@daily")),
        fleet(backups=Backups(cron="@daily", timezone="Europe/Oslo")),
    ),
    **{
        f"timeouts.{key}": ("fleet", fleet(), fleet(timeouts=Timeouts(**{key: "1s"})))
        for key in Timeouts.__struct_fields__
    },
    "acme": ("fleet", fleet(), acme()),
    "acme.directory": ("fleet", acme(), acme("https://evil.test/d")),
    "acme.contact": ("fleet", acme(), acme(contact=("mailto:a@b.test",))),
    "acme.terms_agreed": ("fleet", acme(), acme(terms_agreed=True)),
    "acme.ca": ("fleet", acme(), acme(ca="pem")),
    "acme.domains": ("fleet", acme(), acme(domains=("a.test",))),
    "dns.driver": ("fleet", fleet(), fleet(dns=Dns("none"))),
    "dns.nodes": ("fleet", fleet(), fleet(dns=Dns(nodes=("w1",)))),
    "dns.upstream": ("fleet", fleet(dns=Dns(upstream=("9.9.9.9",))), fleet()),
    "overlay.encrypted": ("fleet", fleet(overlay=Overlay(encrypted=True)), fleet()),
    "nodes.name": ("node.w1", node(), Node("w2", ("worker",))),
    "nodes.roles": ("node.w1", node(roles=("edge", "worker")), node()),
    "nodes.address": ("node.w1", node(), node(address="100.64.0.9")),
    "nodes.public_address": ("node.w1", node(), node(public_address="198.51.100.7")),
    "nodes.key": ("node.w1", node(), node(key=KEY)),
    "nodes.link": ("node.w1", node(), node(link="dial")),
    "nodes.reconcile": ("node.w1", node(), node(reconcile="observe")),
    "nodes.orphans": ("node.w1", node(), node(orphans="stop")),
    "nodes.orphans_foreign": ("node.w1", node(), node(orphans_foreign=True)),
    "nodes.proxy": ("node.w1", node(), node(proxy="none")),
    "nodes.peer_calls": ("node.w1", node(peer_calls="off"), node(peer_calls="relay")),
    "nodes.direct": ("node.w1", node(), node(direct="on")),
    "nodes.labels": ("node.w1", node(), node(labels={"RACK": "3"})),
    "storage.name": ("storage.nas", nas(), Storage("other", "nfs", "server:/x")),
    "storage.type": ("storage.nas", nas(), nas(type="usb")),
    "storage.durable_id": ("storage.nas", nas(), nas(durable_id="other:/x")),
    "storage.location": ("storage.nas", nas(), nas(location="/mnt/other")),
    "storage.nodes": ("storage.nas", nas(), nas(nodes=("w1",))),
    "storage.secret": ("storage.nas", nas(), nas(secret="keys")),
    "storage.class": ("storage.nas", nas(), nas(speed="fast")),
    "storage.role": ("storage.nas", nas(), nas(role="bulk-data")),
    "storage.policy.schedule": ("storage.nas", nas(), nas(policy=StoragePolicy("never"))),
    "storage.policy.retain": ("storage.nas", nas(), nas(policy=StoragePolicy(retain=1))),
    "storage.state": ("storage.nas", nas(), nas(state="disconnected")),
    "alerts.name": ("alert.chat", AlertTarget("chat"), AlertTarget("other")),
    "alerts.webhook": ("alert.chat", AlertTarget("chat"), AlertTarget("chat", webhook="https://b.test/")),
    "alerts.apprise": ("alert.chat", AlertTarget("chat"), AlertTarget("chat", apprise="ntfys://b.test/x")),
    "alerts.on": ("alert.chat", AlertTarget("chat"), AlertTarget("chat", on=("node_silent",))),
    "alerts.secret": ("alert.chat", AlertTarget("chat"), AlertTarget("chat", secret="url")),
    "alerts.nodes": ("alert.chat", AlertTarget("chat"), AlertTarget("chat", nodes=("w1",))),
    "alerts.after": ("alert.chat", AlertTarget("chat"), AlertTarget("chat", after="30d")),
    "alerts.quiet": ("alert.chat", AlertTarget("chat"), AlertTarget("chat", quiet="00:00-23:59")),
    "alerts.timezone": ("alert.chat", AlertTarget("chat"), AlertTarget("chat", timezone="Europe/Oslo")),
    "alerts.quiet_except": ("alert.chat", AlertTarget("chat"), AlertTarget("chat", quiet_except=("node_silent",))),
    "provides.node": ("provides.p1.db", given(), Provides("p2", "db", ("web",))),
    "provides.type": ("provides.p1.db", given(), Provides("p1", "postgres", ("web",))),
    "provides.services": ("provides.p1.db", given(), given(services=("shop", "web"))),
    "provides.params": ("provides.p1.db", given(), given(params={"user": "other"})),
    "provides.grace": ("provides.p1.db", given(), given(grace="1h")),
    "provides.ttl": ("provides.p1.db", given(), given(ttl="1h")),
}
ALWAYS = {key for key, row in HARMLESS.items() if row.words == "always"}
PARTLY = {  # a row with a condition: what grade apply may do
    "fleet.removals_max": (settings(removals_max=3), settings(removals_max=2)),
    "backups.interval": (fleet(), fleet(backups=Backups(interval="1h"))),
    "backups.retain": (fleet(backups=Backups(retain=Retain(daily=3))), fleet(backups=Backups(retain=Retain(daily=4)))),
    "backups.drill_interval": (fleet(), fleet(backups=Backups(drill_interval="1d"))),
    "nodes.orphans": (node(orphans="stop"), node()),
    "nodes.orphans_foreign": (node(orphans_foreign=True), node()),
    "nodes.direct": (node(direct="on"), node()),
    "nodes.link": (node(link="dial"), node()),
    "nodes.peer_calls": (node(), node(peer_calls="off")),
    "storage.policy.retain": (nas(policy=StoragePolicy(retain=7)), nas(policy=StoragePolicy(retain=9))),
    "provides.services": (given(services=("shop", "web")), given()),
    "provides.grace": (given(), given(grace="30d")),
    "provides.ttl": (given(ttl="1h"), given()),
}


def keys_of(schema: type[Struct], prefix: str = "") -> Iterator[str]:
    """Every key that fleet.toml may have, as people write it."""
    hints = get_type_hints(schema)
    for field, spelled in zip(schema.__struct_fields__, schema.__struct_encode_fields__, strict=True):
        key = f"{prefix}{spelled}"
        tables = [one for one in _flat(hints[field]) if isinstance(one, type) and issubclass(one, Struct)]
        tables = [one for one in tables if one is not Retain]  # or a number: one key
        if tables and UNSET is not None and any("UnsetType" in repr(one) for one in _flat(hints[field])):
            yield key  # the table itself may appear
        if not tables:
            yield key
        for table in tables:
            yield from keys_of(table, f"{key}.")


def _flat(hint: Any) -> Iterator[Any]:
    yield hint
    for part in get_args(hint):
        yield from _flat(part)


def demanded(address: str, before: Any, after: Any, rules: Rules = "bounded") -> tuple[Demand, ...]:
    def entry(value: Any) -> Entry | None:
        return None if value is None else Entry(canonical.digest(canonical.encode(value)))

    encode = canonical.encode
    step = Step(address, entry(before), entry(after), lambda: encode(before), lambda: encode(after), rules=rules)
    return grades.demands(step)


def test_every_key_of_fleet_toml_is_judged_here_x04() -> None:
    """A key that a release adds is missing here: it needs destroy, and whoever adds it says so."""
    found = {key for key in keys_of(FleetFile) if key.partition(".")[0] not in ROOT | BY_FILE}
    assert found == set(CHANGES) | {"overlay.driver"}, "that one has only one value so far"
    assert set(HARMLESS) - BY_FILE <= found
    assert all(row.reason for row in HARMLESS.values())


@pytest.mark.parametrize("key", CHANGES)
def test_a_fleet_wide_key_needs_destroy_unless_it_is_listed_as_harmless_x04_x22(key: str) -> None:
    grade = [demand.grade for demand in demanded(*CHANGES[key])]
    assert grade == ([] if key in ALWAYS else ["destroy"])


@pytest.mark.parametrize("key", PARTLY)
def test_a_key_may_be_harmless_in_one_direction(key: str) -> None:
    address, before, after = CHANGES[key][0], *PARTLY[key]
    assert demanded(address, before, after) == ()


@pytest.mark.parametrize("key", PARTLY)
def test_the_condition_of_a_row_holds_alone(key: str) -> None:
    """Other rules demand destroy for some of these changes too: this one does not rely on them."""
    _, *values = CHANGES[key]
    assert [is_harmless(key, *_values(key, pair)) for pair in (tuple(values), PARTLY[key])] == [False, True]


def _values(key: str, pair: Any) -> tuple[Any, Any]:
    table = key.rpartition(".")[0]
    prefix = {"nodes": "nodes", "storage.policy": "storage", "provides": "provides"}.get(table, "")
    found = {spelled: (old, new) for spelled, old, new in changed(prefix, *pair)}
    return found[key]


def test_calls_between_nodes_are_closed_step_by_step() -> None:
    steps = ("off", "relay", "declared")
    harmless = {(a, b) for a in steps for b in steps if is_harmless("nodes.peer_calls", a, b)}
    assert harmless == {(a, b) for a in steps for b in steps if steps.index(b) <= steps.index(a)}


def test_every_row_with_a_condition_is_shown_in_both_directions() -> None:
    assert set(PARTLY) == set(HARMLESS) - ALWAYS - BY_FILE


def test_a_key_that_is_in_no_table_needs_destroy() -> None:
    """Deny by default, shown with a key that no release has."""

    class Later(Settings, frozen=True):
        brand_new: bool = False

    (found,) = demands("fleet", Later("home"), Later("home", brand_new=True))
    assert found.grade == "destroy" and "fleet.brand_new" in found.reason
    assert [key for key, *_ in changed("fleet", Later("home"), Later("home", brand_new=True))] == ["fleet.brand_new"]


def test_an_alert_target_or_a_storage_target_that_appears_needs_destroy_and_so_does_an_alert_that_goes_x04() -> None:
    chat = AlertTarget("chat", apprise="json://10.0.0.1/internal/api?method=DELETE")
    cases: tuple[Any, ...] = (("alert.chat", None, chat), ("alert.chat", chat, None), ("storage.nas", None, nas()))
    for address, before, after in cases:
        assert [d.grade for d in demanded(address, before, after)] == ["destroy"]
        assert demanded(address, before, after, "first") == ()
