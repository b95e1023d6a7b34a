"""All mistakes at once, in one order, with a bound on what is printed: C-08, I-22, I-37, S11, D27."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.adapters.fleet_directory.memory import Content
from holdfast.declared.problem import Problem, Problems
from holdfast.declared.spelling import nearest, question
from holdfast.declared.words import key_path, printable, shown
from holdfast.errors import Invalid
from tests.specs.declared.declared_fleets import BASE, FLEET, WEB, fleet_of, key_line, problems_of, with_service

TWELVE: dict[str, Content] = {
    "fleet.toml": f"""\
[fleet]
name = "home"
removals_mx = 1
public_domains = ["example.test"]
[[operators]]
name = "ada"
grade = "root"
key = "{key_line(1)}"

[[nodes]]
name = "hub1"
roles = ["hub", "wroker"]

[[nodes]]
name = "w1"
roles = ["worker"]
address = "10.0.0.1"

[boot]
order = "x"
""".encode(),
    "flet.toml": b"",
    "policies/base.cedar": b"permit;",
    "services/api.toml": b"""\
node = "w2"
[[components]]
name = "api"
imge = "registry.test/api:1"
volumes = [{ name = "data", path = "/data" }]
[[components.routes]]
name = "http"
port = 80
hostname = "www.example.test"
public = true
""",
    "services/broken.toml": b"a = [\n",
    "services/pipe.toml": "other",
    "services/web.toml": b"""\
[[components]]
name = "web"
image = "registry.test/web:1"
[[components.routes]]
name = "http"
port = 80
hostname = "www.example.test"
public = true
""",
}


def test_a_directory_with_twelve_different_mistakes_reports_exactly_those_twelve_c08_i37() -> None:
    found = [(problem.file, problem.line, problem.key) for problem in problems_of(TWELVE)]
    assert found == [
        ("fleet.toml", 3, "fleet.removals_mx"),
        ("fleet.toml", 12, "nodes[0].roles[1]"),
        ("fleet.toml", 17, "nodes[1].address"),
        ("fleet.toml", 19, "boot"),
        ("flet.toml", 0, ""),
        ("policies/base.cedar", 0, ""),
        ("services/api.toml", 1, "node"),
        ("services/api.toml", 4, "components[0].imge"),
        ("services/api.toml", 5, "components[0].volumes[0].protect"),
        ("services/broken.toml", 2, ""),
        ("services/pipe.toml", 0, ""),
        ("services/web.toml", 7, "components[0].routes[0].hostname"),
    ]
    assert len(found) == 12


@settings(deadline=None, max_examples=30)
@given(st.randoms(use_true_random=False))
def test_neither_a_fleet_nor_its_problems_depend_on_the_order_of_files_i22(order: random.Random) -> None:
    good: dict[str, Content] = {**BASE, **{f"services/s{at}.toml": WEB.encode() for at in range(5)}}
    assert list(fleet_of(shuffled(good, order)).services) == ["s0", "s1", "s2", "s3", "s4", "web"]
    assert fleet_of(shuffled(good, order)) == fleet_of(good)
    assert problems_of(shuffled(TWELVE, order)) == problems_of(TWELVE)


def shuffled(files: dict[str, Content], order: random.Random) -> dict[str, Content]:
    items = list(files.items())
    order.shuffle(items)
    return dict(items)


def test_the_order_of_tables_is_no_difference_i22() -> None:
    head, *tables = FLEET.split("[[nodes]]")
    last, storage = tables[1].split("[[storage]]")
    swapped = head + "[[nodes]]" + last + "[[nodes]]" + tables[0] + "[[storage]]" + storage
    assert fleet_of({**BASE, "fleet.toml": swapped.encode()}) == fleet_of(BASE)


def test_problems_are_one_error_that_prints_one_line_each() -> None:
    error = Problems([Problem("b.toml", 2, "k", "is wrong", "mend it"), Problem("a.toml", 0, "", "is gone")])
    assert isinstance(error, Invalid)
    assert (error.code, error.exit_code, error.count) == ("invalid_fleet", 2, 2)
    assert str(error) == "a.toml: is gone\nb.toml:2: k: is wrong; mend it"


def test_at_most_two_hundred_problems_are_printed_and_the_rest_is_counted() -> None:
    error = Problems(Problem("a.toml", line, "", "is wrong") for line in range(1, 1_235))
    lines = str(error).splitlines()
    assert len(lines) == 201
    assert lines[-1] == "… and 1,034 more problems"
    assert len(error.problems) == 1_234


def test_a_flood_of_mistakes_is_counted_without_being_kept_s11() -> None:
    files = with_service(WEB + "".join(f"k{at} = 1\n" for at in range(20_000)))
    with pytest.raises(Problems) as caught:
        fleet_of(files)
    assert caught.value.count == 20_000
    assert len(caught.value.problems) == 10_000
    assert caught.value.problems[0].line == 4


def test_what_is_invisible_or_looks_alike_is_printed_as_an_escape_d27() -> None:
    assert printable("a\nb") == "a\\nb"
    assert printable("p\u0430ypal") == "p\\u0430ypal"
    assert printable("\u202egpj.exe") == "\\u202egpj.exe"
    assert printable("\udcff") == "\\udcff"
    assert shown("x" * 500) == '"' + "x" * 60 + '…"'
    assert shown(10**400) == "a number of more than 30 digits"
    assert key_path(("a", 0, "b c", 1)) == 'a[0]."b c"[1]'


def test_a_guess_is_near_or_not_made() -> None:
    assert nearest("imge", ["image", "name"]) == "image"
    assert nearest("start-period", ["start_period"]) == "start_period"
    assert nearest("Image", ["image"]) == "image"
    assert nearest("zzz", ["image"]) == ""
    assert nearest("x" * 10_000, ["x" * 9_999]) == ""
    assert question("hub2", ["hub1"]) == 'did you mean "hub1"?'
