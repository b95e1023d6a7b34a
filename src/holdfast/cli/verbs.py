"""Every verb, the module that knows it, and one line about it. The list behind --help, completion and dispatch."""

from typing import NamedTuple


class Verb(NamedTuple):
    module: str
    about: str


VERBS: dict[str, Verb] = {
    "init": Verb("init", "make a fleet directory with an operator key, a node and a first service"),
    "validate": Verb("validate", "check a fleet directory; every mistake with file, line and remedy"),
    "plan": Verb("plan", "show what an apply would change, why, and who must sign"),
    "apply": Verb("apply", "sign and commit the changes (or a saved plan)"),
    "sync": Verb("sync", "apply everything the directory declares (--dry-run = plan)"),
    "deploy": Verb("deploy", "apply one service and leave the rest as it is"),
    "undeploy": Verb("undeploy", "retire one service; its data stays on the node"),
    "sign": Verb("sign", "add your signature to a saved plan"),
    "rollback": Verb("rollback", "apply the content of an earlier revision as a new one"),
    "history": Verb("history", "list revisions: number, time, changes, signers"),
    "history show": Verb("history_show", "one revision: what changed, who signed; --raw for the signed bytes"),
    "status": Verb("status", "what the hub serves, what is quarantined, and what to do about it"),
    "hub init": Verb("hub_init", "make an empty ledger pinned to one fleet"),
    "hub run": Verb("hub_run", "serve the applied revision over HTTP"),
    "hub check": Verb("hub_check", "verify a ledger offline: chain, signatures, contents"),
    "completion": Verb("completion", "print a completion script for bash, zsh or fish"),
}


# Named by the contract, built by later steps: refused with a sentence that says so.
LATER = frozenset(
    """
    ps logs exec run restart stop start retired purge node ca edge backup restore drill migrate order audit secret need
    grant query graph build image import agent lab token ui doctor
    """.split()  # noqa: SIM905 (a list of words reads best as words)
)


def nouns() -> set[str]:
    """First words that may be followed by a second one."""
    return {name.partition(" ")[0] for name in VERBS if " " in name}
