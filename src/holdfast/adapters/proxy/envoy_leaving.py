"""Clusters without a route: kept while requests or connections to them remain, then dropped."""

from collections.abc import Mapping, Sequence

from msgspec import Raw

from holdfast.adapters.proxy.envoy_admin import Admin
from holdfast.adapters.proxy.envoy_clusters import cluster
from holdfast.adapters.proxy.envoy_names import cluster_name
from holdfast.adapters.proxy.envoy_state import Lingering, State
from holdfast.ports.proxy import Backend, ProxyRoute

LINGER_S_MAX = 3600.0
UNDER_WAY = r"^cluster\..*\.upstream_(cx_active|rq_active|rq_pending_active)$"
# For requests, idle pooled connections do not count; for passed-through traffic each open connection counts.
COUNTED = {True: ("upstream_cx_active",), False: ("upstream_rq_active", "upstream_rq_pending_active")}


def clusters(routes: Sequence[ProxyRoute], lingering: Mapping[str, Lingering]) -> list[Raw]:
    named = {cluster_name(one): cluster(one) for one in routes if one.backends}
    return [*named.values(), *(one.cluster for name, one in sorted(lingering.items()) if name not in named)]


async def lingering(
    old: State | None, routes: Sequence[ProxyRoute], now_s: float, admin: Admin
) -> dict[str, Lingering]:
    """Clusters that lose their last route with this set, and those of earlier sets that are still in use."""
    if old is None:
        return {}
    wanted = {cluster_name(one) for one in routes}
    left = {
        name: Lingering(cluster(one), one.backends, one.mode == "l4", now_s)
        for one in old.routes
        if one.backends and (name := cluster_name(one)) not in wanted
    }
    earlier = {name: one for name, one in old.lingering.items() if now_s - one.since_s < LINGER_S_MAX}
    waiting = {name: one for name, one in earlier.items() if name not in wanted}
    return {**(await busy(waiting, admin) if waiting else {}), **left}


async def busy(leaving: Mapping[str, Lingering], admin: Admin) -> dict[str, Lingering]:
    found = await admin.gauges(UNDER_WAY)
    return {
        name: one
        for name, one in leaving.items()
        if any(found.get(f"cluster.{name}.{end}", 0) for end in COUNTED[one.passed])
    }


def with_backend(state: State, gone: Sequence[Backend]) -> dict[str, Lingering]:
    return {name: one for name, one in state.lingering.items() if set(one.backends) & set(gone)}
