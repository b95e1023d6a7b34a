"""What a command loads, and when (ADR 0003): each of these modules costs every deploy milliseconds."""

import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = str(Path(__file__).parents[3] / "src")


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": SOURCE}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def loaded() -> set[str]:
    """By `holdfast deploy`, before it reads its directory."""
    code = "import sys, holdfast.wiring.cli, holdfast.cli.main, holdfast.cli.services.deploy; print(*sys.modules)"
    return set(run(code).split())


@pytest.mark.parametrize("unused", ["uuid", "platform", "decimal", "gettext", "msgspec.inspect", "typing_extensions"])
def test_what_libraries_need_for_other_programs_is_not_loaded(loaded: set[str], unused: str) -> None:
    assert unused not in loaded


@pytest.mark.parametrize(
    "later",
    ["ssl", "cryptography", "shutil", "holdfast.cli.waiting", "holdfast.planning.plan", "holdfast.ports.ledger_store"],
)
def test_what_is_needed_later_is_loaded_later(loaded: set[str], later: str) -> None:
    assert later not in loaded


def test_what_stood_in_for_a_module_is_gone_afterwards() -> None:
    said = run(
        "import holdfast.wiring.cli\n"
        "import decimal, gettext, uuid, msgspec.inspect\n"
        "print(uuid.UUID(int=1), decimal.Decimal('0.1'), gettext.find('x'), msgspec.inspect.type_info(int))\n"
    )
    assert said == "00000000-0000-0000-0000-000000000001 0.1 None IntType(gt=None, ge=None, lt=None, le=None, " + (
        "multiple_of=None)\n"
    )


def test_the_hubs_description_is_complete_in_the_process_of_a_command() -> None:
    whole = "from holdfast.hub.http import openapi; import sys; sys.stdout.buffer.write(openapi.document())"
    assert run(f"import holdfast.wiring.cli; {whole}") == run(whole)


def test_help_is_as_wide_as_the_terminal_says() -> None:
    code = "from holdfast.cli import flags; print(flags.terminal_columns())"
    for columns, width in (("", "80"), ("132", "132"), ("0", "80"), ("wide", "80")):
        done = subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONPATH": SOURCE, "COLUMNS": columns}, capture_output=True, text=True
        )
        assert done.stdout.strip() == width
