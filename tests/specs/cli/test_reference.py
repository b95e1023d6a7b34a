"""docs/reference/commands.md is what the commands say of themselves."""

from pathlib import Path

from holdfast.cli.lab import lab
from holdfast.cli.reference import reference


def test_the_command_reference_is_up_to_date() -> None:
    written = Path(__file__).parents[3] / "docs" / "reference" / "commands.md"
    assert written.read_text() == reference(), (
        "run: .venv/bin/python -m holdfast.cli.reference > docs/reference/commands.md"
    )


def test_the_client_of_the_lab_says_how_public_and_internal_names_are_fetched() -> None:
    for words in ("https://hello.example.test/", "https://web.hello.svc.lab.test/", "--http2"):
        assert words in lab.COMMANDS["lab curl"].details, words
