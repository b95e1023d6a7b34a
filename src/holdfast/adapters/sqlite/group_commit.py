"""Group commit: concurrent writers share one flush; the first performs the work of all. Knows no database."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, TypeVar, cast

from holdfast.errors import TryLater

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

GROUP_MAX = 256

T = TypeVar("T")


class Ticket:
    """One queued piece of work, its outcome, and the thread or future that waits for it."""

    __slots__ = ("answer", "attended", "done", "future", "gate", "leads", "trouble", "work")

    def __init__(self, work: Callable[[], object], future: Future[object] | None = None) -> None:
        self.work = work
        self.future = future
        self.answer: object = None
        self.trouble: BaseException | None = None
        self.done = False
        self.leads = False
        self.attended = future is None  # a thread waits at the gate and can lead
        self.gate = threading.Lock()
        self.gate.acquire()

    def begins(self) -> bool:
        return self.future is None or self.future.set_running_or_notify_cancel()

    def settle(self) -> None:
        self.done = True
        if self.future is None:
            self.gate.release()
        elif self.trouble is not None:
            self.future.set_exception(self.trouble)
        else:
            self.future.set_result(self.answer)


class GroupCommit:
    """`perform` writes a group and leaves answer or trouble on each ticket.

    A single caller leads itself: no thread is woken. A writer thread exists only after `submit` was used, for work
    that no thread waits for.
    """

    def __init__(self, perform: Callable[[Sequence[Ticket]], None]) -> None:
        self._perform = perform
        self._door = threading.Condition(threading.Lock())
        self._waiting: deque[Ticket] = deque()
        self._led = False
        self._closed = False
        self._thread: threading.Thread | None = None
        self._thread_leads = False
        self._bell = threading.Semaphore(0)

    def run(self, work: Callable[[], T]) -> T:
        ticket = Ticket(work)
        if self._join(ticket) or self._wait(ticket):
            self._lead()
        if ticket.trouble is not None:
            raise ticket.trouble
        return cast("T", ticket.answer)

    def submit(self, work: Callable[[], T]) -> Future[T]:
        from concurrent.futures import Future

        future: Future[object] = Future()
        if self._join(Ticket(work, future)):
            self._wake_thread()
        return cast("Future[T]", future)

    def close(self) -> None:
        """Refuse new work, finish queued work, end the writer thread."""
        with self._door:
            self._closed = True
            while self._led:
                self._door.wait()
        if self._thread is not None:
            self._bell.release()
            self._thread.join()

    def _join(self, ticket: Ticket) -> bool:
        """Join the queue; true if the caller must lead."""
        with self._door:
            if self._closed:
                raise TryLater("the ledger store is closed", remedy="open it again", code="store_closed")
            self._waiting.append(ticket)
            leads = not self._led
            self._led = True
            return leads

    def _wait(self, ticket: Ticket) -> bool:
        """Wait for the outcome; true if this caller must lead instead."""
        try:
            ticket.gate.acquire()
        except BaseException:  # an interrupted caller that was to lead must pass the lead on
            with self._door:
                ticket.attended = False
                orphaned = ticket.leads and not ticket.done
            if orphaned:
                self._wake_thread()
            raise
        return not ticket.done

    def _lead(self) -> None:
        with self._door:
            taken = [self._waiting.popleft() for _ in range(min(len(self._waiting), GROUP_MAX))]
        group = [ticket for ticket in taken if ticket.begins()]
        try:
            self._perform(group)
        finally:
            for ticket in group:
                ticket.settle()
            self._pass_on()

    def _pass_on(self) -> None:
        with self._door:
            if not self._waiting:
                self._led = False
                self._door.notify_all()
                return
            heir = self._waiting[0]
            heir.leads = True
            attended = heir.attended
        if attended:
            heir.gate.release()
        else:
            self._wake_thread()

    def _wake_thread(self) -> None:
        with self._door:
            self._thread_leads = True
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="ledger-writer", daemon=True)
                self._thread.start()
        self._bell.release()

    def _serve(self) -> None:
        while True:
            self._bell.acquire()
            with self._door:
                leads, self._thread_leads = self._thread_leads, False
            if not leads:
                return  # woken by close()
            self._lead()
