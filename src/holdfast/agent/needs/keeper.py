"""Keep the needs of this node's services fulfilled, hub or no hub: ask, deliver, tell, give back."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from holdfast.agent.findings import Findings
from holdfast.agent.keeper import Revision
from holdfast.agent.keeping import Keeping
from holdfast.agent.link.pace import Pace
from holdfast.agent.needs.asking import Asking
from holdfast.agent.needs.books import Books
from holdfast.agent.needs.changing import Changing
from holdfast.agent.needs.declared import Declarations, Declared
from holdfast.agent.needs.section import NeedsReport
from holdfast.agent.needs.telling import Telling
from holdfast.agent.time import NodeTime
from holdfast.errors import HoldfastError, NeedsOperator
from holdfast.model.need import NeedState
from holdfast.ports.need_files import NeedFiles, NeedKey
from holdfast.reconcile import needs as rules
from holdfast.reconcile.needs import NO_TRIES, Held, Tries

AT_ONCE = 8
LATE_S = 600.0  # a need that waits so long is a finding
SWEEP_HEARTBEATS = 10.0  # a provider is told so often
TELL_AGAIN_S = 30.0  # after a try in vain; shorter where everything is faster
TICK_S = 60.0  # the clock may jump
PASSING = ("unknown_key", "not_found", "replayed")  # the provider may be a revision behind
UNFULFILLED, SILENT = "need_unfulfilled", "provider_silent"


class Needs:
    """`chance` gives a number between 0 and 1; `fulfilled` is called when a service may go on; `report` when the
    section changed."""

    name = "needs"

    def __init__(
        self,
        *,
        declared: Declarations,
        books: Books,
        asking: Asking,
        telling: Telling,
        changing: Changing,
        files: NeedFiles,
        time: NodeTime,
        pace: Pace,
        findings: Findings,
        keeping: Keeping,
        chance: Callable[[], float],
        fulfilled: Callable[[], None],
        report: Callable[[], None],
    ) -> None:
        self._declared = declared
        self._books = books
        self._asking = asking
        self._telling = telling
        self._changing = changing
        self._files = files
        self._time = time
        self._pace = pace
        self._findings = findings
        self._keeping = keeping
        self._chance = chance
        self._fulfilled = fulfilled
        self._report = report
        self._bell = asyncio.Event()
        self._tries: dict[NeedKey, Tries] = {}
        self._since: dict[NeedKey, tuple[str, float]] = {}
        self._tell_s: dict[str, float] = {}  # provider → when it is told next, monotonic
        self._busy: set[NeedKey | str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._places = asyncio.Semaphore(AT_ONCE)
        self._noted: set[str] = set()  # services with a finding
        self._section = NeedsReport()

    def follow(self, revision: Revision) -> None:
        """A new revision is a reason to ask again at once (F-46)."""
        is_new = revision.number != self._declared.revision
        self._declared.follow(revision)
        if is_new:
            self._tries.clear()
        self._bell.set()

    def section(self) -> NeedsReport:
        return self._section

    async def run(self) -> None:
        for key, held in self._books.held.items():
            self._deliver(key, held)
        try:
            while True:
                self._bell.clear()
                pause_s = self._tick()
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause_s):
                        await self._bell.wait()
        finally:
            for task in self._tasks:
                task.cancel()

    # ---- a tick

    def _tick(self) -> float:
        """Begin what is due; answers the pause until the next."""
        now_s = self._time.now_s()
        self._give_back()
        nexts = [TICK_S]
        for key, declared in sorted(self._declared.found.items()):
            held, tries = self._books.held.get(key), self._tries.get(key, NO_TRIES)
            if held is not None and not self._files.has(key):
                self._deliver(key, held)
            due_s = rules.due_s(held, declared.want, tries, now_s)
            if due_s is not None and due_s <= now_s:
                self._begin(key, lambda declared=declared: self._ask(declared))  # type: ignore[misc]
            elif due_s is not None:
                nexts.append(due_s - now_s)
            if held is not None and held.older and rules.may_restart(held, now_s):
                self._begin(key, lambda declared=declared, held=held: self._change(declared, held))  # type: ignore[misc]
        nexts.append(self._tell())
        self._show(now_s)
        return max(min(nexts), 0.05)

    def _begin(self, key: NeedKey | str, work: Callable[[], object]) -> None:
        if key in self._busy:
            return
        self._busy.add(key)

        async def run() -> None:
            try:
                async with self._places:
                    await work()  # type: ignore[misc]
            except Exception as mistake:
                self._keeping.mistake(mistake)
            finally:
                self._busy.discard(key)
                self._bell.set()

        task = asyncio.ensure_future(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _ask(self, declared: Declared) -> None:
        key, provider = declared.key, declared.want.provider
        try:
            held = await self._asking.ask(declared)
            self._files.put(key, self._asking.values(declared, held))
        except HoldfastError as trouble:
            self._failed(declared, trouble)
            return
        self._tries.pop(key, None)
        for other in [k for k, one in self._declared.found.items() if one.want.provider == provider]:
            if other in self._tries and not self._tries[other].is_refused:
                del self._tries[other]  # it answers again: the others do not wait longer
        self._tell_s.pop(provider, None)
        self._fulfilled()
        if not held.older:
            return
        await self._change(declared, held)

    def _failed(self, declared: Declared, trouble: HoldfastError) -> None:
        before = self._tries.get(declared.key, NO_TRIES)
        is_refused = isinstance(trouble, NeedsOperator) and trouble.code not in PASSING
        why = f"{trouble.message}; {trouble.remedy}" if is_refused else trouble.message
        self._tries[declared.key] = rules.failed(before, why, is_refused, self._time.now_s(), self._chance())

    async def _change(self, declared: Declared, held: Held) -> None:
        """The handles of older values are given back when containers use the new ones."""
        if self._changing.must_tell(declared):
            if not rules.may_restart(held, self._time.now_s()):
                return
            with suppress(HoldfastError):  # a service that does not come up again is told by its own keeper
                await self._changing.tell(declared)
        self._asking.replaced(declared, held)
        self._tell_s.pop(declared.want.provider, None)

    def _deliver(self, key: NeedKey, held: Held) -> None:
        """Again, after a boot."""
        declared = self._declared.found.get(key)
        if declared is None:
            return
        try:
            self._files.put(key, self._asking.values(declared, held))
        except HoldfastError as trouble:
            self._findings.add_trouble("needs_unwritable", trouble, f"service.{key[0]}")
        else:
            self._findings.clear("needs_unwritable", f"service.{key[0]}")

    def _give_back(self) -> None:
        """What is not declared any more: the files first, then the handle."""
        if not self._declared.complete:
            return
        for key in [key for key in self._files.known() if key not in self._declared.found]:
            with suppress(HoldfastError):
                self._files.forget(key)
        for key in [key for key in self._books.held if key not in self._declared.found]:
            if not self._files.has(key):
                self._books.drop(key)

    # ---- telling

    @property
    def _sweep_s(self) -> float:
        return self._pace.cadence.heartbeat_s * SWEEP_HEARTBEATS

    def _tell(self) -> float:
        now_s, nexts = self._time.monotonic_s(), [TICK_S]
        for provider in self._books.providers:
            at_s = self._tell_s.get(provider, now_s)
            if at_s <= now_s or (self._telling.is_due(provider) and at_s - now_s > TELL_AGAIN_S):
                self._begin(provider, lambda provider=provider: self._tell_one(provider))  # type: ignore[misc]
            else:
                nexts.append(at_s - now_s)
        return min(nexts)

    async def _tell_one(self, provider: str) -> None:
        try:
            gone = await self._telling.tell(provider)
        except HoldfastError as trouble:
            again_s = min(TELL_AGAIN_S, self._sweep_s)
            self._tell_s[provider] = self._time.monotonic_s() + again_s
            self._silent(provider, trouble)
            return
        self._tell_s[provider] = self._time.monotonic_s() + self._sweep_s
        self._findings.clear(SILENT, f"node.{provider}")
        self._take_back(provider, gone)

    def _take_back(self, provider: str, gone: tuple[str, ...]) -> None:
        """By a signed order at the provider. The service keeps the values until it has the next ones."""
        for key, held in [(key, one) for key, one in self._books.held.items() if one.provider == provider]:
            lost = rules.taken_back(held, gone, self._time.now_s(), self._sweep_s)
            if lost is not None:
                self._books.keep(key, lost)

    def _silent(self, provider: str, trouble: HoldfastError) -> None:
        message = f"{provider} could not be told what is held: {trouble.message}"
        remedy = f"{trouble.remedy}; credentials that it gave stay valid meanwhile"
        self._findings.add(SILENT, message, remedy, f"node.{provider}")

    # ---- the report

    def _show(self, now_s: float) -> None:
        states = tuple(self._state(one, now_s) for _, one in sorted(self._declared.found.items()))
        for service in {one.service for one in states} | self._noted:
            self._note(service, [one for one in states if one.service == service and _is_late(one, now_s)])
        if states != self._section.needs:
            self._section = NeedsReport(states)
            self._report()

    def _state(self, declared: Declared, now_s: float) -> NeedState:
        key = declared.key
        held, tries = self._books.held.get(key), self._tries.get(key, NO_TRIES)
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
