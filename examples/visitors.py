"""Visitors of a lab: ask for a URL again and again until a file appears, then say how many requests failed.

`visitors.py LAB https://shop.example.test/health STOP`: four of them, two on a connection each, two on a new one every
time; as many requests as they get answered. Exit 1 if one failed.
"""

import http.client
import json
import os
import ssl
import subprocess
import sys
import threading
import time
from collections import Counter
from urllib.parse import urlsplit


class Connection(http.client.HTTPSConnection):
    """A connection to the edge, whatever the name: public DNS does not have the lab's public names."""

    edge = ""

    def connect(self) -> None:
        wanted, self.host = self.host, self.edge
        try:
            http.client.HTTPConnection.connect(self)
        finally:
            self.host = wanted
        self.sock = self._context.wrap_socket(self.sock, server_hostname=wanted)


def visit(url: str, trust: ssl.SSLContext, keeps: bool, stop: str, seen: Counter[str]) -> None:
    parts = urlsplit(url)
    line = None
    while not os.path.exists(stop):
        line = line or Connection(parts.hostname or "", timeout=10, context=trust)
        try:
            line.request("GET", parts.path or "/")
            answer = line.getresponse()
            answer.read()
            seen[str(answer.status)] += 1
            keep = keeps and not answer.will_close
        except (OSError, http.client.HTTPException) as trouble:
            seen[repr(trouble)] += 1
            keep = False
        if not keep:
            line.close()
            line = None
        time.sleep(0.002)


def main() -> int:
    lab, url, stop = sys.argv[1:]
    status = subprocess.run(["holdfast", "lab", "status", "--json"], capture_output=True, check=True).stdout
    Connection.edge = next(node["address"] for node in json.loads(status)["nodes"] if "edge" in node["roles"])
    trust = ssl.create_default_context(cafile=os.path.join(lab, "ca.pem"))
    seen: Counter[str] = Counter()
    began_s = time.monotonic()
    crowd = [threading.Thread(target=visit, args=(url, trust, bool(n % 2), stop, seen)) for n in range(4)]
    for one in crowd:
        one.start()
    for one in crowd:
        one.join()
    lasted_s = time.monotonic() - began_s
    failed = {what: times for what, times in seen.items() if what != "200"}
    total = seen.total()
    sys.stdout.write(f"{total} requests, {total / lasted_s:.0f} a second: {sum(failed.values())} failed\n")
    for what, times in failed.items():
        sys.stdout.write(f"  {times} × {what}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
