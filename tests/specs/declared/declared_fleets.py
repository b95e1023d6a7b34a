"""Small fleets for the specifications of `declared`, written the way a person would."""

import binascii
from collections.abc import Mapping

import pytest

from holdfast.adapters.fleet_directory.memory import Content, MemoryFleetDirectory
from holdfast.declared.load import load
from holdfast.declared.problem import Problem, Problems
from holdfast.model.fleet import Fleet
from holdfast.model.ssh_key import pack


def key_line(number: int) -> str:
    blob = pack(b"ssh-ed25519", bytes([number]) * 32)
    return "ssh-ed25519 " + binascii.b2a_base64(blob, newline=False).decode() + f" operator-{number}"


FLEET = f"""\
[fleet]
name = "home"
public_domains = ["example.test"]
[[operators]]
name = "ada"
grade = "root"
key = "{key_line(1)}"

[[nodes]]
name = "hub1"
roles = ["hub", "worker"]

[[nodes]]
name = "edge1"
roles = ["edge"]

[[storage]]
name = "tank"
type = "nfs"
durable_id = "nas:/tank"
"""

WEB = """\
[[components]]
name = "web"
image = "registry.test/web:1"
"""

BASE: dict[str, Content] = {"fleet.toml": FLEET.encode(), "services/web.toml": WEB.encode()}


def fleet_of(files: Mapping[str, Content]) -> Fleet:
    return load(MemoryFleetDirectory(files))


def problems_of(files: Mapping[str, Content]) -> tuple[Problem, ...]:
    with pytest.raises(Problems) as caught:
        fleet_of(files)
    return caught.value.problems


def lines_of(files: Mapping[str, Content]) -> list[str]:
    return [str(problem) for problem in problems_of(files)]


def with_service(text: str, name: str = "web") -> dict[str, Content]:
    return {**BASE, f"services/{name}.toml": text.encode()}


def with_fleet(text: str) -> dict[str, Content]:
    return {**BASE, "fleet.toml": text.encode()}


def only_problem(files: Mapping[str, Content]) -> tuple[str, int, str, str, str]:
    """The one problem there is, as (file, line, key, what, remedy)."""
    (problem,) = problems_of(files)
    return problem.file, problem.line, problem.key, problem.what, problem.remedy
