"""The limits of the house: imports per module, methods and collaborators per class, files per folder (house.md §7)."""

import ast

import pytest

from tests.architecture import measures


@pytest.fixture(scope="module")
def trees() -> list[tuple[str, ast.Module]]:
    return list(measures.sources())


def test_no_module_outside_wiring_imports_too_much(trees: list[tuple[str, ast.Module]]) -> None:
    assert measures.wide_modules(trees) == []


def test_no_class_outside_adapters_is_too_large(trees: list[tuple[str, ast.Module]]) -> None:
    assert measures.large_classes(trees) == []


def test_no_folder_of_agent_cli_or_hub_is_crowded() -> None:
    assert measures.crowded_folders() == []


def test_a_struct_of_objects_counts_as_its_fields() -> None:
    source = """
class Clock: ...
class Disk: ...
class Point(Struct): x: int; y: int
class Bag(Struct): clock: Clock; disk: Disk; name: str
class Base(Struct): a: int
class Child(Base): b: int
class Uses:
    def __init__(self, bag: Bag, at: Point, child: "Child", say: Callable[[], None], *, clock: "Clock | None"): ...
"""
    found = {one.name: one.collaborators for one in measures.classes([("agent/x.py", ast.parse(source))])}
    assert found["Uses"] == ("bag.clock", "bag.disk", "say", "clock")


def test_no_spelling_hides_a_collaborator() -> None:
    home = ast.parse("class Clock: ...\nSay = Callable[[str], None]\nclass One(Struct): clock: Clock; name: str")
    user = ast.parse("""
from holdfast.agent import home
from holdfast.agent.home import Say
Then: TypeAlias = "Callable[[], None]"
class Uses:
    def __init__(self, clock: home.Clock, late: "home.Clock | None", say: Say, far: "home.Say", then: Then,
                 one: home.One, maybe: "None | Callable[[], None]", names: tuple[str, ...]): ...
class Held(Struct):
    clock: home.Clock
    name: str
""")
    found = {
        one.name: one.collaborators for one in measures.classes([("agent/home.py", home), ("agent/user.py", user)])
    }
    assert found["Uses"] == ("clock", "late", "say", "far", "then", "one.clock", "maybe")
    assert found["Held"] == ("clock",), "a struct that works with objects"
    assert {one.name: one.collaborators for one in measures.classes([("wiring/x.py", home)])}["One"] == ()


def test_the_limits_bite() -> None:
    methods = "\n".join(f"    def m{number}(self): ..." for number in range(measures.METHODS_MAX + 1))
    given = ", ".join(f"a{number}: K" for number in range(measures.COLLABORATORS_MAX + 1))
    tree = ast.parse(f"class K:\n{methods}\nclass L:\n    def __init__(self, {given}): ...")
    for room, found in (("agent", 2), ("wiring", 2), ("cli", 2), ("adapters", 0)):
        assert len(measures.large_classes([(f"{room}/x.py", tree)])) == found, room
    for form in ("from holdfast.model.m{} import X", "import holdfast.model.m{}"):
        imports = "\n".join(form.format(number) for number in range(measures.FAN_OUT_MAX + 1))
        for room, found in (("hub", 1), ("adapters", 1), ("cli", 1), ("wiring", 0)):
            assert len(measures.wide_modules([(f"{room}/x.py", ast.parse(imports))])) == found, room
