"""The alert targets of this node: read from the signed revision, their URL opened with this node's own key."""

from collections.abc import Callable

import msgspec
from msgspec import UNSET, Struct

from holdfast.agent.keeper import Revision
from holdfast.errors import Failed, HoldfastError
from holdfast.model import apprise_url, duration
from holdfast.model.applied import content
from holdfast.model.fleet import AlertTarget
from holdfast.model.ids import kind_of
from holdfast.model.purpose import sealed_as
from holdfast.model.revision import Entry
from holdfast.ports.acceptance import Acceptance
from holdfast.ports.calendar import Calendar
from holdfast.ports.notifier import MakeNotifier, Notifier
from holdfast.status import quiet_hours
from holdfast.status.quiet_hours import QuietHours

Open = Callable[[str, str, str, str], bytes]  # name, digest, fleet, address as a seal names it → value

_document = msgspec.json.Decoder(AlertTarget).decode


class Target(Struct, frozen=True):
    address: str
    name: str
    secret: str
    digest: str  # of the sealed URL
    after_s: float
    fleet: str
    overlay: str
    quiet: QuietHours | None = None


class Targets:
    def __init__(self, acceptance: Acceptance, open: Open, make: MakeNotifier, calendar: Calendar) -> None:
        self._acceptance = acceptance
        self._open = open
        self._make = make
        self._calendar = calendar

    def of(self, revision: Revision) -> dict[str, Target]:
        """By name. The manifest was judged when it was accepted: it has only targets that this node sends to."""
        found = revision.manifest.more.items()
        made = [self._target(address, entry, revision) for address, entry in found if kind_of(address) == "alert"]
        return {target.name: target for target in made}

    def _target(self, address: str, entry: Entry, revision: Revision) -> Target:
        blob = self._acceptance.blob(entry.digest)
        declared = _document(content({entry.digest: blob} if blob is not None else {}, entry.digest, address))
        ((secret, digest),) = entry.secrets.items()
        after_s = duration.milliseconds(declared.after) / 1000
        fleet, overlay = revision.manifest.fleet, revision.document.settings.overlay_cidr
        return Target(address, declared.name, secret, digest, after_s, fleet, overlay, quiet_hours.of(declared))

    def quiet_s(self, target: Target, now_s: float) -> float:
        """For how long it is quiet; 0.0: it is not. A time zone that is not known here keeps no alert back."""
        if target.quiet is None:
            return 0.0
        try:
            until_s = quiet_hours.until_s(target.quiet, self._calendar, now_s)
        except HoldfastError:
            return 0.0
        return until_s - now_s if until_s is not None else 0.0

    def notifier(self, target: Target) -> Notifier:
        """Raises Failed if the URL cannot be opened, is sealed for another use, or is none."""
        value = self._open(target.secret, target.digest, target.fleet, sealed_as(target.address))
        return self._make(_opened(target, value), target.overlay)


def _opened(target: Target, value: bytes) -> AlertTarget:
    """The error does not repeat the URL."""
    key = "webhook" if value.startswith(b"https://") else "apprise"
    try:
        made = msgspec.convert({"name": target.name, key: value.decode("ascii")}, AlertTarget)
        wrong = apprise_url.complaint(made.apprise) if made.apprise is not UNSET else None
    except (msgspec.ValidationError, UnicodeDecodeError):
        wrong = "is neither an https:// address nor an Apprise URL"
    if wrong is not None:
        raise Failed(
            f"the value of the secret {target.secret} {wrong}, so no alert is sent to {target.name}",
            remedy=f"`holdfast secret rotate {target.secret}`, then `holdfast apply`",
            code="alert_unusable",
        )
    return made
