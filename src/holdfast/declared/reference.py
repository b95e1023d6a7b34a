"""The key reference of the fleet directory, printed from the structs that are its schema. Pure.

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

SECTIONS: tuple[tuple[str, type[Struct]], ...] = (
    ("`fleet.toml`", fleet.FleetFile),
    ("`[fleet]`", fleet.Settings),
    ("`[trust]`", fleet.Thresholds),
    ("`[[operators]]`", fleet.Operator),
    ("`[[nodes]]`", fleet.Node),
    ("`[[storage]]`", fleet.Storage),
    ("`[storage.policy]`", fleet.StoragePolicy),
    ("`[[policies]]`", fleet.PolicyBinding),
    ("`[backups]`", fleet.Backups),
    ("`[timeouts]`", fleet.Timeouts),
    ("`[[alerts]]`", fleet.AlertTarget),
    ("`[acme]`", fleet.Acme),
    ("`[dns]`", fleet.Dns),
    ("`[overlay]`", fleet.Overlay),
    ("`services/<name>.toml`", fleet.Service),
    ("`[[components]]`", fleet.Component),
    ("`[[components.routes]]`", fleet.Route),
    ("`[[components.volumes]]`", fleet.Volume),
    ("`[components.resources]`", fleet.Resources),
    ("`[components.health]`", fleet.Health),
    ("`[[components.secrets]]`", fleet.SecretRef),
    ("`[components.hooks]`", fleet.Hooks),
    ("`[snapshot]`", fleet.Snapshot),
)

_OPENING = """\
# The fleet directory

Printed from the structs in `src/holdfast/model/fleet.py`; do not edit (see `src/holdfast/declared/reference.py`).

```
fleet.toml               who may change the fleet, and where it runs
services/<name>.toml     one service each; the file is named like the service
policies/<name>.cedar    authorization rules, bound in [[policies]]
secrets/<name>.age       sealed values (age); `holdfast secret set` writes them
```

Files are UTF-8 TOML. Links are not followed, unknown keys are errors, and a directory with any mistake is refused
whole, every mistake named with its line. Names are lower-case letters, digits and dashes, start with a letter and have
at most 40 characters. Durations look like `90s`, `5m`, `24h`, `7d`. Entries that begin with a dot, `fleet.lock` and
files of other kinds are ignored.
"""


def reference() -> str:
    """The whole page."""
    parts = [_OPENING, *(_section(title, table) for title, table in SECTIONS), _not_built_yet()]
    return "\n".join(parts)


def _section(title: str, table: type[Struct]) -> str:
    rows = "\n".join(_rows(table))
    return f"## {title}\n\n| Key | Type | Default | Meaning |\n|---|---|---|---|\n{rows}\n"


def _rows(table: type[Struct]) -> Iterator[str]:
    kind = inspect.type_info(table)
    assert isinstance(kind, inspect.StructType)
    for field in kind.fields:
        meaning = MEANINGS[table.__name__][field.encode_name]
        yield f"| `{field.encode_name}` | {in_words(field.type)} | {_default(field)} | {meaning} |"


def _default(field: inspect.Field) -> str:
    if field.required:
        return "required"
    value: Any = field.default
    if value is NODEFAULT or value == () or value == "" or isinstance(value, Struct):
        return "–"
    return f"`{shown(value)}`"


def _not_built_yet() -> str:
    keys = [f"| `{key}` in {_HOMES[table]} | {reason} |" for (table, key), reason in later.KEYS.items()]
    directories = [f"| `{name}/` | {reason} |" for name, reason in later.DIRECTORIES.items()]
    rows = "\n".join(keys + directories)
    opening = "## Not built yet\n\nThese are refused, so that nothing is promised in vain."
    return f"{opening}\n\n| What | Why |\n|---|---|\n{rows}\n"


_HOMES = {table.__name__: title for title, table in SECTIONS}


if __name__ == "__main__":
    import sys

    sys.stdout.write(reference())
