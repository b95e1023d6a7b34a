"""Standard streams as a caller may leave them: closed, full, in one file, without some characters."""

import json
import subprocess
from pathlib import Path

import pytest

from holdfast import __version__
from tests.lab.product import PYTHON, Outcome, Place, new_place

pytestmark = pytest.mark.lab


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return new_place(tmp_path)


def shell(place: Place, line: str, **environ: str) -> Outcome:
    """`$H` is the command."""
    done = subprocess.run(
        ["bash", "-c", line],
        cwd=place.fleet,
        env={**place.environ, "H": f"{PYTHON} -m holdfast", **environ},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
    )
    found = Outcome(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))
    assert "Traceback" not in found.err and "Exception ignored" not in found.err, found.err
    return found


@pytest.mark.parametrize("words", ["plan", "--version", "version", "help", "apply --help"])
@pytest.mark.parametrize("where", [">&-", ">/dev/full"])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_that_cannot_be_written_is_an_error(place: Place, words: str, where: str, unbuffered: str) -> None:
    found = shell(place, f"$H {words} {where}", PYTHONUNBUFFERED=unbuffered)
    assert found.code == 1 and "could not be written to standard output" in found.err


def test_a_version_on_an_open_output_is_printed(place: Place) -> None:
    assert shell(place, "$H --version").out == f"holdfast {__version__}\n"


def test_a_closed_input_is_no_terminal(place: Place) -> None:
    assert "this question needs a terminal" in shell(place, "$H apply <&-").err
    assert shell(place, "$H apply <&-").code == 2


def test_a_command_whose_streams_are_all_closed_does_its_work(place: Place) -> None:
    """Else the ledger would be opened in place of the output, and the result written into it."""
    assert shell(place, "$H apply --yes -q <&- >&- 2>&-").code == 1, "its output was lost"
    assert shell(place, "$H nonsense 2>&-").code == 2
    assert shell(place, "$H plan").out.startswith("No changes")
    assert shell(place, f"$H hub check --state-dir {place.ledger}").code == 0


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_remarks_that_cannot_be_written_change_no_result(place: Place, unbuffered: str) -> None:
    """Else a command would end after its commit, or with another exit code."""
    full = {"PYTHONUNBUFFERED": unbuffered}
    assert shell(place, "$H nonsense 2>/dev/full", **full).code == 2
    assert shell(place, "$H apply 2>/dev/full", **full).code == 2, "nobody could answer"
    assert shell(place, "$H apply --yes 2>/dev/full", **full).code == 0
    assert shell(place, "$H undeploy nothing --json 2>/dev/full", **full).code == 2
    assert shell(place, "$H plan").out.startswith("No changes")


def test_input_that_is_not_text_is_refused(place: Place) -> None:
    given = "printf '\\377\\n' | $H agent join - --json --state-dir agent"
    found = shell(place, given, PYTHONIOENCODING="utf-8:strict")
    assert found.refused(2, "token_unreadable")


def test_lines_of_both_outputs_in_one_file_are_in_order(place: Place) -> None:
    lines = shell(place, "$H apply 2>&1").out.splitlines()
    assert lines[0].startswith("Holdfast will make") and lines[-2].startswith("error: ")


ASCII = {"PYTHONIOENCODING": "ascii"}


def test_a_character_that_the_terminal_lacks_is_shown_as_an_escape(place: Place) -> None:
    shell(place, "$H apply --yes -m 'für alle'")
    assert "f\\xfcr alle" in shell(place, "$H history", **ASCII).out


def test_json_is_utf_8_whatever_the_terminal_has(place: Place) -> None:
    shell(place, "$H apply --yes -m 'für alle'")
    assert json.loads(shell(place, "$H history --json", **ASCII).out)["revisions"][0]["message"] == "für alle"
    trouble = shell(place, "$H deploy ü --json", **ASCII).refused(2)
    assert trouble["message"].startswith("service.ü is not declared")


@pytest.mark.parametrize("words", ["deploy", "plan --fleet", "plan -o", ""])
def test_an_argument_that_is_not_text_is_refused(place: Place, words: str) -> None:
    found = shell(place, f"$H {words} $'\\xff' --json")
    assert found.refused(2, "usage")["message"].startswith("the argument '\\udcff' is not text")
