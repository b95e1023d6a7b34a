"""Keys of nodes and people, and values sealed to them, for tests of secrets. Really age; the keys are not random."""

import pyrage

from holdfast.adapters.identity_key import file
from holdfast.adapters.random_source.seeded import SeededRandom
from holdfast.adapters.sealing import age
from holdfast.ports.sealing import Opener

CANARY = b"canary-hunter2-7f3a"


def node_key(name: str) -> str:
    return file.made(SeededRandom(f"node {name}"))[0].line


def node_opener(name: str) -> Opener:
    return age.from_ssh_key(file.made(SeededRandom(f"node {name}"))[1], f"{name}.key")


_PEOPLE: dict[str, pyrage.x25519.Identity] = {}


def person(name: str) -> str:
    """Their recipient; the same within one run."""
    return str(_PEOPLE.setdefault(name, pyrage.x25519.Identity.generate()).to_public())


def person_file(name: str) -> bytes:
    person(name)
    return f"# of {name}\n{_PEOPLE[name]}\n".encode()


def sealed_to(*names: str, value: bytes = CANARY) -> bytes:
    """To nodes by name; `@ada` is a person."""
    lines = [person(name[1:]) if name.startswith("@") else node_key(name) for name in names]
    return age.AgeSealer().seal(value, lines)
