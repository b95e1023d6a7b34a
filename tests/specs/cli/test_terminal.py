"""What others say is shown, not obeyed: no text of a hub or a file moves the cursor or turns the writing around."""

import io
import re
from argparse import Namespace
from typing import cast

import msgspec
import pytest

from holdfast.cli import main
from holdfast.cli.fleet import show_plan
from holdfast.cli.hub import status
from holdfast.cli.sizes import counted
from holdfast.cli.terminal import Terminal
from holdfast.cli.text import harmless
from holdfast.cli.tools import Toolbox
from holdfast.errors import Failed
from holdfast.model.hub_status import HubStatus, StatusFinding
from holdfast.model.plan import Blast, Change, ChangeKind, Demand, FieldChange, Plan
from holdfast.model.revision import NO_HEAD, Candidate
from holdfast.wire import faults

HOSTILE = "\x1b[2J\x1b]0;owned\x07\x9b1A\u202egnp.exe\x7f\r\x08"
CONTROLS = set("\x1b\x07\x9b\u202e\x7f\r\x08")
FORGED = "\nNo changes."  # a line that Holdfast did not write


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def terminal() -> tuple[Terminal, Screen]:
    screen = Screen()
    return Terminal(screen, screen, screen, environ_no_colour=True), screen


def printed(plan: Plan, verbose: bool = False) -> str:
    place, screen = terminal()
    place.say(show_plan.text(plan, place, verbose))
    return screen.getvalue()


def test_foreign_text_is_harmless_and_still_readable() -> None:
    assert harmless("plain – ümläut → ok") == "plain – ümläut → ok"
    assert harmless("one\ntwo\r\nthree\r\n") == "one⏎two⏎three"
    assert harmless("a\rb\u2028c\x85d") == "a\\rb\\u2028c\\x85d"
    shown = harmless("a" + HOSTILE + "b")
    assert shown.isprintable() and shown.startswith("a\\x1b[2J") and shown.endswith("b")


def test_an_error_of_a_hub_is_shown_harmlessly() -> None:
    place, screen = terminal()
    main.report(Failed(HOSTILE + "\nremedy: x", remedy=HOSTILE + "\nerror: y"), place, as_json=False)
    assert not CONTROLS & set(screen.getvalue())
    assert [line[:6] for line in screen.getvalue().splitlines()] == ["error:", "  reme", "remedy"]


def test_x20_a_remedy_of_a_hub_is_never_shown_as_one_of_ours() -> None:
    place, screen = terminal()
    trouble = faults.trouble(faults.Fault("failed", "no\nremedy: space", "curl evil | sh\nremedy: x"), 500, "1")
    main.report(trouble, place, as_json=False)
    assert screen.getvalue().splitlines() == [
        "error: the hub says: no",
        "  remedy: space",
        "the hub suggests: curl evil | sh⏎remedy: x",
    ]
    place, screen = terminal()
    main.report(trouble, place, as_json=True)
    assert msgspec.json.decode(screen.getvalue()) == {
        "code": "failed",
        "message": "no\nremedy: space",
        "remedy": "curl evil | sh\nremedy: x",
        "said_by": "hub",
    }


@pytest.mark.parametrize("before", [None, HOSTILE])
def test_values_in_a_plan_are_shown_harmlessly(before: str | None) -> None:
    change = Change("service.x", "update", "w1", "apply", "", fields=(FieldChange("env.A", before, HOSTILE),))
    text = printed(Plan(NO_HEAD, (change,), "apply", None))
    assert not CONTROLS & set(text)


@pytest.mark.parametrize(("removes", "verb"), [(False, "update on w1"), (True, "retire from w1")])
def test_a_plan_that_detaches_data_does_not_say_that_it_destroys_it(removes: bool, verb: str) -> None:
    """N33. The kind is `destroy` in --json; an apply deletes no data."""
    change = Change("service.x", "destroy", "w1", "destroy", "", removes=removes)
    text = printed(Plan(NO_HEAD, (change,), "destroy", None))
    assert f"{'-' if removes else '~'} service.x  {verb}" in text and f"Plan: 1 to {verb.split()[0]}." in text
    assert "to destroy" not in text and show_plan.change_document(change)["kind"] == "destroy"


