"""The operators' signatures that make a restored hub the newest one of its fleet."""

from argparse import Namespace
from shlex import quote

from holdfast.cli.flags import repeated
from holdfast.cli.nodes import destroy_signature, statement_file
from holdfast.cli.nodes.statement_file import StatementFile
from holdfast.cli.tools import Toolbox
from holdfast.errors import Conflict, Invalid, SignatureRequired
from holdfast.hub.file import restoring
from holdfast.hub.file.restoring import Examined
from holdfast.model import canonical
from holdfast.model.hub_generation import Generation, SignedGeneration
from holdfast.trust import hub_generations

STATEMENT = "hub.generation"


def signed_generation(found: Examined, args: Namespace, box: Toolbox) -> SignedGeneration:
    """Verified: nodes will accept it. Raises SignatureRequired with a file for the other operators."""
    applied, path = found.applied, args.source or args.output or STATEMENT
    draft = _given(found, args, box) if args.source else _drafted(found, args, box)
    file = draft
    if not args.source:
        file = destroy_signature.signed(draft, applied.trust, args, box, lambda: _ask(draft, box))
    signed = SignedGeneration(file.content, file.signatures)
    try:
        hub_generations.verify(signed, applied.fleet_id, applied.trust)
    except SignatureRequired as trouble:
        if not args.source:
            box.disk.replace(path, statement_file.write(file), 0o600)
        raise _more(path, trouble, args) from trouble
    return signed


def _drafted(found: Examined, args: Namespace, box: Toolbox) -> StatementFile:
    if args.generation is not None and args.generation <= found.generation:
        raise Invalid(
            f"the hub that made this file was generation {found.generation} already",
            remedy=f"choose a higher one: --generation {found.generation + 1}",
            code="usage",
        )
    said = restoring.generation_after(found, args.generation, box.keys.random_hex(8), box.clock.now_s())
    return statement_file.of(statement_file.GENERATION, canonical.encode(said), found.applied.trust)


def _given(found: Examined, args: Namespace, box: Toolbox) -> StatementFile:
    file = statement_file.open_file(args.source, statement_file.GENERATION, box.disk)
    said = file.said
    assert isinstance(said, Generation), "open_file checked its kind"
    if said.head != found.applied.head:
        raise Conflict(
            f"{args.source} is for a file with revision {said.head.number}, and {args.file} has another one",
            remedy=f"sign for this file: holdfast hub restore {quote(args.file)}",
            code="other_statement",
        )
    _ask(file, box)
    return file


def _ask(file: StatementFile, box: Toolbox) -> None:
    box.terminal.remark(statement_file.text(file))
    box.terminal.confirm("Restore the hub, so that nodes follow no older one?", "not restored")


def _more(path: str, trouble: SignatureRequired, args: Namespace) -> SignatureRequired:
    return SignatureRequired(
        f"{trouble.message}; {path} has the signatures so far",
        remedy=f"holdfast sign {quote(path)} --key KEY && holdfast hub restore {quote(args.file)} --from {quote(path)}"
        + repeated(args),
    )
