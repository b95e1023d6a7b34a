"""Alert targets: what each must have, and how a plan shows it without its secret. Pure."""

from collections.abc import Iterator
from typing import Any

from msgspec import UNSET

from holdfast.model import canonical
from holdfast.model.applied import plain
from holdfast.model.fleet import AlertTarget
from holdfast.planning.complaint import Complaint

_UNNAMED = AlertTarget("x")


def complaints(target: AlertTarget) -> Iterator[Complaint]:
    """The hub sends to a webhook or an Apprise URL; nodes to a URL that is sealed to them, which only they can open."""
    ways = [key for key in ("webhook", "apprise", "secret") if getattr(target, key) is not UNSET]
    if not ways:
        what = "has neither webhook nor apprise nor secret, so it sends no alerts"
        yield Complaint((), what, "add webhook or apprise; or secret and nodes, for alerts that nodes send")
    elif len(ways) > 1:
        yield Complaint((), f"has both {ways[0]} and {ways[1]}", "keep one of them, or write two [[alerts]]")
    elif target.nodes and ways != ["secret"]:
        remedy = 'seal the address with `holdfast secret set NAME`, and write secret = "NAME" in its place'
        yield Complaint((), f"has nodes and {ways[0]}, which every reader of the ledger knows", remedy)
    elif ways == ["secret"] and not target.nodes:
        yield Complaint((), "has secret without nodes, and the hub opens no secret", 'add nodes = ["NAME"]')
    elif target.nodes and target.on:
        yield Complaint(("on",), "has no effect: nodes send only `hub_silent` and `hub_heard`", "remove on")
    elif len(set(target.nodes)) < len(target.nodes):
        yield Complaint(("nodes",), "names a node twice", "remove one of them")
    elif not target.nodes and target.after != _UNNAMED.after:
        yield Complaint(("after",), "has no effect without nodes", "remove after, or add nodes and secret")
    yield from _of_quiet_hours(target)


def _of_quiet_hours(target: AlertTarget) -> Iterator[Complaint]:
    if target.quiet is UNSET:
        for key in ("timezone", "quiet_except"):
            if getattr(target, key) != getattr(_UNNAMED, key):
                yield Complaint((key,), "has no effect without quiet", f'remove {key}, or add quiet = "22:00-07:00"')
    elif target.quiet[:5] == target.quiet[6:]:
        yield Complaint(("quiet",), "begins and ends at the same time", "write two times, or remove it")
    elif target.nodes and target.quiet_except:
        what = "has no effect: nodes send only `hub_silent` and `hub_heard`"
        yield Complaint(("quiet_except",), what, "remove quiet_except; or quiet, so that both are always sent")


def named(target: AlertTarget) -> tuple[str, ...]:
    """The secrets that it names."""
    return () if target.secret is UNSET else (target.secret,)


def masked(content: bytes) -> Any:
    """A webhook keeps its host, an Apprise URL only its scheme (many have a token in place of the host).

    Six digits of the digest distinguish URLs.
    """
    document = plain(content)
    for key in ("webhook", "apprise"):
        if isinstance(document.get(key), str):
            document[key] = _masked(document[key], keep_host=key == "webhook")
    return document


def _masked(url: str, keep_host: bool) -> str:
    scheme, _, rest = url.partition("://")
    host = rest.partition("/")[0] + "/" if keep_host else ""
    return f"{scheme}://{host}… ({canonical.digest(url.encode())[:6]})"
