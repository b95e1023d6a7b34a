"""Clusters without a route: kept while requests or connections to them remain, then dropped."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from holdfast.adapters.proxy.envoy import clusters
from holdfast.adapters.proxy.envoy.admin import Admin
from holdfast.adapters.proxy.envoy.names import cluster_name, listed, raw
from holdfast.adapters.proxy.envoy.state import Lingering, State
from holdfast.ports.proxy import Backend, ProxyRoute

LINGER_S_MAX = 3600.0
UNDER_WAY = r"^cluster\..*\.upstream_(cx_active|rq_active|rq_pending_active)$"
OPEN = "upstream_cx_active"
# For requests, idle pooled connections do not count; for passed-through traffic each open connection counts.
COUNTED = {True: (OPEN,), False: ("upstream_rq_active", "upstream_rq_pending_active")}


def all_clusters(routes: Sequence[ProxyRoute], lingering: Mapping[str, Lingering]) -> bytes:
    named = {cluster_name(one): clusters.cluster(one) for one in routes if one.backends}
    return listed([*named.values(), *(one.cluster for name, one in sorted(lingering.items()) if name not in named)])


async def lingering(
    old: State | None, unnoted: bytes, routes: Sequence[ProxyRoute], now_s: float, admin: Admin
) -> dict[str, Lingering]:
    """Clusters that lose their last route with this set, and those of earlier sets that are still in use. `unnoted` is
    the present file of clusters, if an agent died before it noted that set: Envoy may send requests to all of them."""
    wanted = {cluster_name(one) for one in routes}
    left = {
        name: Lingering(clusters.cluster(one), one.backends, one.mode == "l4", now_s)
        for one in (old.routes if old else ())
        if one.backends and (name := cluster_name(one)) not in wanted
    }
    earlier = {name: one for name, one in old.lingering.items() if now_s - one.since_s < LINGER_S_MAX} if old else {}
    waiting = {name: one for name, one in earlier.items() if name not in wanted}
    found = await admin.gauges(UNDER_WAY) if waiting or unnoted else {}
    loaded = {
        name: waiting.get(name, one)
        for name, one in _of_file(unnoted, now_s).items()
        if name not in wanted and f"cluster.{name}.{OPEN}" in found
    }
    return {**loaded, **_busy(waiting, found), **left}


def _of_file(content: bytes, now_s: float) -> dict[str, Lingering]:
    """Nothing of a file that another program wrote, or that is cut off."""
    try:
        made = msgspec.json.decode(content, type=_File).resources if content else ()
        return {str(one["name"]): Lingering(raw(one), *clusters.read(one), now_s) for one in made}
    except (msgspec.MsgspecError, LookupError, TypeError, ValueError):
        return {}


class _File(msgspec.Struct):
    resources: tuple[dict[str, Any], ...]


async def busy(leaving: Mapping[str, Lingering], admin: Admin) -> dict[str, Lingering]:
    return _busy(leaving, await admin.gauges(UNDER_WAY))


def _busy(leaving: Mapping[str, Lingering], found: Mapping[str, int]) -> dict[str, Lingering]:
    return {
        name: one
        for name, one in leaving.items()
        if any(found.get(f"cluster.{name}.{end}", 0) for end in COUNTED[one.passed])
    }


def with_backend(state: State, gone: Sequence[Backend]) -> dict[str, Lingering]:
    return {name: one for name, one in state.lingering.items() if set(one.backends) & set(gone)}
