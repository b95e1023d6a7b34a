"""The command reference in docs/reference/commands.md, printed from the verbs."""

from holdfast.cli import flags
from holdfast.cli.verbs import VERBS

_HEAD = """\
# Commands

Printed from the commands' own `--help` by `python -m holdfast.cli.reference`; a test keeps the two equal.
Exit codes: 0 done, 1 failed, 2 invalid input or usage, 3 not permitted, 4 needs a signature of a higher grade,
5 conflict or stale, 6 unreachable, 7 integrity.
"""


def reference() -> str:
    return "\n".join([_HEAD, *(_section(verb) for verb in VERBS)])


def _section(verb: str) -> str:
    parser, _ = flags.loaded(verb, VERBS[verb], width=100)
    return f"## holdfast {verb}\n\n```text\n{parser.format_help().rstrip()}\n```\n"


if __name__ == "__main__":
    import sys

    sys.stdout.write(reference())
