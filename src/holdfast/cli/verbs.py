"""Every noun of the command line with all its verbs, for help and completion. Commands load only their own."""

from holdfast.cli.noun import FOLDERS, Noun, Verb, nouns_of, rows_in

NOUNS: tuple[Noun, ...] = tuple(map(rows_in, FOLDERS))
VERBS: dict[str, Verb] = {name: verb for noun in NOUNS for name, verb in noun.verbs.items()}


def nouns() -> set[str]:
    """First words that may be followed by a second one."""
    return nouns_of(VERBS)
