"""Podman as a node's runtime, over its REST socket. Changes only what it is asked to, and never data."""

import asyncio
import os
import resource
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec

from holdfast.adapters.runtime.podman import creation, image_files, refusal, sealed_env
from holdfast.adapters.runtime.podman.ending import Ending
from holdfast.adapters.runtime.podman.execution import TIMED_OUT, Execution
from holdfast.adapters.runtime.podman.frame import Frames, log_line
from holdfast.adapters.runtime.podman.happening import Happening
from holdfast.adapters.runtime.podman.libpod import Libpod, Refused, stumbled
from holdfast.adapters.runtime.podman.listing import Listing, inspect
from holdfast.adapters.runtime.podman.service import Foreign, Service
from holdfast.errors import Failed
from holdfast.model.container import Container, is_same
from holdfast.ports import runtime as port
from holdfast.ports.allowed import Allowed, check
from holdfast.ports.runtime import CreateContainer, Finished, ImageDirectory, LogLine, Pipe, Piped, Progress, name_taken

SHORT_S = 10.0
GLANCE_S = 1.0
LOG_S = 30.0
OUTPUT_LINES = 100
LIMITS_MAX = {"nofile": 1048576, "nproc": 32768}  # 32768 is the limit of podman's own service


class _Inspected(msgspec.Struct, frozen=True, rename="pascal"):
    config: sealed_env.Image = sealed_env.Image()


