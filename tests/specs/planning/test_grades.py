"""Who must sign what: design.md §2, row by row."""

import itertools
from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from holdfast.model import canonical
from holdfast.model.fleet import (
    Acme,
    AlertTarget,
    Backups,
    Component,
    Dns,
    FleetDocument,
    Node,
    Operator,
    Overlay,
    Retain,
    Route,
    Service,
    Settings,
    Snapshot,
    Storage,
    StoragePolicy,
    Thresholds,
    Timeouts,
    Volume,
)
from holdfast.model.ids import KINDS
from holdfast.model.need import Provides
from holdfast.model.plan import Demand
from holdfast.model.revision import Entry
from holdfast.model.rules import NEWEST, Rules
from holdfast.model.trust import outside_scope
from holdfast.planning import grades
from holdfast.planning.kinds import every
from holdfast.planning.kinds.kind import Step

IMAGE = "reg.test/x@sha256:" + "0" * 64
OTHER = "reg.test/x@sha256:" + "1" * 64


def service(*volumes: Any, image: str = IMAGE, **more: Any) -> Service:
    return Service((Component("web", image, volumes=volumes),), **more)


def with_route(**more: Any) -> Service:
    return Service((Component("web", IMAGE, routes=(Route("http", 8080, public=True, **more),)),))


def fleet(settings: Settings | None = None, backups: Backups | None = None, **more: Any) -> FleetDocument:
    return FleetDocument(settings or Settings("home"), backups or Backups(), Timeouts(), **more)


DATA = Volume("data", "/data", "backup")
ART = Volume("art", "/art", "backup")
OFF = replace(DATA, checkpoint="off")
NAS = Storage("nas", "nfs", "server:/x")
W1 = Node("w1", ("worker",))
CHAT = AlertTarget("chat", webhook="https://a.test/x")
KEY = "ssh-ed25519 AAAA"
DB = Provides("p1", "postgres", ("web",))


def shared_off() -> Service:
    """Another component gets the same directory, and says that no checkpoint is needed."""
    return Service((Component("web", IMAGE, volumes=(DATA,)), Component("job", IMAGE, volumes=(OFF,))))


