"""Storage targets as they are written: what each kind needs, what is refused, and what two may not share."""

import pytest

from holdfast.model.fleet import Retain
from tests.specs.declared.declared_fleets import FLEET, WEB, fleet_of, problems_of

PLAIN = FLEET.partition("[[storage]]")[0]


def files(text: str) -> dict[str, bytes]:
    return {"fleet.toml": (PLAIN + text).encode(), "services/web.toml": WEB.encode()}


def target(type: str, id: str, more: str = "", name: str = "box") -> str:
    return f'[[storage]]\nname = "{name}"\ntype = "{type}"\ndurable_id = "{id}"\n{more}\n'


DIR = target("local-dir", "box-1", 'location = "/srv/box"')
UUID = "0f3c2a1e-7b5d-4c9a-8e21-5a6b7c8d9e0f"
REPO = "ab" * 32

WRONG = {
    'name = "hub"': (target("local-dir", "x", 'location = "/x"', "hub"), "storage[0].name", "the hub's own store"),
    "no path": (target("local-dir", "x"), "storage[0].location", "is not the path of a directory"),
    "dots": (target("local-dir", "x", 'location = "/srv/../etc"'), "storage[0].location", "is not the path"),
    "id": (target("local-dir", "-x", 'location = "/x"'), "storage[0].durable_id", "is not a durable id"),
    "secret of a directory": (DIR + 'secret = "s"\n', "storage[0].secret", "has no effect"),
    "usb id": (target("usb", "stick", 'nodes = ["edge1"]'), "storage[0].durable_id", "is not a durable id"),
    "usb without its node": (target("usb", UUID), "storage[0].nodes", "does not name the one node"),
    "usb path": (target("usb", UUID, 'location = "/x"\nnodes = ["edge1"]'), "storage[0].location", "has no effect"),
    "no bucket": (
        target("s3", "b", 'location = "https://s3.example.com"\nsecret = "s"\nnodes = ["edge1"]'),
        "storage[0].location",
        "is not the address of a bucket",
    ),
    "bucket without secret": (
        target("s3", "b", 'location = "https://s3.example.com/backups"\nnodes = ["edge1"]'),
        "storage[0]",
        "has no secret",
    ),
    "bucket without nodes": (
        target("s3", "b", 'location = "https://s3.example.com/backups"\nsecret = "s"'),
        "storage[0].nodes",
        "sealed to the nodes",
    ),
    "restic id": (
        target("restic", "x", 'location = "/r"\nsecret = "s"\nnodes = ["edge1"]'),
        "storage[0].durable_id",
        "is not a durable id",
    ),
    "restic password": (
        target("restic", REPO, 'location = "rest:https://u:p@h/"\nsecret = "s"\nnodes = ["edge1"]'),
        "storage[0].location",
        "has a password",
    ),
    "unknown node": (DIR + 'nodes = ["w9"]\n', "storage[0].nodes[0]", "there is no node"),
    "nodes twice": (DIR + 'nodes = ["edge1", "edge1"]\n', "storage[0].nodes", "names a node twice"),
    "keeps none": (DIR + "policy = { retain = { last = 0 } }\n", "storage[0].policy.retain", "keeps no backup"),
    "one place twice": (
        DIR + target("local-dir", "box-1", 'location = "/other"', "two"),
        "storage[1].durable_id",
        "would count as two copies",
    ),
    "two primaries": (
        DIR + 'role = "primary"\n' + target("local-dir", "b2", 'location = "/o"\nrole = "primary"', "two"),
        "storage[1].role",
        "one target decides",
    ),
    "no secret file": (
        target("restic", REPO, 'location = "/r"\nsecret = "s"\nnodes = ["edge1"]'),
        "storage[0].secret",
        "there is no secrets/s.age",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_with_a_target_is_said_at_its_key(name: str) -> None:
    text, key, words = WRONG[name]
    found = [one for one in problems_of(files(text)) if one.key == key]
    assert found and words in found[0].what and found[0].remedy, problems_of(files(text))


def test_a_target_is_read_as_it_is_written() -> None:
    more = 'nodes = ["edge1"]\nclass = "fast"\nrole = "offsite"\npolicy = { retain = { last = 2, monthly = 12 } }\n'
    found = fleet_of(files(DIR + more)).storage["box"]
    assert (found.location, found.nodes, found.speed, found.role) == ("/srv/box", ("edge1",), "fast", "offsite")
    assert found.policy.retain == Retain(last=2, monthly=12)


def test_two_primaries_of_different_nodes_are_none_too_many_and_a_detached_target_may_be_incomplete() -> None:
    one = DIR + 'role = "primary"\nnodes = ["edge1"]\n'
    two = target("local-dir", "b2", 'location = "/o"\nrole = "primary"\nnodes = ["hub1"]', "two")
    gone = target("restic", "lost", 'state = "decommissioned"', "old")
    assert sorted(fleet_of(files(one + two + gone)).storage) == ["box", "old", "two"]


def test_a_table_of_backups_that_keeps_none_is_refused() -> None:
    (found,) = problems_of(files("[backups]\nretain = { last = 0 }\n"))
    assert found.key == "backups.retain" and "keeps no backup" in found.what
