"""Check alert targets: each has one address, and only nodes that exist. Pure."""

from collections.abc import Collection, Sequence

from msgspec import UNSET

from holdfast.declared import schedules, spelling
from holdfast.declared.flaw import Flaws
from holdfast.declared.layout import FLEET_FILE
from holdfast.declared.words import shown
from holdfast.model import apprise_url
from holdfast.model.alert_codes import RECOVERY_OF
from holdfast.model.fleet import AlertTarget
from holdfast.planning import alerts


def check(targets: Sequence[AlertTarget], nodes: Collection[str], flaws: Flaws) -> None:
    for at, target in enumerate(targets):
        if flaws.touch(FLEET_FILE, ("alerts", at)):
            continue
        found = list(alerts.complaints(target))
        for one in found:
            flaws.add_checked(FLEET_FILE, ("alerts", at, *one.at), one.what, one.remedy)
        for index, name in enumerate(target.nodes):
            if name not in nodes:
                remedy = spelling.question(name, nodes) or "add it to [[nodes]]"
                flaws.add_checked(FLEET_FILE, ("alerts", at, "nodes", index), f"there is no node {shown(name)}", remedy)
        if not target.nodes:
            _check_codes(at, target, flaws)
        schedules.check_zone(FLEET_FILE, ("alerts", at, "timezone"), target.timezone, flaws)
        if not found and target.apprise is not UNSET and (wrong := apprise_url.complaint(target.apprise)) is not None:
            told = "choose another way; a webhook takes any https:// address, and `hub run --alert-command` any program"
            flaws.add_checked(FLEET_FILE, ("alerts", at, "apprise"), wrong, told)


def _check_codes(at: int, target: AlertTarget, flaws: Flaws) -> None:
    """Here and not in the rules of a revision: what is applied stays readable, whatever it names."""
    alarms = {code for code, ended in RECOVERY_OF.items() if not ended}
    for key, known in (("on", RECOVERY_OF.keys()), ("quiet_except", alarms)):
        for index, code in enumerate(getattr(target, key)):
            if code not in known:
                kind = "alert" if key == "on" else "alarm"
                remedy = spelling.question(code, known) or "docs/reference/alerts.md lists the codes"
                flaws.add_checked(
                    FLEET_FILE, ("alerts", at, key, index), f"the hub sends no {kind} {shown(code)}", remedy
                )
