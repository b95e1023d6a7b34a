"""`holdfast help [VERB]`, and the pages of `holdfast --help` and `holdfast NOUN`."""

from argparse import Namespace
from collections.abc import Mapping, Sequence
from textwrap import fill

from holdfast.cli import flags, text
from holdfast.cli.flags import Parser
from holdfast.cli.noun import ALIASES, LATER, LATER_PAIRS, Verb
from holdfast.cli.tools import Toolbox
from holdfast.cli.verbs import NOUNS, VERBS, nouns
from holdfast.errors import Invalid
from holdfast.model.nearest import hint

DETAILS = """\
Without VERB: every command, by noun. With a noun: its commands. With a command: the page of `holdfast VERB --help`.

examples:
  holdfast help
  holdfast help node
  holdfast help node invite
"""

HEAD = "holdfast: run your own machines as one fleet. The hub is a mailbox, not a root of trust."
FLAGS = "Flags of all commands, before or after the verb: --fleet DIR, --hub URL|DIR, --key FILE, --yes, --json, -q, -v"
END = "`holdfast help VERB` explains one command with an example. `holdfast version` prints the version."
START = "Start here:\n  holdfast init myfleet && cd myfleet && holdfast plan && holdfast apply"


def declare(parser: Parser) -> None:
    parser.add_argument("words", metavar="VERB", nargs="*", help="a command (one or two words), or a noun")


def run(args: Namespace, box: Toolbox) -> int:
    box.terminal.say(text.page(page(args.words, flags.columns())))
    return 0


def page(words: Sequence[str], columns: int) -> str:
    if not words:
        return overview(columns)
    verb, rest = flags.split_verb(words, VERBS.keys() | LATER_PAIRS, nouns())
    assert verb is not None
    verb = ALIASES.get(verb, verb)
    if verb in VERBS:
        return flags.loaded(verb, VERBS[verb], columns)[0].format_help().rstrip()
    own = of_noun(verb)
    if rest or not own:
        raise unknown(verb, rest)
    return noun_page(verb, own, columns)


def overview(columns: int) -> str:
    parts = [fill(HEAD, columns), "usage: holdfast [flags] VERB …"]
    parts += [f"{noun.title}\n{_rows(noun.verbs, columns)}" for noun in NOUNS]
    return "\n\n".join([*parts, fill(FLAGS, columns, break_on_hyphens=False), fill(END, columns), START])


def of_noun(word: str) -> dict[str, Verb]:
    """By the first word of its verbs (`node`), or by its title in the overview (`services`)."""
    own = {name: verb for name, verb in VERBS.items() if name.startswith(word + " ")}
    return own or next((noun.verbs for noun in NOUNS if noun.title == word), {})


def noun_page(word: str, own: Mapping[str, Verb], columns: int) -> str:
    usage = f"usage: holdfast {word} VERB …" if word in nouns() else f"{word}:"
    first = next(iter(own))
    return "\n\n".join([usage, _rows(own, columns), f"`holdfast help {first}` explains that one with an example."])


def _rows(verbs: Mapping[str, Verb], columns: int) -> str:
    at = max(map(len, VERBS)) + 4
    return "\n".join(
        fill(verb.about, columns, initial_indent=f"  {name}".ljust(at), subsequent_indent=" " * at)
        for name, verb in verbs.items()
    )


def unknown(verb: str, rest: Sequence[str]) -> Invalid:
    if verb in nouns():
        return _unknown_second(verb, flags.first_word(rest))
    if verb in LATER or verb in LATER_PAIRS:
        remedy = "`holdfast --help` lists the commands that are built"
        return Invalid(f"`holdfast {verb}` is not built yet", remedy=remedy, code="not_built")
    second = flags.first_word(rest)
    pairs = [name for name in VERBS if " " in name] if second else []
    near = hint(f"{verb} {second}", pairs, "`holdfast {}`") or hint(verb, [*VERBS, *nouns()], "`holdfast {}`")
    return Invalid(f"{verb!r} is not a command", remedy=near + "`holdfast --help` lists the commands", code="usage")


def _unknown_second(noun: str, given: str) -> Invalid:
    from difflib import get_close_matches

    second = [known for known in VERBS if known.startswith(noun + " ")]
    listed = f"one of: {', '.join(second)}"
    if not given:
        return Invalid(f"`holdfast {noun}` needs a verb", remedy=listed, code="usage")
    words = [known.partition(" ")[2] for known in second]
    alike = [word for word in words if word[:1] == given[:1]]
    near = get_close_matches(given, alike, n=1, cutoff=0.4) or get_close_matches(given, words, n=1)
    close = f'did you mean "{noun} {near[0]}"? ' if near else ""
    return Invalid(f'unknown command "{noun} {given}"', remedy=close + listed, code="usage")
