"""What this node says about its needs: the section of its report, and a finding for each service that lacks one."""

from collections.abc import Callable

from holdfast.agent.findings import Findings
from holdfast.agent.needs.books import Books
from holdfast.agent.needs.declared import Declarations, Declared
from holdfast.agent.needs.section import NeedsReport
from holdfast.agent.needs.tries import TryBook
from holdfast.model.need import NeedState
from holdfast.ports.need_files import NeedKey
from holdfast.reconcile import needs as rules

LATE_S = 600.0
UNFULFILLED = "need_unfulfilled"


class States:
    """`report` is called when the section changed."""

    def __init__(
        self, declared: Declarations, books: Books, tries: TryBook, findings: Findings, report: Callable[[], None]
    ) -> None:
        self._declared = declared
        self._books = books
        self._tries = tries
        self._findings = findings
        self._report = report
        self._since: dict[NeedKey, tuple[str, float]] = {}
        self._noted: set[str] = set()  # services with a finding
        self.section = NeedsReport()

    def show(self, now_s: float) -> None:
        states = tuple(self._state(one, now_s) for _, one in sorted(self._declared.found.items()))
        for service in {one.service for one in states} | self._noted:
            self._note(service, [one for one in states if one.service == service and _is_late(one, now_s)])
        if states != self.section.needs:
            self.section = NeedsReport(states)
            self._report()

    def _state(self, declared: Declared, now_s: float) -> NeedState:
        key = declared.key
        held, tries = self._books.held.get(key), self._tries.of(key)
        phase = rules.phase(held, declared.want, tries, now_s)
        if self._since.get(key, ("", 0.0))[0] != phase:
            self._since[key] = (phase, now_s)
        return NeedState(
            service=declared.service,
            name=declared.need.name,
            type=declared.want.type,
            provider=declared.want.provider,
            state=phase,
            generation=held.generation if held is not None else 0,
            since_s=self._since[key][1],
            until_s=held.until_s if held is not None else 0.0,
            tries=tries.count,
            next_s=tries.next_s,
            why=tries.why,
            required=declared.need.required,
        )

    def _note(self, service: str, late: list[NeedState]) -> None:
        address = f"service.{service}"
        if not late:
            self._noted.discard(service)
            self._findings.clear(UNFULFILLED, address)
            return
        self._noted.add(service)
        message = f"needs of {service}: {'; '.join(map(_words, late))}"
        self._findings.add(UNFULFILLED, message, f"holdfast need list {service}", address)


def _words(state: NeedState) -> str:
    return f"{state.name} ({state.type} of {state.provider}) is {state.state}: {state.why or 'not asked for yet'}"


def _is_late(state: NeedState, now_s: float) -> bool:
    """What a provider refused is told at once: waiting does not help."""
    if state.state == "fulfilled":
        return False
    return state.state in ("failed", "expired") or now_s - state.since_s >= LATE_S
