"""Signatures of operators on statements of grade destroy: one each, until they are enough."""

from argparse import Namespace
from collections.abc import Callable
from shlex import quote

import msgspec

from holdfast.cli.flags import repeated
from holdfast.cli.fleet import session
from holdfast.cli.nodes import statement_file
from holdfast.cli.nodes.statement_file import StatementFile
from holdfast.cli.tools import Toolbox
from holdfast.errors import NotPermitted, SignatureRequired
from holdfast.model import canonical, ssh_key
from holdfast.model.invite import Invite
from holdfast.model.trust import Trust, may_sign, outside_scope, too_low
from holdfast.ports.signer import UnknownSigner
from holdfast.trust import enrolment


def signed(
    file: StatementFile, trust: Trust, args: Namespace, box: Toolbox, ask: Callable[[], None] = lambda: None
) -> StatementFile:
    """With the signature of this operator; the same file if that key has signed it already. `ask` is called once it is
    known that the signature counts."""
    operators = {ssh_key.parse(operator.key).blob: operator for operator in trust.operators}
    signer = box.keys.signer(args.key, lambda blob: blob in operators)
    operator = operators.get(signer.public_key.blob)
    able = ", ".join(sorted(o.name for o in trust.operators if may_sign(trust, o, "destroy"))) or "no operator"
    if operator is None:
        raise UnknownSigner(signer.public_key, f"sign with the key of one of: {able} (--key FILE)")
    outside = outside_scope(operator, (file.address,))
    if outside is not None or not may_sign(trust, operator, "destroy"):
        scope = f"{operator.name} may not sign for {outside}"
        what = scope if outside is not None else too_low(operator, "destroy")
        raise SignatureRequired(
            f"this needs grade destroy, and {what}; operators who can sign: {able}",
            remedy="run the same command with --key FILE and the key of one of them",
        )
    ask()
    if ssh_key.line(signer.public_key) in statement_file.signing_keys(file):
        return file
    return statement_file.with_signature(file, signer.sign(file.content, file.namespace))


def add(path: str, content: bytes, args: Namespace, box: Toolbox) -> int:
    """`holdfast sign FILE`: the signature of one more operator."""
    file = statement_file.read(path, content)
    said = file.said
    lock = session.heads(args, box).lock()
    if lock is not None and lock.fleet != said.fleet:
        raise NotPermitted(
            f"{file.what} is for the fleet {said.fleet[:12]}…, but {args.fleet} is {lock.fleet[:12]}…",
            remedy="sign it with --fleet DIR, where DIR is the directory of its own fleet",
            code="other_fleet",
        )
    if isinstance(said, Invite):
        enrolment.check_moment(said, box.clock.now_s())
    if not args.json:
        box.terminal.say(statement_file.text(file))
    believed = canonical.decode(file.trust, Trust, f"the trust beside {file.what}")
    after = signed(file, believed, args, box, lambda: box.terminal.confirm("Sign this?", "not signed"))
    count = len(statement_file.signing_keys(after))  # also refuses a signature without the touch of its security key
    if after is not file:
        box.disk.replace(path, statement_file.write(after), 0o600)
    if args.json:
        box.terminal.say_raw(msgspec.json.encode({"file": path, "signatures": count}).decode())
        return 0
    done = "Signed" if after is not file else "Signed by this key before"
    box.terminal.say(f"{done}: {path} has {count} signature{'s' * (count != 1)} now.")
    box.terminal.remark(f"Next: {statement_file.going_on(path, file)}{repeated(args)}")
    return 0


def more(path: str, file: StatementFile, trouble: SignatureRequired, args: Namespace) -> SignatureRequired:
    """What is missing, and the commands that add it; KEY is the key file of another operator."""
    where = repeated(args)
    return SignatureRequired(
        f"{trouble.message}; {path} has the signatures so far",
        remedy=f"holdfast sign {quote(path)} --key KEY && {statement_file.going_on(path, file)}{where}",
    )


def enough(path: str, file: StatementFile, args: Namespace, box: Toolbox) -> int:
    """Told after `-o FILE` where one signature is enough."""
    if args.json:
        box.terminal.say_raw(msgspec.json.encode({"file": path, "signatures": 1}).decode())
    else:
        box.terminal.say(f"Signed: {path} has 1 signature now, which is enough.")
        box.terminal.remark(f"Next: {statement_file.going_on(path, file)}{repeated(args)}")
    return 0
