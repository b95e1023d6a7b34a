"""dnsmasq as a node's DNS server: its process and files; a changed record is verified by a query.

Its directory must be world-readable (dnsmasq drops root) and may be lost: it is written again from the signed
manifest. Nothing outside of it is written.
"""

import asyncio
import os
import pwd
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import cache

from holdfast.adapters.name_server.dnsmasq import configuration, zone_file
from holdfast.adapters.name_server.dnsmasq.daemon import Daemon
from holdfast.adapters.name_server.dnsmasq.port_holder import holder
from holdfast.adapters.name_server.dnsmasq.questions import Questions, questions, silent
from holdfast.adapters.process.process import Process
from holdfast.errors import Failed, HoldfastError, TryLater
from holdfast.ports.name_server import Serving

PORT = 53
TRY_S = 0.7  # with three tries, a frozen server is detected in about two seconds
START_TRY_S = 0.05
JUST_S = 0.2  # a process that answered so recently is not asked again
READY_S = 5.0
APPLY_S = 5.0
LOOK_S = 0.005
PROBED = 16  # changed names that are queried after a change, beside the serial
STARTS = 3
PORT_S = 0.1
USERS = ("dnsmasq", "nobody")
# CAP_SETGID and CAP_SETUID; and CAP_NET_ADMIN and CAP_NET_RAW, which dnsmasq keeps when it switches, or it ends
CHANGES_USER = 1 << 6 | 1 << 7 | 1 << 12 | 1 << 13


class PortTaken(Failed):
    code = "dns_down"


