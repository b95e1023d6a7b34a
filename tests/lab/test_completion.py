"""Completion scripts are generated from the verbs, and a real shell completes with them."""

import os
import subprocess
from pathlib import Path

import pytest

from holdfast.cli.verbs import VERBS
from tests.lab.product import PYTHON

pytestmark = pytest.mark.lab
ENVIRON = {"PATH": f"{Path(PYTHON).parent}:{os.environ['PATH']}", "HOME": "/nonexistent"}


def script(shell: str) -> str:
    return subprocess.run(
        [PYTHON, "-m", "holdfast", "completion", shell], capture_output=True, text=True, check=True
    ).stdout


def completed(*words: str, cwd: str = "/") -> set[str]:
    line = " ".join(f"'{word}'" for word in ("holdfast", *words))
    program = (
        f'{script("bash")}\nCOMP_WORDS=({line}); COMP_CWORD={len(words)}; _holdfast; printf "%s\\n" "${{COMPREPLY[@]}}"'
    )
    ran = subprocess.run(["bash", "-c", program], capture_output=True, text=True, cwd=cwd, env=ENVIRON)
    return set(ran.stdout.split())


def test_bash_completes_verbs_second_words_and_flags() -> None:
    assert completed("hi") == {"history"}
    assert completed("") >= {verb.split()[0] for verb in VERBS}
    assert completed("hub", "") >= {"init", "run", "check"}
    assert completed("lab", "image", "") >= {"load", "build"} and completed("completion", "z") == {"zsh"}
    assert completed("plan", "--ex") == {"--explain"}
    assert completed("--json", "apply", "--allow") == {"--allow-removals"}
    assert completed("--fleet", ".", "pl") == {"plan"}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_verb_is_in_every_script(shell: str) -> None:
    text = script(shell)
    assert [verb for verb in VERBS if verb.split()[0] not in text] == []


FLEET = """
[fleet]
name = "small"

[[nodes]]
name = "w1"

[[nodes]]
name = "edge-1"
"""
SERVICE = """
[[components]]
name = "app"
[[components.routes]]
name = "http"
public = true
hostname = "shop.example.com"
[[components.routes]]
name = "inside"
hostname = "inside.example.com"
"""


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    for path, text in {
        "fleet.toml": FLEET,
        "services/web.toml": SERVICE,
        "services/webshop.toml": "not = [toml",
        "services/$(touch marked).toml": "",
        "services/README.md": "",
        "secrets/token.age": "",
    }.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


def test_bash_completes_names_that_the_fleet_directory_declares(fleet: Path) -> None:
    here = str(fleet)
    assert completed("deploy", "", cwd=here) == {"web", "webshop"}
    assert completed("ps", "web", "webs", cwd=here) == {"webshop"}, "any number of services"
    assert completed("node", "show", "e", cwd=here) == completed("logs", "web", "-n", "e", cwd=here) == {"edge-1"}
    assert completed("secret", "rotate", "", cwd=here) == {"token"}
    assert completed("edge", "status", "", cwd=here) == {"shop.example.com"}
    assert (
        completed("--fleet", here, "undeploy", "w")
        == completed("undeploy", "--fleet", "=", here, "w")
        == {
            "web",
            "webshop",
        }
    )
    assert completed("deploy", "web", "--det", cwd=here) == {"--detach"}
    assert "web" not in completed("deploy", "web", "", cwd=here), "one service only"
    assert "w1" not in completed("order", "list", "-n", "", cwd=here), "here -n is a number"
    assert not (fleet / "marked").exists() and "$(touch" not in completed("deploy", "", cwd=here)


def test_completion_is_silent_without_a_fleet_directory() -> None:
    ran = subprocess.run(
        [PYTHON, "-m", "holdfast", "completion", "values", "nodes", "--fleet", "/nonexistent"], capture_output=True
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"", b"")
