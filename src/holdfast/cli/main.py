"""Run one command: find the verb, parse, run, turn errors into exit codes."""

from collections.abc import Sequence

from holdfast.cli import flags
from holdfast.cli.noun import ALIASES, LATER_PAIRS, Verb, nouns_of, rows_of
from holdfast.cli.terminal import Terminal
from holdfast.cli.text import Raw, indented, page
from holdfast.cli.tools import Caller, Toolbox
from holdfast.errors import INTERRUPTED, Failed, HoldfastError, Invalid, NotPermitted


def run(argv: Sequence[str], box: Toolbox) -> int:
    terminal, as_json = box.terminal, "--json" in argv
    terminal.argv = argv
    try:
        _check_text(argv)
        word = flags.first_word(argv)
        rows = rows_of(ALIASES.get(word, word))
        verb, rest = flags.split_verb(argv, rows.keys() | LATER_PAIRS, nouns_of(rows))
        verb = ALIASES.get(verb, verb) if verb is not None else None
        if verb is None or verb not in rows:
            return _explain(verb, rest, terminal)
        return _run_verb(verb, rows[verb], rest, box)
    except HoldfastError as trouble:
        from holdfast.cli.remedies import complete

        complete(trouble, argv)
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


def _check_text(argv: Sequence[str]) -> None:
    """What follows `--` is for another program."""
    for word in argv[: argv.index("--")] if "--" in argv else argv:
        try:
            word.encode()
        except UnicodeEncodeError:
            raise Invalid(
                f"the argument {word!r} is not text in the encoding of this terminal",
                remedy="check LANG and LC_ALL, then type it again",
                code="usage",
            ) from None


def _run_verb(verb: str, row: Verb, rest: list[str], box: Toolbox) -> int:
    parser, command = flags.loaded(verb, row)
    args = flags.with_defaults(parser.parse_args(rest), box.environ)
    box.caller = Caller(args.fleet, args.key)
    box.terminal.yes, box.terminal.quiet = args.yes, args.quiet or args.json
    box.terminal.verbose = args.verbose
    return command.run(args, box)


def _explain(word: str | None, rest: Sequence[str], terminal: Terminal) -> int:
    """No verb, or a noun without one: list the commands. Exit 2 unless --help asked for it."""
    from holdfast.cli.shell import help

    asked = bool({"-h", "--help"} & set(rest)) or not (word or rest)
    if word is None and not asked:
        raise Invalid("no command was given", remedy="`holdfast --help` lists the commands", code="usage")
    if word is not None and (not help.of_noun(word) or flags.first_word(rest) or (not asked and "--json" in rest)):
        raise help.unknown(word, rest)
    terminal.say(page(help.page([word] if word else [], flags.columns())))
    return 0 if asked else Invalid.exit_code


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
    """Print message and remedy; with --json one object on stderr. The words of a hub are marked, also its remedy: only
    a program gets them as they were sent."""
    if as_json:
        import msgspec

        message, remedy = trouble.said or (trouble.message, trouble.remedy)
        body: dict[str, object] = {"code": trouble.code, "message": message, "remedy": remedy}
        if trouble.said:
            body["said_by"] = "hub"
        problems = getattr(trouble, "problems", None)
        if problems:
            body["problems"] = problems
        terminal.complain(Raw(msgspec.json.encode(body).decode()))
        return
    show = page if getattr(trouble, "problems", None) else indented
    terminal.complain(show(terminal.paint("red", "error: ") + trouble.message))
    lead = "" if trouble.said else terminal.paint("cyan", "remedy: ")
    terminal.complain(lead + trouble.remedy)
