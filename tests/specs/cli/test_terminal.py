"""What others say is shown, not obeyed: no text of a hub or a file moves the cursor or turns the writing around."""

import io

import pytest

from holdfast.cli import frame, show_plan
from holdfast.cli.terminal import Terminal, harmless
from holdfast.errors import Failed
from holdfast.model.plan import Change, FieldChange, Plan
from holdfast.model.revision import NO_HEAD

HOSTILE = "\x1b[2J\x1b]0;owned\x07\x9b1A\u202egnp.exe\x7f\r\x08"


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def terminal() -> tuple[Terminal, Screen]:
    screen = Screen()
    return Terminal(screen, screen, screen, environ_no_colour=True), screen


def test_foreign_text_is_harmless_and_still_readable() -> None:
    assert harmless("plain – ümläut → ok\nsecond line") == "plain – ümläut → ok\nsecond line"
    shown = harmless("a" + HOSTILE + "b")
    assert shown.isprintable() and shown.startswith("a\\x1b[2J") and shown.endswith("b")


def test_an_error_of_a_hub_is_shown_harmlessly() -> None:
    place, screen = terminal()
    frame.report(Failed(HOSTILE, remedy=HOSTILE), place, as_json=False)
    assert not set("\x1b\x07\x9b\u202e\x7f\r\x08") & set(screen.getvalue())


@pytest.mark.parametrize("before", [None, HOSTILE])
def test_values_in_a_plan_are_shown_harmlessly(before: str | None) -> None:
    place, _ = terminal()
    change = Change("service.x", "update", "w1", "apply", "", fields=(FieldChange("env.A", before, HOSTILE),))
    text = show_plan.text(Plan(NO_HEAD, (change,), "apply", None), place)
    assert not set("\x1b\x07\x9b\u202e\x7f\r\x08") & set(text)