# (address, before, after, the reason that is expected, None: grade apply is enough)
TABLE: list[tuple[str, Any, Any, str | None]] = [
    ("provides.p1.postgres", DB, replace(DB, services=("shop", "web")), "changes provides.services"),
    ("provides.p1.postgres", replace(DB, services=("shop", "web")), DB, None),
    ("service.x", service(DATA), service(DATA, image=OTHER), None),
    ("service.x", service(DATA), service(DATA, active=False), None),
    ("service.x", service(DATA), service(DATA, protect=True), None),
    ("service.x", with_route(), with_route(pass_headers=("remote-user",)), None),  # X10: the service's own requests
    ("service.x", service(DATA, protect=True), service(DATA), "lifts protect"),
    ("service.x", service(DATA), service(DATA, custody="hub"), "changes custody"),
    ("service.x", service(DATA), service(), "detaches volume data of component web; its data stays on the node"),
    ("service.x", service(DATA), service(replace(DATA, name="other")), "detaches volume data"),
    ("service.x", service(DATA), service(replace(DATA, path="/elsewhere")), "moves volume data"),
    ("service.x", service(DATA), service(replace(DATA, protect="none")), "weakens the protection"),
    ("service.x", service(DATA), service(replace(DATA, protect="own:nas")), "weakens the protection"),
    ("service.x", service(replace(DATA, protect="none")), service(DATA), None),
    ("service.x", service(DATA), service(replace(DATA, checkpoint="off")), "makes no checkpoints of volume data any"),
    ("service.x", service(replace(DATA, checkpoint="off")), service(DATA), None),
    ("service.x", service(), service(replace(DATA, checkpoint="off")), None),
    ("service.x", service(DATA), service(replace(DATA, owner="5:5")), "changes the owner of all data in volume data"),
    ("service.x", service(replace(DATA, owner="5:5")), service(replace(DATA, owner="6:6")), "(5:5 → 6:6)"),
    ("service.x", service(replace(DATA, owner="5:5")), service(DATA), None),
    ("service.x", service(), service(replace(DATA, owner="5:5")), None),
    ("service.x", service(DATA), shared_off(), "makes no checkpoints of volume data any more"),
    ("service.x", service(), service("/etc:/etc"), "mounts a host path outside /srv"),
    ("service.x", service(), service("/srv/../etc:/etc"), "mounts a host path outside /srv"),
    ("service.x", service(), service("/srv/x:/srv/x"), None),
    ("service.x", service(), service("/srv/x/sub:/data"), None),
    ("service.x", service(), service("/srv/other:/loot"), "mounts a host path outside /srv/x"),
    ("service.x", service(), service("/srv/:/loot"), "mounts a host path outside /srv/x"),
    ("service.x", service(), service("/srv/xy:/loot"), "mounts a host path outside /srv/x"),
    ("service.x", service(), service(failover=("w2",)), "adds failover nodes, which may then open its secrets"),
    ("service.x", service(failover=("w2",)), service(), None),
    ("service.x", service(), service(snapshot=Snapshot(method="cli")), "changes snapshot.method (default → cli)"),
    ("service.x", service(), service(snapshot=Snapshot(method="full")), None),
    (
        "service.x",
        service(DATA, ART, snapshot=Snapshot(method="postgres", volume="data")),
        service(DATA, ART, snapshot=Snapshot(method="postgres", volume="art")),
        "makes the dump of another volume",
    ),
    ("service.x", service(snapshot=Snapshot(include=("a",))), service(), "leaves more files out"),
    ("service.x", service(DATA), service(DATA, snapshot=Snapshot(exclude=("db",))), "leaves more files out"),
    ("fleet", fleet(), fleet(Settings("home", removals_max=9)), "raises removals_max"),
    ("fleet", fleet(Settings("home", removals_max=9)), fleet(), None),
    ("fleet", fleet(), fleet(backups=Backups(retain=1)), "lowers backups.retain (7 → 1)"),
    ("fleet", fleet(), fleet(backups=Backups(interval="25h")), "makes backups.interval longer"),
    ("fleet", fleet(), fleet(backups=Backups(interval="1440m")), None),
    ("fleet", fleet(), fleet(backups=Backups(drill_interval="30d")), "makes backups.drill_interval longer"),
    ("fleet", fleet(), fleet(backups=Backups(cron="@yearly")), "changes backups.cron"),
    ("fleet", fleet(backups=Backups(drill_cron="@daily")), fleet(), "changes backups.drill_cron"),
    (
        "fleet",
        fleet(backups=Backups(cron="@daily")),
        fleet(backups=Backups(cron="@daily", timezone="Europe/Oslo")),
        "changes backups.timezone",
    ),
    ("fleet", fleet(), fleet(Settings("home", hub_key=KEY)), "pins the key of the hub"),
    ("fleet", fleet(Settings("home", hub_key=KEY)), fleet(), "pins another key of the hub"),
    ("fleet", fleet(), fleet(Settings("home", hub="https://a.test")), "another hub while no hub_key pins it"),
    ("fleet", fleet(Settings("home", "https://a.test", KEY)), fleet(Settings("home", "https://b.test", KEY)), None),
    ("fleet", fleet(), fleet(Settings("home", internal_zone="svc.test")), "changes the zone"),
    ("fleet", fleet(), fleet(Settings("home", public_domains=("a.test",))), "adds domains that edges may"),
    ("fleet", fleet(Settings("home", public_domains=("a.test",))), fleet(), None),
    ("fleet", fleet(), fleet(Settings("home", overlay_cidr="10.0.0.0/8")), "outside 100.64.0.0/10"),
    ("fleet", fleet(), fleet(Settings("home", overlay_cidr="fd00::/8")), "outside 100.64.0.0/10"),
    ("fleet", fleet(), fleet(Settings("home", overlay_cidr="100.64.0.0/16")), None),
    ("fleet", fleet(), fleet(Settings("home", nodes_max=300, parallel=8)), None),
    ("fleet", fleet(), fleet(overlay=Overlay(encrypted=True)), "declares that the overlay network encrypts"),
    ("fleet", fleet(overlay=Overlay(encrypted=True)), fleet(), None),
    ("fleet", fleet(), fleet(dns=Dns(upstream=("9.9.9.9",))), "uses other DNS servers for names outside the fleet"),
    ("fleet", fleet(dns=Dns(upstream=("9.9.9.9",))), fleet(), None),
    ("fleet", fleet(), fleet(dns=Dns("none")), None),
    ("fleet", fleet(), fleet(acme=Acme("https://ca.test/directory", terms_agreed=True)), None),
    ("node.w1", W1, replace(W1, address="100.64.0.9"), None),
    ("node.w1", W1, replace(W1, public_address="198.51.100.7"), None),
    ("node.w1", W1, replace(W1, link="dial"), "lets the hub call the node"),
    ("node.w1", replace(W1, link="dial"), W1, None),
    ("node.w1", W1, replace(W1, proxy="public"), "opens the node's proxy to the internet"),
    ("node.w1", replace(W1, roles=("edge",)), replace(W1, roles=("edge",), proxy="public"), None),
    ("node.w1", W1, replace(W1, proxy="none"), None),
    ("node.w1", replace(W1, peer_calls="off"), replace(W1, peer_calls="relay"), "call peers more freely"),
    ("node.w1", replace(W1, peer_calls="relay"), W1, "call peers more freely"),
    ("node.w1", W1, replace(W1, peer_calls="relay"), None),
    ("node.w1", W1, replace(W1, reconcile="observe", labels={"RACK": "3"}), None),
    ("alert.chat", CHAT, replace(CHAT, webhook="https://b.test/x"), None),
    ("node.w1", W1, replace(W1, key="ssh-ed25519 AAAA"), "changes the node's key"),
    ("node.w1", W1, replace(W1, roles=("edge", "worker")), "more roles (edge)"),
    ("node.w1", replace(W1, roles=("edge", "worker")), W1, None),
    ("node.w1", W1, replace(W1, orphans="remove"), "remove orphans"),
    ("node.w1", W1, replace(W1, orphans="stop"), None),
    ("node.w1", W1, replace(W1, orphans_foreign=True), "did not make"),
    ("node.w1", W1, replace(W1, direct="on"), "direct control"),
    ("storage.nas", NAS, replace(NAS, durable_id="other:/x"), "points the storage target somewhere else"),
    ("storage.nas", NAS, replace(NAS, state="decommissioned"), "detaches the storage target"),
    ("storage.nas", NAS, replace(NAS, role="bulk-data"), "changes the role"),
    (
        "storage.nas",
        NAS,
        replace(NAS, policy=StoragePolicy(retain=1)),
        "changes policy.retain of the storage target, to or from that of [backups]",
    ),
    (
        "storage.nas",
        replace(NAS, policy=StoragePolicy(retain=Retain(last=3, daily=7))),
        replace(NAS, policy=StoragePolicy(retain=Retain(last=9, daily=6))),
        "lowers policy.retain of the storage target (last 3, daily 7 → last 9, daily 6)",
    ),
    ("storage.nas", replace(NAS, nodes=("w1", "w2")), replace(NAS, nodes=("w1",)), "detaches the storage target from"),
    ("storage.nas", NAS, replace(NAS, location="/mnt/other"), "points the storage target somewhere else"),
    (
        "storage.nas",
        NAS,
        replace(NAS, policy=StoragePolicy(schedule="never")),
        "changes policy.schedule of the storage target",
    ),
    ("storage.nas", NAS, replace(NAS, speed="fast"), None),
]


