"""The lab's registry: start Debian's docker-registry on the bridge, and push images to it."""

import http.client
import json
import os
import subprocess
from collections.abc import Sequence
from urllib.parse import urlsplit

from holdfast.errors import Failed
from holdfast.lab import oci_image, processes, record
from holdfast.lab.blueprint import MARK, REGISTRY_PORT, Blueprint
from holdfast.lab.node import last_words
from holdfast.lab.oci_image import Image
from holdfast.lab.place import Place

PART = "registry"
READY_S_MAX = 10.0


def start(place: Place, blueprint: Blueprint) -> None:
    config = {
        "version": 0.1,
        "log": {"level": "warn", "accesslog": {"disabled": True}},
        "storage": {"filesystem": {"rootdirectory": place.registry}, "delete": {"enabled": True}},
        "http": {"addr": blueprint.registry},
    }
    path = os.path.join(place.registry, "config.json")  # JSON is valid YAML
    record.replace(path, json.dumps(config).encode())
    log = place.log(PART)
    os.makedirs(os.path.dirname(log), exist_ok=True)
    with open(log, "ab") as file:
        server = subprocess.Popen(
            ["docker-registry", "serve", path],
            env={"PATH": os.environ["PATH"], "OTEL_TRACES_EXPORTER": "none", MARK: blueprint.id},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
    known = processes.known(server.pid)
    if known is not None:
        record.note_part(place, PART, known)
    if not processes.wait_for(lambda: server.poll() is not None or _answers(blueprint), READY_S_MAX):
        raise Failed("the registry does not answer", remedy=f"read {log}", code="part_ended")
    if server.poll() is not None:
        raise Failed(f"the registry ended at once: {last_words(log)}", remedy=f"read {log}", code="part_ended")


def _answers(blueprint: Blueprint) -> bool:
    link = http.client.HTTPConnection(blueprint.host_address, REGISTRY_PORT, timeout=1)
    try:
        link.request("GET", "/v2/")
        return link.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        link.close()


def push(blueprint: Blueprint, images: Sequence[Image]) -> None:
    link = http.client.HTTPConnection(blueprint.host_address, REGISTRY_PORT, timeout=10)
    try:
        there: set[tuple[str, str]] = set()
        for image in images:
            for blob in image.blobs:
                if (image.name, oci_image.digest(blob)) not in there:
                    _push_blob(link, image.name, blob)
                    there.add((image.name, oci_image.digest(blob)))
            target = f"/v2/{image.name}/manifests/{image.tag}"
            _ask(link, "PUT", target, 201, image.manifest, {"Content-Type": oci_image.MANIFEST})
    finally:
        link.close()


def _push_blob(link: http.client.HTTPConnection, name: str, blob: bytes) -> None:
    answer = _ask(link, "POST", f"/v2/{name}/blobs/uploads/", 202, b"", {})
    place = urlsplit(answer.headers["Location"])
    target = f"{place.path}?{place.query}&digest={oci_image.digest(blob)}"
    _ask(link, "PUT", target, 201, blob, {"Content-Type": "application/octet-stream"})


def _ask(
    link: http.client.HTTPConnection, method: str, target: str, wanted: int, body: bytes, headers: dict[str, str]
) -> http.client.HTTPResponse:
    try:
        link.request(method, target, body, headers)
        answer = link.getresponse()
        content = answer.read()
    except (OSError, http.client.HTTPException) as trouble:
        raise Failed(
            f"the connection to the lab's registry broke: {trouble}",
            remedy="`holdfast lab down`, then `holdfast lab up` again",
        ) from trouble
    if answer.status != wanted:
        raise Failed(
            f"the lab's registry answered {answer.status} to {method} {target.partition('?')[0]}: {content[:200]!r}",
            remedy="check for a full disk (df); then `holdfast lab down` and `holdfast lab up` again",
        )
    return answer
