"""The command line is what it was: every verb with its flags, arguments, defaults and choices, in their order."""

import json
import re
from argparse import SUPPRESS, Action
from typing import Any

from holdfast.cli import flags
from holdfast.cli.noun import ALIASES, LATER, LATER_PAIRS
from holdfast.cli.verbs import VERBS
from tests.golden import stored


def argument(action: Action) -> str:
    """One line. A function that checks a value is not named, only that there is one."""
    name = ", ".join(action.option_strings) or f"<{action.metavar or action.dest}>"
    kind = getattr(action.type, "__name__", None)
    facts: dict[str, Any] = {
        "number": action.nargs,
        "shown as": action.metavar if action.option_strings else None,
        "default": None if action.default is SUPPRESS else action.default,
        "fixed": action.const,
        "choices": [str(choice) for choice in action.choices] if action.choices is not None else None,
    }
    words = [f"{key} {json.dumps(value, ensure_ascii=False)}" for key, value in facts.items() if value is not None]
    words += ["checked"] if kind is not None and kind != "str" else []
    words += ["required"] if action.required else []
    words += ["hidden"] if action.help is SUPPRESS else []
    return "; ".join([f"{name}: {_ACTIONS[type(action).__name__]}", *words])


# Classes of argparse, in our words.
_ACTIONS = {
    "_StoreAction": "value",
    "_StoreTrueAction": "yes",
    "_StoreFalseAction": "no",
    "_StoreConstAction": "fixed",
    "_AppendAction": "value, many times",
    "_CountAction": "count",
    "_HelpAction": "help",
    "BooleanOptionalAction": "yes or no",
}


def in_stored_order() -> list[str]:
    """Verbs may move in --help; here each stays where it is, and a new one is last."""
    stood = re.findall(r"^## holdfast (.+)$", (stored.FILES / "cli/verbs.txt").read_text(), re.M)
    return [*stood, *(verb for verb in VERBS if verb not in stood)]


def test_every_verb() -> None:
    lines: list[str] = []
    for verb in in_stored_order():
        parser, _ = flags.loaded(verb, VERBS[verb])
        lines += ["", f"## holdfast {verb}", *map(argument, parser._actions)]
        for group in parser._mutually_exclusive_groups:
            names = [", ".join(action.option_strings) or action.dest for action in group._group_actions]
            lines.append(f"{'exactly' if group.required else 'at most'} one of: {' | '.join(names)}")
    stored.check("cli/verbs.txt", "\n".join(lines[1:]) + "\n")


def test_words_that_are_no_verbs_yet_and_other_spellings() -> None:
    rows = {
        "later": sorted(LATER),
        "later pairs": sorted(LATER_PAIRS),
        "aliases": ALIASES,
        "flags with a value before a verb": flags.WITH_VALUE,
    }
    stored.check("cli/words.json", stored.pretty(rows))
