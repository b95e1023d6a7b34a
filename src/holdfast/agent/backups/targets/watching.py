"""Look at the storage targets every few seconds (H-49), and have what one lacks copied to it when it is back."""

import asyncio
from contextlib import suppress

from holdfast.agent.backups.declared import Declarations
from holdfast.agent.backups.notes import Notes
from holdfast.agent.backups.targets.attached import Target, Targets
from holdfast.agent.backups.targets.copying import Copying
from holdfast.agent.time import NodeTime
from holdfast.agent.wake import Wake
from holdfast.errors import HoldfastError

LOOK_S = 2.0  # a look answers within 3 s, so that a target that drops is noticed within 5 s
SLOW_LOOK_S = 60.0  # each look at a restic repository takes half a second of a processor
AGAIN_S = 60.0  # after a copy failed
LEVEL_S = 3600.0  # a target may lose what it had


class TargetWatch:
    """`changed` is called when something that is reported changed."""

    name = "targets"

    def __init__(
        self,
        *,
        targets: Targets,
        copying: Copying,
        declared: Declarations,
        time: NodeTime,
        notes: Notes,
        changed: Wake,
    ) -> None:
        self._targets = targets
        self._copying = copying
        self._declared = declared
        self._time = time
        self._notes = notes
        self._changed = changed
        self._named: set[str] = set()  # targets that a finding may be about

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch())
            group.create_task(self._keep_level())

    # ---- looks

    async def _watch(self) -> None:
        while True:
            self._targets.followed.clear()
            self._tell_unusable()
            await self._targets.close_dropped()
            if not self._targets.others:
                await self._targets.followed.wait()
                continue
            await asyncio.gather(*(self._look(one) for one in self._targets.all if self._is_due(one)))
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._targets.followed.wait()

    def _tell_unusable(self) -> None:
        """Those that cannot be opened as they are declared; and no word more about those that are gone."""
        present = {one.name for one in self._targets.others}
        for name in self._named - present - self._targets.troubles.keys():
            self._notes.target(name, "", "")
        for name, trouble in self._targets.troubles.items():
            self._notes.target(name, trouble.message, trouble.remedy)
        self._named = present | self._targets.troubles.keys()

    def _is_due(self, one: Target) -> bool:
        """The hub is asked only after it did not take a copy: that it answers is known otherwise."""
        if one.storage is None and one.is_attached:
            return False
        pause_s = SLOW_LOOK_S if one.storage is not None and one.storage.type == "restic" else LOOK_S
        elapsed_s = asyncio.get_running_loop().time() - one.looked_s
        return elapsed_s >= pause_s or (not one.is_attached and elapsed_s >= LOOK_S * 2)

    async def _look(self, one: Target) -> None:
        before = one.seen
        one.saw(await one.inner.look())
        with suppress(HoldfastError):  # the look tells
            if await self._targets.adopted(one):
                one.saw(await one.inner.look())
        found = one.seen
        is_new = found.state != before.state or not one.since_s
        one.looked(asyncio.get_running_loop().time(), float(int(self._time.now_s())) if is_new else 0.0)
        if not is_new:
            return
        if one.is_attached:
            self._targets.uneven.set()
        if one.may_delete:
            self._targets.grown.update(self._declared.found)  # a revision may keep fewer there than it has
        if one.storage is None:
            return
        words = "" if found.state == "attached" else f"{found.state}: {found.reason}"
        self._notes.target(one.name, words, "connect it, or mount it again; docs/reference/backup-targets.md")
        self._changed()

    # ---- copies

    async def _keep_level(self) -> None:
        while True:
            self._targets.uneven.clear()
            if not self._targets.others:
                await self._targets.uneven.wait()
                continue
            is_level = await self._level()
            with suppress(TimeoutError):
                async with asyncio.timeout(LEVEL_S if is_level else AGAIN_S):
                    await self._targets.uneven.wait()

    async def _level(self) -> bool:
        troubles = False
        for service in sorted(self._declared.found):
            try:
                if await self._copying.level(service, self._declared.policy):
                    self._targets.grown.add(service)
                self._notes.not_copied(service, None)
            except HoldfastError as trouble:
                troubles = True
                self._notes.not_copied(service, trouble)
            self._changed()
        return not troubles
