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
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if is_module(inner) else node.module)
    return {name for name in found if name.startswith("holdfast.")}


def annotation_names(node: ast.expr | None) -> set[str]:
    """Names in an annotation, also inside a string annotation."""
    if node is None:
        return set()
    names: set[str] = set()
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            names.add(part.id)
        elif isinstance(part, ast.Attribute):
            names.add(ast.unparse(part))
        elif isinstance(part, ast.Constant) and isinstance(part.value, str):
            names |= set(re.findall(r"[A-Za-z_][\w.]*", part.value))
    return names


class Module(Struct, frozen=True):
    """A module with the classes it defines and where its imported names come from."""

    path: str
    dotted: str
    classes: dict[str, ast.ClassDef]
    imports: dict[str, tuple[str, str]]  # local name → module and name there
    callbacks: frozenset[str] = frozenset()  # other names of a Callable


def modules(trees: list[tuple[str, ast.Module]]) -> dict[str, Module]:
    found = {}
    for path, tree in trees:
        dotted = "holdfast." + path.removesuffix(".py").replace("/", ".")
        classes = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
        imports = {
            alias.asname or alias.name: (node.module, alias.name)
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module
            for alias in node.names
        }
        named = [node for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None]
        callbacks = frozenset(
            ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target)
            for node in named
            if node.value is not None and _is_callable(ast.unparse(node.value))
        )
        found[dotted] = Module(path, dotted, classes, imports, callbacks)
    return found


def _is_callable(text: str) -> bool:
    return re.search(r"(?<![\w.\[])Callable\b", text.strip("\"'")) is not None


class Classes:
    """Tells values from objects: a struct, an enum or an error is a value, every other class of ours an object."""

    def __init__(self, known: dict[str, Module]) -> None:
        self._known = known

    def fields(self, module: Module, annotation: ast.expr | None, name: str) -> list[str]:
        """The objects that this annotation stands for: none, one, or those that a struct groups."""
        text = ast.unparse(annotation).strip("\"'") if annotation is not None else ""
        if _is_callable(text):
            return [name]  # a callback is something that the class works with
        for one in sorted(annotation_names(annotation)):
            if self._is_callback(module, one):
                return [name]
            home, node = self._defined(module, one)
            if node is None:
                continue
            if not self._is_value(home, node):
                return [name]
            inner = [(part.target, part.annotation) for part in node.body if isinstance(part, ast.AnnAssign)]
            grouped = [
                found
                for target, part in inner
                for found in self.fields(home, part, f"{name}.{ast.unparse(target)}")
                if home is not module or annotation_names(part) != {one}
            ]
            if grouped:  # a struct that groups collaborators counts as its fields
                return grouped
        return []

    def _is_value(self, module: Module, node: ast.ClassDef) -> bool:
        bases = {name for base in node.bases for name in annotation_names(base)}
        if bases & {"Struct", "Enum", "StrEnum", "IntEnum", "NamedTuple", "TypedDict", "Exception"}:
            return True
        defined = [self._defined(module, base) for base in bases]
        return any(parent is not None and self._is_value(home, parent) for home, parent in defined)

    def _defined(self, module: Module, name: str) -> tuple[Module, ast.ClassDef | None]:
        if name in module.classes:
            return module, module.classes[name]
        source, original = self._imported(module, name)
        home = self._known.get(source)
        return (home, home.classes.get(original)) if home is not None else (module, None)

    def _is_callback(self, module: Module, name: str) -> bool:
        source, original = self._imported(module, name)
        home = self._known.get(source)
        return name in module.callbacks or (home is not None and original in home.callbacks)

    def _imported(self, module: Module, name: str) -> tuple[str, str]:
        """`Clock` of `from m import Clock`, or `m.Clock` of `from package import m`."""
        first, _, attribute = name.rpartition(".")
        if first in module.imports:
            return ".".join(module.imports[first]), attribute
        return module.imports.get(name, ("", ""))


