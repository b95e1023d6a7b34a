"""Backends as Envoy clusters: IP addresses only, never DNS names, which an attacker could redirect. Pure."""

from collections.abc import Sequence
from functools import lru_cache
from ipaddress import ip_address
from typing import Any

from msgspec import Raw

from holdfast.adapters.proxy.envoy.names import CACHED, cluster_name, extension, raw, socket_address, typed
from holdfast.errors import Invalid
from holdfast.ports.proxy import Backend, ProxyRoute, Upstream

CONNECT_S = 2
NEIGHBOUR_S = 1  # for another node in the overlay
# Far above a node's capacity: the container limits a service, and Envoy's default of 1,024 would answer 503 too early.
MANY = 1_000_000
# We close an idle connection before the server does: a request that meets a closing connection cannot be repeated
# safely. Servers close after 2 s (gunicorn), 5 s (node) or longer.
IDLE_S = 1


PROTOCOL = "typed_extension_protocol_options"  # only of clusters for requests, not of passed-through connections


@lru_cache(CACHED)
def cluster(route: ProxyRoute) -> Raw:
    name = cluster_name(route)
    made: dict[str, object] = {
        "@type": "type.googleapis.com/envoy.config.cluster.v3.Cluster",
        "name": name,
        "type": "STATIC",
        "connect_timeout": f"{NEIGHBOUR_S if route.public else CONNECT_S}s",
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": _endpoints(route.backends)}]},
        "circuit_breakers": {
            "thresholds": [
                {"max_connections": MANY, "max_pending_requests": MANY, "max_requests": MANY, "max_retries": 64}
            ]
        },
        "upstream_connection_options": {"tcp_keepalive": {"keepalive_time": 60, "keepalive_interval": 10}},
    }
    if len(route.backends) > 1:
        made |= {"lb_policy": "LEAST_REQUEST", "outlier_detection": _ejection(90)}
    elif route.public:
        # For a lost node: after three failed connection attempts, requests fail at once for a while.
        panic = {"healthy_panic_threshold": {"value": 0}}
        made |= {"outlier_detection": _ejection(100), "common_lb_config": panic}
    if route.mode == "l7":
        made[PROTOCOL] = {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": _protocol(route)}
        if route.upstream is not None:
            made["transport_socket"] = proving(route.upstream)
    return raw(made)


def read(made: dict[str, Any]) -> tuple[tuple[Backend, ...], bool]:
    """The backends of a cluster made above, and whether connections are passed through to them."""
    ends = (
        one["endpoint"]["address"]["socket_address"] for one in made["load_assignment"]["endpoints"][0]["lb_endpoints"]
    )
    return tuple(Backend(str(one["address"]), int(one["port_value"])) for one in ends), PROTOCOL not in made


def _endpoints(backends: Sequence[Backend]) -> list[dict[str, object]]:
    return [{"endpoint": {"address": socket_address(literal(one.address), one.port)}} for one in sorted(backends)]


def literal(address: str) -> str:
    try:
        return str(ip_address(address))
    except ValueError:
        raise Invalid(
            f"{address!r} is not an IP address: a proxy backend must be an address, never a name",
            remedy="report this, and attach the agent's log: journalctl -u holdfast-agent",
            code="invalid_backend",
        ) from None


def _ejection(percent: int) -> dict[str, object]:
    """Only failures to reach a backend count; the answers of a service do not."""
    return {
        "split_external_local_origin_errors": True,
        "consecutive_local_origin_failure": 3,
        "enforcing_consecutive_local_origin_failure": 100,
        "enforcing_consecutive_5xx": 0,
        "enforcing_consecutive_gateway_failure": 0,
        "enforcing_success_rate": 0,
        "enforcing_local_origin_success_rate": 0,
        "interval": "1s",
        "base_ejection_time": "2s",
        "max_ejection_time": "5s",
        "max_ejection_percent": percent,
    }


def _protocol(route: ProxyRoute) -> dict[str, object]:
    if route.upstream is not None or route.protocol == "h2c":
        # CONNECT carries a WebSocket between two of our proxies; a container that speaks h2c may refuse it.
        spoken: dict[str, object] = {"http2_protocol_options": {"allow_connect": route.upstream is not None}}
        common: dict[str, object] = {"idle_timeout": "60s"}
    else:
        spoken, common = {"http_protocol_options": {}}, {"idle_timeout": f"{IDLE_S}s"}
    return typed(
        "extensions.upstreams.http.v3.HttpProtocolOptions",
        explicit_http_config=spoken,
        common_http_protocol_options=common,
    )


def proving(upstream: Upstream) -> dict[str, object]:
    """TLS to another node's proxy: only with exactly this name, signed by exactly this authority."""
    names = [{"san_type": "DNS", "matcher": {"exact": upstream.name}}]
    validation = {"trusted_ca": {"inline_string": upstream.authority}, "match_typed_subject_alt_names": names}
    return extension(
        "tls",
        "extensions.transport_sockets.tls.v3.UpstreamTlsContext",
        sni=upstream.name,
        common_tls_context={
            "tls_params": {"tls_minimum_protocol_version": "TLSv1_3", "tls_maximum_protocol_version": "TLSv1_3"},
            "alpn_protocols": ["h2"],
            "validation_context": validation,
        },
    )