def demanded(address: str, before: Any, after: Any, rules: Rules = NEWEST) -> tuple[Demand, ...]:
    def entry(value: Any) -> Entry | None:
        return None if value is None else Entry(canonical.digest(canonical.encode(value)))

    return grades.demands(
        Step(
            address,
            entry(before),
            entry(after),
            lambda: canonical.encode(before),
            lambda: canonical.encode(after),
            rules=rules,
        )
    )


@pytest.mark.parametrize(("address", "before", "after", "reason"), TABLE)
def test_a_delta_needs_the_grade_of_the_table(address: str, before: Any, after: Any, reason: str | None) -> None:
    """By the first rules: the past of a fleet is judged by them for ever."""
    found = demanded(address, before, after, "first")
    if reason is None:
        assert found == ()
    else:
        assert [demand.grade for demand in found] == ["destroy"]
        assert reason in found[0].reason


@pytest.mark.parametrize(
    ("address", "before", "after", "reason"), [row for row in TABLE if row[0].startswith("service.") or row[3]]
)
def test_the_newest_rules_only_add_to_the_first(address: str, before: Any, after: Any, reason: str | None) -> None:
    assert demanded(address, before, after) == demanded(address, before, after, "first")


def test_every_kind_of_resource_has_rows_in_the_table() -> None:
    """A new kind without rules fails here before it can slip through."""
    covered = {address.partition(".")[0] for address, *_ in TABLE} | {"trust", "policy"}
    assert covered == set(KINDS) == {kind.name for kind in every.KINDS}


