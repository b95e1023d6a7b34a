"""`holdfast init DIR`: write a working fleet directory, with keys of the right grades."""

import os
from argparse import Namespace
from shlex import quote
from typing import NamedTuple

import msgspec
from msgspec import UNSET

from holdfast.cli.flags import Parser
from holdfast.cli.secrets.identity_file import identity_path
from holdfast.cli.text import block
from holdfast.cli.tools import Toolbox
from holdfast.declared.starter import starter
from holdfast.errors import Conflict, Failed, Invalid
from holdfast.model import trust
from holdfast.model.fleet import Grade, Operator, Thresholds
from holdfast.model.ids import is_name
from holdfast.model.ssh_key import line, parse

PASSPHRASE_TRIES_MAX = 3

DETAILS = """\
Writes a commented starter fleet: fleet.toml with you as the first operator, one node and one service. Your SSH key
signs; if you have none, one is created. An offline recovery key of grade root is created too. Keep it away from this
machine: it is the only key that can change the trusted operators. With --yes and without --recovery-key no recovery key
is created; your own key gets grade root, and a warning is printed.

examples:
  holdfast init myfleet
  holdfast init myfleet --key ~/.ssh/id_ed25519 --yes
  holdfast init myfleet --recovery-key /media/usb/myfleet-recovery
"""


def declare(parser: Parser) -> None:
    parser.add_argument("directory", metavar="DIR", help="a directory without fleet.toml; created if missing")
    parser.add_argument("--name", metavar="NAME", help="name of the fleet (default: from DIR)")
    parser.add_argument("--operator", metavar="NAME", help="your name as operator (default: from $USER)")
    parser.add_argument(
        "--recovery-key", metavar="FILE", help="create the offline root key here, or use the one that exists"
    )


def run(args: Namespace, box: Toolbox) -> int:
    _refuse_existing(args.directory)
    name = _given(args.name, "fleet") or _name(os.path.basename(os.path.abspath(args.directory)), "fleet")
    operator_name = _given(args.operator, "operator") or _name(box.environ.get("USER") or "operator", "operator")
    public = box.keys.public_line(args.key)
    path = args.key or os.path.join(box.environ.get("HOME", "/root"), ".ssh", "id_ed25519")
    if public is None:
        _may_make(path, box)  # asked before the recovery key is made: a refusal leaves nothing behind
    recovery = _recovery(args, box)
    grade: Grade = "destroy" if recovery else "root"
    opens = _Identity(own := identity_path(box.environ), is_new=not os.path.lexists(own))
    operators = [_operator(operator_name, grade, public or _made(path, operator_name, box), box)]
    if recovery:
        operators.append(Operator("recovery", recovery, "root"))
    identity = box.keys.random_hex(16)
    files = starter(name, operators, identity)
    files = {path: text for path, text in files.items() if not _is_there(args.directory, path)}
    for path in sorted(files, key=lambda path: (path == "fleet.toml", path)):  # fleet.toml last: it makes it a fleet
        target = os.path.join(args.directory, path)
        box.disk.make_directory(os.path.dirname(target), 0o755)
        box.disk.replace(target, files[path], 0o644)
    founded = trust.digest(trust.of(tuple(operators), Thresholds(id=identity)))
    return _say(args, box, name, operators, founded, sorted(files), opens)


def _refuse_existing(directory: str) -> None:
    if os.path.lexists(directory) and not os.path.isdir(directory):
        raise Conflict(
            f"{directory} exists and is not a directory", remedy="choose another name", code="already_exists"
        )
    if os.path.lexists(os.path.join(directory, "fleet.toml")):
        raise Conflict(
            f"{directory} is already a fleet directory",
            remedy=f"holdfast plan --fleet {quote(directory)}",
            code="already_exists",
        )


def _is_there(directory: str, path: str) -> bool:
    """Existing files are never overwritten, and a directory with services needs no example service."""
    if path.startswith("services/") and os.path.isdir(os.path.join(directory, "services")):
        return bool(os.listdir(os.path.join(directory, "services")))
    return os.path.lexists(os.path.join(directory, path))


def _given(text: str | None, what: str) -> str | None:
    """A name given by the operator is used unchanged or refused."""
    if text is not None and not is_name(text):
        raise Invalid(
            f"{text!r} is not a valid name for the {what}",
            remedy="use lower-case letters, digits and dashes, beginning with a letter, at most 40",
        )
    return text


