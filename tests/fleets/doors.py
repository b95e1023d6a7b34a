"""Runtimes and storages with a permission for each verb, for tests of the adapters themselves."""

from collections.abc import Sequence
from typing import Any

from holdfast.agent.services.data.proofs import granted
from holdfast.gate import copies
from holdfast.model.order import VerifiedOrder
from holdfast.ports.allowed import Allowed
from holdfast.ports.runtime import CreateContainer, Finished, ImageDirectory, Pipe, Piped, Runtime
from holdfast.ports.storage import Storage


class OpenRuntime:
    """Gives each verb the permission that fits."""

    def __init__(self, runtime: Runtime) -> None:
        self.inner = runtime

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    async def remove_network(self, name: str) -> None:
        await self.inner.remove_network(name, Allowed("CLEAN_UP", name))

    async def create(self, made: CreateContainer) -> str:
        return await self.inner.create(made, Allowed("CREATE", made.name))

    async def start(self, id: str) -> None:
        await self.inner.start(id, Allowed("START", id))

    async def stop(self, id: str, grace_s: float | None = None) -> None:
        await self.inner.stop(id, Allowed("STOP", id), grace_s)

    async def remove(self, id: str) -> None:
        await self.inner.remove(id, Allowed("RETIRE", id))

    async def exec(self, id: str, command: Sequence[str], timeout_s: float) -> Finished:
        return await self.inner.exec(id, command, timeout_s, Allowed("EXEC", id))

    async def pipe(self, id: str, command: Sequence[str], pipe: Pipe, timeout_s: float) -> Piped:
        return await self.inner.pipe(id, command, pipe, timeout_s, Allowed("EXEC", id))

    def image_directory(self, made: CreateContainer, path: str) -> Any:
        return self.inner.image_directory(made, path, Allowed("CREATE", made.name))

    async def run(self, made: CreateContainer, timeout_s: float) -> Finished:
        return await self.inner.run(made, timeout_s, Allowed("EXEC", made.name))


class OpenStorage:
    """`root` is where the data directories are. The verbs of a purge take an order, and ask the gate of node w1."""

    def __init__(self, storage: Storage, root: str) -> None:
        self.inner = storage
        self._root = root

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def volume(self, service: str, name: str) -> str:
        return self.inner.volume(service, name, Allowed("MOUNT", f"{self._root}/{service}/{name}"))

    def fill(self, service: str, name: str, image: ImageDirectory, owner: str = "") -> bool:
        return self.inner.fill(service, name, image, owner, Allowed("OVERWRITE_DATA", f"{self._root}/{service}/{name}"))

    def own(self, service: str, name: str, owner: str) -> None:
        self.inner.own(service, name, owner, Allowed("OVERWRITE_DATA", f"{self._root}/{service}/{name}"))

    def host_path(self, service: str, path: str) -> str:
        return self.inner.host_path(service, path, Allowed("REACH_HOST", path))

    def set_aside(self, name: str) -> str:
        return self.inner.set_aside(name, Allowed("SET_ASIDE", f"data.{name}"))

    def condemn(self, name: str, order: VerifiedOrder) -> None:
        self.inner.condemn(granted(copies.may_set_aside(name, "w1", order, is_needed=False)))

    def destroy(self, name: str, order: VerifiedOrder) -> None:
        """What one order with `now` does."""
        self.condemn(name, order)
        if order.order.id in self.inner.set_aside_by(name):
            self.inner.dispose(granted(copies.may_dispose(name, order.order.id, "w1", order)))

    def bring_back(self, name: str, purge: str, order: VerifiedOrder) -> None:
        self.inner.bring_back(granted(copies.may_bring_back(name, purge, "w1", order)))