class Dnsmasq:
    def __init__(self, directory: str, program: str = "dnsmasq") -> None:
        self._directory = os.path.abspath(directory)
        self._program = program
        self._configuration = os.path.join(self._directory, "dnsmasq.conf")
        self._records = os.path.join(self._directory, "records")
        self._daemon = Daemon(program, self._configuration)
        self._serving: Serving | None = None
        self._written: dict[str, str] | None = None  # None: unknown since this process started
        self._former: dict[str, str] = {}  # the records before: an unacknowledged change may not have happened
        self._version: tuple[Process | None, str] = (None, "")
        self._heard: tuple[Process | None, float] = (None, 0.0)  # which process answered last, and when
        self._turn = asyncio.Lock()

    async def follow(self, serving: Serving | None) -> None:
        async with self._turn:
            if serving is None:
                await self._daemon.end(self._daemon.found())
                self._remove()
                self._serving, self._written, self._former = None, None, {}
                return
            if self._serving is not None and serving.zone != self._serving.zone:
                self._written, self._former = {}, {}
            self._serving = serving
            await self._run(serving)

    async def version(self) -> str:
        """As the running process reports it, which is asked once."""
        running = self._daemon.found()
        if self._serving is None or not running:
            return ""
        if self._version[0] != running[0]:
            with suppress(TryLater):
                async with questions(self._serving.address, PORT, TRY_S) as asking:
                    said = await asking.ask("version.bind", "TXT", "CH")
                    self._version = (running[0], said[0].strip('"').replace("-", " ", 1) if said else "")
        return self._version[1] if self._version[0] == running[0] else ""

    async def names(self) -> Mapping[str, str]:
        async with self._turn:
            serving = self._following()
            running = self._daemon.found()
            told = self._read()
            async with questions(serving.address, PORT, TRY_S) as asking:
                if not running or not await self._is_asked(asking, running[0]):
                    raise silent(f"{serving.address}:{PORT}")
                for known in (self._written, told, self._former):
                    if known is not None and await asking.ask(zone_file.serial(known, serving.zone)):
                        return dict(known)
                # It serves neither what we wrote nor what the file holds now: query every known name.
                return await asking.addresses({**self._salvage(serving), **self._former, **(self._written or {})})

    async def apply(self, names: Mapping[str, str]) -> None:
        async with self._turn:
            serving = self._following()
            wanted = zone_file.checked(names, serving.zone)
            running = self._daemon.found()
            if not running:
                raise silent(f"{serving.address}:{PORT}")
            before = self._read() or self._written or {}
            self._former, self._written = {**self._former, **before}, wanted
            self._write(self._records, zone_file.written(wanted, serving.zone))
            await self._acknowledged(serving, running[0], before, wanted)
            self._former = {}

    # ---- the process

    async def _run(self, serving: Serving) -> None:
        self._make_directory()
        self._daemon.shorten_log()
        text = configuration.text(serving, PORT, self._records, _user())
        running = self._daemon.found()
        same = _content(self._configuration) == text
        answers = bool(running) and (self._has_just_answered(running[0]) or await self._answers(serving, running[0]))
        self._restore_records(serving)
        if len(running) == 1 and same and answers:
            return
        await self._daemon.end(running, frozen=not answers)
        self._write(self._configuration, text)
        for _ in range(STARTS - 1):
            try:
                await self._start(serving)
                return
            except PortTaken:  # perhaps by the previous process, whose socket the kernel has not closed yet
                await asyncio.sleep(PORT_S)
        await self._start(serving)

    async def _start(self, serving: Serving) -> None:
        try:
            self._daemon.start(zone_file.mark(serving.zone))
        except OSError as trouble:
            if shutil.which(self._program) is not None:
                raise Failed(
                    f"cannot start {self._program}: {trouble.strerror}",
                    remedy=f"check the program and its permissions: ls -l {shutil.which(self._program)}",
                    code="dns_down",
                ) from trouble
            raise Failed(
                f"{self._program} is not installed, so this node resolves no internal names",
                remedy="apt-get install dnsmasq-base",
                code="dns_down",
            ) from trouble
        await self._ready(serving)

    async def _ready(self, serving: Serving) -> None:
        give_up_s = time.monotonic() + READY_S
        while time.monotonic() < give_up_s:
            running = self._daemon.found()
            if not running:
                raise self._ended(serving)
            if await self._answers(serving, running[0], START_TRY_S):
                return
            await asyncio.sleep(LOOK_S)
        raise silent(f"{serving.address}:{PORT}")

    def _ended(self, serving: Serving) -> HoldfastError:
        """Translate the last lines of its log into an error."""
        words, where = self._daemon.last_words(), f"{serving.address}:{PORT}"
        if "in use" in words:
            who = holder(serving.address, PORT)
            return PortTaken(
                f"{who} already listens on {where}, so this node resolves no internal names",
                remedy=f"stop it, or let it listen on other addresses: ss -lnutp 'sport = :{PORT}'",
                code="dns_down",
            )
        if "Cannot assign" in words:
            return TryLater(
                f"this machine does not have the address {serving.address} now, so dnsmasq cannot listen on it",
                remedy="bring the overlay network up, or correct the node's address in fleet.toml: ip address",
                code="dns_down",
            )
        return Failed(
            f"dnsmasq ended at once: {words or 'it wrote no message'}",
            remedy=f"dnsmasq --test --conf-file={self._configuration}",
            code="dns_down",
        )

    def _has_just_answered(self, process: Process) -> bool:
        """A pass asks for the names, and then looks at process and files."""
        return self._heard[0] == process and time.monotonic() - self._heard[1] < JUST_S

    async def _answers(self, serving: Serving, process: Process, try_s: float = TRY_S) -> bool:
        with suppress(TryLater):
            async with questions(serving.address, PORT, try_s) as asking:
                return await self._is_asked(asking, process)
        return False

    async def _is_asked(self, asking: Questions, process: Process) -> bool:
        """Whether this process answers: another server may use its address."""
        name, mark = self._daemon.mark(process)
        is_it = bool(name) and await asking.ask(name, "TXT") == (f'"{mark}"',)
        self._heard = (process if is_it else None, time.monotonic())
        return is_it

    async def _acknowledged(
        self, serving: Serving, process: Process, before: Mapping[str, str], wanted: Mapping[str, str]
    ) -> None:
        """Signal the process only after it answered: before it installs its handlers, a signal would end it."""
        changed = [name for name in before.keys() | wanted.keys() if before.get(name) != wanted.get(name)]
        probed = {name: wanted.get(name) or before[name] for name in sorted(changed)[:PROBED]}
        expected = {name: wanted[name] for name in probed if name in wanted}
        give_up_s = time.monotonic() + APPLY_S
        if not await self._answers(serving, process):
            raise silent(f"{serving.address}:{PORT}")
        async with questions(serving.address, PORT, TRY_S) as asking:
            self._daemon.read_again(process)
            while time.monotonic() < give_up_s:
                if await asking.ask(zone_file.serial(wanted, serving.zone)):
                    if await asking.addresses(probed) == expected:
                        return
                    break
                await asyncio.sleep(LOOK_S)
        raise TryLater(
            f"dnsmasq did not load {len(wanted)} records: {self._daemon.last_words()[-120:]}",
            remedy=f"let dnsmasq read {self._records}: namei -l {self._records}",
            code="dns_down",
        )

    # ---- its files

    def _following(self) -> Serving:
        if self._serving is None:
            raise TryLater(
                "no DNS server runs on this node", remedy="set [dns] in fleet.toml and apply", code="dns_down"
            )
        return self._serving

    def _read(self) -> Mapping[str, str] | None:
        return zone_file.read(_content(self._records), self._following().zone)

    def _salvage(self, serving: Serving) -> dict[str, str]:
        """The valid names of a records file that is incomplete or that another program wrote."""
        lines = (_content(self._records) or b"").decode("utf-8", "replace").splitlines()
        found: dict[str, str] = {}
        for line in lines:
            with suppress(HoldfastError):
                found |= zone_file.checked({name: line.split()[0] for name in line.split()[1:]}, serving.zone)
        return found

    def _restore_records(self, serving: Serving) -> None:
        """The file must exist for the next start. Queries, not this file, decide which records are served."""
        told = self._read()
        if told is None and self._written is None and _content(self._records):
            return  # from a previous agent, and incomplete: `names` finds out which of it is served
        if told is None or (self._written is not None and told != self._written):
            self._write(self._records, zone_file.written(self._written or {}, serving.zone))

    def _make_directory(self) -> None:
        try:
            os.makedirs(self._directory, mode=0o755, exist_ok=True)
            # Independent of the umask: dnsmasq has dropped root when it reads. Nothing here is secret.
            os.chmod(self._directory, 0o755)  # noqa: S103
        except OSError as trouble:
            raise _unwritable(self._directory, trouble) from trouble

    def _write(self, path: str, content: bytes) -> None:
        """Not flushed: after a power cut all of it is written again."""
        try:
            with open(f"{path}.new", "wb") as file:
                os.fchmod(file.fileno(), 0o644)
                file.write(content)
            os.replace(f"{path}.new", path)
        except OSError as trouble:
            raise _unwritable(path, trouble) from trouble

    def _remove(self) -> None:
        self._daemon.forget()
        for path in (self._configuration, self._records):
            with suppress(OSError):
                os.unlink(path)
        with suppress(OSError):
            os.rmdir(self._directory)


def _content(path: str) -> bytes | None:
    with suppress(OSError), open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size  # a read of BYTES_MAX would reserve as much memory each time
        return file.read(min(size, zone_file.BYTES_MAX))
    return None


def _user() -> str:
    """The user that dnsmasq switches to after binding its port. "" if it may not switch: only root may, and our
    systemd unit removes capabilities that this needs."""
    if os.geteuid() != 0 or not _may_change_user():
        return ""
    for name in USERS:
        with suppress(KeyError):
            return pwd.getpwnam(name).pw_name
    return ""


@cache
def _may_change_user() -> bool:
    with suppress(OSError, ValueError, StopIteration), open("/proc/self/status", encoding="ascii") as file:
        rights = int(next(line for line in file if line.startswith("CapEff:")).split()[1], 16)
        return rights & CHANGES_USER == CHANGES_USER
    return False


def _unwritable(path: str, trouble: OSError) -> Failed:
    return Failed(
        f"cannot write {path}: {trouble.strerror}",
        remedy=f"free space, or correct its owner: ls -ld {path}; df {os.path.dirname(path)}",
        code="disk_failed",
    )
