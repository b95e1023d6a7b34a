"""What sealed files are for, as far as this command knows: it opens them, or sealed them itself on this machine."""

import os
from collections.abc import Mapping
from contextlib import suppress

import msgspec
from msgspec.structs import replace

from holdfast.cli.fleet.hub_identity import state_dir
from holdfast.cli.secrets.identity_file import identity_path
from holdfast.cli.tools import Toolbox
from holdfast.errors import HoldfastError
from holdfast.model import canonical
from holdfast.model.applied import Applied, table_of
from holdfast.model.fleet import Fleet
from holdfast.model.purpose import Purpose, opened
from holdfast.planning import secrets
from holdfast.planning.plan import Inputs
from holdfast.ports.sealing import CannotOpen, Opener

NOTES, NOTES_BYTES_MAX, NOTES_MAX = "secrets.json", 4 * 1024 * 1024, 1000

_notes = msgspec.json.Decoder(dict[str, Purpose]).decode


def with_purposes(found: Inputs, fleet: Fleet, applied: Applied | None, box: Toolbox) -> Inputs:
    """What this command can open of the secrets that services begin to use; a node opens the others."""
    new = secrets.new_uses(fleet, table_of(applied))
    return replace(found, uses=replace(found.uses, purposes=known(new, box))) if new else found


def known(files: Mapping[str, bytes], box: Toolbox) -> dict[str, Purpose | None]:
    """By the keys of `files`; None for a file that names no purpose. What is neither opened nor noted is left out."""
    opener, notes = _opener(box), _noted(box)
    found: dict[str, Purpose | None] = {}
    for key, sealed in files.items():
        digest = canonical.digest(sealed)
        if digest in notes:
            found[key] = notes[digest]
        elif opener is not None:
            with suppress(CannotOpen):
                found[key] = opened(opener.open(sealed)).purpose
    return found


def note(digest: str, purpose: Purpose, box: Toolbox) -> None:
    """A help only: a state directory that cannot be written does not undo what was sealed."""
    kept = dict(list({**_noted(box), digest: purpose}.items())[-NOTES_MAX:])
    with suppress(HoldfastError, OSError):
        box.disk.make_directory(state_dir(box.environ), 0o700)
        box.disk.replace(_path(box), msgspec.json.encode(kept))


def _opener(box: Toolbox) -> Opener | None:
    try:
        return box.keys.opener(identity_path(box.environ))
    except HoldfastError:
        return None


def _noted(box: Toolbox) -> dict[str, Purpose]:
    try:
        return _notes(box.disk.read(_path(box), NOTES_BYTES_MAX) or b"{}")
    except (HoldfastError, OSError, msgspec.DecodeError, UnicodeDecodeError):
        return {}


def _path(box: Toolbox) -> str:
    return os.path.join(state_dir(box.environ), NOTES)
