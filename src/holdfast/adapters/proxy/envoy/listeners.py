"""Envoy's listeners: one filter chain per set of server names. Pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache

from msgspec import Raw, Struct

from holdfast.adapters.proxy.envoy import access_log, cleaning, upgrades
from holdfast.adapters.proxy.envoy.names import (
    CACHED,
    INTERNAL,
    PLAIN,
    PUBLIC,
    chain_name,
    cluster_name,
    extension,
    file_source,
    kind_of,
    place_of,
    raw,
    secret_name,
    socket_address,
)
from holdfast.adapters.proxy.envoy.requests import SILENT, SNI
from holdfast.model import client_headers
from holdfast.model import route as model
from holdfast.ports.proxy import Listening, ProxyRoute

NO_NAME = "nobody.invalid"  # a reserved name (RFC 6761), never requested: Envoy refuses a listener without a chain
HTTP = "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
OPENER = "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig"
FETCH_S = 2  # a missing certificate file must not delay the other names for longer
BUFFER_BYTES = 64 * 1024
HEADERS_S = 10
IDLE_S = 300
STREAMS_MAX = 256

# TLS 1.3 has only authenticated ciphers; of TLS 1.2 these are allowed, only on the public listener.
CIPHERS = (
    "ECDHE-ECDSA-AES128-GCM-SHA256",
    "ECDHE-RSA-AES128-GCM-SHA256",
    "ECDHE-ECDSA-CHACHA20-POLY1305",
    "ECDHE-RSA-CHACHA20-POLY1305",
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-RSA-AES256-GCM-SHA384",
)
TLS: Mapping[str, Mapping[str, object]] = {
    INTERNAL: {"tls_minimum_protocol_version": "TLSv1_3", "tls_maximum_protocol_version": "TLSv1_3"},
    PUBLIC: {
        "tls_minimum_protocol_version": "TLSv1_2",
        "tls_maximum_protocol_version": "TLSv1_3",
        "cipher_suites": list(CIPHERS),
    },
}
# Removed before Envoy itself reads them; cleaning.py removes the others of a client. An edge sets x-forwarded-for.
UNREAD: Mapping[str, tuple[str, ...]] = {
    INTERNAL: tuple(name for name in client_headers.OWN if name != "x-forwarded-for"),
    PUBLIC: client_headers.OWN,
    PLAIN: (),
}
# Requests that an edge accepts and extends must fit through the worker's limits.
HEADERS_MAX = {INTERNAL: 200, PUBLIC: 100, PLAIN: 100}
HEADERS_KB_MAX = {INTERNAL: 96, PUBLIC: 60, PLAIN: 60}
HOPS = {INTERNAL: 1, PUBLIC: 0, PLAIN: 0}  # number of trusted proxies before this one


class Spot(Struct, frozen=True):
    """One listen address and port, and the kind of traffic it serves."""

    kind: str
    address: str
    asked: int  # the port that routes name
    port: int  # the port that is bound
    also_public: bool = False  # an edge serves public names on its overlay address, too; never internal ones publicly

    @property
    def name(self) -> str:
        return f"{self.kind}-{self.address}-{self.port}"


def spots(listening: Listening, ports: Mapping[int, int]) -> tuple[Spot, ...]:
    internal = [
        Spot(INTERNAL, listening.internal, port, ports.get(port, port), bool(listening.public) and port == model.HTTPS)
        for port in model.LISTENERS
    ]
    if not listening.public:
        return tuple(internal)
    https, plain = model.HTTPS, model.PLAIN
    return (
        *internal,
        Spot(PUBLIC, listening.public, https, ports.get(https, https)),
        Spot(PLAIN, listening.public, plain, ports.get(plain, plain)),
    )


def at(spot: Spot, routes: Sequence[ProxyRoute]) -> list[ProxyRoute]:
    return [
        one
        for one in routes
        if (spot.kind == kind_of(one) or (spot.also_public and one.public))
        and spot.asked == (model.HTTPS if one.public else one.listener)
    ]


class Shown(Struct, frozen=True):
    """The path of a chain's certificate. A watched one is read again when it is renewed."""

    path: str
    watched: bool


class Paths(Struct, frozen=True):
    tables: str  # folder of request routes, one file per kind
    openers: str  # folder of HTTP connection managers, one file per kind
    access_log: str


