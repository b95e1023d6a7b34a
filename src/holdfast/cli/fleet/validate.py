"""`holdfast validate`: check a fleet directory for mistakes."""

from argparse import Namespace

import msgspec

from holdfast.cli.flags import Parser
from holdfast.cli.tools import Toolbox
from holdfast.declared import without_effect
from holdfast.declared.load import load
from holdfast.model import trust

DETAILS = """\
Reads only the directory. Reports all mistakes at once, each with file, line, key and remedy (exit 2).
A key without an effect is a warning here: holdfast plan refuses it unless the applied revision has it.

examples:
  holdfast validate
  holdfast validate --fleet ./myfleet --json
"""


SINGULAR = {
    "services": "service",
    "nodes": "node",
    "operators": "operator",
    "policies": "policy",
    "storage": "storage",
}


def declare(parser: Parser) -> None:
    """No arguments of its own."""


def run(args: Namespace, box: Toolbox) -> int:
    fleet = load(box.files.fleet(args.fleet))
    warnings = without_effect.remarks(without_effect.judge(fleet, None))
    identity = trust.digest(trust.of(fleet.operators, fleet.thresholds))
    counts = {
        "services": len(fleet.services),
        "nodes": len(fleet.nodes),
        "operators": len(fleet.operators),
        "policies": len(fleet.policies),
        "storage": len(fleet.storage),
    }
    if args.json:
        document = {
            "valid": True,
            "fleet": fleet.settings.name,
            "trust": identity,
            **counts,
            "warnings": list(warnings),
        }
        box.terminal.say_raw(msgspec.json.encode(document).decode())
        return 0
    for warning in warnings:
        box.terminal.warn(warning)
    said = ", ".join(f"{count} {noun if count != 1 else SINGULAR[noun]}" for noun, count in counts.items() if count)
    box.terminal.say(f"{fleet.settings.name} is valid: {said}.")
    box.terminal.say(f"Fleet id: {identity}  (for: holdfast hub init --trust; the first applied trust stays the id)")
    return 0
