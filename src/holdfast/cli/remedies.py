"""Complete the commands in a remedy, so that they can be pasted. Loaded only after an error or with a finding."""

import re
from collections.abc import Sequence
from itertools import pairwise
from shlex import quote

from holdfast.cli.flags import first_word
from holdfast.cli.verbs import VERBS
from holdfast.declared.problem import Problems
from holdfast.errors import HoldfastError

_HUB_STATE, _AGENT_STATE = ("--state-dir", "hub"), ("--state-dir", "agent")
# First word of a verb → its flags that say which fleet, lab or state directory is meant, each with its owner. All other
# verbs have --fleet and --hub.
_FLAGS = {
    "agent": (_AGENT_STATE,),
    "completion": (),
    "help": (),
    "hub": (_HUB_STATE,),
    "import": (("--fleet", ""), _HUB_STATE),
    "init": (),
    "lab": (("--dir", "lab"),),
    "version": (),
}
_OTHERS = (("--fleet", ""), ("--hub", ""))
_FIRST = "|".join(sorted({verb.partition(" ")[0] for verb in VERBS}))
_COMMAND = re.compile(rf"(?<![\w./-])(holdfast ({_FIRST})\b[^`;&|]*?)( *(?=[`;&|]|$))")


def complete(trouble: HoldfastError, argv: Sequence[str]) -> None:
    """Its remedy, and those of the mistakes in a fleet directory, which are part of the message."""
    trouble.remedy = for_pasting(trouble.remedy, argv)
    if isinstance(trouble, Problems):
        trouble.rewrite(lambda remedy: for_pasting(remedy, argv))


def for_pasting(remedy: str, argv: Sequence[str]) -> str:
    """The remedy with --fleet, --hub, --dir and --state-dir as given in this call, in every command that uses them and
    lacks them. The state directory of a hub is not that of an agent."""
    own = argv[: argv.index("--")] if "--" in argv else argv
    values = dict(pairwise(own)) | dict(word.split("=", 1) for word in own if "=" in word)
    first = first_word(own)
    owner = "hub" if first == "import" else first

    def completed(found: re.Match[str]) -> str:
        command, _, end = found.groups()
        flags = _FLAGS.get(found[2], _OTHERS)
        if command.startswith("holdfast hub check") and "://" not in values.get("--hub", "://"):
            flags = (("--hub", ""),)  # a ledger directory
        known = [flag for flag, of in flags if flag in values and of in ("", owner)]
        lacking = [flag for flag in known if f"{flag} " not in command and "--help" not in command]
        said = "".join(f" {flag} {quote(values[flag])}" for flag in lacking)
        before, dashes, after = command.partition(" -- ")  # of `lab exec`: what follows is another command
        return f"{before}{said}{dashes}{after}{end}"

    return _COMMAND.sub(completed, remedy)
