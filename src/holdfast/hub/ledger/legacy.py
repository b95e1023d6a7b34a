"""The legacy source: a hand-written fleet directory, named by its fleet.toml, served read-only and unsigned.

Opens no ledger, follows no edit, commits nothing. It stays for fleets that have not moved to a ledger yet (O-10).
Choosing between the two is a switch, never a mixture (O-02): who serves a directory knows nothing of a ledger, and who
serves a ledger never opens the directory (O-03).
"""

import os
from collections.abc import Mapping
from typing import NoReturn

from holdfast import __version__
from holdfast.declared import without_effect
from holdfast.errors import Conflict, Invalid
from holdfast.model.fleet import Fleet
from holdfast.model.hub_status import HubStatus, StatusFinding
from holdfast.model.observation import NodeObservation
from holdfast.model.record import Link, RevisionRecord
from holdfast.model.revision import NO_HEAD, Candidate, Head
from holdfast.model.trust import of

MIGRATE = (
    "run `holdfast hub init --trust FINGERPRINT`, then `holdfast plan` and `holdfast apply` in the same fleet "
    "directory, then start the hub with --state-dir instead of --config"
)


def one_source(config: str | None, state_dir: str | None) -> None:
    """Both at once is refused before either is opened; there is no precedence and no merging."""
    if config is not None and state_dir is not None:
        raise Invalid(
            f"two sources: --config {config} and --state-dir {state_dir} both name what to serve",
            remedy="omit one of them; --state-dir serves the ledger, --config a hand-written fleet directory",
            code="two_sources",
        )


def directory_of(config: str) -> str:
    """The fleet directory; a file of any other name would be passed over, and the fleet.toml beside it served."""
    directory, name = os.path.split(config)
    if name != "fleet.toml":
        named = os.path.join(config, "fleet.toml") if os.path.isdir(config) else "DIR/fleet.toml"
        raise Invalid(
            f"--config {config} names no fleet.toml, and what is served is a whole fleet directory",
            remedy=f"name the directory by its fleet.toml: --config {named}",
            code="config_name",
        )
    return directory or "."


class LegacySource:
    """Has the methods of a hub. The caller read and checked the fleet once, before the hub listens."""

    def __init__(self, fleet: Fleet) -> None:
        kinds: dict[str, Mapping[str, object]] = {
            "node": fleet.nodes,
            "policy": fleet.policies,
            "service": fleet.services,
            "storage": fleet.storage,
        }
        self.trust = of(fleet.operators, fleet.thresholds)  # declared, not signed: who may read here
        judged = without_effect.judge(fleet, None)
        self._findings = (
            StatusFinding("legacy_source", "warning", "this hub serves a fleet directory without signatures", MIGRATE),
            *(
                StatusFinding("without_effect", "warning", what, remedy)
                for what, remedy in without_effect.by_row((*judged.refused, *judged.warned))
            ),
        )
        self._resources = {"fleet": 1, "trust": 1} | {kind: len(found) for kind, found in kinds.items() if found}

    def applied(self) -> None:
        return None

    def records(self, newest: int, limit: int) -> list[RevisionRecord]:
        return []

    def links(self, first: int, last: int) -> list[Link]:
        if first > last:
            return []
        raise Invalid("a hand-written fleet directory has no revisions", remedy=MIGRATE, code="not_found")

    def blob(self, digest: str) -> None:
        return None

    def observations(self) -> Mapping[str, NodeObservation]:
        return {}

    def commit(self, candidate: Candidate) -> Head:
        _refuse()

    def suspects_damage(self) -> bool:
        return False

    def damaged(self) -> list[str]:
        return []

    def mend(self, blobs: Mapping[str, bytes]) -> int:
        _refuse()

    def status(self) -> HubStatus:
        return HubStatus(__version__, "config", "", NO_HEAD, NO_HEAD, dict(self._resources), (), self._findings)


def _refuse() -> NoReturn:
    raise Conflict(
        "this hub serves a hand-written fleet directory, read-only and unsigned, so nothing can be committed to it",
        remedy=MIGRATE,
        code="legacy_source",
    )
