"""Load msgspec and argparse without the modules that they need only for what commands never do (ADR 0003).

While they load, each of those modules is replaced by the few names that are read from it. Afterwards nothing is
replaced any more: a later `import uuid` gets the real one. A release that needs more of them fails here, at once.
"""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any


def _components(*types: Any, **settings: Any) -> Any:
    """For the description of the hub's HTTP interface, which no command prints."""
    from msgspec._json_schema import schema_components

    return schema_components(*types, **settings)


# No message of ours has a UUID or a Decimal; `typing` has the two names of typing_extensions; texts stay English.
_UNUSED: Mapping[str, Any] = {
    "typing_extensions": None,
    "uuid": SimpleNamespace(UUID=type("UUID", (), {}), SafeUUID=SimpleNamespace(unknown=None)),
    "decimal": SimpleNamespace(Decimal=type("Decimal", (), {})),
    "msgspec.inspect": SimpleNamespace(),
    "msgspec._json_schema": SimpleNamespace(schema=None, schema_components=_components),
    "gettext": SimpleNamespace(gettext=str, ngettext=lambda one, many, count: one if count == 1 else many),
}


@contextmanager
def _replaced() -> Iterator[None]:
    absent = {name: stand_in for name, stand_in in _UNUSED.items() if name not in sys.modules}
    sys.modules.update(absent)
    try:
        yield
    finally:
        for name in absent:
            del sys.modules[name]


with _replaced():
    import argparse

    import msgspec
if "msgspec.inspect" not in sys.modules:
    vars(msgspec).pop("inspect", None)  # it is loaded when it is needed

__all__ = ["argparse", "msgspec"]