def opener(spot: Spot, paths: Paths) -> Raw:
    """The HTTP connection manager, once per listener. Chains only refer to it, so that thousands of them stay small and
    none is replaced (which closes its connections) when it changes."""
    return raw(_requests(spot, paths) | {"@type": OPENER})


def opener_name(kind: str) -> str:
    return f"requests-{kind}"


def listener(
    spot: Spot, routes: Sequence[ProxyRoute], shown: Callable[[ProxyRoute], Shown], paths: Paths
) -> dict[str, object]:
    made: dict[str, object] = {
        "@type": "type.googleapis.com/envoy.config.listener.v3.Listener",
        "name": spot.name,
        "address": socket_address(spot.address, spot.port),
        "per_connection_buffer_limit_bytes": BUFFER_BYTES,
        # The overlay may come up after the proxy: listen even if the address does not exist yet.
        "freebind": True,
        # TCP keep-alive (SO_KEEPALIVE) detects vanished peers: streams have no time limit.
        "socket_options": [{"level": 1, "name": 9, "int_value": 1, "state": "STATE_LISTENING"}],
    }
    if spot.kind == PLAIN:
        return {**made, "filter_chains": [{"filters": [_requests(spot, paths)]}]}
    inspector = extension("tls_inspector", "extensions.filters.listener.tls_inspector.v3.TlsInspector")
    return {
        **made,
        "listener_filters": [inspector],
        "listener_filters_timeout": f"{HEADERS_S}s",
        "access_log": access_log.of_handshakes(paths.access_log, spot.name),
        "filter_chains": list(_chains(spot, at(spot, routes), shown, paths)),
    }


def _chains(
    spot: Spot, routes: Sequence[ProxyRoute], shown: Callable[[ProxyRoute], Shown], paths: Paths
) -> Iterator[Raw]:
    for route in routes:
        if route.mode == "l7":
            yield _opened(kind_of(route), route, shown(route), paths)
        elif route.backends:
            yield _passed(spot, route, paths)
    yield raw({"name": NO_NAME, "filter_chain_match": _match((NO_NAME,)), "filters": [_closed()]})


@lru_cache(CACHED)
def _opened(kind: str, route: ProxyRoute, shown: Shown, paths: Paths) -> Raw:
    """A public name is terminated as a public one on every listener."""
    source = file_source(f"{paths.openers}/{kind}.json")
    named = {"config_source": source, "type_urls": [f"type.googleapis.com/{HTTP}"]}
    return raw(
        {
            "name": chain_name(route),
            "filter_chain_match": _match(route.hostnames),
            "filters": [{"name": opener_name(kind), "config_discovery": named}],
            "transport_socket": _terminated(kind, _certificate(route, shown)),
        }
    )


def _certificate(route: ProxyRoute, shown: Shown) -> dict[str, object]:
    if shown.watched:
        source = file_source(shown.path, initial_fetch_timeout=f"{FETCH_S}s")
        return {"tls_certificate_sds_secret_configs": [{"name": secret_name(route), "sds_config": source}]}
    both = {"filename": shown.path}
    return {"tls_certificates": [{"certificate_chain": both, "private_key": both}]}


def _match(names: Sequence[str]) -> dict[str, object]:
    return {"server_names": list(names), "transport_protocol": "tls"}


def _terminated(kind: str, shown: Mapping[str, object]) -> dict[str, object]:
    return extension(
        "tls",
        "extensions.transport_sockets.tls.v3.DownstreamTlsContext",
        common_tls_context={"tls_params": TLS[kind], "alpn_protocols": ["h2", "http/1.1"], **shown},
    )


@lru_cache(CACHED)
def _passed(spot: Spot, route: ProxyRoute, paths: Paths) -> Raw:
    onward = extension(
        "envoy.filters.network.tcp_proxy",
        "extensions.filters.network.tcp_proxy.v3.TcpProxy",
        stat_prefix=spot.kind,
        cluster=cluster_name(route),
        idle_timeout="0s",
        max_connect_attempts=3,
        access_log=access_log.of_connections(paths.access_log, spot.name),
    )
    names = tuple(dict.fromkeys((*route.hostnames, *route.aliases)))  # an edge keeps the public name when passing on
    return raw({"name": chain_name(route), "filter_chain_match": _match(names), "filters": [onward]})


