"""Build the report of this node out of the sections of its keepers, again only when something changed."""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from holdfast import __version__
from holdfast.agent.acceptance.accept import Accepting
from holdfast.agent.findings import Findings
from holdfast.agent.keeper import Act, OrderRun, ReportPart, Section, Stage
from holdfast.agent.lanes import Lanes
from holdfast.agent.link import report_limits
from holdfast.model import canonical
from holdfast.model.checkin import REPORT_BYTES_MAX
from holdfast.model.report import NodeFinding, Parked
from holdfast.ports.audit_log import AuditLog

WORDS_MAX = 200
FEW = 50


class NodeReport(Struct, frozen=True, omit_defaults=True):
    """The first fields of a report: which node it is, and how it is."""

    fleet: str
    node: str
    version: str
    arch: str = ""
    address: str = ""
    state: Literal["idle", "processing"] = "idle"
    health: Literal["healthy", "degraded"] = "healthy"  # M-47
    mode: Literal["converge", "observe"] = "converge"

    def shorter(self, stage: Stage) -> "NodeReport":
        return replace(self, health="degraded")


class TroubleReport(Struct, frozen=True, omit_defaults=True):
    """The last fields of a report: what is parked, found and under way."""

    parked: tuple[Parked, ...] = ()
    findings: tuple[NodeFinding, ...] = ()
    operations: tuple[str, ...] = ()  # journaled operations under way
    audit_entries: int = 0
    audit_head: str = ""

    def shorter(self, stage: Stage) -> "TroubleReport":
        match stage:
            case "certificates":  # the first stage: from here on something is left out
                return replace(self, findings=(*self.findings, _report_cut()))
            case "no_steps":
                return replace(self, findings=tuple(_in_few_words(one) for one in self.findings))
            case "ours_only":
                return replace(self, parked=self.parked[:FEW])
            case "few":
                return replace(self, findings=(*self.findings[:FEW], self.findings[-1]))
            case "nothing":
                return replace(self, parked=(), findings=(_report_cut(),))
        return self


def _in_few_words(one: NodeFinding) -> NodeFinding:
    return replace(one, message=one.message[:WORDS_MAX], remedy=one.remedy[:WORDS_MAX])


def _report_cut() -> NodeFinding:
    return NodeFinding(
        "report_cut",
        f"the report of this node is longer than {REPORT_BYTES_MAX:,} bytes; the rest is left out",
        "`holdfast agent journal` and `podman ps --all` on the node show all of it",
    )


class Reporter:
    def __init__(
        self,
        *,
        parts: tuple[ReportPart, ...],
        accepting: Accepting,
        findings: Findings,
        lanes: Lanes,
        audit: AuditLog,
        about: NodeReport,
    ) -> None:
        self._parts = parts
        self._accepting = accepting
        self._findings = findings
        self._lanes = lanes
        self._audit = audit
        self._about = about
        self._sections: tuple[Section, ...] = ()
        self._built_from: tuple[object, ...] = ()
        self.is_wanted = False  # by an order: the whole report is sent, changed or not
        self.content = b""
        self.digest = ""
        self.acts: Mapping[str, Act] = {
            "ping": Act(self._ping, "compensate", "the hub no longer waits for the answer"),
            "check-in": Act(self._check_in, "compensate", "every start sends a report"),
        }

    def look(self) -> bool:
        """Build the report again if anything in it changed; True if so. Cheap when nothing did."""
        sections = tuple(part.section() for part in self._parts)
        lanes, operations = self._lanes, tuple(sorted(self._lanes.operations))
        audit = self._audit.head()
        counts = (self._findings.changes, self._accepting.changes)
        built_from = (*counts, operations, lanes.is_working, audit.number, audit.digest)
        if built_from == self._built_from and _are_same(sections, self._sections):
            return False
        self._built_from, self._sections = built_from, sections
        findings, parked = self._findings.all(), self._accepting.parked
        own = self._accepting.own()
        about = replace(
            self._about,
            state="processing" if operations or lanes.is_working else "idle",
            health="degraded" if findings or parked else "healthy",
            mode=own[0].reconcile if own is not None else "converge",
        )
        trouble = TroubleReport(parked, findings, operations, audit.number, audit.digest if audit.number else "")
        self.content = report_limits.fitted((about, *sections, trouble))
        self.digest = canonical.digest(self.content)
        return True

    def sent(self) -> None:
        self.is_wanted = False

    async def _ping(self, run: OrderRun) -> str:
        return "here"

    async def _check_in(self, run: OrderRun) -> str:
        self.is_wanted = True
        return "the report follows"


def _are_same(sections: tuple[Section, ...], before: tuple[Section, ...]) -> bool:
    return len(sections) == len(before) and all(one is other for one, other in zip(sections, before, strict=True))


def about(fleet: str, node: str, arch: str, address: str) -> NodeReport:
    return NodeReport(fleet, node, __version__, arch, address)
