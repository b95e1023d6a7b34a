"""A noun of the command line with its verbs: one line about each, and the module that runs it."""

from collections.abc import Mapping
from importlib import import_module

from msgspec import Struct


class Verb(Struct, frozen=True):
    module: str  # below holdfast.cli; imported only when the verb runs or is explained
    about: str


class Noun(Struct, frozen=True):
    """`title` is the heading of its verbs in `holdfast --help`."""

    title: str
    verbs: dict[str, Verb]


# Every folder of cli/ with verbs, in the order of --help, and the first words of its verbs: a command loads the rows of
# its own folder only (ADR 0003).
FOLDERS: Mapping[str, str] = {
    "fleet": "init validate plan apply sync sign rollback history status",
    "services": "deploy undeploy ps retired logs restart stop start force-cleanup purge",
    "schedules": "schedule",
    "volumes": "volume",
    "checkpoints": "checkpoint",
    "backups": "backup restore drill",
    "moves": "migrate",
    "needs": "need grant",
    "orders": "order resync",
    "nodes": "node",
    "edges": "edge ca",
    "secrets": "secret",
    "hub": "hub import token audit",
    "agent": "agent",
    "lab": "lab",
    "shell": "help version completion",
}

# Named by the contract, built by later steps: refused with the code not_built.
LATER = frozenset(
    """
    exec run query graph build image ui doctor
    """.split()  # noqa: SIM905 (a list of words reads best as words)
)

# The same for second words of nouns that are built in part.
LATER_PAIRS = frozenset(("agent trust", "agent upgrade", "import compose"))

# Other spellings of a verb.
ALIASES = {"force_cleanup": "force-cleanup"}


def rows_in(folder: str) -> Noun:
    found: Noun = import_module(f"holdfast.cli.{folder}.verbs").NOUN
    return found


def rows_of(word: str) -> Mapping[str, Verb]:
    """The verbs of the folder that has this first word; none if no folder has it."""
    for folder, words in FOLDERS.items():
        if word in words.split(" "):
            return rows_in(folder).verbs
    return {}


def nouns_of(verbs: Mapping[str, Verb]) -> set[str]:
    """First words that may be followed by a second one."""
    return {name.partition(" ")[0] for name in verbs if " " in name}
