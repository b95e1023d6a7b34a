"""What `holdfast init` writes: it loads, it can be edited, it says what it is."""

import re

import pytest
from msgspec import UNSET

from holdfast.declared.starter import IMAGE, starter
from holdfast.declared.without_effect import Judged, judge
from holdfast.model.fleet import Operator
from tests.specs.declared.declared_fleets import fleet_of, key_line

ADA = Operator("ada", key_line(1), "root")
ID = "0123456789abcdef"
HUB_KEY = key_line(2)


def test_the_starter_loads_without_a_problem_m124() -> None:
    fleet = fleet_of(starter("home", [ADA], ID))
    assert fleet.settings.name == "home"
    assert fleet.operators == (ADA,)
    assert fleet.nodes["hub1"].roles == ("hub", "worker")
    assert list(fleet.services) == ["hello"]


def test_its_image_is_a_digest_so_that_planning_needs_no_network() -> None:
    assert re.fullmatch(r"docker\.io/library/busybox@sha256:[0-9a-f]{64}", IMAGE)
    assert fleet_of(starter("home", [ADA], ID)).services["hello"].components[0].image == IMAGE


def test_its_health_check_asks_the_route() -> None:
    health = fleet_of(starter("home", [ADA], ID)).services["hello"].components[0].health
    assert health is not UNSET and health.port == 8080


@pytest.mark.parametrize("comment", ['ada "the first"', "back\\slash", "ädä", "del\x7f", "😀", "# no comment", "'''"])
def test_a_strange_key_comment_does_not_break_the_file(comment: str) -> None:
    import tomli

    key = key_line(1).rsplit(" ", 1)[0] + " " + comment
    text = starter("home", [Operator("ada", key, "root")], ID)["fleet.toml"].decode()
    assert tomli.loads(text)["operators"][0]["key"] == key


def test_every_operator_is_written_with_all_they_have() -> None:
    ben = Operator("ben", key_line(2), "apply", "age1" + "q" * 58, ("service.web", "service.*"))
    assert fleet_of(starter("home", [ADA, ben], ID)).operators == (ADA, ben)


def test_its_examples_work_once_their_comment_signs_are_removed() -> None:
    files = starter("home", [ADA], ID)
    text = re.sub(r"(?m)^# (?=\[\[|\w+ = )", "", files["fleet.toml"].decode())
    text = text.replace("ssh-ed25519 AAAA…", HUB_KEY)
    fleet = fleet_of({**files, "fleet.toml": text.encode()})
    assert list(fleet.nodes) == ["hub1", "w1"]
    assert judge(fleet, None) == Judged((), ()), "nothing in it is without effect"
    assert fleet.settings.hub == "https://hub.example.com:9555"
    assert fleet.settings.public_domains == ("example.com",)
    assert fleet.settings.hub_key == HUB_KEY
    assert list(fleet.alerts) == ["chat"]


def test_it_survives_being_edited_because_it_is_plain() -> None:
    files = starter("home", [ADA], ID)
    for path in ("fleet.toml", "services/hello.toml"):
        assert not re.search(r"(?m)^[ \t]", files[path].decode()), "an indented line in " + path
    appended = files["services/hello.toml"] + b'\n[[components]]\nname = "second"\nimage = "busybox:1.36"\n'
    assert len(fleet_of({**files, "services/hello.toml": appended}).services["hello"].components) == 2


def test_its_readme_has_three_sentences() -> None:
    body = starter("home", [ADA], ID)["README.md"].decode().split("\n\n", 1)[1]
    assert len(re.findall(r"\.\s", body)) == 3