def _name(text: str, what: str) -> str:
    """A valid name from a directory or user name; an error asks for one if that is impossible."""
    fit = (
        "".join(c if c.isascii() and c.isalnum() else "-" for c in text.lower()).lstrip("-0123456789")[:40].rstrip("-")
    )
    if not is_name(fit):
        raise Invalid(
            f"{text!r} does not give a valid name for the {what}",
            remedy=f"choose one: --{'name' if what == 'fleet' else what} NAME",
        )
    return fit


def _may_make(path: str, box: Toolbox) -> None:
    question = f"There is no SSH key at {path}. Create one?"
    remedy = f"create one (`ssh-keygen -t ed25519 -f {quote(path)}`) or run again with --yes"
    if not (box.terminal.yes or box.terminal.choose(question, True, remedy)):
        raise Invalid("an operator needs an SSH key", remedy=remedy, code="no_key")


def _made(path: str, name: str, box: Toolbox) -> str:
    public = box.keys.make(path, name, "")
    box.terminal.remark(f"Created {path} (no passphrase; set one with: ssh-keygen -p -f {quote(path)})")
    return public


def _operator(name: str, grade: Grade, public: str, box: Toolbox) -> Operator:
    recipient = box.keys.recipient(identity_path(box.environ))
    return Operator(name, line(parse(public)), grade, recipient or UNSET)


def _recovery(args: Namespace, box: Toolbox) -> str | None:
    path = args.recovery_key
    if path is None:
        if box.terminal.yes:
            box.terminal.warn(
                "no recovery key was created: your own key has grade root, and if you lose it, the operators of this "
                "fleet cannot be changed. Create one later and add it to fleet.toml with grade root."
            )
            return None
        path = os.path.abspath(args.directory) + "-recovery"
        if not box.terminal.choose(
            f"Create an offline recovery key (grade root) at {path}?",
            True,
            "run again with --yes or --recovery-key FILE",
        ):
            return None
    known = box.keys.public_line(path) if os.path.exists(path) or os.path.exists(path + ".pub") else None
    if known is None:
        passphrase = "" if box.terminal.yes and not box.terminal.is_interactive() else _passphrase(box)
        known = box.keys.make(path, "recovery", passphrase)
        if not passphrase:
            box.terminal.warn(f"{path} has no passphrase; set one with: ssh-keygen -p -f {quote(path)}")
        box.terminal.remark(f"Created {path}. Move it off this machine now and keep it safe.")
    return line(parse(known))


def _passphrase(box: Toolbox) -> str:
    for tries_left in reversed(range(PASSPHRASE_TRIES_MAX)):
        first = box.terminal.secret("Passphrase for the recovery key (empty for none):")
        if first == box.terminal.secret("Repeat the passphrase:"):
            return first
        if tries_left:
            box.terminal.remark("The passphrases differ; try again.")
    raise Failed(
        f"the two passphrases differed {PASSPHRASE_TRIES_MAX} times, so no recovery key was created",
        remedy="nothing was written; repeat the command",
        code="declined",
    )


class _Identity(NamedTuple):
    """The operator's age identity."""

    path: str
    is_new: bool

    def __str__(self) -> str:
        made = f"Created the age identity {self.path}, which" if self.is_new else f"Your age identity {self.path}"
        return f"{made} opens the secrets of this fleet. Keep a copy in a safe place: SSH keys open no secret."


def _say(
    args: Namespace,
    box: Toolbox,
    name: str,
    operators: list[Operator],
    identity: str,
    files: list[str],
    opens: _Identity,
) -> int:
    if args.json:
        document = {
            "fleet": name,
            "directory": args.directory,
            "files": files,
            "operators": [{"name": o.name, "grade": o.grade} for o in operators],
            "trust": identity,
            "identity": opens.path,
        }
        box.terminal.say_raw(msgspec.json.encode(document).decode())
        return 0
    box.terminal.say(f"Created fleet {name} in {args.directory}: {', '.join(files)}")
    box.terminal.say("Operators: " + ", ".join(f"{o.name} (grade {o.grade})" for o in operators))
    box.terminal.say(str(opens))
    box.terminal.say(f"Fleet id: {identity}  (for: holdfast hub init --trust)")
    box.terminal.say(block(("Next:", f"  cd {quote(args.directory)}", "  holdfast plan", "  holdfast apply")))
    return 0
