"""Completion scripts are generated from the verbs, and a real shell completes with them."""

import os
import subprocess
from functools import cache
from pathlib import Path
from shlex import quote

import pytest

from holdfast.cli.verbs import VERBS
from tests.lab.product import PYTHON

pytestmark = pytest.mark.lab
ENVIRON = {"PATH": f"{Path(PYTHON).parent}:{os.environ['PATH']}", "HOME": "/nonexistent"}


@cache
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


def test_bash_completes_the_fixed_values_of_an_option() -> None:
    assert completed("hub", "run", "--pace", "") == completed("hub", "run", "--pace", "=") == {"normal", "fast"}
    assert completed("order", "sign", "--action", "pu") == {"purge"}
    assert not {"logs", "verify"} & completed("order", "sign", "--action", "")


def fish(line: str, cwd: str = "/", home: str = "/nonexistent") -> set[str]:
    """By the words before the descriptions."""
    program = f"{script('fish')}\ncomplete -C {quote(line)}"
    ran = subprocess.run(
        ["fish", "--no-config", "-c", program], capture_output=True, text=True, cwd=cwd, env={**ENVIRON, "HOME": home}
    )
    assert ran.stderr == "", ran.stderr
    return {found.split("\t")[0] for found in ran.stdout.splitlines()}


def test_a_real_fish_completes_as_bash_does(fleet: Path) -> None:
    here = str(fleet)
    assert fish("holdfast hi") == fish("holdfast help hi") == {"history"} and fish("holdfast completion z") == {"zsh"}
    assert fish("holdfast node ") >= {"list", "show", "invite"}
    assert fish("holdfast deploy ", here) == fish(f"holdfast --fleet {here} undeploy w") == {"web", "webshop"}
    assert fish("holdfast deploy web ", here) == set() and fish("holdfast ps web webs", here) == {"webshop"}
    assert fish("holdfast logs web -n e", here) == {"edge-1"} and fish("holdfast logs web --node=e") == set()
    assert fish("holdfast logs web --node=e", here) == {"--node=edge-1"}
    assert fish("holdfast sign fle", here) == {"fleet.toml"} and fish("holdfast deploy fle", here) == set()
    assert fish("holdfast hub run --pace ") == {"normal", "fast"} and fish("holdfast plan --ex") == {"--explain"}
    for word in ("~", "~/.", here):
        for given in (f"--fleet {word}", f"--fleet={word}"):
            assert fish(f"holdfast {given} deploy webs", home=here) == {"webshop"}, given


def test_fish_shows_what_each_command_does_in_its_own_words() -> None:
    ran = subprocess.run(
        ["fish", "--no-config", "-c", f"{script('fish')}\ncomplete -C 'holdfast node rev'"],
        capture_output=True,
        text=True,
    )
    assert ran.stdout == f"revoke\t{VERBS['node revoke'].about}\n"


def test_a_real_zsh_completes_with_its_functions_for_bash(fleet: Path) -> None:
    def zsh(*words: str) -> set[str]:
        program = (
            f"autoload -U +X compinit && compinit -D -u\n{script('zsh')}\nemulate ksh\n"
            f"COMP_LINE={quote(' '.join(words))} COMP_WORDS=({' '.join(map(quote, words))})\n"
            f"COMP_CWORD={len(words) - 1}\n_holdfast\n"
            'print -l -- "${COMPREPLY[@]}"'
        )
        ran = subprocess.run(["zsh", "-f", "-c", program], capture_output=True, text=True, cwd=fleet, env=ENVIRON)
        assert ran.stderr == "", ran.stderr
        return set(ran.stdout.split())

    assert "history" in zsh("holdfast", "hi"), "zsh itself leaves out what does not begin so"
    assert "purge" in zsh("holdfast", "order", "sign", "--action", "pu")
    assert zsh("holdfast", "deploy", "") == {"web", "webshop"} and zsh("holdfast", "node", "show", "") == {
        "edge-1",
        "w1",
    }
    assert "--node=edge-1" in zsh("holdfast", "--hub=https://hub:9555", "logs", "web", "--node=e")


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


def test_bash_completes_names_that_the_fleet_directory_declares_n44(fleet: Path) -> None:
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
