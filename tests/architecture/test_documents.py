"""What the documents point at is there: paths of this repository in backticks, and relative links."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src" / "holdfast"
DOCUMENTS = [
    ROOT / "ARCHITECTURE.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]

TOP = {path.name for path in ROOT.iterdir() if path.is_dir()}
ROOMS = {path.name for path in SRC.iterdir() if path.is_dir()}
FILES = [path for folder in ("src", "tests", "bench", "docs") for path in (ROOT / folder).rglob("*.*")]

_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`([^`\n]+)`")
_PATH = re.compile(r"[\w.-]+(?:/[\w.-]+)*/?")
_LINK = re.compile(r"\]\(([^)\s]+)\)")


def paths(text: str) -> list[str]:
    """Words in backticks that can only be meant as a file or a folder of this repository."""
    words = [word for code in _CODE.findall(_FENCE.sub("", text)) for word in code.split()]
    return [word for word in words if _PATH.fullmatch(word) and _is_ours(word)]


def _is_ours(word: str) -> bool:
    first, slash, _ = word.partition("/")
    return word.endswith((".py", ".md")) or (slash == "/" and first in TOP | ROOMS)


def is_there(path: str) -> bool:
    """From the root, from src/holdfast, or the end of some file's path: a table row names its folder only once."""
    if (ROOT / path).exists() or (SRC / path).exists():
        return True
    if path.endswith((".py", ".md")):
        return any(f"/{file.relative_to(ROOT)}".endswith(f"/{path}") for file in FILES)
    module, _, name = path.rpartition(".")  # `cli/flags.split_verb`
    source = SRC / f"{module}.py"
    return bool(module) and source.exists() and re.search(rf"\b{re.escape(name)}\b", source.read_text()) is not None


def links(text: str) -> list[str]:
    targets = [target.partition("#")[0] for target in _LINK.findall(_FENCE.sub("", text))]
    return [target for target in targets if target and not re.match(r"[a-z][a-z+.-]*:", target)]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_path_in_a_document_exists(document: Path) -> None:
    assert [path for path in paths(document.read_text()) if not is_there(path)] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_relative_link_leads_somewhere(document: Path) -> None:
    assert [target for target in links(document.read_text()) if not (document.parent / target).exists()] == []


def test_paths_are_told_from_other_words() -> None:
    text = "`hub/nowhere.py` and `run bench/gone.py`, `cli/flags.nothing`, `services/web.toml`, `meta/pin`, `/v1/x`"
    assert paths(text + "\n```\n`cli/fenced.py`\n```\n") == ["hub/nowhere.py", "bench/gone.py", "cli/flags.nothing"]
    assert not any(is_there(path) for path in paths(text))
    assert all(map(is_there, ("cli/flags.split_verb", "ledger_store/sqlite/store.py", "main.py", "hub/", "tests/lab")))


def test_links_are_told_from_addresses() -> None:
    assert links("[a](x.md#y) [b](https://x.example/y.md) [c](#here) [d](mailto:a@b) [e](../z/)") == ["x.md", "../z/"]