def _closed() -> dict[str, object]:
    return extension(
        "envoy.filters.network.direct_response", "extensions.filters.network.direct_response.v3.Config"
    )  # with an empty response: it closes the connection


def _requests(spot: Spot, paths: Paths) -> dict[str, object]:
    filters = [*cleaning.filters(spot.kind), _router()]
    return extension(
        opener_name(spot.kind),
        HTTP.removeprefix("envoy."),
        stat_prefix=spot.kind,
        rds={"config_source": file_source(f"{paths.tables}/{spot.kind}.json"), "route_config_name": spot.kind},
        access_log=access_log.of_requests(paths.access_log, spot.name),
        http_filters=filters,
        upgrade_configs=upgrades.websockets(filters),
        use_remote_address=True,
        xff_num_trusted_hops=HOPS[spot.kind],
        early_header_mutation_extensions=[_unread(spot.kind)] if UNREAD[spot.kind] else [],
        # No client address counts as internal, so that no client can control this proxy with x-envoy headers.
        internal_address_config={"cidr_ranges": [{"address_prefix": "255.255.255.255", "prefix_len": 32}]},
        server_header_transformation="PASS_THROUGH",
        generate_request_id=False,
        request_headers_timeout=f"{HEADERS_S}s",
        stream_idle_timeout="0s",
        common_http_protocol_options={
            "idle_timeout": f"{IDLE_S}s",
            # A CGI reads `X_Forwarded_For` as `X-Forwarded-For`: outside clients must not bypass the removal.
            "headers_with_underscores_action": "ALLOW" if spot.kind == INTERNAL else "DROP_HEADER",
            "max_headers_count": HEADERS_MAX[spot.kind],
        },
        max_request_headers_kb=HEADERS_KB_MAX[spot.kind],
        http2_protocol_options={
            "allow_connect": True,
            "max_concurrent_streams": STREAMS_MAX,
            "connection_keepalive": {"interval": "30s", "timeout": "20s"},
        },
        local_reply_config={"mappers": [_silent()]},
    )


def _router() -> dict[str, object]:
    return extension(
        "envoy.filters.http.router", "extensions.filters.http.router.v3.Router", suppress_envoy_headers=True
    )


def _unread(kind: str) -> dict[str, object]:
    asked = {"header": {"key": SNI, "value": "%REQUESTED_SERVER_NAME%"}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}
    mutations: list[dict[str, object]] = [{"remove": name} for name in UNREAD[kind]]
    return extension(
        "unread",
        "extensions.http.early_header_mutation.header_mutation.v3.HeaderMutation",
        mutations=[*mutations, {"append": asked}],
    )


def _silent() -> dict[str, object]:
    """502 for a backend that is missing or does not answer (M-86), with a body that reveals no address."""
    unanswered = {"response_flag_filter": {"flags": ["UH", "UF", "NC", "UC", "UR", "LR", "URX"]}}
    ours = {
        "status_code_filter": {"comparison": {"op": "EQ", "value": {"default_value": 503, "runtime_key": "silent"}}}
    }
    return {
        "filter": {"and_filter": {"filters": [unanswered, ours]}},
        "status_code": 502,
        "body": {"inline_string": SILENT},
    }


def claimed_twice(spots: Sequence[Spot], routes: Sequence[ProxyRoute]) -> str:
    """The first name claimed by two routes of one listener; Envoy would refuse the set with an unclear message."""
    for spot in spots:
        seen: dict[str, str] = {}
        for route in at(spot, routes):
            for name in dict.fromkeys((*route.hostnames, *_asked_too(spot, route))):
                other = seen.setdefault(name.lower(), place_of(route))
                if other != place_of(route):
                    return f"{name} (of {other} and {place_of(route)})"
    return ""


def _asked_too(spot: Spot, route: ProxyRoute) -> tuple[str, ...]:
    """Further names that this listener distinguishes: by Host for requests of its own kind, by SNI when passing on. An
    edge that also runs the service has its public name twice: to terminate it, and as the Host that it passes on."""
    return route.aliases if spot.kind == kind_of(route) and not (route.mode == "l7" and spot.also_public) else ()
