"""A public service with one volume in a lab, and a writer that changes the volume until the service stops."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bench.edge_client import Watch
from bench.edge_lab import DOMAIN, PORT, WORKER, EdgeLab

VOLUME = "book"


def hostname(name: str) -> str:
    return f"{name}.{DOMAIN}"


def declare(lab: EdgeLab, name: str, image: str) -> None:
    lines = [f'node = "{WORKER}"', "[[components]]", 'name = "web"', f'image = "{lab.registry}/{image}"']
    lines.append(f'health = {{ type = "http", path = "/health", port = {PORT}, start_period = "8s" }}')
    lines += ["[[components.routes]]", 'name = "r"', f"port = {PORT}", "public = true"]
    lines += [f'hostname = "{hostname(name)}"']
    lines += ["[[components.volumes]]", f'name = "{VOLUME}"', 'path = "/data"', 'protect = "none"']
    with open(os.path.join(lab.fleet, "services", f"{name}.toml"), "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


@contextmanager
def changing(watch: Watch, change: Callable[[Watch], None], pause_s: float) -> Iterator[None]:
    """Calls `change` again and again, from now until the service stops."""
    over = threading.Event()

    def write() -> None:
        while not over.wait(pause_s) and watch.is_answered:
            change(watch)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        over.set()
        writer.join()
