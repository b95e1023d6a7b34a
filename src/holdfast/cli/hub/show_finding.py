"""A finding as text: code, address and message in one line, and the remedy below."""

from collections.abc import Iterable
from typing import Any, Protocol

import msgspec

from holdfast.cli.terminal import Terminal
from holdfast.cli.text import Block, block


class Shown(Protocol):
    @property
    def code(self) -> str: ...
    @property
    def level(self) -> str: ...
    @property
    def message(self) -> str: ...
    @property
    def remedy(self) -> str: ...
    @property
    def address(self) -> str: ...


def text(finding: Shown, terminal: Terminal, since: str = "", lead: str = "", by: str = "") -> Block:
    """`lead` indents it. `by`: whose words these are, if not our own (X20)."""
    style = "yellow" if finding.level == "warning" else "red"
    says, suggests = (f"{by} says: ", f"{by} suggests") if by else ("", "remedy")
    remedy = for_pasting(finding.remedy, terminal)
    what = f"{lead}{terminal.paint(style, finding.code)} {says}{_what(finding)}{since}"
    return block((what, f"{lead}  {suggests}: {remedy}"))


def for_pasting(remedy: str, terminal: Terminal) -> str:
    """With the flags of this call; the module that completes remedies is not loaded without any."""
    if not any(word.startswith(("--fleet", "--hub", "--state-dir")) for word in terminal.argv):
        return remedy
    from holdfast.cli import remedies

    return remedies.for_pasting(remedy, terminal.argv)


def documents(findings: Iterable[msgspec.Struct], terminal: Terminal) -> list[dict[str, Any]]:
    """For programs: with the remedy as it is shown as text."""
    found: list[dict[str, Any]] = [msgspec.to_builtins(one) for one in findings]
    return [{**one, "remedy": for_pasting(one["remedy"], terminal)} if one.get("remedy") else one for one in found]


def line(finding: Shown, terminal: Terminal, by: str = "") -> str:
    says, suggests = (f"{by} says: ", f"{by} suggests: ") if by else ("", "")
    return f"{finding.code} {says}{_what(finding)}; {suggests}{for_pasting(finding.remedy, terminal)}"


def _what(finding: Shown) -> str:
    return f"{finding.address}: {finding.message}" if finding.address else finding.message