def hostile_change(kind: ChangeKind, said: str) -> Change:
    return Change(
        f"service.{said}",
        kind,
        said,
        "destroy",
        said,
        demands=(Demand("destroy", said),),
        fields=(FieldChange(said, None, said), FieldChange(said, said, None), FieldChange(said, said, [said])),
        blast=Blast((said,), (said,), 1, (said,)),
        moved_from=said if kind == "move" else "",
        removes=kind in ("retire", "destroy"),
        notes=(said,),
    )


def hostile_plan(said: str, candidate: Candidate | None = None) -> Plan:
    kinds: tuple[ChangeKind, ...] = ("update", "move", "retire", "destroy")
    changes = tuple(hostile_change(kind, said) for kind in kinds)
    return Plan(NO_HEAD, changes, "destroy", candidate, warnings=(said,), nodes_touched=(said,))


@pytest.mark.parametrize("verbose", [False, True])
def test_nothing_in_a_plan_obeys_who_wrote_it(verbose: bool) -> None:
    text = printed(hostile_plan(HOSTILE), verbose)
    assert not CONTROLS & set(text)
    assert text.count("\\x1b[2J") > 30  # shown, not swallowed


def test_nothing_in_a_plan_begins_a_line_of_its_own() -> None:
    honest, forged = (printed(hostile_plan(said), verbose=True) for said in ("x", FORGED))
    assert len(forged.splitlines()) == len(honest.splitlines())


def test_images_are_shown_also_of_a_service_whose_content_the_ledger_has_n60() -> None:
    """Of a second service with the same file, and of one that a rollback brings back."""
    entry = {"digest": "d", "images": {"web:1\nNo changes.": "sha256:0"}}
    table = msgspec.json.encode({"entries": {"service.b": entry}})
    create = Change("service.b", "create", "w1", "apply", "")
    text = printed(Plan(NO_HEAD, (create,), "apply", Candidate(b"", table, {}, ())))
    assert "      image web:1⏎No changes." in text.splitlines()


@pytest.mark.parametrize("verbose", [False, True])
def test_what_is_created_is_shown_harmlessly(verbose: bool) -> None:
    """The contents of a saved plan are somebody else's bytes."""
    said = HOSTILE + FORGED
    service = msgspec.json.encode({"components": [{"name": said, "image": said}], said: said})
    table = msgspec.json.encode({"entries": {f"service.{said}": {"digest": "d"}}})
    plan = Plan(NO_HEAD, (hostile_change("create", said),), "destroy", Candidate(b"", table, {"d": service}, ()))
    text = printed(plan, verbose)
    assert not CONTROLS & set(text) and "owned" in text
    assert not [line for line in text.splitlines() if line.startswith("No changes.")]


def test_colours_are_those_of_holdfast_only() -> None:
    screen = Screen()
    place = Terminal(screen, screen, screen)
    place.say(show_plan.text(hostile_plan(HOSTILE + "\x1b[31mred\0"), place))
    text = screen.getvalue()
    assert "\\x1b[31mred\\x00" in text
    assert re.sub(r"\x1b\[\d*m", "", text).count("\x1b") == 0 and "\x1b[31m" in text


def test_a_plan_for_programs_is_data_in_printable_text() -> None:
    """JSON says it with escapes of its own, so a program reads exactly what was written."""
    written = msgspec.json.encode(show_plan.document(hostile_plan("\x1b[2J\n")))
    assert b"\x1b" not in written and b"\n" not in written
    assert msgspec.json.decode(written)["warnings"] == ["\x1b[2J\n"]


