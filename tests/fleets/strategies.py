"""Any fleet directory, as hypothesis draws it: small, valid, and full of coincidences."""

from hypothesis import strategies as st
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from holdfast.adapters.signer.memory import MemorySigner
from holdfast.model.fleet import (
    AlertTarget,
    Backups,
    Component,
    Fleet,
    Health,
    Node,
    Operator,
    Policy,
    Route,
    Service,
    Settings,
    Storage,
    Thresholds,
    Timeouts,
    Volume,
)
from holdfast.model.ssh_key import line

SIGNER = MemorySigner(b"a" * 32)
OPERATOR = Operator("alice", line(SIGNER.public_key), "root")
DIGEST = "@sha256:" + "a1" * 32

names = st.sampled_from(["api", "blog", "cache", "db", "eel", "fig"])
images = st.sampled_from([f"reg.test/one{DIGEST}", f"reg.test/two{DIGEST}", "reg.test/three:1"])
words = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=5)
volumes = st.builds(
    Volume,
    st.sampled_from(["data", "logs"]),
    st.sampled_from(["/data", "/var/lib/x"]),
    st.sampled_from(["backup", "none"]),
)


@st.composite
def components(draw: st.DrawFn, with_data: bool) -> Component:
    modes, public = st.sampled_from(["l4", "l7"]), st.booleans()
    routes = draw(st.lists(st.builds(Route, st.just("http"), st.integers(1, 9999), modes, public=public), max_size=1))
    return Component(
        draw(st.sampled_from(["web", "worker"])),
        draw(images),
        cmd=tuple(draw(st.lists(words, max_size=2))),
        env=draw(st.dictionaries(st.sampled_from(["A", "B"]), words, max_size=2)),
        volumes=(draw(volumes),) if with_data else (),
        routes=tuple(routes),
        replicas=1 if with_data else draw(st.integers(1, 3)),
        health=draw(st.just(UNSET) | st.just(Health("tcp", port=80))),
    )


@st.composite
def services(draw: st.DrawFn, nodes: list[str], with_data: bool = False) -> Service:
    choices: list[str | UnsetType] = [UNSET, *nodes]
    pin = draw(st.sampled_from(choices))
    return Service(
        components=(draw(components(with_data)),),
        tier=draw(st.sampled_from(["worker", "core"])),
        node=pin,
        active=draw(st.booleans()),
    )


@st.composite
def fleets(draw: st.DrawFn, with_data: bool = False) -> Fleet:
    workers = draw(st.lists(st.sampled_from(["w1", "w2", "w3", "w4"]), min_size=1, unique=True))
    nodes = {"hub1": Node("hub1", ("hub",)), **{name: Node(name, ("worker",)) for name in workers}}
    nodes |= {name: Node(name, ("edge",)) for name in draw(st.sampled_from([("e1",), ("e2",), ("e1", "e2")]))}
    homes = draw(st.lists(st.sampled_from(sorted(nodes)), unique=True))
    nodes |= {name: replace(nodes[name], address=f"100.64.0.{at}") for at, name in enumerate(homes, 1)}
    declared = draw(st.dictionaries(names, services(workers, with_data), max_size=5))
    policies = draw(st.lists(st.sampled_from(["read", "write"]), unique=True))
    alerts = draw(st.lists(st.sampled_from(["chat", "mail"]), unique=True))
    targets = draw(st.lists(st.sampled_from(["nas", "usb"]), unique=True))
    return Fleet(
        Settings("home", removals_max=100, public_domains=("example.test",)),
        Thresholds(),
        (OPERATOR,),
        Backups(),
        Timeouts(),
        nodes,
        dict(draw(st.permutations(list(declared.items())))),
        {name: Storage(name, "nfs", f"server:/{name}") for name in targets},
        {name: Policy(name, draw(words).encode(), ("fleet",)) for name in policies},
        {name: AlertTarget(name, webhook=f"https://{name}.test/x") for name in alerts},
    )
