"""Measure the code base: imports per module, methods and collaborators per class, files per folder.

`.venv/bin/python tests/architecture/measures.py` prints the report; `test_measures.py` enforces the limits.
"""

import ast
import re
import statistics
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

SRC = Path(__file__).parents[2] / "src" / "holdfast"
FAN_OUT_MAX = 15
METHODS_MAX = 20
COLLABORATORS_MAX = 7
FILES_MAX = 18

# A parameter of one of these types is a value, not an object that the class works with.
VALUES = frozenset(
    {
        *(
            "str",
            "bytes",
            "int",
            "float",
            "bool",
            "None",
            "object",
            "type",
            "tuple",
            "list",
            "dict",
            "set",
            "frozenset",
        ),
        *("Sequence", "Mapping", "Collection", "Iterable", "Literal", "Any", "Path", "Callable", "Awaitable"),
        *("Coroutine", "Final", "ClassVar", "Set"),
    }
)


class Klass(Struct, frozen=True):
    path: str
    name: str
    methods: int
    collaborators: tuple[str, ...]


def sources() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(SRC.rglob("*.py")):
        yield str(path.relative_to(SRC)), ast.parse(path.read_text())


def is_module(dotted: str) -> bool:
    base = SRC.joinpath(*dotted.split(".")[1:])
    return base.with_suffix(".py").is_file() or (base / "__init__.py").is_file()


def imported(tree: ast.AST) -> set[str]:
    """Modules of this code base that a module imports, at the top, inside a function or for types only."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "holdfast":
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if is_module(inner) else node.module)
    return found - {"holdfast"}


def annotation_names(node: ast.expr | None) -> set[str]:
    """Capitalised type names in an annotation, also inside a string annotation."""
    if node is None:
        return set()
    names: set[str] = set()
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            names.add(part.id)
        elif isinstance(part, ast.Attribute):
            names.add(part.attr)
        elif isinstance(part, ast.Constant) and isinstance(part.value, str):
            names |= set(re.findall(r"[A-Za-z_]\w*", part.value))
    return names


class Types(Struct, frozen=True):
    """Which class names are values (frozen structs, enums, errors, NewTypes) and which structs only group objects."""

    values: frozenset[str]
    bags: dict[str, tuple[ast.expr, ...]]


def is_value_class(node: ast.ClassDef) -> bool:
    bases = {name for base in node.bases for name in annotation_names(base)}
    return bool(bases & {"Struct", "Enum", "StrEnum", "IntEnum", "NamedTuple", "TypedDict", "Exception"})


def types_of(trees: list[tuple[str, ast.Module]]) -> Types:
    values = set(VALUES)
    objects: set[str] = set()
    structs: dict[str, tuple[ast.expr, ...]] = {}
    for _, tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                if is_value_class(node):
                    values.add(node.name)
                    fields = tuple(part.annotation for part in node.body if isinstance(part, ast.AnnAssign))
                    structs[node.name] = fields
                else:
                    objects.add(node.name)
    # A struct with a field that is an object groups collaborators: it counts as its fields.
    bags = {
        name: fields
        for name, fields in structs.items()
        if sum(bool(annotation_names(field) & (objects - values)) for field in fields) >= 2
    }
    return Types(frozenset(values - bags.keys() - (objects - values)), bags)


def collaborators(node: ast.ClassDef, types: Types) -> tuple[str, ...]:
    """Parameters of the constructor whose type is an object; a struct of objects counts as its fields."""
    made = [part for part in node.body if isinstance(part, ast.FunctionDef) and part.name == "__init__"]
    if not made:
        return ()
    arguments = made[0].args
    found: list[str] = []
    for argument in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]:
        if argument.arg != "self":
            found += _objects(argument.arg, argument.annotation, types)
    return tuple(found)


def _objects(name: str, annotation: ast.expr | None, types: Types) -> list[str]:
    kinds = annotation_names(annotation) - types.values
    for bag in sorted(kinds & types.bags.keys()):
        return [f"{name}.{number}" for number, field in enumerate(types.bags[bag]) if _is_object(field, types)]
    return [name] if _is_object(annotation, types) else []


def _is_object(annotation: ast.expr | None, types: Types) -> bool:
    text = ast.unparse(annotation) if annotation is not None else ""
    if text.startswith(("Callable", '"Callable')):
        return True  # a callback is something the class works with
    return any(name[0].isupper() and name not in types.values for name in annotation_names(annotation))


def classes(trees: list[tuple[str, ast.Module]]) -> list[Klass]:
    types = types_of(trees)
    found = []
    for path, tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                methods = sum(isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef) for part in node.body)
                found.append(Klass(path, node.name, methods, collaborators(node, types)))
    return found


def is_limited(path: str) -> bool:
    return not path.startswith(("adapters/", "cli/", "wiring/", "__main__"))


def wide_modules(trees: list[tuple[str, ast.Module]]) -> list[str]:
    wide = [(len(imported(tree)), path) for path, tree in trees if is_limited(path)]
    return [f"{path} imports {n} modules" for n, path in sorted(wide, reverse=True) if n > FAN_OUT_MAX]


def large_classes(trees: list[tuple[str, ast.Module]]) -> list[str]:
    found = []
    for one in classes(trees):
        if is_limited(one.path) and one.methods > METHODS_MAX:
            found.append(f"{one.path} {one.name} has {one.methods} methods")
        if is_limited(one.path) and len(one.collaborators) > COLLABORATORS_MAX:
            found.append(f"{one.path} {one.name} has {len(one.collaborators)}: {', '.join(one.collaborators)}")
    return found


def crowded_folders() -> list[str]:
    counted = Counter(
        path.parent for room in ("agent", "hub") for path in (SRC / room).rglob("*.py") if path.name != "__init__.py"
    )
    return [f"{folder.relative_to(SRC)} has {n} files" for folder, n in sorted(counted.items()) if n > FILES_MAX]


def first_sentence(tree: ast.Module) -> str:
    text = ast.get_docstring(tree) or ""
    return re.split(r"(?<=[.:;])\s", text.strip(), maxsplit=1)[0]


def error_codes(tree: ast.Module) -> set[str]:
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    found = [keyword.value for call in calls for keyword in call.keywords if keyword.arg == "code"]
    return {str(value.value) for value in found if isinstance(value, ast.Constant)}


def report() -> list[str]:
    trees = list(sources())
    lines = sum(path.read_text().count("\n") for path in SRC.rglob("*.py"))
    lengths = [len(first_sentence(tree).split()) for path, tree in trees if not path.endswith("__init__.py")]
    codes = Counter(code for _, tree in trees for code in error_codes(tree))
    often = ", ".join(f"{code} {count}" for code, count in codes.most_common(6))
    return [
        f"lines of src: {lines}",
        f"first sentences: median {statistics.median(lengths):.0f} words, longest {max(lengths)}",
        f"error codes: {len(codes)}; named by most modules: {often}",
        *wide_modules(trees),
        *large_classes(trees),
        *crowded_folders(),
    ]


if __name__ == "__main__":
    print("\n".join(report()))
