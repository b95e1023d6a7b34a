"""Policies: bound, existing, inside the directory."""

import pytest

from holdfast.adapters.fleet_directory.memory import Content
from holdfast.model.fleet import Policy
from tests.specs.declared.declared_fleets import BASE, FLEET, fleet_of, lines_of, only_problem

RULE = b"permit (principal, action, resource);\n"


def bound(file: str = "policies/base.cedar", targets: str = '"fleet"', name: str = "base") -> dict[str, Content]:
    binding = f'[[policies]]\nname = "{name}"\nfile = "{file}"\napplies_to = [{targets}]\n'
    return {**BASE, "fleet.toml": (FLEET + binding).encode(), "policies/base.cedar": RULE}


LINES = FLEET.count("\n")


def test_a_bound_policy_carries_the_text_of_its_file_and_sorted_targets() -> None:
    fleet = fleet_of(bound(targets='"service.web", "fleet", "service.web"'))
    assert fleet.policies == {"base": Policy("base", RULE, ("fleet", "service.web"))}


def test_a_policy_file_bound_by_nobody_is_refused() -> None:
    assert lines_of({**BASE, "policies/base.cedar": RULE}) == [
        "policies/base.cedar: is bound to nothing; bind it in [[policies]] of fleet.toml, or remove it"
    ]


@pytest.mark.parametrize(
    "file",
    [
        "policies/../../etc/passwd",
        "policies/../fleet.toml",
        "/etc/passwd",
        "base.cedar",
        "policies/sub/base.cedar",
        "policies/base.txt",
        "policies/.hidden.cedar",
        "policies/",
        "",
    ],
)
def test_a_policy_outside_policies_is_refused_and_never_opened_s11(file: str) -> None:
    files = bound(file)
    del files["policies/base.cedar"]
    found = only_problem(files)
    assert found[:3] == ("fleet.toml", LINES + 3, "policies[0].file")
    assert found[3].endswith("is not a file in policies/")


def test_a_policy_file_that_does_not_exist_names_the_nearest_one() -> None:
    assert lines_of(bound("policies/bse.cedar")) == [
        f"fleet.toml:{LINES + 3}: policies[0].file: policies/bse.cedar does not exist; "
        'did you mean "policies/base.cedar"?',
        "policies/base.cedar: is bound to nothing; bind it in [[policies]] of fleet.toml, or remove it",
    ]


def test_a_target_is_the_fleet_or_a_service_that_exists() -> None:
    found = only_problem(bound(targets='"fleet", "service.wbe"'))
    assert found == (
        "fleet.toml",
        LINES + 4,
        "policies[0].applies_to[1]",
        'there is no service "wbe"',
        'did you mean "service.web"?',
    )


@pytest.mark.parametrize("target", ["flet", "web", "node.hub1", "service.", "*"])
def test_any_other_target_is_refused(target: str) -> None:
    found = only_problem(bound(targets=f'"{target}"'))
    assert found[2:4] == (
        "policies[0].applies_to[0]",
        f'must be "fleet" or "service.NAME", not "{target}"',
    )


def test_a_refused_binding_still_binds_its_file() -> None:
    assert only_problem(bound(name="Base"))[2] == "policies[0].name"


def test_a_policy_name_used_twice_is_refused() -> None:
    files = bound()
    text = files["fleet.toml"]
    assert isinstance(text, bytes)
    again = text + b'[[policies]]\nname = "base"\nfile = "policies/base.cedar"\napplies_to = ["fleet"]\n'
    assert only_problem({**files, "fleet.toml": again})[2:4] == (
        "policies[1].name",
        '"base" is already the name of another policy',
    )


@pytest.mark.parametrize(
    ("content", "line", "what"),
    [
        (b"permit\n\xff", 2, "is not UTF-8 at column 1"),
        (b"permit\n\n\0", 3, "holds a NUL byte"),
        (b"x" * 20_000, 1, "a line of 20,000 bytes; the limit is 16,384 bytes"),
        (b"x\n" * 600_000, 0, "is 1,200,000 bytes long; the limit is 1,048,576 bytes"),
        ("symlink", 0, "is a symbolic link; Holdfast follows no links"),
        ("directory", 0, "is a directory where a file is expected"),
        ("other", 0, "is not a plain file"),
    ],
)
def test_a_policy_that_is_not_text_is_refused(content: Content, line: int, what: str) -> None:
    found = only_problem({**bound(), "policies/base.cedar": content})
    assert found[:2] == ("policies/base.cedar", line)
    assert found[3].startswith(what)