def test_adding_a_node_needs_destroy_and_so_does_each_of_its_powers() -> None:
    assert [d.reason for d in demanded("node.w2", None, replace(W1, name="w2"))] == ["adds a node"]
    loose = replace(W1, name="w2", direct="on", orphans="remove", orphans_foreign=True)
    assert len(demanded("node.w2", None, loose)) == 4


def test_a_new_service_needs_apply_unless_it_reaches_into_the_host() -> None:
    assert demanded("service.x", None, service(DATA)) == ()
    assert [d.grade for d in demanded("service.x", None, service("/root:/x"))] == ["destroy"]


def test_what_was_buried_counts_as_before() -> None:
    """Undeploying and creating anew must not be a way around the grade: the data may still be there."""
    guarded, loose = service(DATA), service(replace(DATA, protect="none"))
    found = grades.demands(
        Step(
            "service.x",
            None,
            Entry("0" * 64),
            lambda: b"",
            lambda: canonical.encode(loose),
            lambda: canonical.encode(guarded),
        )
    )
    assert [demand.grade for demand in found] == ["destroy"]


def test_trust_needs_root_and_founding_it_does_not() -> None:
    thresholds = [Thresholds(), Thresholds(root=2)]
    assert [d.grade for d in demanded("trust", thresholds[0], thresholds[1])] == ["root"]
    assert [d.grade for d in demanded("trust", None, thresholds[0])] == ["destroy"]


@pytest.mark.parametrize("address", ["policy.x", "storage.x", "node.x"])
def test_removing_what_guards_others_needs_destroy(address: str) -> None:
    assert [d.grade for d in demanded(address, NAS, None)] == ["destroy"]


def test_retiring_a_service_keeps_the_data_and_needs_apply() -> None:
    assert demanded("service.x", W1, None) == ()


def test_policies_may_be_added_and_widened_only_with_destroy_o_32() -> None:
    """O-31, O-32: bindings are compared as applied facts."""
    text, other = Entry("0" * 64, applies_to=("fleet", "service.a")), Entry("1" * 64, applies_to=("fleet",))
    cases = [
        (None, text, 0),
        (text, text, 0),
        (text, replace(text, applies_to=("fleet",)), 1),
        (replace(text, applies_to=("fleet",)), text, 0),
        (text, other, 1),
        (replace(text, applies_to=UNSET), text, 0),
    ]
    for before, after, count in cases:
        found = grades.demands(Step("policy.p", before, after, lambda: b"", lambda: b""))
        assert len(found) == count, (before, after)


@pytest.mark.parametrize(
    ("scope", "addresses", "outside"),
    [
        ((), ("fleet", "node.x"), None),
        (("service.web",), ("service.web",), None),
        (("service.web",), ("service.web", "service.web2"), "service.web2"),
        (("service.*",), ("service.a", "service.b"), None),
        (("service.*",), ("node.a",), "node.a"),
        (("service.web",), ("service.web", "name:www.a.test"), "name:www.a.test"),
        (("service.web", "name:www.a.test"), ("service.web", "name:www.a.test"), None),
        (("service.web", "name:*.a.test"), ("name:www.a.test", "name:x.y.a.test"), None),
        (("service.web", "name:*.a.test"), ("name:a.test",), "name:a.test"),
        (("service.web", "name:*.a.test"), ("name:www.xa.test",), "name:www.xa.test"),
        (("service.*",), ("name:service.a.test",), "name:service.a.test"),
        (("service.web",), ("worker:w1", "worker:w2"), None),
        (("service.web", "node:w1"), ("worker:w1", "worker:w2"), "node:w2"),
        (("service.web",), ("node:hub1",), "node:hub1"),
        (("service.web", "node:hub1"), ("node:hub1",), None),
        (("service.web", "worker:w1", "node:w2"), ("worker:w1",), "node:w1"),
        (("node.*", "name:*"), ("node:hub1", "name:www.a.test"), "node:hub1"),
    ],
)
def test_a_scope_limits_what_an_operator_signs(
    scope: tuple[str, ...], addresses: tuple[str, ...], outside: str | None
) -> None:
    assert outside_scope(Operator("ci", "key", "apply", scope=scope), addresses) == outside


def test_weakening_is_noticed_in_every_combination() -> None:
    """Two weakenings at once never hide each other."""
    weakenings: list[dict[str, Any]] = [{"protect": False}, {"custody": "hub"}]
    strong = service(DATA, protect=True)
    for chosen in itertools.combinations(weakenings, 2):
        merged: dict[str, Any] = {k: v for one in chosen for k, v in one.items()}
        assert len(demanded("service.x", strong, replace(strong, **merged))) == 2
