"""`holdfast rollback --write`: make the fleet directory say what a revision says; keep what was there."""

import os
import stat
from argparse import Namespace
from typing import Any

from msgspec import Struct

from holdfast.cli.fleet import session, signing
from holdfast.cli.sizes import counted
from holdfast.cli.tools import Toolbox
from holdfast.declared import rewriting
from holdfast.declared.load import load
from holdfast.declared.rendered import render
from holdfast.declared.rewriting import Rewriting
from holdfast.declared.sources import FILE_BYTES_MAX
from holdfast.errors import Conflict, HoldfastError
from holdfast.model.applied import Applied
from holdfast.model.plan import Plan
from holdfast.model.revision import decode_header, decode_table, digest_of
from holdfast.planning.contents import layered

KEPT = ".before-revision-"  # a hidden directory is not part of a fleet


class DirectoryFiles(Struct, frozen=True):
    """The files to write once `plan` is applied. `number`: of the revision that they say."""

    found: Rewriting
    plan: Plan
    number: int
    directory: str
    box: Toolbox

    def document(self) -> dict[str, Any]:
        return {"files": {"written": sorted(self.found.written), "removed": list(self.found.removed)}}

    def is_applied(self, target: str) -> bool:
        hub = self.box.hubs.reader(target)
        applied = hub.applied() if hub is not None else None
        candidate = self.plan.candidate
        return bool(applied and candidate and applied.head.digest == digest_of(candidate.header))

    def write(self) -> None:
        """Store all files of now elsewhere before the first one changes."""
        if not self.found:
            return
        self._check()
        kept = self._keep()
        where = f" The files of before are in {kept}." if kept else ""
        try:
            for path, content in self.found.written.items():
                self._put(os.path.join(self.directory, path), content)
            for path in self.found.removed:
                self.box.disk.remove(os.path.join(self.directory, path))
        except HoldfastError as trouble:
            trouble.message += f". Not all files were written.{where}"
            raise
        self.box.terminal.remark(f"Wrote {self._count()} of {self.directory}.{where}")

    def _keep(self) -> str:
        """The directory that has them, whole; "" if no file of now changes."""
        if not self.found.before:
            return ""
        kept = _free(os.path.join(self.directory, f"{KEPT}{self.number}"))
        try:
            self.box.disk.make_tree(kept, self.found.before)
        except HoldfastError as trouble:
            trouble.message += f". No file of {self.directory} was changed; revision {self.number} is applied"
            raise
        return kept

    def confirm(self, as_json: bool) -> None:
        """Show every file that changes, and ask."""
        if not self.found:
            return
        marks = {path: "~" if path in self.found.before else "+" for path in self.found.written}
        marks |= dict.fromkeys(self.found.removed, "-")
        if not as_json:
            self.box.terminal.say(f"Files of {self.directory} that follow the rollback:")
            for path in sorted(marks):
                self.box.terminal.say(f"  {marks[path]} {path}")
            self.box.terminal.say("The files of now are kept in a hidden directory. The new ones have no comments.")
        self.box.terminal.confirm(f"Write {self._count()} after the rollback?", "not rolled back")

    def _count(self) -> str:
        return counted(len(self.found.written) + len(self.found.removed), "file")

    def _check(self) -> None:
        """An edit of the last minutes is in no copy yet."""
        for path in (*self.found.written, *self.found.removed):
            if self.box.disk.read(os.path.join(self.directory, path), FILE_BYTES_MAX) != self.found.before.get(path):
                raise Conflict(
                    f"{path} was edited meanwhile, so no file was written; revision {self.number} is applied",
                    remedy=f"write the files elsewhere: holdfast history show {self.number} --files DIR",
                    code="edited_meanwhile",
                )

    def _put(self, path: str, content: bytes) -> None:
        self.box.disk.make_directory(os.path.dirname(path), 0o755)
        self.box.disk.replace(path, content, _mode(path))


def planned(plan: Plan, applied: Applied, args: Namespace, box: Toolbox) -> DirectoryFiles:
    """What to write so that the directory says what the plan applies. Warns about what no file can say, and asks."""
    if plan.candidate is None:
        number, table, contents = applied.head.number, applied.table, applied.contents
    else:
        number, table = decode_header(plan.candidate.header).number, decode_table(plan.candidate.table)
        contents = layered(plan.candidate.blobs, applied.contents)
    rendered = render(number, table, contents)
    for note in rendered.notes:
        box.terminal.warn(note)
    current = rewriting.read(box.files.fleet(args.fleet))
    found = rewriting.rewriting(current, rendered.files, table, lambda files: load(box.files.held(files)))
    if plan.candidate is not None:
        signing.refuse_if_hopeless(plan, applied, args, box)  # before the question about files (N40)
    files = DirectoryFiles(found, plan, number, args.fleet, box)
    files.confirm(args.json)
    return files


def _mode(path: str) -> int:
    """Of the file that is replaced: it may have the address of a chat that only its owner reads."""
    try:
        return stat.S_IMODE(os.lstat(path).st_mode)
    except OSError:
        return 0o644


def _free(path: str) -> str:
    """A name that does not exist yet: nothing that was kept before is overwritten."""
    names = (path, *(f"{path}-{number}" for number in range(2, 1_000)))
    return next(name for name in names if not os.path.lexists(name))


def compared(current: session.Standing, args: Namespace, box: Toolbox) -> str:
    """Whether the next apply would change the revision again. Image digests are not asked for again."""
    try:
        hub = box.hubs.reader(current.target)  # that of before has read a ledger directory as it was
        applied = current.heads.check(hub, adopt=True)
        asked = Namespace(**{**vars(args), "offline": True})
        fleet = load(box.files.fleet(args.fleet))
        begun = session.Session(hub, current.target, current.heads, applied, fleet=fleet)
        found = session.make_plan(begun, asked, box)
    except HoldfastError as trouble:
        return f"Your files are not changed, and could not be compared with this revision: {trouble.message}"
    if not found.changes:
        return "Your files match this revision."
    more = f" and {len(found.changes) - 1} more" if len(found.changes) > 1 else ""
    return f"Your files still differ from this revision in {found.changes[0].address}{more}: holdfast plan shows how."
