"""Sealed files of older releases, which name no purpose: the services that had them when this agent was upgraded.

Noted once, at the first start of a release that reads purposes. The pairs are what the manifest in force names, and
what still serves after a deployment that failed. Any other use of such a file is new, and refused (X03).
"""

import msgspec

from holdfast.agent.acceptance.manifest import decode_manifest, entries
from holdfast.agent.services.records import PREFIX, Record
from holdfast.ports.acceptance import Acceptance
from holdfast.ports.journal import Facts

FACT = "services/unbound-secrets"

Use = tuple[str, str]  # address, digest of the sealed file

_uses = msgspec.json.Decoder(tuple[Use, ...]).decode
_record = msgspec.json.Decoder(Record).decode


def noted(journal: Facts, acceptance: Acceptance) -> frozenset[Use]:
    """Call it before a revision is accepted."""
    known = journal.fact(FACT)
    if known is None:
        found = sorted(_in_force(acceptance) | _serving(journal))
        journal.set_aside(FACT, msgspec.json.encode(found))
        return frozenset(found)
    return frozenset(_uses(known))


def _in_force(acceptance: Acceptance) -> set[Use]:
    newest = acceptance.newest()
    if newest is None or not newest.in_force:
        return set()
    held = entries(decode_manifest(newest.in_force))
    return {(address, digest) for address, entry in held.items() for digest in entry.secrets.values()}


def _serving(journal: Facts) -> set[Use]:
    """A deployment that failed left the one before, with the secrets that it had."""
    found: set[Use] = set()
    for text in journal.facts(PREFIX).values():
        guest = _record(text).serving
        for part in guest.parts if guest is not None else ():
            found |= {(f"service.{part.spec.service}", use.digest) for use in part.spec.secrets}
    return found
