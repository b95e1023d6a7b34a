"""Questions: the end of input is no answer (N34), and a key that cannot sign is refused before any question (N40)."""

import ast
import getpass
import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.cli.terminal import Declined, Terminal
from holdfast.errors import Failed
from tests.fleets import pasting
from tests.fleets.desks import Puppet, Rig
from tests.fleets.pasting import Seat, seat
from tests.fleets.tools import Box
from tests.specs.cli.test_order_verbs import EVE_SIGNER, Worker, scene
from tests.specs.hub_fleet.test_verbs import APPLY_SIGNER
from tests.specs.hub_fleet.test_verbs import scene as hub_scene

SRC = Path(__file__).parents[2] / "src" / "holdfast"
STRANGER = "ssh-keygen -q -t ed25519 -N '' -C eve -f ~/eve"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Seat]:
    monkeypatch.chdir(tmp_path)
    yield seat(tmp_path / "my home")


# ---- the end of input


class Ended(io.StringIO):
    """A terminal whose person pressed Ctrl-D."""

    def isatty(self) -> bool:
        return True


def end_of_input(*_: object, **__: object) -> str:
    raise EOFError


QUESTIONS: dict[str, Callable[[Terminal], object]] = {
    "confirm": lambda terminal: terminal.confirm("Do it?", "not done"),
    "choose, default yes": lambda terminal: terminal.choose("Do it?", True, "say --yes"),
    "choose, default no": lambda terminal: terminal.choose("Do it?", False, "say --yes"),
    "secret": lambda terminal: terminal.secret("Passphrase:"),
}


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
def test_the_end_of_input_answers_no_question_n34(
    question: Callable[[Terminal], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(getpass, "getpass", end_of_input)
    terminal = Terminal(io.StringIO(), io.StringIO(), Ended())
    with pytest.raises((Declined, Failed)) as refused:
        question(terminal)
    assert refused.value.code == "declined" and refused.value.exit_code == 1


def test_only_the_terminal_asks_n34() -> None:
    """So the three kinds of question above are all there are."""
    asking = {"input", "getpass", "readline"}
    found = {
        str(path.relative_to(SRC))
        for path in (SRC / "cli").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        if getattr(node.func, "attr", getattr(node.func, "id", "")) in asking
    }
    assert found == {"cli/terminal.py"}
    uses = {
        node.func.attr
        for path in (SRC / "cli").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if ast.unparse(node.func.value).endswith("terminal") and node.func.attr in ("confirm", "choose", "secret")
    }
    assert uses == {name.partition(",")[0] for name in QUESTIONS}, "each is asked somewhere, and tested above"


@pytest.mark.parametrize("answered", range(3))
def test_init_that_is_left_at_a_question_makes_nothing_n34(
    answered: int, here: Seat, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Questions: a key, a recovery key, its passphrase (twice). Those before are answered with Enter."""
    left = [answered]

    def enter(*_: object) -> str:
        left[0] -= 1
        return "\n" if left[0] >= 0 else ""

    def passphrase(*_: object) -> str:
        if enter():
            return "x"
        raise Failed("nothing was typed", remedy="repeat the command", code="declined")

    monkeypatch.setattr(pasting.Typing, "readline", enter)
    monkeypatch.setattr(pasting.Person, "secret", passphrase)
    done = here.run("holdfast init ~/new --key ~/none")
    assert done.code == 1 and ("nothing was typed" if answered == 2 else "was not answered") in done.err, done
    assert not [path for path in os.listdir(here.home) if path.startswith(("new", "none"))]


# ---- the key


OFFLINE = (
    "apply",
    "deploy web",
    "undeploy web",
    "rollback 1",
    "rollback 1 --write",
    "apply change.plan",
    "sign change.plan",
    "node drain w1",
)


@pytest.mark.parametrize("words", OFFLINE)
def test_the_key_of_a_stranger_is_refused_before_the_question_n40(
    words: str, here: Seat, monkeypatch: pytest.MonkeyPatch
) -> None:
    for line in (
        STRANGER,
        "holdfast apply",
        "sed -i s/8080/8081/ services/web.toml",
        "holdfast apply",
        "sed -i s/8081/8082/ services/web.toml",
        "holdfast plan -o change.plan",
    ):
        assert (done := here.run(line)).code == 0, (line, done)
    asked: list[str] = []

    def answer(*_: object) -> str:
        asked.append("a question")
        return "yes\n"

    monkeypatch.setattr(pasting.Typing, "readline", answer)
    done = here.run(f"holdfast {words} --key ~/eve")
    assert done.code == 3 and "belongs to no operator" in done.err, done
    assert asked == []


@pytest.mark.parametrize("words", ["purge old -n w1", "purge old -n w1 --now"])
def test_with_a_hub_the_key_comes_first_too_n40(words: str, tmp_path: Path) -> None:
    """Without a terminal a question is exit 2: exit 3 shows that the key was looked at before."""

    def story(rig: Rig, box: Box, w1: Worker, w2: Worker) -> None:
        box.by = EVE_SIGNER
        assert box.fails(3, *words.split())["code"] == "unknown_signer"

    scene(tmp_path, story)


def test_a_revocation_is_not_asked_about_with_a_key_that_cannot_sign_it_n40(tmp_path: Path) -> None:
    file = str(tmp_path / "w1.revocation")

    async def story(rig: Rig, box: Box, puppets: list[Puppet]) -> None:
        box.does("node", "revoke", "w1", "-o", file, "--yes")
        for by, code, name in ((EVE_SIGNER, 3, "unknown_signer"), (APPLY_SIGNER, 4, "signature_required")):
            box.by = by
            assert box.fails(code, "node", "revoke", "w1")["code"] == name
            assert box.fails(code, "sign", file)["code"] == name

    hub_scene(tmp_path, story)
