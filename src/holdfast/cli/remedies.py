"""Complete the commands in a remedy, so that they can be pasted. Loaded only after an error."""

import re
from collections.abc import Sequence
from itertools import pairwise
from shlex import quote

from holdfast.cli.verbs import VERBS

_LOCAL = {
    "agent",
    "completion",
    "help",
    "hub",
    "init",
    "lab",
    "version",
}  # first words of verbs that use neither --fleet nor --hub
_FIRST = "|".join(sorted({verb.partition(" ")[0] for verb in VERBS} - _LOCAL))
_COMMAND = re.compile(rf"(?<![\w./-])(holdfast (?:{_FIRST})\b[^`;&|]*?)( *(?=[`;&|]|$))")


def for_pasting(remedy: str, argv: Sequence[str]) -> str:
    """The remedy with --fleet and --hub as given in this call, in every command that uses them and lacks them."""
    values = dict(pairwise(argv)) | dict(word.split("=", 1) for word in argv if "=" in word)
    given = {flag: values[flag] for flag in ("--fleet", "--hub") if flag in values}

    def completed(found: re.Match[str]) -> str:
        lacking = {} if "--help" in found[0] else {flag: given[flag] for flag in given if f"{flag} " not in found[0]}
        return found[1] + "".join(f" {flag} {quote(value)}" for flag, value in lacking.items()) + found[2]

    return _COMMAND.sub(completed, remedy) if given else remedy