class Podman:
    """`socket`: an external podman service; without it, `command` starts ours at `<run_dir>/podman.sock`."""

    def __init__(
        self,
        socket: str | None,
        run_dir: str,
        *,
        auth_files: Sequence[str] = (),
        environ: Mapping[str, str] | None = None,
        command: Sequence[str] = ("podman",),
    ) -> None:
        self._environ = dict(os.environ if environ is None else environ)
        at = socket or os.path.join(run_dir, "podman.sock")
        self._service = Foreign() if socket else Service(at, command, self._environ)
        self._libpod = Libpod(at, self._service)
        self._auth_files = tuple(auth_files)
        self._listing = Listing(self._libpod)
        self._happening = Happening(self._libpod, self._listing.ends.heard)
        self._limits = _limits()
        self._ending = Ending(self._libpod, self._listing, self._environ.get("XDG_RUNTIME_DIR"))
        self._execution = Execution(
            (*command, "--remote", "--url", f"unix://{at}") if socket else command, self._environ
        )

    async def version(self) -> str:
        try:
            answer = await self._libpod.call("GET", "version", timeout_s=SHORT_S)
        except Refused as no:
            raise stumbled(no) from no
        self._happening.begin()  # the first rollout waits for no event, and its containers may end
        return f"podman {msgspec.json.decode(answer.body).get('Version', '?')}"

    async def containers(self) -> Sequence[Container]:
        return await self._listing.containers()

    async def users(self, path: str) -> Sequence[str]:
        return await self._listing.users(path)

    def is_alive(self, container: Container) -> bool:
        return self._listing.is_alive(container)

    async def container(self, id: str) -> Container | None:
        return await self._listing.container(id)

    # ---- images and networks ----------------------------------------------------------------------------------------

    async def has_image(self, reference: str) -> bool:
        return await self._there(f"images/{reference}/exists")

    async def _there(self, path: str) -> bool:
        try:
            await self._libpod.call("GET", path, timeout_s=SHORT_S)
        except Refused as no:
            if no.absent:
                return False
            raise stumbled(no) from no
        return True

    async def image_volumes(self, reference: str) -> Sequence[str]:
        return await image_files.volumes(self._libpod, reference)

    @asynccontextmanager
    async def image_directory(
        self, made: CreateContainer, path: str, allowed: Allowed
    ) -> AsyncIterator[ImageDirectory | None]:
        check(allowed, port.CREATES, made.name)
        assert not made.spec.mounts and not made.mounts, "a mount would hide the directory"
        id = await self._fresh(msgspec.structs.replace(made, restart=False))
        try:
            async with image_files.directory(self._libpod, id, path) as found:
                yield found
        finally:
            await asyncio.shield(self._gone(id))

    async def pull(self, reference: str, progress: Progress) -> None:
        await image_files.pull(self._libpod, reference, self._auth_files, progress)

    async def ensure_network(self, name: str, labels: dict[str, str]) -> None:
        wanted = {"name": name, "labels": labels, "driver": "bridge", "dns_enabled": True}
        try:
            await self._libpod.call("POST", "networks/create", body=wanted)
        except Refused as no:
            if no.status != 409:
                raise refusal.failed(f"cannot create the network {name}", no) from no

    async def remove_network(self, name: str, allowed: Allowed) -> None:
        check(allowed, port.REMOVES, name)
        try:
            await self._libpod.call("DELETE", f"networks/{name}")
        except Refused as no:
            if not no.absent and "being used" not in no.cause:
                raise refusal.failed(f"cannot remove the network {name}", no) from no

    # ---- a container's life -----------------------------------------------------------------------------------------

    async def create(self, made: CreateContainer, allowed: Allowed) -> str:
        check(allowed, port.CREATES, made.name)
        return await self._made(made)

    async def _made(self, made: CreateContainer) -> str:
        asked = creation.body(made, self._limits)
        if not made.secret_env:
            return await self._create(made, asked)
        secret = creation.secret_name(made.name)
        asked = creation.sealed(asked, made, await self._image(made), secret, sealed_env.static_busybox())
        await self._keep_secret(secret, sealed_env.content(made.secret_env))
        try:
            return await self._create(made, asked)
        finally:
            await self._forget_secret(secret)  # the container has its own copy, which is deleted with it

    async def _create(self, made: CreateContainer, asked: dict[str, Any]) -> str:
        try:
            answer = await self._libpod.call("POST", "containers/create", body=asked)
        except Refused as no:
            if "name is already in use" in no.cause or no.status == 409:
                return await self._id_of(made, no)
            raise refusal.not_made(made, no) from no
        return str(msgspec.json.decode(answer.body)["Id"])

    async def _image(self, made: CreateContainer) -> sealed_env.Image:
        try:
            answer = await self._libpod.call("GET", f"images/{made.spec.reference}/json")
        except Refused as no:
            raise refusal.not_made(made, no) from no
        return msgspec.json.decode(answer.body, type=_Inspected).config

    async def _id_of(self, made: CreateContainer, no: Refused) -> str:
        """The id of the same container, created before. Another container with that name must not be used."""
        details = await inspect(self._libpod, made.name)
        if details is None:
            raise refusal.failed(f"podman reports the name {made.name} as used, but has no such container", no) from no
        if not is_same(made.labels, details.config.labels or {}):
            raise name_taken(made.name)
        return details.id

    async def start(self, id: str, allowed: Allowed) -> None:
        check(allowed, port.STARTS, id)
        await self._start(id)

    async def _start(self, id: str) -> None:
        for again in (True, False):
            try:
                answer = await self._libpod.call("POST", f"containers/{id}/start")
            except Refused as no:
                if again and refusal.is_without_reason(no):
                    continue  # its first process was ended before it was told to begin: podman makes it again
                if again and no.cause == "container state improper" and await self._ending.settled(id):
                    continue
                raise refusal.not_started(id, no) from no
            if answer.status != 304 or not again or not await self._ending.settled(id):
                return

    async def stop(self, id: str, allowed: Allowed, grace_s: float | None = None) -> None:
        check(allowed, port.STOPS, id)
        await self._ending.stop(id, grace_s)

    async def remove(self, id: str, allowed: Allowed) -> None:
        check(allowed, port.REMOVES, id)
        await self._ending.remove(id)

    async def _keep_secret(self, name: str, content: bytes) -> None:
        await self._forget_secret(name)
        try:
            await self._libpod.call("POST", "secrets/create", params={"name": name}, data=content)
        except Refused as no:
            raise refusal.failed(f"podman cannot store the secret {name}", no) from no

    async def _forget_secret(self, name: str) -> None:
        with suppress(Refused):
            await self._libpod.call("DELETE", f"secrets/{name}")

    # ---- commands ---------------------------------------------------------------------------------------------------

    async def exec(self, id: str, command: Sequence[str], timeout_s: float, allowed: Allowed) -> Finished:
        check(allowed, port.RUNS, id)
        words, _ = await self._inside(id, command)
        return await self._execution.run(id, words, timeout_s)

    async def pipe(self, id: str, command: Sequence[str], pipe: Pipe, timeout_s: float, allowed: Allowed) -> Piped:
        check(allowed, port.RUNS, id)
        words, first = await self._inside(id, command)
        return await self._execution.pipe(id, first, words, pipe, timeout_s)

    async def _inside(self, id: str, command: Sequence[str]) -> tuple[Sequence[str], int]:
        """What is run for a command, and the pid of the container's first process."""
        details = await inspect(self._libpod, id)
        if details is None or details.process is None:
            raise Failed(
                f"container {id[:12]} is not running, so no command can run in it",
                remedy="start the service first",
                code="not_running",
            )
        sealed = sealed_env.is_sealed(details.config.labels or {})
        return sealed_env.wrapped(command) if sealed else command, details.process.pid

    async def run(self, made: CreateContainer, timeout_s: float, allowed: Allowed) -> Finished:
        check(allowed, port.RUNS, made.name)
        once = msgspec.structs.replace(made, restart=False)
        id = await self._fresh(once)
        try:
            await self._start(id)
            code = await self._ended(id, timeout_s)
            lines = [line.text async for line in self.logs(id, OUTPUT_LINES, 0.0, follow=False)]
        finally:
            await asyncio.shield(self._gone(id))
        text = "".join(f"{line}\n" for line in lines)
        if code is None:
            return Finished(TIMED_OUT, f"{text}killed after {timeout_s:g} s\n")
        return Finished(code, text)

    async def _fresh(self, made: CreateContainer) -> str:
        """Remove our leftover container of an earlier run with that name, and create a new one."""
        id = await self._made(made)
        details = await inspect(self._libpod, id)
        if details is None or details.state.status in ("created", "configured"):
            return id
        if not is_same(made.labels, details.config.labels or {}):
            raise Failed(
                f"the container {made.name} was not created by holdfast",
                remedy=f"on the node: podman rm {made.name}",
                code="foreign",
            )
        await self._gone(id)
        return await self._made(made)

    async def _ended(self, id: str, timeout_s: float) -> int | None:
        params = {"condition": "stopped", "interval": "50ms"}
        try:
            async with asyncio.timeout(timeout_s):
                answer = await self._libpod.call(
                    "POST", f"containers/{id}/wait", params=params, timeout_s=timeout_s + SHORT_S
                )
        except TimeoutError:
            return None
        except Refused as no:
            raise refusal.failed(f"cannot wait for container {id[:12]}", no) from no
        return int(answer.body)

    async def _gone(self, id: str) -> None:
        await self._ending.stop(id, 0.0)
        await self._ending.remove(id)

    async def logs(self, id: str, tail: int | None, since_s: float, follow: bool) -> AsyncIterator[LogLine]:
        params = {"stdout": "true", "stderr": "true", "timestamps": "true", "follow": str(follow).lower()}
        params |= {"tail": str(tail)} if tail is not None else {}
        params |= {"since": str(int(since_s))} if since_s > 0 else {}
        frames = Frames()
        try:
            path, quiet_s = f"containers/{id}/logs", None if follow else LOG_S
            async with self._libpod.open("GET", path, params=params, timeout_s=None, silence_s=quiet_s) as answer:
                async for piece in answer.content.iter_any():
                    for stream, content in frames.feed(piece):
                        yield log_line(id, stream, content)
        except Refused as no:
            raise refusal.failed(f"cannot read the log of container {id[:12]}", no) from no
        except ValueError as trouble:
            sent = Refused(0, "", f"podman sent {trouble}")
            raise refusal.failed(f"cannot read the log of container {id[:12]}", sent) from trouble

    async def changed(self, at_most_s: float) -> bool:
        """A dead supervisor sends no event, so the processes are also checked every second."""
        left_s = at_most_s
        while left_s > 0:
            if await self._happening.changed(min(left_s, GLANCE_S)) or self._listing.any_gone():
                return True
            left_s -= GLANCE_S
        return False

    async def close(self) -> None:
        await self._happening.close()
        self._listing.close()
        await self._libpod.close()
        await self._service.close()


def _limits() -> dict[str, int]:
    """This process's own limits: podman's default asks for more, which some machines refuse."""
    asked = {"nofile": resource.RLIMIT_NOFILE, "nproc": resource.RLIMIT_NPROC}
    hard = {kind: resource.getrlimit(number)[1] for kind, number in asked.items()}
    return {kind: LIMITS_MAX[kind] if most < 0 else min(most, LIMITS_MAX[kind]) for kind, most in hard.items()}
