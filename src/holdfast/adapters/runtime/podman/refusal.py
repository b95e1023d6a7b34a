"""Translate podman's refusals into our errors: the fact, then the remedy. Pure."""

import re

from holdfast.adapters.runtime.podman.libpod import Refused
from holdfast.errors import Failed
from holdfast.ports.runtime import CreateContainer, PortTaken

_port = re.compile(r":(\d+): bind: address already in use")
_port_loose = re.compile(r"[:.](\d{2,5})\b(?!.*[:.]\d{2,5}\b)")
_runtime_start = re.compile(r"^`\S+ start [0-9a-f]{64}` failed: exit status \d+$")


def failed(what: str, no: Refused) -> Failed:
    return Failed(f"{what}: {no.message}", remedy="list the containers on the node: podman ps --all", code="runtime")


def not_made(made: CreateContainer, no: Refused) -> Failed:
    if "image not known" in no.cause or "no such image" in no.cause:
        return Failed(
            f"the image {made.spec.reference} is not on this node, so {made.name} cannot be created",
            remedy="deploy again: that pulls the image first",
            code="image_missing",
        )
    return failed(f"cannot create {made.name}", no)


def is_without_reason(no: Refused) -> bool:
    """Whether runc could not tell a created container to begin. A wrong command, image or volume fails earlier."""
    return _runtime_start.match(no.message) is not None


def not_started(id: str, no: Refused) -> Exception:
    if "address already in use" in no.message:
        found = _port.search(no.message) or _port_loose.search(no.message)
        return PortTaken(int(found[1]) if found else 0)
    if no.absent and "no such container" in no.cause:
        return Failed(f"container {id[:12]} is gone", remedy="deploy again", code="container_gone")
    return Failed(
        f"cannot start container {id[:12]}: {no.message}",
        remedy="correct command, volumes or image in the service's file; then deploy again",
        code="start_failed",
    )
