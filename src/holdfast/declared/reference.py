"""Print the key reference of the fleet directory from its schema. Pure.

`python -m holdfast.declared.reference > docs/reference/fleet-directory.md` writes the page; a test compares the two.
"""

from collections.abc import Iterator
from typing import Any

from msgspec import NODEFAULT, Struct, inspect

from holdfast.declared import later
from holdfast.declared.meanings import MEANINGS
from holdfast.declared.schema import in_words
from holdfast.declared.words import shown
from holdfast.model import fleet
from holdfast.planning.harmless import HARMLESS

_GRADES = """\
## Scopes, and keys that grade `apply` may change

An operator without `scope` signs for everything. An item `service.web` (or `service.*`) covers that service with its
own names (`web.DOMAIN`, `web.ZONE` and every name below them) on nodes with the role `worker`. `name:HOST` and
`name:*.HOST` (every name below HOST) allow more names. With `node:NAME` items, the service is placed on these nodes
only. A node without the role `worker` takes a service with grade `destroy` only, from a scoped operator also with its
`node:` item. Names and nodes that the service has already stay.

Every key of `fleet.toml` needs grade `destroy`, and `[trust]` and `[[operators]]` need grade `root`, except these:
"""


def _fields(table: type[Struct]) -> tuple[inspect.Field, ...]:
    kind = inspect.type_info(table)
    assert isinstance(kind, inspect.StructType)
    return kind.fields


def _nearest(kind: inspect.Type, many: bool = False) -> Iterator[tuple[type[Struct], bool]]:
    """The tables that a key holds, and whether it holds several."""
    if isinstance(kind, inspect.StructType):
        yield kind.cls, many
    elif isinstance(kind, inspect.VarTupleType):
        yield from _nearest(kind.item_type, True)
    elif isinstance(kind, inspect.UnionType):
        for choice in kind.types:
            yield from _nearest(choice, many)


def _sections(title: str, table: type[Struct], path: str = "") -> Iterator[tuple[str, type[Struct]]]:
    """A table, then those below it, in the order of their keys."""
    yield title, table
    for field in _fields(table):
        for below, many in _nearest(field.type):
            name = f"{path}{field.encode_name}"
            yield from _sections(f"`[[{name}]]`" if many else f"`[{name}]`", below, f"{name}.")


def _each_once(sections: Iterator[tuple[str, type[Struct]]]) -> tuple[tuple[str, type[Struct]], ...]:
    """A table that two keys have is described where it is met last."""
    found = {table: title for title, table in sections}
    return tuple((title, table) for table, title in found.items())


SECTIONS: tuple[tuple[str, type[Struct]], ...] = (
    *_each_once(_sections("`fleet.toml`", fleet.FleetFile)),
    *_each_once(_sections("`services/<name>.toml`", fleet.Service)),
)

_OPENING = """\
# The fleet directory

Printed from the structs in `src/holdfast/model/fleet.py`; do not edit (see `src/holdfast/declared/reference.py`).

```
fleet.toml               who may change the fleet, and where it runs
services/<name>.toml     one service each; the file is named like the service
policies/<name>.cedar    authorization rules, bound in [[policies]]; not evaluated yet
secrets/<name>.age       sealed values (age); `holdfast secret set` writes them
```

Files are UTF-8 TOML. Links are not followed. Unknown keys are errors. A directory with any mistake is refused, with the
line of every mistake. Names are lower-case letters, digits and dashes, start with a letter and have at most 40
characters. Durations look like `90s`, `5m`, `24h`, `7d`. Entries that begin with a dot, `fleet.lock` and files of other
kinds are ignored.
"""


def reference() -> str:
    """The whole page."""
    parts = [_OPENING, *(_section(title, table) for title, table in SECTIONS), _harmless(), _without_effect()]
    return "\n".join(parts)


def _section(title: str, table: type[Struct]) -> str:
    rows = "\n".join(_rows(table))
    note = f"{_NO_EFFECT}\n\n" if table in below_idle_keys() else ""
    return f"## {title}\n\n{note}| Key | Type | Default | Meaning |\n|---|---|---|---|\n{rows}\n"


def _rows(table: type[Struct]) -> Iterator[str]:
    for field in _fields(table):
        meaning = MEANINGS[table.__name__][field.encode_name]
        idle = later.of_key(table.__name__, field.encode_name) is not None
        yield f"| `{field.encode_name}` | {in_words(field.type)} | {_default(field)} | {meaning}{_IDLE * idle} |"


def below_idle_keys() -> set[type]:
    """Tables below a key without an effect."""
    return {
        found
        for _, table in SECTIONS
        for field in _fields(table)
        if later.of_key(table.__name__, field.encode_name) is not None
        for found in _below(field.type)
    }


def _below(kind: inspect.Type) -> Iterator[type[Struct]]:
    for table, _ in _nearest(kind):
        yield from (found for _, found in _sections("", table))


def _default(field: inspect.Field) -> str:
    if field.required:
        return "required"
    value: Any = field.default
    if value is NODEFAULT or value == () or value == "" or isinstance(value, Struct):
        return "–"
    return f"`{shown(value)}`"


def _harmless() -> str:
    rows = "\n".join(f"| `{key}` | {row.words} | {row.reason} |" for key, row in HARMLESS.items())
    return f"{_GRADES}\n| Key | Harmless | Why |\n|---|---|---|\n{rows}\n"


def _without_effect() -> str:
    rows = [_later_row(row, entry) for row, entry in later.TABLE.items()]
    rows += [f"| `{name}/` | refused | not built yet: {reason} |" for name, reason in later.DIRECTORIES.items()]
    return "\n".join([_WITHOUT_EFFECT, *rows, ""])


def _later_row(row: later.Row, entry: later.Later) -> str:
    table, key, value = row
    what = f'`"{value}"` as `{key}` in {_HOMES[table]}' if value else f"`{key}` in {_HOMES[table]}"
    return f"| {what} | {_outcome(row, entry)} | {entry.reason} |"


def _outcome(row: later.Row, entry: later.Later) -> str:
    if not entry.refused:
        return "warned about"
    return "refused if new" if is_known(row) else "refused"


def is_known(row: later.Row) -> bool:
    """Whether the schema accepts this key and value, so that an applied revision may have it."""
    table, key, value = row
    home = next(found for _, found in SECTIONS if found.__name__ == table)
    field = next((field for field in _fields(home) if field.encode_name == key), None)
    if field is None:
        return False
    return not isinstance(field.type, inspect.LiteralType) or value in ("", *field.type.values)


_NO_EFFECT = "Without effect yet: see [Without effect](#without-effect)."
_IDLE = " (no effect yet)"
_WITHOUT_EFFECT = """\
## Without effect

These keys, values and directories have no effect yet. Holdfast reports each of them:

- *refused*: every command that reads the directory ends with exit code 2 and names the line.
- *refused if new*: `holdfast plan` and `holdfast apply` end with exit code 2 and name the line, unless the applied
  revision has the same key with the same value. Then they warn, and the revision is compiled to the same bytes. A value
  that equals the default declares nothing. `rollback`, `history` and agents never refuse a revision for such a key.
  `holdfast validate` and `holdfast hub run --config` do not read an applied revision, so they warn.
- *warned about*: `plan`, `apply`, `validate` and `hub run --config` warn.

| What | | Why |
|---|---|---|"""

_HOMES = {table.__name__: title for title, table in SECTIONS}


if __name__ == "__main__":
    import sys

    sys.stdout.write(reference())
