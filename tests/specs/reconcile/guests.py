"""Small guests and containers for the specs of this room: one word says what they are."""

from typing import Any

from holdfast.model.container import (
    Container,
    ContainerPhase,
    ContainerSpec,
    Guest,
    Mount,
    Part,
    Published,
    labels_of,
    spec_digest,
)
from holdfast.model.fleet import Route
from holdfast.reconcile.here import Here, Seen, Word

FLEET = "f" * 64
ROUTE = Route("http", 8080)


def part(
    component: str = "web",
    version: str = "1",
    replicas: int = 1,
    volume: str = "",
    recreate: bool = False,
    network: str = "",
    **more: Any,
) -> Part:
    """A volume makes it a part that is replaced in place."""
    mounts = (Mount(f"/srv/shop/{volume}", "/data"),) if volume else ()
    spec = ContainerSpec(FLEET, "shop", component, 0, f"{component}:{version}", "", mounts=mounts, network=network)
    more.setdefault("routes", (ROUTE,))
    return Part(spec, spec_digest(spec), replicas, recreate or bool(volume), **more)


def guest(*parts: Part, deployment: str = "d1", active: bool = True) -> Guest:
    return Guest("shop", deployment, 0, parts, active)


def container(
    of: Part,
    id: str,
    replica: int = 0,
    running: bool = True,
    deployment: str = "d1",
    phase: ContainerPhase | None = None,
    **more: Any,
) -> Container:
    return Container(
        id,
        f"name-{id}",
        phase or ("running" if running else "exited"),
        running,
        labels_of(of.spec, of.digest, deployment, replica),
        of.spec.reference,
        ports=(Published(8080, "10.0.0.1", 20000 + replica),),
        **more,
    )


def seen(of: Part, id: str, health: Word = "healthy", **more: Any) -> Seen:
    return Seen(container(of, id, **more), health)


def down(of: Part, id: str, **more: Any) -> Seen:
    return seen(of, id, "failed", running=False, **more)


def made(of: Part, id: str, **more: Any) -> Seen:
    return seen(of, id, "starting", running=False, phase="created", **more)


def here(*containers: Seen, **more: Any) -> Here:
    """Every image is there unless said otherwise: most sentences are not about pulling."""
    more.setdefault("images", EVERYTHING)
    for name in ("hooks", "owed", "ahead", "tried", "drained", "networks"):
        if name in more:
            more[name] = frozenset(more[name])
    if more.get("routed") is not None:
        more["routed"] = frozenset(more["routed"])
    return Here(containers, **more)


EVERYTHING = frozenset(f"{name}:{n}" for name in ("web", "db", "job", "api") for n in range(10))
