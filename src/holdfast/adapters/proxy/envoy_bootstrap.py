"""What Envoy is started with: where its files are, and how it is asked. All else it reads while it runs. Pure."""

import resource
from collections.abc import Sequence

from holdfast.adapters.proxy.envoy_names import extension, file_source

CONNECTIONS_MAX = 50_000
FILES_APART = 1_000  # for listeners, watches and the socket by which it is asked: those must not go first
DRAIN_S = 600  # how long connections of a name that left, or got other settings, may go on
THREADS_MAX = 8

# Statistics that we or a person look at. Envoy's others cost some 50 kB for each of two thousand services.
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


def _connections_max() -> int:
    """Each may need a file to its backend as well; beyond that a new client is refused, and not kept waiting."""
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
        # A socket in a directory that is closed to everybody else, never a port: whoever can ask may also shut it down.
        "admin": {"address": {"pipe": {"path": admin_socket, "mode": 0o600}}},
        "dynamic_resources": {"cds_config": file_source(clusters), "lds_config": file_source(listeners)},
        "stats_config": {"stats_matcher": {"inclusion_list": {"patterns": patterns}}},
        "overload_manager": {"resource_monitors": [limit]},
    }


def command(binary: str, configuration: str, threads: int) -> Sequence[str]:
    return (
        binary,
        *("--config-path", configuration),
        *("--log-level", "warning"),
        *("--concurrency", str(max(1, min(threads, THREADS_MAX)))),
        *("--drain-time-s", str(DRAIN_S)),
        *("--file-flush-interval-msec", "1000"),
        "--disable-hot-restart",  # two of one machine would meet at one socket
    )
