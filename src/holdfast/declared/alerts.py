"""Check alert targets: each has exactly one of webhook and apprise. Pure."""

from collections.abc import Sequence

from msgspec import UNSET

from holdfast.declared.flaw import Flaws
from holdfast.declared.layout import FLEET_FILE
from holdfast.model import apprise_url
from holdfast.model.fleet import AlertTarget


def check(targets: Sequence[AlertTarget], flaws: Flaws) -> None:
    for at, target in enumerate(targets):
        if flaws.touch(FLEET_FILE, ("alerts", at)):
            continue
        if target.webhook is UNSET and target.apprise is UNSET:
            what = "has neither webhook nor apprise, so it sends no alerts"
            flaws.add_checked(FLEET_FILE, ("alerts", at), what, "add webhook or apprise")
        elif target.webhook is not UNSET and target.apprise is not UNSET:
            what = "has both webhook and apprise"
            flaws.add_checked(FLEET_FILE, ("alerts", at), what, "keep one of them, or write two [[alerts]]")
        elif target.apprise is not UNSET and (wrong := apprise_url.complaint(target.apprise)) is not None:
            told = "choose another way; a webhook takes any https:// address, and `hub run --alert-command` any program"
            flaws.add_checked(FLEET_FILE, ("alerts", at, "apprise"), wrong, told)
