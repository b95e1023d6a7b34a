"""Envoy's access log configuration: one JSON object per line. Pure.

Paths are logged without the query, which often contains secrets. A connection with requests is logged by its
requests; a failed handshake gets its own line with the reason (M-06).
"""

from holdfast.adapters.proxy.envoy.names import extension

PASSED = {
    "time": "%START_TIME%",
    "sni": "%REQUESTED_SERVER_NAME%",
    "client": "%DOWNSTREAM_DIRECT_REMOTE_ADDRESS%",
    "bytes_in": "%BYTES_RECEIVED%",
    "bytes_out": "%BYTES_SENT%",
    "duration_ms": "%DURATION%",
    "upstream": "%UPSTREAM_HOST%",
    "flags": "%RESPONSE_FLAGS%",
}
REQUEST = {
    **PASSED,
    "host": "%REQ(:AUTHORITY)%",
    "method": "%REQ(:METHOD)%",
    "path": "%PATH(NQ)%",
    "status": "%RESPONSE_CODE%",
}
HANDSHAKE = {
    "time": "%START_TIME%",
    "sni": "%REQUESTED_SERVER_NAME%",
    "client": "%DOWNSTREAM_DIRECT_REMOTE_ADDRESS%",
    "failure": "%DOWNSTREAM_TRANSPORT_FAILURE_REASON%",
    "flags": "%RESPONSE_FLAGS%",  # NR: no route for that name
}
FAILED = {
    "or_filter": {
        "filters": [
            {"response_flag_filter": {"flags": ["NR"]}},
            {
                "extension_filter": extension(
                    "cel",
                    "extensions.access_loggers.filters.cel.v3.ExpressionFilter",
                    expression="connection.transport_failure_reason != ''",
                )
            },
        ]
    }
}


def of_requests(path: str, listener: str) -> list[dict[str, object]]:
    return [_written(path, {"kind": "request", "listener": listener, **REQUEST})]


def of_connections(path: str, listener: str) -> list[dict[str, object]]:
    """For connections that are passed through without terminating TLS."""
    return [_written(path, {"kind": "connection", "listener": listener, **PASSED})]


def of_handshakes(path: str, listener: str) -> list[dict[str, object]]:
    return [{**_written(path, {"kind": "handshake", "listener": listener, **HANDSHAKE}), "filter": FAILED}]


def _written(path: str, fields: dict[str, str]) -> dict[str, object]:
    return extension(
        "envoy.access_loggers.file",
        "extensions.access_loggers.file.v3.FileAccessLog",
        path=path,
        log_format={"json_format": fields},
    )
