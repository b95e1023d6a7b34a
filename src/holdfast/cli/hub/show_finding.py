"""A finding as text: code, address, message, and the remedy below; control characters are removed."""

from typing import Protocol

from holdfast.cli.terminal import Terminal, harmless


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


def text(finding: Shown, terminal: Terminal, since: str = "") -> str:
    style = "yellow" if finding.level == "warning" else "red"
    remedy = harmless(for_pasting(finding.remedy, terminal))
    return f"{terminal.paint(style, harmless(finding.code))} {_what(finding)}{since}\n  remedy: {remedy}"


def for_pasting(remedy: str, terminal: Terminal) -> str:
    """With the flags of this call; the module that completes remedies is not loaded without any."""
    if not any(word.startswith(("--fleet", "--hub", "--state-dir")) for word in terminal.argv):
        return remedy
    from holdfast.cli import remedies

    return remedies.for_pasting(remedy, terminal.argv)


def line(finding: Shown) -> str:
    return f"{harmless(finding.code)} {_what(finding)}; {harmless(finding.remedy)}"


def _what(finding: Shown) -> str:
    return harmless(f"{finding.address}: {finding.message}" if finding.address else finding.message)
