"""Envoy's start configuration: file paths, admin socket, limits. It reads the rest while it runs. Pure."""

import resource
from collections.abc import Sequence

from holdfast.adapters.proxy.envoy.names import extension, file_source

CONNECTIONS_MAX = 50_000
FILES_APART = 1_000  # reserved for listeners, watches and the admin socket, which must not run out first
DRAIN_S = 600  # how long connections of a removed or changed name may continue
THREADS_MAX = 8

# The statistics in use. Envoy's others cost about 50 kB for each of two thousand services.
COUNTED_PREFIXES = ("cluster_manager.", "listener_manager.", "server.", "sds.")
COUNTED_SUFFIXES = (
    "version_text",
    "update_rejected",
    "update_success",
    ".upstream_cx_active",
    ".upstream_rq_active",
    ".upstream_rq_pending_active",
    ".upstream_rq_total",
    ".upstream_cx_connect_fail",
    ".downstream_cx_active",
    ".downstream_rq_active",
    ".downstream_rq_total",
    ".downstream_rq_5xx",
    ".ssl.connection_error",
)

# Of the lenient habits of its HTTP/1 parser, Envoy 1.40 lets us turn off one: bytes after a chunk (X23).
STRICT = {"envoy.reloadable_features.strict_chunk_parsing": True}


def _connections_max() -> int:
    """A connection may need a second file for its backend; beyond the limit a new client is refused at once."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if files == resource.RLIM_INFINITY:
        return CONNECTIONS_MAX
    return max(min(CONNECTIONS_MAX, (files - FILES_APART) // 2), 100)


def bootstrap(clusters: str, listeners: str, admin_socket: str) -> dict[str, object]:
    patterns = [{"prefix": prefix} for prefix in COUNTED_PREFIXES] + [{"suffix": end} for end in COUNTED_SUFFIXES]
    limit = extension(
        "envoy.resource_monitors.global_downstream_max_connections",
        "extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig",
        max_active_downstream_connections=_connections_max(),
    )
    return {
        "node": {"id": "holdfast", "cluster": "holdfast"},
        # A socket in a private directory, never a port: the admin API can also shut Envoy down.
        "admin": {"address": {"pipe": {"path": admin_socket, "mode": 0o600}}},
        "dynamic_resources": {"cds_config": file_source(clusters), "lds_config": file_source(listeners)},
        "stats_config": {"stats_matcher": {"inclusion_list": {"patterns": patterns}}},
        "overload_manager": {"resource_monitors": [limit]},
        "layered_runtime": {"layers": [{"name": "strict", "static_layer": STRICT}]},
    }


def command(binary: str, configuration: str, threads: int) -> Sequence[str]:
    return (
        binary,
        *("--config-path", configuration),
        *("--log-level", "warning"),
        *("--concurrency", str(max(1, min(threads, THREADS_MAX)))),
        *("--drain-time-s", str(DRAIN_S)),
        *("--file-flush-interval-msec", "1000"),
        "--disable-hot-restart",  # otherwise two Envoys on one machine would share a socket
    )
