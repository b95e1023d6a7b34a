"""The key reference is complete and is what the page says."""

import typing
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct, inspect

from holdfast.declared.meanings import MEANINGS
from holdfast.declared.reference import SECTIONS, reference
from holdfast.declared.schema import plain
from holdfast.model.fleet import FleetFile, Service

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "fleet-directory.md"


def structs_below(kind: inspect.Type) -> Iterator[inspect.StructType]:
    kind = plain(kind)
    if isinstance(kind, inspect.StructType):
        yield kind
        for field in kind.fields:
            yield from structs_below(field.type)
    elif isinstance(kind, inspect.VarTupleType):
        yield from structs_below(kind.item_type)
    elif isinstance(kind, inspect.UnionType):
        for choice in kind.types:
            yield from structs_below(choice)


TABLES: dict[type, inspect.StructType] = {
    found.cls: found for root in (FleetFile, Service) for found in structs_below(inspect.type_info(root))
}


def test_every_key_of_every_table_has_a_meaning_and_no_meaning_lacks_its_key() -> None:
    keys = {cls.__name__: {field.encode_name for field in kind.fields} for cls, kind in TABLES.items()}
    assert {table: set(meanings) for table, meanings in MEANINGS.items()} == keys


def test_every_table_has_a_section() -> None:
    assert {table for _, table in SECTIONS} == set(TABLES)


def test_the_page_is_what_is_printed() -> None:
    assert PAGE.read_text() == reference(), "python -m holdfast.declared.reference > docs/reference/fleet-directory.md"


def test_every_pattern_is_explained_in_words_and_refuses_a_trailing_line_break() -> None:
    for table in TABLES:
        for name, hint in typing.get_type_hints(table, include_extras=True).items():
            for meta in metas(hint):
                if meta.pattern is not None:
                    assert meta.description, f"{table.__name__}.{name} has a pattern without words"
                    assert meta.pattern.endswith(r"$(?!\n)"), f"{table.__name__}.{name} lets a line break through"


def metas(hint: typing.Any) -> Iterator[typing.Any]:
    for part in typing.get_args(hint):
        if hasattr(part, "pattern"):
            yield part
        yield from metas(part)


def test_the_page_speaks_of_every_struct_once() -> None:
    assert len(SECTIONS) == len({table for _, table in SECTIONS})
    assert all(issubclass(table, Struct) for _, table in SECTIONS)
