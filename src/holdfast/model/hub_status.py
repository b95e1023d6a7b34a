"""The status of a hub: source, head, what it serves and what it left out."""

from typing import Literal

from msgspec import Struct

from holdfast.model.revision import Head


class StatusFinding(Struct, frozen=True, omit_defaults=True):
    code: str
    level: str
    message: str
    remedy: str
    address: str = ""
    age_s: float = 0.0


class HubStatus(Struct, frozen=True):
    version: str
    source: Literal["ledger", "config"]
    fleet: str  # fleet id, "" while nothing is applied
    serving: Head
    head: Head
    resources: dict[str, int]  # kind → how many are served
    quarantined: tuple[str, ...]
    findings: tuple[StatusFinding, ...]
