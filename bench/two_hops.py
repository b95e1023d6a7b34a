"""Envoy configured by hand, twice: on the edge and on the worker, in their network namespaces, to the same container.

The same program, threads, ciphers and protocols as ours, in one file that never changes. On `PORT` nothing of ours
beside that. On `SAME_PORT` also the same filters of requests, limits and access log; not our table of routes, which
compares names, sets headers and tries again.
"""

import json
import os
import subprocess
import time
from collections.abc import Mapping

from bench import bare_envoy
from bench.bare_envoy import API
from bench.edge_lab import EDGE, WORKER, EdgeLab
from holdfast.adapters.certificates.files import X509Certificates
from holdfast.adapters.disk.posix import PosixDisk
from holdfast.adapters.proxy.envoy import listeners
from holdfast.adapters.proxy.envoy.listeners import BUFFER_BYTES, CIPHERS, Paths, Spot
from holdfast.adapters.proxy.envoy.names import INTERNAL, PUBLIC
from holdfast.adapters.proxy.envoy.proxy import packaged_binary
from holdfast.model.certificate import Constraints, armoured

PORT, SAME_PORT = 18443, 18444
END_S_MAX = 15.0
BACKEND = "by-hand.svc.lab.test"
NEWEST = {"tls_minimum_protocol_version": "TLSv1_3", "tls_maximum_protocol_version": "TLSv1_3"}
FOR_ALL = {"tls_minimum_protocol_version": "TLSv1_2", "tls_maximum_protocol_version": "TLSv1_3"}


class TwoHops:
    """Runs from `with` to its end, on a port of its own of both nodes."""

    def __init__(self, lab: EdgeLab, folder: str, hostname: str, port: int = PORT) -> None:
        self._lab, self._folder, self._port = lab, folder, port
        os.makedirs(folder, mode=0o700)
        self._keeper = X509Certificates(folder, PosixDisk())
        domains = (hostname.partition(".")[2], BACKEND.partition(".")[2])
        issuer = self._keeper.issuer("by-hand", Constraints(domains), time.time())
        self._authority = self._file("authority.pem", armoured(issuer).encode())
        self._shown = {name: self._certificate(name) for name in (hostname, BACKEND)}
        self._hostname = hostname
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(process.pid for process in self._processes)

    def __enter__(self) -> "TwoHops":
        address, port = self._lab.container()
        worker, edge = self._lab.addresses[WORKER], self._lab.addresses[EDGE]
        container = _cluster("container", address, port)
        onward = _cluster("worker", worker, self._port) | {
            "transport_socket": self._proving(),
            "typed_extension_protocol_options": {
                "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                    "@type": f"{API}.extensions.upstreams.http.v3.HttpProtocolOptions",
                    "explicit_http_config": {"http2_protocol_options": {}},
                }
            },
        }
        try:
            self._start(WORKER, self._listener(INTERNAL, worker, BACKEND, NEWEST, "container"), container)
            outside = {**FOR_ALL, "cipher_suites": list(CIPHERS)}
            self._start(EDGE, self._listener(PUBLIC, edge, self._hostname, outside, "worker"), onward)
            for node_address in (worker, edge):
                bare_envoy.until_open(node_address, self._port)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.wait(timeout=END_S_MAX)

    def _start(self, node: str, listener: object, cluster: object) -> None:
        """In the network of the node alone; files and processes are the host's."""
        told = {
            "node": {"id": node, "cluster": "by-hand"},
            "static_resources": {"listeners": [listener], "clusters": [cluster]},
        }
        path = self._file(f"{node}.json", json.dumps(told).encode())
        words = [packaged_binary(), "--config-path", path, "--log-level", "error", "--disable-hot-restart"]
        words += ["--concurrency", str(len(os.sched_getaffinity(0)))]
        words = ["nsenter", "-t", str(self._lab.pids(node)["node"]), "-n", "--", *words]
        self._processes.append(subprocess.Popen(words, stdin=subprocess.DEVNULL, start_new_session=True))

    def _listener(
        self, kind: str, address: str, name: str, tls: Mapping[str, object], cluster: str
    ) -> dict[str, object]:
        requests = self._like_ours(kind, cluster) if self._port == SAME_PORT else self._plain()
        requests["route_config"] = {"name": "by-hand", "virtual_hosts": [_everybody(cluster)]}
        opened = {
            "@type": f"{API}.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
            "common_tls_context": {
                "tls_params": tls,
                "tls_certificates": [self._shown[name]],
                "alpn_protocols": ["h2", "http/1.1"],
            },
        }
        chain = {
            "filters": [{"name": "requests", "typed_config": requests}],
            "transport_socket": {"name": "tls", "typed_config": opened},
        }
        spot = {"socket_address": {"address": address, "port_value": self._port}}
        limits = {"per_connection_buffer_limit_bytes": BUFFER_BYTES} if self._port == SAME_PORT else {}
        return {"name": "by-hand", "address": spot, "filter_chains": [chain], **limits}

    def _plain(self) -> dict[str, object]:
        return {
            "@type": f"{API}.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
            "stat_prefix": "by-hand",
            "http_filters": [
                {"name": "router", "typed_config": {"@type": f"{API}.extensions.filters.http.router.v3.Router"}}
            ],
        }

    def _like_ours(self, kind: str, cluster: str) -> dict[str, object]:
        paths = Paths("", "", os.path.join(self._folder, f"{cluster}.log"))
        made: dict[str, object] = json.loads(bytes(listeners.opener(Spot(kind, "by-hand", 443, 443), paths)))[
            "typed_config"
        ]
        return {key: value for key, value in made.items() if key != "rds"}

    # ---- certificates, of the same kind as ours

    def _certificate(self, name: str) -> Mapping[str, object]:
        issued = self._keeper.issue((name,), time.time())
        chain, key = self._file(f"{name}.pem", issued.chain), self._file(f"{name}.key", issued.private)
        return {"certificate_chain": {"filename": chain}, "private_key": {"filename": key}}

    def _proving(self) -> dict[str, object]:
        names = [{"san_type": "DNS", "matcher": {"exact": BACKEND}}]
        validation = {"trusted_ca": {"filename": self._authority}, "match_typed_subject_alt_names": names}
        common = {"tls_params": NEWEST, "alpn_protocols": ["h2"], "validation_context": validation}
        return {
            "name": "tls",
            "typed_config": {
                "@type": f"{API}.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
                "sni": BACKEND,
                "common_tls_context": common,
            },
        }

    def _file(self, name: str, content: bytes) -> str:
        path = os.path.join(self._folder, name)
        with open(path, "wb") as file:
            file.write(content)
        return path


def _everybody(cluster: str) -> dict[str, object]:
    route = {"match": {"prefix": "/"}, "route": {"cluster": cluster, "timeout": "0s"}}
    return {"name": "all", "domains": ["*"], "routes": [route]}


def _cluster(name: str, address: str, port: int) -> dict[str, object]:
    """In a static file its kind is known."""
    return {key: value for key, value in bare_envoy.cluster(name, address, port).items() if key != "@type"}
