"""Completion scripts are generated from the verbs, and a real shell completes with them."""

import subprocess

import pytest

from holdfast.cli.verbs import VERBS
from tests.lab.product import PYTHON

pytestmark = pytest.mark.lab


def script(shell: str) -> str:
    return subprocess.run(
        [PYTHON, "-m", "holdfast", "completion", shell], capture_output=True, text=True, check=True
    ).stdout


def completed(*words: str) -> set[str]:
    line = " ".join(f"'{word}'" for word in ("holdfast", *words))
    program = (
        f'{script("bash")}\nCOMP_WORDS=({line}); COMP_CWORD={len(words)}; _holdfast; printf "%s\\n" "${{COMPREPLY[@]}}"'
    )
    return set(subprocess.run(["bash", "-c", program], capture_output=True, text=True, cwd="/").stdout.split())


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
