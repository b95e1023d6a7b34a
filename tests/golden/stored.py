"""Golden files: compare a fresh document with the stored one, or write it. Computes no document."""

import binascii
import difflib
import json
import os
from hashlib import sha256
from pathlib import Path
from typing import Any

FILES = Path(__file__).parent / "files"
VARIABLE = "HOLDFAST_GOLDEN"
REWRITE = f"{VARIABLE}=write .venv/bin/python -m pytest tests/golden"
DIFF_LINES_MAX = 120


class Sheet:
    """Named byte strings as lines of text: a line with name, digest and length, then the exact content."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def title(self, text: str) -> None:
        self._lines += ["", f"## {text}"]

    def add(self, name: str, content: bytes | str) -> None:
        written = content.encode() if isinstance(content, str) else content
        self._lines.append(f"{name}  sha256:{sha256(written).hexdigest()}  {len(written)} bytes")
        self._lines.append("  " + _on_one_line(written))

    def text(self) -> str:
        return "\n".join(self._lines).lstrip("\n") + "\n"


def _on_one_line(content: bytes) -> str:
    """The bytes as they are if they are one line of text, else escaped as JSON, else in base64."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return "base64:" + binascii.b2a_base64(content, newline=False).decode()
    return text if text.isprintable() else "json:" + json.dumps(text, ensure_ascii=False)


def pretty(document: Any) -> str:
    """The order of keys is kept: it is part of what is fixed."""
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def is_writing() -> bool:
    """Asked to by the environment, and never in CI."""
    return os.environ.get(VARIABLE) == "write" and not os.environ.get("CI")


def check(name: str, fresh: str) -> None:
    """Fails with a readable difference; writes instead while `is_writing`."""
    path = FILES / name
    if is_writing():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(fresh)
        return
    stored = path.read_text() if path.exists() else ""
    if stored != fresh:
        raise AssertionError(_difference(name, stored, fresh))


def _difference(name: str, stored: str, fresh: str) -> str:
    lines = list(difflib.unified_diff(_unfolded(stored), _unfolded(fresh), "stored", "fresh", lineterm="", n=3))
    shown = lines[:DIFF_LINES_MAX]
    more = [f"… and {len(lines) - DIFF_LINES_MAX} more lines"] if len(lines) > DIFF_LINES_MAX else []
    head = [f"tests/golden/files/{name} differs from what the product does now:", ""]
    tail = ["", "If this change is meant, name it in the commit message and rewrite the file:", f"  {REWRITE}"]
    return "\n".join([*head, *shown, *more, *tail])


def _unfolded(text: str) -> list[str]:
    """Long lines of JSON are spread over many, so that the difference shows the key and not the whole line."""
    found: list[str] = []
    for line in text.splitlines():
        if len(line) > 120 and line.strip()[:1] in "{[":
            try:
                found += json.dumps(json.loads(line), indent=1, ensure_ascii=False).splitlines()
                continue
            except ValueError:
                pass
        found.append(line)
    return found
