"""Envoy's request routes by Host: one table per kind of listener, so none reveals another's names. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from msgspec import Raw

from holdfast.adapters.proxy.envoy import cleaning
from holdfast.adapters.proxy.envoy.names import (
    CACHED,
    INTERNAL,
    PLAIN,
    PUBLIC,
    cluster_name,
    extension,
    kind_of,
    place_of,
    raw,
)
from holdfast.model.route import HTTPS, known_path
from holdfast.ports.handshake import IDLE
from holdfast.ports.proxy import ProxyRoute

EDGE = "x-holdfast-edge"  # marks a request that an edge passes on; the worker's proxy removes it
SNI = "x-holdfast-sni"  # the name that the connection was opened for; of this proxy alone, passed on to none
CHALLENGE = "/.well-known/acme-challenge/"
SILENT = "The service behind this name does not answer.\n"
MISDIRECTED = "This connection is for another name. Open one for this name.\n"
UNKNOWN = "There is no service with this name here.\n"
DIRECT, PASSED_ON = "%DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT%", "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%"
# A request that never reached a service had no effect there, so it may be sent again.
AGAIN = {"retry_on": "connect-failure,refused-stream,reset-before-request", "num_retries": 2}
ELSEWHERE = {
    "retry_host_predicate": [
        extension("previous_hosts", "extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate")
    ],
    "host_selection_retry_max_attempts": 5,
}


def tables(routes: Sequence[ProxyRoute], challenges: Mapping[str, str], https: int) -> dict[str, Raw]:
    """By kind of listener. `https` is the port that plain requests are redirected to."""
    by_kind = {
        kind: [one for one in routes if one.mode == "l7" and kind_of(one) == kind] for kind in (INTERNAL, PUBLIC)
    }
    found = {kind: _table(kind, _hosts(of_kind)) for kind, of_kind in by_kind.items()}
    names = sorted({name for one in routes if one.public and one.mode == "l7" for name in one.hostnames})
    return {**found, PLAIN: _table(PLAIN, _plain(names, challenges, https))}


def _table(kind: str, hosts: list[Raw]) -> Raw:
    made: dict[str, object] = {
        "@type": "type.googleapis.com/envoy.config.route.v3.RouteConfiguration",
        "name": kind,
        "ignore_port_in_host_matching": True,
        "virtual_hosts": hosts,
    }
    made["request_headers_to_remove"] = ["x-envoy-external-address", *([EDGE] if kind == INTERNAL else [])]
    if kind != PLAIN:  # both listeners serve only TLS, and every hop keeps the Host
        made["request_headers_to_add"] = [
            _set("x-forwarded-proto", "https"),
            _set("x-forwarded-host", "%REQ(:AUTHORITY)%"),
        ]
    return raw(made)


def _hosts(routes: Iterable[ProxyRoute]) -> list[Raw]:
    """The last entry answers unknown names. An edge that requests a service which just left gets 502, and so does its
    client (M-86)."""
    left = {"match": {"prefix": "/", "headers": [{"name": EDGE, "present_match": True}]}, **_silence()}
    unknown = {**_refusing(), "routes": [left, *_refusal()]}
    return [*(host for route in routes for host in _of(route)), raw(unknown)]


@lru_cache(CACHED)
def _of(route: ProxyRoute) -> tuple[Raw, ...]:
    """A request for one of this listener's own names comes directly from the client: its socket address counts, not its
    headers. Requests for aliases were passed on by an edge, which vouches for the client's address."""
    direct = _host(f"{place_of(route)} direct", route.hostnames, DIRECT, route)
    passed_on = [name for name in route.aliases if name not in route.hostnames]
    if not passed_on:
        return (raw(direct),)
    behind = _host(f"{place_of(route)} passed on", passed_on, PASSED_ON, route)
    # The agent of an edge checks this path before it routes here. To a client whose request an edge passes on, it is a
    # path like any other, so that no client outside learns which services there are (X23).
    path = known_path(route.service, route.component, route.route)
    own = {"name": EDGE, "present_match": True, "invert_match": True}
    status = 204 if route.answers and route.backends else IDLE
    known = {"match": {"path": path, "headers": [own]}, "direct_response": {"status": status}}
    return raw(direct), raw({**behind, "routes": [*_misdirected(route), known, *_onward(route)]})


def _host(name: str, names: Sequence[str], client: str, route: ProxyRoute) -> dict[str, object]:
    onward = [_set(EDGE, "1")] if route.upstream is not None else []
    return {
        "name": name,
        "domains": list(names),
        "routes": [*_misdirected(route), *_onward(route)],
        "request_headers_to_add": [_set("x-forwarded-for", client), *onward],
        **cleaning.of(route),
    }


def _misdirected(route: ProxyRoute) -> list[dict[str, object]]:
    """A request over a connection that was opened for the name of another route (RFC 9110, 15.5.20)."""
    others = [{"name": SNI, "string_match": {"exact": name}, "invert_match": True} for name in route.hostnames]
    refusal = {"direct_response": {"status": 421, "body": {"inline_string": MISDIRECTED}}}
    return [{"match": {"prefix": "/", "headers": others}, **refusal}]


def _onward(route: ProxyRoute) -> list[dict[str, object]]:
    return [{"match": {"prefix": "/"}, **_target(route)}]


def _target(route: ProxyRoute) -> dict[str, object]:
    if not route.backends:
        return _silence()
    # No time limit on answers: streams, WebSockets and long calls pass here.
    again = AGAIN if len(route.backends) == 1 else {**AGAIN, **ELSEWHERE}
    return {"route": {"cluster": cluster_name(route), "timeout": "0s", "retry_policy": again}}


def _plain(names: Sequence[str], challenges: Mapping[str, str], https: int) -> list[Raw]:
    """Challenges are answered for every name: the first certificate is ordered before the route exists."""
    answers = [
        {"match": {"path": CHALLENGE + token}, "direct_response": {"status": 200, "body": {"inline_string": content}}}
        for token, content in sorted(challenges.items())
    ]
    redirect: dict[str, object] = {"https_redirect": True, "response_code": "MOVED_PERMANENTLY"}
    if https != HTTPS:
        redirect["port_redirect"] = https
    hosts = [raw({**_refusing(), "routes": [*answers, *_refusal()]})]
    if names:
        onward = {"match": {"prefix": "/"}, "redirect": redirect}
        hosts.append(raw({"name": "known", "domains": list(names), "routes": [*answers, onward]}))
    return hosts


def _silence() -> dict[str, object]:
    return {"direct_response": {"status": 502, "body": {"inline_string": SILENT}}}


def _refusing() -> dict[str, object]:
    return {"name": "unknown", "domains": ["*"], "routes": _refusal()}


def _refusal() -> list[dict[str, object]]:
    return [{"match": {"prefix": "/"}, "direct_response": {"status": 404, "body": {"inline_string": UNKNOWN}}}]


def _set(header: str, value: str) -> dict[str, object]:
    return {"header": {"key": header, "value": value}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}
