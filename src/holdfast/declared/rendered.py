"""The files of an applied revision, written from its documents. Comments are in no ledger. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import UNSET, Struct

from holdfast.declared import policies, secrets, services, toml_text
from holdfast.declared.layout import FLEET_FILE
from holdfast.errors import Corrupt
from holdfast.model import sealed
from holdfast.model.applied import content
from holdfast.model.fleet import AlertTarget, FleetDocument, Node, Service, Storage
from holdfast.model.ids import FLEET, TRUST, is_name
from holdfast.model.need import Provides
from holdfast.model.revision import Table
from holdfast.model.trust import Trust

LOST = "comments, the order of keys, and secrets that nothing uses"
_LISTS: Mapping[str, Any] = {"nodes": Node, "storage": Storage, "alerts": AlertTarget, "provides": Provides}
_KIND = {"nodes": "node", "storage": "storage", "alerts": "alert", "provides": "provides"}


class Rendered(Struct, frozen=True):
    files: Mapping[str, bytes]  # by path
    notes: tuple[str, ...]  # what a directory cannot say, each as a sentence


def render(number: int, table: Table, contents: Mapping[str, bytes]) -> Rendered:
    """`number`: of the revision. Raises Corrupt if a content is missing or damaged."""
    title = f"# Written by Holdfast from revision {number}. The ledger keeps no comments.\n\n"
    notes: list[str] = []
    files = {FLEET_FILE: (title + toml_text.document(_fleet_file(table, contents, notes))).encode()}
    for name, entry in table.of_kind("service").items():
        found = _plain(contents, entry.digest, f"service.{name}", Service)
        files[services.path_of(_safe(name))] = (title + toml_text.document(found)).encode()
    for name, entry in table.of_kind("policy").items():
        if entry.applies_to is not UNSET:
            files[_policy_file(name)] = content(contents, entry.digest, f"policy.{name}")
    for name, digest in _secrets(table, notes).items():
        files[secrets.path_of(_safe(name))] = _sealed(content(contents, digest, f"the secret {name}"))
    return Rendered(files, tuple(notes))


def _fleet_file(table: Table, contents: Mapping[str, bytes], notes: list[str]) -> dict[str, Any]:
    fleet = _plain(contents, table.entries[FLEET].digest, FLEET, FleetDocument)
    trust = _plain(contents, table.entries[TRUST].digest, TRUST, Trust)
    found = {"fleet": fleet.pop("settings"), "trust": trust.get("thresholds", {}), **fleet}
    found["operators"] = trust["operators"]
    for key, schema in _LISTS.items():
        kind = _KIND[key]
        entries = table.of_kind(kind).items()
        found[key] = [_plain(contents, entry.digest, f"{kind}.{name}", schema) for name, entry in entries]
    found["policies"] = list(_bindings(table, notes))
    return {key: value for key, value in found.items() if value not in ({}, [])}


def _bindings(table: Table, notes: list[str]) -> Iterator[dict[str, Any]]:
    for name, entry in table.of_kind("policy").items():
        if entry.applies_to is UNSET:
            notes.append(f"policy.{name} applies to nothing in that revision and is left out.")
        else:
            yield {"name": name, "file": _policy_file(name), "applies_to": list(entry.applies_to)}


def _policy_file(name: str) -> str:
    return f"{policies.DIRECTORY}/{_safe(name)}{policies.SUFFIX}"


def _safe(name: str) -> str:
    """A name becomes part of a path. A hub refuses other names; one that is owned may not."""
    if not is_name(name):
        raise Corrupt(
            f"the revision has the name {name[:60]!r}, which no directory can have",
            remedy="do not use this revision; `holdfast history` lists the others, and who signed them",
            code="unsafe_name",
        )
    return name


def _secrets(table: Table, notes: list[str]) -> dict[str, str]:
    """Name → digest. Each resource has the sealed value of its last deploy; a directory has one of each name."""
    found: dict[str, str] = {}
    for address, entry in table.entries.items():
        for name, digest in entry.secrets.items():
            if found.setdefault(name, digest) != digest:
                notes.append(f"{address} has another value of the secret {name} than the one that is written.")
    return found


def _sealed(plain: bytes) -> bytes:
    armoured = sealed.armoured(plain)
    return armoured if len(armoured) <= sealed.FILE_BYTES_MAX else plain


def _plain(contents: Mapping[str, bytes], digest: str, what: str, schema: type[Any]) -> dict[str, Any]:
    """The document with the keys in the order of the reference."""
    try:
        value = msgspec.json.decode(content(contents, digest, what), type=schema)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as trouble:
        raise Corrupt(
            f"the content of {what} cannot be read: {trouble}",
            remedy="`holdfast hub check` names what is damaged",
            code="unreadable",
        ) from trouble
    found: dict[str, Any] = msgspec.to_builtins(value)
    return found