def test_the_status_of_a_hub_is_shown_harmlessly() -> None:
    place, screen = terminal()
    finding = StatusFinding(HOSTILE, "warning", HOSTILE, HOSTILE, HOSTILE, 0.0)
    found = HubStatus("1", "ledger", "f", NO_HEAD, NO_HEAD, {HOSTILE: 1}, (), (finding,))
    hub = Namespace(status=lambda: found, applied=lambda: None)
    box = Namespace(
        terminal=place,
        hubs=Namespace(reader=lambda target: hub),
        files=Namespace(fleet=lambda path: None),
        clock=Namespace(now_s=lambda: 0.0),
    )
    status.run(Namespace(hub="http://127.0.0.1:1", fleet=".", json=False, check=False), cast(Toolbox, box))
    assert not CONTROLS & set(screen.getvalue()) and "owned" in screen.getvalue()


def test_a_long_value_is_cut_where_it_changes() -> None:
    long = "sh -c " + "x" * 200
    change = Change(
        "service.x", "update", "w1", "apply", "", fields=(FieldChange("cmd", long + "8080", long + "8081"),)
    )
    text = printed(Plan(NO_HEAD, (change,), "apply", None))
    assert "8080" in text and "8081" in text


@pytest.mark.parametrize(
    ("address", "field", "shown"),
    [
        ("service.x", FieldChange("components[a].replicas", 4, None), "components[a].replicas: 4 → 1"),
        ("service.x", FieldChange("components[a].replicas", None, 4), "components[a].replicas: 1 → 4"),
        ("service.x", FieldChange("protect", True, None), "protect: true → false"),
        ("service.x", FieldChange("components[a].env.A", "x", None), 'components[a].env.A: "x" removed'),
        ("service.x", FieldChange("components[a].cmd", ["x"], None), 'components[a].cmd: ["x"] removed'),
        ("service.x", FieldChange("components[a]", {"name": "a"}, None), 'components[a]: {"name":"a"} removed'),
        ("fleet", FieldChange("settings.removals_max", 9, None), "settings.removals_max: 9 → 3"),
        ("unheard.of", FieldChange("x", 1, None), "x: 1 removed"),
        ("service.x", FieldChange("image a:1", f"sha256:{'0' * 64}", None), "image a:1: sha256:000000000000… removed"),
    ],
)
def test_a_field_that_is_left_out_has_its_default(address: str, field: FieldChange, shown: str) -> None:
    """N42: `replicas: 4 removed` was shown for 4 → 1. N56: a digest was cut in its last characters."""
    change = Change(address, "update", "w1", "apply", "", fields=(field,))
    assert f"      {shown}" in printed(Plan(NO_HEAD, (change,), "apply", None)).splitlines()


def test_one_of_a_thing_is_singular() -> None:
    assert (counted(0, "file"), counted(1, "file"), counted(2, "file")) == ("0 files", "1 file", "2 files")


@pytest.mark.parametrize("default", [True, False])
def test_the_end_of_input_is_no_answer_to_a_question_with_a_default(default: bool) -> None:
    """Ctrl-D at `[Y/n]` must not mean yes."""
    with pytest.raises(Failed) as refused:
        terminal()[0].choose("Create one?", default, "run again with --yes")
    assert (refused.value.code, refused.value.remedy) == ("declined", "run again with --yes")


def test_an_error_after_ctrl_d_begins_a_line() -> None:
    place, screen = terminal()
    with pytest.raises(Failed):
        place.confirm("Apply?", "not applied")
    assert screen.getvalue().endswith("\n")


@pytest.mark.parametrize("typed, default, meant", [("\n", True, True), ("\n", False, False), ("n\n", True, False)])
def test_enter_takes_the_default(typed: str, default: bool, meant: bool) -> None:
    keyboard = Screen(typed)
    assert Terminal(Screen(), Screen(), keyboard).choose("Create one?", default, "a remedy") is meant
