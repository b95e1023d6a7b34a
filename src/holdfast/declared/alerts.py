"""Alert targets that passed the struct check: each says exactly one way to tell somebody. Pure."""

from collections.abc import Sequence

from msgspec import UNSET

from holdfast.declared.flaw import Flaws
from holdfast.declared.layout import FLEET_FILE
from holdfast.model.fleet import AlertTarget


def check(targets: Sequence[AlertTarget], flaws: Flaws) -> None:
    for at, target in enumerate(targets):
        if flaws.touch(FLEET_FILE, ("alerts", at)):
            continue
        if target.webhook is UNSET and target.apprise is UNSET:
            what = "says neither webhook nor apprise, so nobody would be told"
            flaws.add_checked(FLEET_FILE, ("alerts", at), what, "write one of them")
        elif target.webhook is not UNSET and target.apprise is not UNSET:
            what = "says both webhook and apprise"
            flaws.add_checked(FLEET_FILE, ("alerts", at), what, "keep one of them, or make two [[alerts]]")
