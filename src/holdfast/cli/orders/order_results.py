"""Show what became of the orders of one command, and fail if one did."""

from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.cli.flags import repeated
from holdfast.cli.orders import order_list
from holdfast.cli.tools import Toolbox
from holdfast.errors import Failed, HoldfastError, Unreachable
from holdfast.model.order_view import OrderView
from holdfast.wire import faults


class Given(Struct, frozen=True):
    """One order at the hub."""

    node: str
    id: str


class Ended(Struct, frozen=True):
    """The result of an order; `trouble` if no result arrived."""

    given: Given
    view: OrderView | None = None
    verified: bool = False
    trouble: HoldfastError | None = None


def show_detached(action: str, target: str, given: Sequence[Given], args: Namespace, box: Toolbox) -> int:
    if args.json:
        told = [{"id": one.id, "node": one.node, "state": "waiting"} for one in given]
        _say({"action": action, "target": target, "orders": told}, box)
        return 0
    for one in given:
        box.terminal.say(f"Submitted: order {one.id} waits for {one.node}.")
    box.terminal.remark(f"Next: holdfast order list{repeated(args)}")
    return 0


def show(action: str, target: str, ended: Sequence[Ended], args: Namespace, box: Toolbox) -> int:
    if args.json:
        _say({"action": action, "target": target, "orders": [_document(one) for one in ended]}, box)
    for one in ended:
        if not args.json:
            box.terminal.say(_line(action, target, one))
        if one.view is not None and one.view.result is not None and not one.verified:
            box.terminal.warn(f"unverified: no signed report of {one.given.node} has this result; only the hub does")
    trouble = trouble_of(action, target, ended)
    if trouble is not None:
        raise trouble
    return 0


def _say(document: Mapping[str, Any], box: Toolbox) -> None:
    box.terminal.say_raw(msgspec.json.encode(document).decode())


def _document(one: Ended) -> dict[str, Any]:
    if one.view is None:
        return {"id": one.given.id, "node": one.given.node, "state": "unknown", "result": None}
    return order_list.document(one.view, one.verified)


def _line(action: str, target: str, one: Ended) -> str:
    if one.view is None or one.view.result is None:
        state = one.view.state if one.view is not None else "no result yet"
        return f"{one.given.node}: {action} {target}: {state}"
    said = f": {one.view.result.message}" if one.view.result.message else ""
    by = order_list.whose(one.view, one.verified)
    return f"{one.given.node}: {action} {target} {one.view.state}{said} ({by})"


def trouble_of(action: str, target: str, ended: Sequence[Ended]) -> HoldfastError | None:
    """A failed order comes before a missing result."""
    bad = [one for one in ended if one.view is not None and one.view.state in ("failed", "refused")]
    if bad:
        result = bad[0].view.result if bad[0].view is not None else None
        why = result.message if result is not None else "no reason was given"
        names = ", ".join(f"{one.given.node} {one.view.state}" for one in bad if one.view is not None)
        return faults.passed_on(
            Failed,
            f"{action} {target} failed ({names}): {why}",
            result.remedy if result is not None else "",
            remedy="`holdfast order list` shows every order",
            code=(result.code if result is not None else "") or "failed",
        )
    waits = next((one.trouble for one in ended if isinstance(one.trouble, Failed)), None)
    if waits is not None:
        return waits
    late = [one.given.node for one in ended if one.view is None or one.view.state != "done"]
    if not late:
        return None
    return Unreachable(
        f"no result from {', '.join(late)} in time; the order is valid for 15 minutes and may still run, unless it is "
        f"cancelled: {'; '.join(f'holdfast order cancel {one.given.id}' for one in ended if one.given.node in late)}",
        remedy=f"`holdfast order list --node {late[0]}` shows the order; `holdfast node list` shows the node's status",
        code="no_result",
    )
