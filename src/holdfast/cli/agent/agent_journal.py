"""`holdfast agent journal`: the operations of this agent, newest first. Changes nothing."""

from argparse import Namespace
from typing import Any

import msgspec
from msgspec.structs import asdict

from holdfast.cli.agent import agent_state
from holdfast.cli.flags import Parser, positive
from holdfast.cli.timestamps import rfc3339
from holdfast.cli.tools import Toolbox
from holdfast.model.journal import JournalEntry
from holdfast.model.order import OrderResult

DETAILS = """\
Lists every operation with its steps. The agent writes each step to the journal before it acts. An operation that is
still running has no outcome; after a crash the next start resumes or closes it.

examples:
  holdfast agent journal
  holdfast agent journal --newest 500 --json
"""


def declare(parser: Parser) -> None:
    agent_state.declare_state_dir(parser)
    parser.add_argument(
        "--newest", metavar="N", type=positive, default=100, help="show at most N operations; default 100"
    )


def run(args: Namespace, box: Toolbox) -> int:
    agent_state.required(args.state_dir, box)
    stores = box.agents.at(args.state_dir).stores()
    found = list(stores[0].entries(args.newest)) if stores else []
    if args.json:
        box.terminal.say_raw(msgspec.json.encode({"operations": [_document(entry) for entry in found]}).decode())
        return 0
    for entry in found:
        box.terminal.say(_line(entry))
    if not found:
        box.terminal.say("No operation yet.")
    return 0


def _document(entry: JournalEntry) -> dict[str, Any]:
    operation = entry.operation
    return {
        "id": operation.id,
        "kind": operation.kind,
        "lane": operation.lane,
        "begun": rfc3339(operation.begun_s),
        "order": operation.order,
        "attempt": operation.attempt,
        "outcome": entry.outcome,
        "steps": [{"name": step.name, "at": rfc3339(step.at_s), "note": step.note} for step in entry.steps],
        "result": _result(entry.result) if entry.result is not None else None,
    }


def _result(result: OrderResult) -> dict[str, Any]:
    said = asdict(result)
    finished_s = said.pop("finished_s")
    return {**said, "finished": rfc3339(finished_s) if finished_s else None}


def _line(entry: JournalEntry) -> str:
    operation = entry.operation
    steps = ", ".join(step.name for step in entry.steps)
    said = f": {entry.result.message}" if entry.result else ""
    return (
        f"{rfc3339(operation.begun_s)}  {entry.outcome or 'running':<11} {operation.kind} {operation.lane}"
        + (f" ({steps})" if steps else "")
        + said
    )
