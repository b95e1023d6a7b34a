"""Find every mistake of one document against its schema. Slow and thorough; runs only after a refusal."""

import re
from functools import lru_cache
from typing import Any

from msgspec import inspect

from holdfast.declared import later, spelling
from holdfast.declared.flaw import Flaws
from holdfast.declared.schema import has_length, holds, in_range, in_words, plain, wanted_length
from holdfast.declared.words import Path, described, shown

BAD = object()  # in place of a value that cannot be used


def explain(document: dict[str, Any], kind: type, file: str, flaws: Flaws) -> Any:
    """Note every mistake; return the document without the parts that have them."""
    return _Walk(file, flaws).visit(_schema(kind), document, ())


_schema = lru_cache(inspect.type_info)


class _Walk:
    def __init__(self, file: str, flaws: Flaws) -> None:
        self.file = file
        self.flaws = flaws

    def note(self, path: Path, what: str, remedy: str = "") -> object:
        self.flaws.add(self.file, path, what, remedy)
        return BAD

    def visit(self, kind: inspect.Type, value: Any, path: Path) -> Any:
        choices = kind.types if isinstance(kind, inspect.UnionType) else (kind,)
        fitting = [choice for choice in choices if holds(choice, value)]
        if not fitting:
            return self.note(path, f"must be {in_words(kind)}, not {described(value)}")
        chosen = plain(fitting[0])
        if isinstance(chosen, inspect.StructType):
            return self.struct(chosen, value, path)
        if isinstance(chosen, inspect.VarTupleType):
            return self.array(chosen, value, path)
        if isinstance(chosen, inspect.DictType):
            return self.table(chosen, value, path)
        return self.scalar(chosen, value, path, in_words(fitting[0]))

    def struct(self, kind: inspect.StructType, value: dict[str, Any], path: Path) -> Any:
        fields = {field.encode_name: field for field in kind.fields}
        meant = {key: self.unknown(kind, key, list(fields), path) for key in value if key not in fields}
        rest: dict[str, Any] = {}
        for key, inner in value.items():
            name = meant.get(key, key)
            if name and (name == key or name not in value):  # a typing error is read as the key it resembles
                walk = self if name == key or isinstance(inner, dict | list) else _Walk(self.file, Flaws())
                rest[name] = walk.field(kind.cls.__name__, fields[name], inner, (*path, key))
        required = [name for name, field in fields.items() if field.required]
        for name in required:
            if name not in rest:
                rest[name] = self.note((*path, name), "missing key", f"it must be {in_words(fields[name].type)}")
        if path and any(rest[name] is BAD for name in required):
            return BAD
        return {key: inner for key, inner in rest.items() if inner is not BAD}

    def field(self, table: str, field: inspect.Field, value: Any, path: Path) -> Any:
        kind = plain(field.type)
        if isinstance(kind, inspect.LiteralType) and value not in kind.values:
            row = later.of_value(table, field.encode_name, value)
            if row is not None:
                return self.note(path, row.reason, row.remedy)
        return self.visit(field.type, value, path)

    def unknown(self, kind: inspect.StructType, key: str, known: list[str], path: Path) -> str:
        """Note it; return the key it resembles, or ""."""
        row = later.of_key(kind.cls.__name__, key)
        if row is not None:
            self.note((*path, key), row.reason, row.remedy)
            return ""
        guess = "" if self.flaws.crowded else spelling.nearest(key, known)
        remedy = f'did you mean "{guess}"?' if guess else "the keys here are " + ", ".join(sorted(known))
        self.note((*path, key), "unknown key", remedy)
        return guess

    def array(self, kind: inspect.VarTupleType, value: list[Any], path: Path) -> Any:
        if not has_length(kind, len(value)):
            return self.note(path, f"must have {wanted_length(kind)}, not {len(value):,}")
        rest = [self.visit(kind.item_type, inner, (*path, at)) for at, inner in enumerate(value)]
        kept = [at for at, inner in enumerate(rest) if inner is not BAD]
        if len(kept) != len(rest):
            self.flaws.dropped[self.file, path] = kept
        return [rest[at] for at in kept]

    def table(self, kind: inspect.DictType, value: dict[str, Any], path: Path) -> Any:
        rest = {}
        for key, inner in value.items():
            kept = self.visit(kind.key_type, key, (*path, key)), self.visit(kind.value_type, inner, (*path, key))
            if BAD not in kept:
                rest[key] = inner
        return rest

    def scalar(self, kind: inspect.Type, value: Any, path: Path, expected: str) -> Any:
        if isinstance(kind, inspect.LiteralType) and value not in kind.values:
            guess = "" if self.flaws.crowded else spelling.question(value, [str(other) for other in kind.values])
            return self.note(path, f"must be {expected}, not {shown(value)}", guess)
        if isinstance(kind, inspect.IntType) and not in_range(kind, value):
            return self.note(path, f"must be {expected}, not {shown(value)}")
        return self.string(kind, value, path, expected) if isinstance(kind, inspect.StrType) else value

    def string(self, kind: inspect.StrType, value: str, path: Path, expected: str) -> Any:
        if "\0" in value:
            return self.note(path, "holds a NUL character", "remove it; it would end an argument early")
        if kind.max_length is not None and len(value) > kind.max_length:
            return self.note(path, f"is {len(value):,} characters long", f"at most {kind.max_length:,} are allowed")
        if kind.pattern is not None and not re.search(kind.pattern, value):
            return self.note(path, f"must be {expected}, not {shown(value)}")
        return value
