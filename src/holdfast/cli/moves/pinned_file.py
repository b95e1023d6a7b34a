"""The pin of a service that moves, in its file: the next apply must not contradict the move."""

import os
import re
from argparse import Namespace
from typing import Any

from msgspec import UNSET

from holdfast.cli.tools import Toolbox
from holdfast.declared.sources import SERVICE_BYTES_MAX
from holdfast.model.applied import Applied

_PIN = re.compile(r"^(?P<key>\s*node\s*=\s*)([\"'])(?P<node>[^\"']*)\2(?P<rest>\s*(#.*)?)$")


def write(service: str, node: str, applied: Applied, args: Namespace, box: Toolbox) -> dict[str, Any]:
    """`applied`: before the move. A file that pins it in another way is left, with a warning."""
    if applied.service(service).node is UNSET:
        return {}
    path = os.path.join(args.fleet, "services", f"{service}.toml")
    content = box.disk.read(path, SERVICE_BYTES_MAX)
    changed = repinned(content.decode(errors="surrogateescape"), node) if content is not None else None
    if changed is None:
        box.terminal.warn(f'{path} pins {service} elsewhere: write node = "{node}" there before the next apply')
        return {}
    box.disk.replace(path, changed.encode(errors="surrogateescape"), 0o644)
    box.terminal.remark(f'Wrote node = "{node}" into {path}.')
    return {"pinned": path}


def repinned(text: str, node: str) -> str | None:
    """With another pin; comments and all other lines stay. None if no line of its first table is a pin."""
    lines = text.splitlines(keepends=True)
    for at, line in enumerate(lines):
        if line.lstrip().startswith("["):
            return None
        bare = line.rstrip("\r\n")
        if found := _PIN.match(bare):
            lines[at] = f'{found["key"]}"{node}"{found["rest"]}{line[len(bare) :]}'
            return "".join(lines)
    return None
