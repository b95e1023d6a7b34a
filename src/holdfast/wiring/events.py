"""The log of a hub and of an agent: one event, one line of JSON, on stderr."""

import os
from contextlib import suppress

import msgspec


def stderr_event(event: str, fields: dict[str, object]) -> None:
    """Does not wait for the reader."""
    line = msgspec.json.encode({"event": event, **fields})
    with suppress(OSError):
        os.write(2, line + b"\n")
