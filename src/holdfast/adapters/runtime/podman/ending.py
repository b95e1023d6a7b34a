"""Stop and remove containers, also those whose supervisor has died. Never deletes data."""

import asyncio
import math
import time
from contextlib import suppress

from holdfast.adapters.runtime.podman import exit_code, orphan, refusal
from holdfast.adapters.runtime.podman.libpod import Libpod, Refused
from holdfast.adapters.runtime.podman.listing import Details, Listing, inspect
from holdfast.errors import Failed

AGAIN_S = 0.02
STOP_S = 30.0  # beyond the grace: for killing and cleaning up on a busy machine


class Ending:
    def __init__(self, libpod: Libpod, listing: Listing, runtime_dir: str | None) -> None:
        """`runtime_dir`: $XDG_RUNTIME_DIR, where rootless podman stores exit codes."""
        self._libpod = libpod
        self._listing = listing
        self._runtime_dir = runtime_dir

    async def settled(self, id: str) -> bool:
        """True if podman reported a dead container as running and this is now corrected."""
        details = await inspect(self._libpod, id)
        if details is None or not orphan.is_orphan(details) or details.process is not None:
            return False
        return await self._settle(details)

    async def _settle(self, details: Details) -> bool:
        if await orphan.settle(self._libpod, details, self._exits_folder()):
            return True
        with suppress(Refused):  # podman stops waiting for the dead supervisor after five seconds
            await self._libpod.call("POST", f"containers/{details.id}/stop", params={"timeout": "0"})
        return await orphan.settle(self._libpod, details, None)

    def _exits_folder(self) -> str | None:
        return self._listing.exits or exit_code.usual_folder(self._runtime_dir)

    async def stop(self, id: str, within_s: float | None) -> None:
        """Repeated until it stays down: podman reports a container that has just crashed as stopped, and then restarts
        it anyway."""
        began_s, trouble = time.monotonic(), Refused(0, "", "it still runs")
        while (details := await inspect(self._libpod, id)) is not None and not orphan.is_down(details):
            grace_s = details.config.stop_timeout if within_s is None else within_s
            if orphan.is_orphan(details):
                return await self._stop_orphan(details, grace_s)
            if time.monotonic() > began_s + grace_s + STOP_S:
                raise refusal.failed(f"cannot stop container {details.name}", trouble) from trouble
            try:
                if details.state.status == "paused":
                    await self._libpod.call("POST", f"containers/{id}/unpause")
                await self._stop(id, grace_s)
            except Refused as no:  # the container or its supervisor ended meanwhile: the next inspection shows it
                trouble = no
                await asyncio.sleep(AGAIN_S)
        return None

    async def _stop(self, id: str, grace_s: float) -> None:
        params = {"timeout": str(max(0, math.ceil(grace_s)))}
        done = await self._libpod.call("POST", f"containers/{id}/stop", params=params, timeout_s=grace_s + STOP_S)
        if done.status == 304:
            await asyncio.sleep(AGAIN_S)  # until podman has cleaned up or restarted it

    async def _stop_orphan(self, details: Details, grace_s: float) -> None:
        if await orphan.end(details, grace_s) and await self._settle(details):
            return
        raise Failed(
            f"container {details.name} lost its supervisor process (conmon) and does not end",
            remedy=f"on the node: podman rm --force {details.name}",
            code="stuck",
        )

    async def remove(self, id: str) -> None:
        details = await inspect(self._libpod, id)
        if details is None:
            return
        try:
            await self._delete(id)
        except Refused as no:
            if not await self.settled(id):
                raise refusal.failed(f"cannot remove container {details.name}", no) from no
            with suppress(Refused):
                await self._delete(id)

    async def _delete(self, id: str) -> None:
        """Neither by force nor with volumes: mounts contain users' data."""
        try:
            await self._libpod.call("DELETE", f"containers/{id}", params={"v": "false", "force": "false"})
        except Refused as no:
            if not no.absent:
                raise
