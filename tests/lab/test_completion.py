"""Completion scripts are generated from the verbs, and a real shell completes with them."""

import os
import subprocess
from pathlib import Path
from shlex import quote

import pytest

from holdfast.cli.verbs import VERBS
from tests.lab.product import PYTHON

pytestmark = pytest.mark.lab
ENVIRON = {"PATH": f"{Path(PYTHON).parent}:{os.environ['PATH']}", "HOME": "/nonexistent"}


def script(shell: str) -> str:
    return subprocess.run(
        [PYTHON, "-m", "holdfast", "completion", shell], capture_output=True, text=True, check=True
    ).stdout


def completed(*words: str, cwd: str = "/", line: str = "") -> set[str]:
    """`words` as bash parts a line, `line` as it was typed."""
    quoted = " ".join(map(quote, ("holdfast", *words)))
    program = (
        f"{script('bash')}\nCOMP_LINE={quote(line)} COMP_WORDS=({quoted}) COMP_CWORD={len(words)}; _holdfast; "
        'printf "%s\\n" "${COMPREPLY[@]}"'
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


def test_bash_completes_the_words_of_help_and_not_what_scripts_ask() -> None:
    assert completed("help", "his") == {"history"} and completed("help", "history", "") == {"show"}
    assert completed("completion", "") == {"bash", "zsh", "fish"}
    assert completed("--js") == {"--json"}, "a flag may stand before the verb"


def test_bash_completes_files_where_a_file_is_expected_and_a_command_after_two_dashes() -> None:
    """No word of its own: `-o default` has readline complete files, with blanks in their names."""
    assert completed("sign", "") == completed("plan", "-o", "") == completed("lab", "exec", "w1", "--", "") == set()
    assert completed("lab", "image", "build", "") == set()
    assert "complete -o default -F _holdfast holdfast" in script("bash") and "compgen -f" not in script("bash")


def test_fish_completes_every_first_and_second_word() -> None:
    lines = script("fish").splitlines()
    for verb in VERBS:
        first, _, second = verb.partition(" ")
        for begun, word in (("", first), (" help", first), (f" {first}", second), (f" help {first}", second)):
            start = f"complete -c holdfast -n '__holdfast_begins{begun}' -a {word} -d "
            assert not word or any(line.startswith(start) for line in lines), start
    assert "complete -c holdfast -n '__holdfast_takes 99 sign' -F" in lines
    assert "complete -c holdfast -n '__holdfast_begins' -l fleet -r -F" in lines


def test_zsh_completes_at_the_first_tab_which_loads_the_file() -> None:
    last = script("zsh").rstrip().splitlines()[-1]
    assert "loadautofunc" in last and last.endswith("_bash_complete -o default -F _holdfast; fi")


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


@pytest.mark.parametrize("typed", ['"{}"', "'{}'", "{0}"])
def test_a_directory_with_blanks_is_found_as_it_was_typed(fleet: Path, typed: str) -> None:
    place = fleet / "my fleet"
    place.mkdir()
    for name in ("fleet.toml", "services"):
        (fleet / name).rename(place / name)
    word = typed.format(place) if typed != "{0}" else str(place).replace(" ", "\\ ")
    assert (
        completed("deploy", "--fleet", word, "webs") == completed("deploy", "--fleet", "=", word, "webs") == {"webshop"}
    )


def test_the_address_of_a_hub_is_one_word(fleet: Path) -> None:
    """bash makes words of ":" and "="."""
    url = ("https", ":", "//hub", ":", "9555")
    for begin in (("--hub", *url), ("--hub", "=", *url)):
        given = "--hub=https://hub:9555" if "=" in begin else "--hub https://hub:9555"
        for words, line in (
            ((*begin, "deploy", "webs"), f"holdfast {given} deploy webs"),
            (("deploy", *begin, "webs"), f"holdfast deploy {given} webs"),
            (("deploy", *begin, ""), f"holdfast deploy {given} "),
        ):
            assert "webshop" in completed(*words, cwd=str(fleet), line=line), line


def test_a_value_after_an_equals_sign_is_completed(fleet: Path) -> None:
    here = str(fleet)
    for words in (("--node", "=", ""), ("--node", "="), ("--node", "=", "e")):
        assert "edge-1" in completed("logs", "web", *words, cwd=here), words
    assert completed("logs", "web", "--node=e", cwd=here) == {"--node=edge-1"}, "zsh does not make words of it"


def test_files_are_not_offered_in_place_of_names(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("")
    assert completed("deploy", "", cwd=str(tmp_path)) == completed("node", "show", "", cwd=str(tmp_path)) == set()
    (tmp_path / "fleet.toml").write_text("broken = [")
    assert completed("node", "show", "", cwd=str(tmp_path)) == set()


def test_completion_is_silent_without_a_fleet_directory() -> None:
    ran = subprocess.run(
        [PYTHON, "-m", "holdfast", "completion", "values", "nodes", "--fleet", "/nonexistent"], capture_output=True
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"", b"")
