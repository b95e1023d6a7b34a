"""Run one command: find the verb, parse, run, turn errors into exit codes."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from holdfast.cli import flags
from holdfast.cli.terminal import Terminal, harmless
from holdfast.cli.tools import Caller, Toolbox
from holdfast.cli.verbs import ALIASES, LATER, LATER_PAIRS, VERBS, nouns
from holdfast.errors import INTERRUPTED, Failed, HoldfastError, Invalid, NotPermitted


def run(argv: Sequence[str], box: Toolbox) -> int:
    terminal, as_json = box.terminal, "--json" in argv
    try:
        verb, rest = flags.split_verb(argv, VERBS.keys() | LATER_PAIRS, nouns())
        if verb is None:
            return _overview(argv, terminal)
        verb = ALIASES.get(verb, verb)
        if verb not in VERBS:
            if verb in nouns() and set(rest) & {"-h", "--help"}:
                return _verbs_of(verb, terminal)
            raise _unknown(verb, rest)
        return _run_verb(verb, rest, box)
    except HoldfastError as trouble:
        report(trouble, terminal, as_json)
        return trouble.exit_code
    except SystemExit as leaving:  # argparse after --help
        return leaving.code if isinstance(leaving.code, int) else 0
    except BrokenPipeError:  # the reader of the output closed the pipe; not a failure of this machine
        raise
    except OSError as trouble:  # a failing disk can raise anywhere (R06)
        said = _system_trouble(trouble)
        report(said, terminal, as_json)
        return said.exit_code
    except KeyboardInterrupt:
        terminal.remark("Interrupted.")
        return INTERRUPTED


def _run_verb(verb: str, rest: list[str], box: Toolbox) -> int:
    module: Any = import_module("holdfast.cli." + VERBS[verb].module)
    parser = flags.parser_for(verb, VERBS[verb].about, module.DETAILS)
    module.declare(parser)
    args = flags.with_defaults(parser.parse_args(rest), box.environ)
    box.caller = Caller(args.fleet, args.key)
    box.terminal.yes, box.terminal.quiet = args.yes, args.quiet or args.json
    return int(module.run(args, box))


def _system_trouble(trouble: OSError) -> HoldfastError:
    where = f"{trouble.filename}: " if trouble.filename else ""
    if isinstance(trouble, PermissionError):
        return NotPermitted(
            f"permission denied for this user: {where}{trouble.strerror or trouble}",
            remedy="repeat the command as the owner, or with sudo",
        )
    return Failed(
        f"the operating system refused: {where}{trouble.strerror or trouble}",
        remedy="check the disk, its mount options and the file modes; then repeat the command",
        code="system_error",
    )


def report(trouble: HoldfastError, terminal: Terminal, as_json: bool) -> None:
    """Print message and remedy; with --json one object on stderr."""
    if as_json:
        import msgspec

        body: dict[str, object] = {"code": trouble.code, "message": trouble.message, "remedy": trouble.remedy}
        problems = getattr(trouble, "problems", None)
        if problems:
            body["problems"] = problems
        terminal.complain(msgspec.json.encode(body).decode())
        return
    terminal.complain(terminal.paint("red", "error: ") + harmless(trouble.message))
    terminal.complain(terminal.paint("cyan", "remedy: ") + harmless(trouble.remedy))


def _overview(argv: Sequence[str], terminal: Terminal) -> int:
    if argv and not {"-h", "--help"} & set(argv):
        raise Invalid("no command was given", remedy="holdfast --help lists the commands", code="usage")
    width = max(map(len, VERBS)) + 2
    lines = [f"  {name:<{width}}{verb.about}" for name, verb in VERBS.items()]
    terminal.say(OVERVIEW.format(verbs="\n".join(lines)))
    return 0


def _verbs_of(noun: str, terminal: Terminal) -> int:
    own = {name: verb.about for name, verb in VERBS.items() if name.startswith(noun + " ")}
    width = max(map(len, own)) + 2
    lines = [f"  {name:<{width}}{about}" for name, about in own.items()]
    terminal.say("\n".join([f"usage: holdfast {noun} VERB …", "", *lines, "", NOUN_END.format(noun=noun)]))
    return 0


NOUN_END = "`holdfast {noun} VERB --help` explains one of them with an example."

OVERVIEW = """holdfast — run your own machines as one fleet; the hub is a mailbox, not a root of trust.

usage: holdfast [flags] VERB …

{verbs}

Flags of every command, before or after the verb: --fleet DIR, --hub URL|DIR, --key FILE, --yes, --json, -q, -v.
`holdfast VERB --help` explains one command with an example. `holdfast --version` prints the version.

Start here:
  holdfast init myfleet && cd myfleet && holdfast plan && holdfast apply"""


def _unknown(verb: str, rest: Sequence[str]) -> Invalid:
    from difflib import get_close_matches

    if verb in nouns():
        second = [known for known in VERBS if known.startswith(verb + " ")]
        listed = f"one of: {', '.join(f'`holdfast {known}`' for known in second)}"
        given = flags.first_word(rest)
        if not given:
            return Invalid(f"`holdfast {verb}` needs a verb", remedy=listed, code="usage")
        words = [known.partition(" ")[2] for known in second]
        alike = [word for word in words if word[:1] == given[:1]]
        near = get_close_matches(given, alike, n=1, cutoff=0.4) or get_close_matches(given, words, n=1)
        hint = f'did you mean "{verb} {near[0]}"? ' if near else ""
        return Invalid(f'unknown command "{verb} {given}"', remedy=hint + listed, code="usage")
    if verb in LATER or verb in LATER_PAIRS:
        remedy = "holdfast --help lists the commands that are built"
        return Invalid(f"`holdfast {verb}` is not built yet", remedy=remedy, code="not_built")

    close = get_close_matches(verb, VERBS, n=1)
    hint = f"did you mean `holdfast {close[0]}`? " if close else ""
    return Invalid(f"{verb!r} is not a command", remedy=hint + "holdfast --help lists the commands", code="usage")
