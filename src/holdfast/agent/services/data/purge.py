"""Purge the data of a service, its checkpoints and its passports by a signed order: set aside for seven days, or
destroyed if the order says `now`. Another order brings back what was set aside.

Interrupted anywhere and begun again, it does not touch data that was made meanwhile.
"""

import asyncio
from collections.abc import Mapping

import msgspec

from holdfast.agent.keeper import Act, OrderRun
from holdfast.agent.orders.order_steps import OrderSteps
from holdfast.agent.services.data.asides import Aside, Asides
from holdfast.agent.services.data.passports import Passports
from holdfast.agent.services.data.proofs import granted
from holdfast.agent.services.data.retired import Retired
from holdfast.agent.services.data.users import DataUsers
from holdfast.errors import Conflict
from holdfast.gate import copies
from holdfast.ports.storage import Purgeable, Storage

MEASURED = "measured"
CONDEMNED = "condemned"
DESTROYED = "destroyed"
BACK = "back"

_aside = msgspec.json.Decoder(Aside).decode


class Purge:
    def __init__(
        self,
        *,
        storage: Storage,
        passports: Passports,
        retired: Retired,
        asides: Asides,
        users: DataUsers,
        steps: OrderSteps,
        node: str,
    ) -> None:
        self._storage = storage
        self._passports = passports
        self._retired = retired
        self._asides = asides
        self._users = users
        self._steps = steps
        self._node = node
        self.acts: Mapping[str, Act] = {
            "purge": Act(
                self._purge, "resume", "half purged data is of no use; the condemned part is known by the order's id"
            ),
            "restore-retired": Act(self._bring_back, "resume", "what is not back yet is known by the purge's id"),
        }

    async def _purge(self, run: OrderRun) -> str:
        order = run.proof
        assert order is not None, "the gate permits no purge without an order"
        name = order.order.target.removeprefix("data.")
        if not run.did(CONDEMNED):
            self._refuse_applied(name, "purged", f"`holdfast undeploy {name}`, then purge again")
            self._refuse_in_transit(name)
            await self._users.refuse(name, "purged")
        is_needed = not run.did(CONDEMNED) and self._is_needed(name)
        allowed = granted(copies.may_set_aside(name, self._node, order, is_needed=is_needed))
        aside = self._condemned(run, allowed)
        if order.arguments.get("now") != "yes":
            self._asides.keep(aside, run.operation.id)
            await self._retired.look_again()
            return f"data.{name} is set aside for 7 days: {_much(aside)}"
        earlier_bytes = await self._asides.destroy(name, order)
        self._asides.unmark(aside)
        self._steps.did(run, DESTROYED)
        await self._retired.look_again()
        more = f"; {earlier_bytes} bytes of earlier purges" if earlier_bytes else ""
        return f"data.{name} is gone: {_much(aside)}{more}"

    def _condemned(self, run: OrderRun, proof: Purgeable) -> Aside:
        """Measured before it is moved. An older release did not measure, and may have left the rest to this one."""
        note = run.note(MEASURED)
        aside = _aside(note.encode()) if note is not None else self._measured(proof)
        if note is None:
            self._steps.did(run, MEASURED, msgspec.json.encode(aside).decode())
        if not run.did(CONDEMNED):
            self._storage.condemn(proof)
            self._passports.forget(proof.service)
            self._steps.did(run, CONDEMNED)
        return aside

    def _measured(self, proof: Purgeable) -> Aside:
        name = proof.service
        found = self._storage.directory(name)
        kept = [one for one in self._storage.checkpoints() if one.service == name]
        return Aside(
            name,
            proof.order,
            self._storage.aside(name, proof.order),
            found.size_bytes if found is not None else 0,
            found.files if found is not None else 0,
            self._retired.removed_in(name),
            tuple(one.path for one in kept),
            sum(one.size_bytes for one in kept),
        )

    async def _bring_back(self, run: OrderRun) -> str:
        order = run.proof
        assert order is not None, "the gate attaches no data without an order"
        name = order.order.target.removeprefix("data.")
        purge = order.arguments.get("purge", "")
        done = run.note(BACK)
        if done is None:
            note = run.note(MEASURED)
            aside = _aside(note.encode()) if note is not None else self._asides.of(name, purge)
            if note is None or purge in self._storage.set_aside_by(name):  # else an agent died right after it
                self._refuse_applied(name, "brought back", f"`holdfast undeploy {name}`, then restore again")
                await self._users.refuse(name, "brought back")
                proof = granted(copies.may_bring_back(name, purge, self._node, order))
                if note is None:
                    self._steps.did(run, MEASURED, msgspec.json.encode(aside).decode())
                await asyncio.get_running_loop().run_in_executor(None, self._storage.bring_back, proof)
            self._passports.forget(name)  # the signed copies that came back count
            done = f"data.{name} is back: {_much(aside)}; `holdfast deploy {name}` uses it again"
            self._steps.did(run, BACK, done)
        self._asides.forget(name, purge)
        await self._retired.look_again()
        return done

    def _refuse_applied(self, name: str, done: str, remedy: str) -> None:
        if self._retired.is_applied(name):
            raise Conflict(
                f"data.{name} is not {done}: service.{name} is applied on this node and uses it",
                remedy=remedy,
                code="in_use",
            )

    def _refuse_in_transit(self, name: str) -> None:
        if self._retired.is_in_transit(name):
            raise Conflict(
                f"data.{name} is not purged: it was handed over, and the other node does not have all of it yet",
                remedy=f"`holdfast ps {name}` shows where it starts; then purge again",
                code="in_transit",
            )

    def _is_needed(self, name: str) -> bool:
        """Asked after the last wait, as a revision may have come meanwhile."""
        return self._retired.is_applied(name) or self._retired.is_in_transit(name)


def _much(aside: Aside) -> str:
    count = len(aside.copies)
    also = f", and {count} checkpoint{'s' * (count != 1)} ({aside.copies_bytes} bytes)" if count else ""
    return f"{aside.size_bytes} bytes in {aside.files} file{'s' * (aside.files != 1)}{also}"
