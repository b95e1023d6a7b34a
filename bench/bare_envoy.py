"""Envoy as a person configures it by hand: the same files, without any care. The peer of ours, and a backend."""

import json
import os
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from types import TracebackType

from holdfast.adapters.proxy.envoy.proxy import packaged_binary

READY_S = 30.0
API = "type.googleapis.com/envoy"


class BareEnvoy:
    """Runs from `with` to its end, in a folder of its own."""

    def __init__(self, folder: str, listeners: Sequence[object], clusters: Sequence[object], table: object) -> None:
        os.makedirs(folder, mode=0o700)
        self.folder = folder
        self._version = 0
        self.put("clusters", clusters)
        self.put("listeners", listeners)
        self.put("routes", [table])
        sources = {"cds_config": source(folder, "clusters"), "lds_config": source(folder, "listeners")}
        bootstrap = {"node": {"id": "bare", "cluster": "bare"}, "dynamic_resources": sources}
        with open(os.path.join(folder, "bootstrap.json"), "w", encoding="utf-8") as file:
            json.dump(bootstrap, file)

    def put(self, name: str, resources: Sequence[object]) -> None:
        self._version += 1
        path = os.path.join(self.folder, f"{name}.json")
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump({"version_info": str(self._version), "resources": resources}, file)
        os.rename(path + ".new", path)

    def __enter__(self) -> "BareEnvoy":
        command = [packaged_binary(), "--config-path", os.path.join(self.folder, "bootstrap.json")]
        command += ["--log-level", "error", "--concurrency", "2", "--disable-hot-restart"]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        self.pid = self._process.pid
        return self

    def __exit__(
        self, kind: type[BaseException] | None, trouble: BaseException | None, at: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait(timeout=READY_S)


def source(folder: str, name: str) -> dict[str, object]:
    return {"path_config_source": {"path": os.path.join(folder, f"{name}.json")}, "resource_api_version": "V3"}


def listener(address: str, port: int, folder: str, tls: Mapping[str, str] | None) -> dict[str, object]:
    """`tls` names the files of chain and key; without it requests come as they are."""
    manager = {
        "@type": f"{API}.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "bare",
        "rds": {"config_source": source(folder, "routes"), "route_config_name": "bare"},
        "http_filters": [
            {"name": "router", "typed_config": {"@type": f"{API}.extensions.filters.http.router.v3.Router"}}
        ],
    }
    chain: dict[str, object] = {"filters": [{"name": "requests", "typed_config": manager}]}
    if tls is not None:
        certificate = {"certificate_chain": {"filename": tls["chain"]}, "private_key": {"filename": tls["key"]}}
        context = {
            "@type": f"{API}.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
            "common_tls_context": {"tls_certificates": [certificate], "alpn_protocols": ["h2", "http/1.1"]},
        }
        chain["transport_socket"] = {"name": "tls", "typed_config": context}
    return {
        "@type": f"{API}.config.listener.v3.Listener",
        "name": f"{address}-{port}",
        "address": {"socket_address": {"address": address, "port_value": port}},
        "filter_chains": [chain],
    }


def cluster(name: str, address: str, port: int) -> dict[str, object]:
    endpoint = {"endpoint": {"address": {"socket_address": {"address": address, "port_value": port}}}}
    return {
        "@type": f"{API}.config.cluster.v3.Cluster",
        "name": name,
        "type": "STATIC",
        "connect_timeout": "1s",
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": [endpoint]}]},
    }


def table(hosts: Sequence[object]) -> dict[str, object]:
    return {
        "@type": f"{API}.config.route.v3.RouteConfiguration",
        "name": "bare",
        "ignore_port_in_host_matching": True,
        "virtual_hosts": list(hosts),
    }


def host(name: str, cluster_name: str) -> dict[str, object]:
    route = {"match": {"prefix": "/"}, "route": {"cluster": cluster_name, "timeout": "0s"}}
    return {"name": name, "domains": [name], "routes": [route]}


def saying(words: str) -> dict[str, object]:
    """A table of a backend that costs next to nothing: it says the same to everybody."""
    answer = {"match": {"prefix": "/"}, "direct_response": {"status": 200, "body": {"inline_string": words}}}
    return table([{"name": "all", "domains": ["*"], "routes": [answer]}])


def until_open(address: str, port: int) -> None:
    until_s = time.monotonic() + READY_S
    while time.monotonic() < until_s:
        try:
            socket.create_connection((address, port), 1.0).close()
            return
        except OSError:
            time.sleep(0.02)
    raise SystemExit(f"nobody listens on {address}:{port}")
