"""What is installed is pinned by version and hash, and nodes get nothing that only tests need (X18)."""

import re
import tomllib
from pathlib import Path

import pytest

HERE = Path(__file__).parents[2]
LOCKS = sorted(HERE.glob("requirements*.lock"))
MAKEFILE = (HERE / "Makefile").read_text()


def names(lock: str) -> set[str]:
    return set(re.findall(r"^([a-z0-9._-]+)==", (HERE / lock).read_text(), re.MULTILINE))


def declared(texts: list[str]) -> set[str]:
    return {re.split(r"[<>=!~\[; ]", text)[0].lower() for text in texts}


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_every_package_has_one_version_and_a_hash_and_no_host_is_named(lock: Path) -> None:
    entries = re.split(r"\n(?=\S)", lock.read_text().strip())
    assert entries
    for entry in entries:
        assert re.fullmatch(r"[a-z0-9._-]+==[^\s;]+( ; [^\\]+)?( \\\n +--hash=sha256:[0-9a-f]{64})+", entry), entry[
            :200
        ]


def test_the_tool_that_checks_the_hashes_is_checked_itself_x18() -> None:
    assert names("requirements-uv.lock") == {"uv"}
    installs = re.findall(r"pip install (.*?)(?<!\\)\n", MAKEFILE, re.DOTALL)
    for line in installs:
        assert "--require-hashes" in line or ("--no-deps" in line and ("--editable ." in line or "build/dist" in line))
    assert any("requirements-uv.lock" in line and "--only-binary :all:" in line for line in installs)


def test_a_node_gets_no_package_that_only_tests_need_x18() -> None:
    project = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]
    runtime, tests = names("requirements.lock"), names("requirements-dev.lock")
    assert declared(project["dependencies"]) <= runtime
    assert declared(project["optional-dependencies"]["dev"]) <= tests
    assert not runtime & tests
    node = MAKEFILE.partition("\nnode:")[2].partition("\n\n")[0]
    assert "requirements.lock" in node and "requirements-dev" not in node