def collaborators(module: Module, node: ast.ClassDef, known: Classes) -> tuple[str, ...]:
    """Parameters of the constructor, or fields of a struct, whose type is an object or a callback.

    A struct of wiring is a list of what was built: the classes that get it count.
    """
    made = [part for part in node.body if isinstance(part, ast.FunctionDef) and part.name == "__init__"]
    if not made:
        fields = [part for part in node.body if isinstance(part, ast.AnnAssign)]
        fields = [part for part in fields if node.name not in annotation_names(part.annotation)]
        is_list = module.path.startswith("wiring/")
        found = [one for part in fields for one in known.fields(module, part.annotation, ast.unparse(part.target))]
        return () if is_list else tuple(found)
    given = made[0].args
    parameters = [one for one in (*given.posonlyargs, *given.args, *given.kwonlyargs) if one.arg != "self"]
    return tuple(found for one in parameters for found in known.fields(module, one.annotation, one.arg))


def classes(trees: list[tuple[str, ast.Module]]) -> list[Klass]:
    known = modules(trees)
    asked = Classes(known)
    found = []
    for module in known.values():
        for node in module.classes.values():
            methods = sum(isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef) for part in node.body)
            found.append(Klass(module.path, node.name, methods, collaborators(module, node, asked)))
    return found


def fan_out(trees: list[tuple[str, ast.Module]]) -> list[tuple[int, str]]:
    """The number of imported modules, outside wiring; largest first."""
    limited = ((path, tree) for path, tree in trees if not path.startswith(("wiring/", "__main__")))
    return sorted(((len(imported(tree)), path) for path, tree in limited), reverse=True)


def wide_modules(trees: list[tuple[str, ast.Module]]) -> list[str]:
    return [f"{path} imports {n} modules" for n, path in fan_out(trees) if n > FAN_OUT_MAX]


def limited_classes(trees: list[tuple[str, ast.Module]]) -> list[Klass]:
    return [one for one in classes(trees) if not one.path.startswith("adapters/")]


def large_classes(trees: list[tuple[str, ast.Module]]) -> list[str]:
    found = []
    for one in limited_classes(trees):
        if one.methods > METHODS_MAX:
            found.append(f"{one.path} {one.name} has {one.methods} methods")
        if len(one.collaborators) > COLLABORATORS_MAX:
            found.append(f"{one.path} {one.name} has {len(one.collaborators)}: {', '.join(one.collaborators)}")
    return found


def folders() -> list[tuple[int, str]]:
    """The number of files of each folder of agent, cli and hub; largest first."""
    found = (
        path for room in ("agent", "cli", "hub") for path in (SRC / room).rglob("*.py") if path.name != "__init__.py"
    )
    counted = Counter(str(path.parent.relative_to(SRC)) for path in found)
    return sorted(((n, folder) for folder, n in counted.items()), reverse=True)


def crowded_folders() -> list[str]:
    return [f"{folder} has {n} files" for n, folder in folders() if n > FILES_MAX]


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
    per_module = sorted(((len(error_codes(tree)), path) for path, tree in trees), reverse=True)[:6]
    limited = limited_classes(trees)
    methods = max(limited, key=lambda one: one.methods)
    given = max(limited, key=lambda one: len(one.collaborators))
    return [
        f"largest fan-out: {_counted(fan_out(trees)[:3])} (limit {FAN_OUT_MAX})",
        f"most methods: {methods.name} {methods.methods} (limit {METHODS_MAX})",
        f"most collaborators: {given.name} {len(given.collaborators)} (limit {COLLABORATORS_MAX})",
        f"most files in a folder: {_counted(folders()[:3])} (limit {FILES_MAX})",
        f"lines of src: {lines}",
        f"first sentences: median {statistics.median(lengths):.0f} words, longest {max(lengths)}",
        f"error codes: {len(codes)}; named by most modules: {often}",
        f"most error codes in a module: {_counted(per_module)}",
        *wide_modules(trees),
        *large_classes(trees),
        *crowded_folders(),
    ]


def _counted(found: list[tuple[int, str]]) -> str:
    return ", ".join(f"{name} {n}" for n, name in found)


if __name__ == "__main__":
    print("\n".join(report()))
