"""The value of a secret: from a pipe, a prompt, a file or a random source. Never printed."""

import os
from argparse import Namespace

from holdfast.cli.flags import Parser
from holdfast.cli.tools import Toolbox
from holdfast.errors import Failed, Invalid

VALUE_BYTES_MAX = 32 * 1024
GENERATED_BYTES, GENERATED_BYTES_MAX, GENERATED_BYTES_MIN = 32, 1024, 16
TRIES_MAX = 3


def declare(parser: Parser) -> None:
    parser.add_argument("--file", metavar="FILE", help="the value is the content of FILE, byte for byte")
    parser.add_argument(
        "--generate",
        metavar="BYTES",
        nargs="?",
        type=_count,
        const=GENERATED_BYTES,
        help=f"a random value of BYTES bytes (default {GENERATED_BYTES}), in hexadecimal",
    )


def _count(text: str) -> int:
    count = int(text) if text.isdigit() and len(text) < 6 else 0
    if not GENERATED_BYTES_MIN <= count <= GENERATED_BYTES_MAX:
        raise Invalid(
            f"--generate takes {GENERATED_BYTES_MIN} to {GENERATED_BYTES_MAX} bytes, not {text[:20]!r}",
            remedy=f"omit the number to get {GENERATED_BYTES}",
            code="usage",
        )
    return count


def read(args: Namespace, box: Toolbox, name: str) -> bytes:
    if args.file is not None and args.generate is not None:
        raise Invalid("--file and --generate cannot be used together", remedy="omit one of them", code="usage")
    if args.generate is not None:
        return box.keys.random_hex(args.generate).encode()
    value = _from_file(args.file, box) if args.file is not None else _typed_or_piped(box, name)
    if not value:
        raise Invalid("the value is empty", remedy="pipe it in, or use --file FILE or --generate")
    if len(value) > VALUE_BYTES_MAX:
        raise Invalid(
            f"the value is longer than {VALUE_BYTES_MAX:,} bytes",
            remedy="use secrets for passwords, keys and certificates; put larger data into a volume or an image",
        )
    return value


def _from_file(path: str, box: Toolbox) -> bytes:
    found = box.disk.read(path, VALUE_BYTES_MAX)
    if found is None:
        raise Invalid(f"{path} does not exist", remedy="check --file FILE", code="not_found")
    return found


def _typed_or_piped(box: Toolbox, name: str) -> bytes:
    if box.terminal.is_interactive():
        return _typed(box, name)
    piped = box.terminal.piped(VALUE_BYTES_MAX + 2)
    return piped.removesuffix(b"\n").removesuffix(b"\r") if piped.endswith(b"\n") else piped


def _typed(box: Toolbox, name: str) -> bytes:
    for tries_left in reversed(range(TRIES_MAX)):
        first = box.terminal.secret(f"Value of {name} (hidden):")
        if first == box.terminal.secret("Repeat the value:"):
            return os.fsencode(first)
        if tries_left:
            box.terminal.remark("The values differ; try again.")
    raise Failed(
        f"the two values differed {TRIES_MAX} times",
        remedy="run the command again; nothing was written",
        code="declined",
    )
