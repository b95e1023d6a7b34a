"""The door to the container runtime: which permission each verb hands over, and what is said without one."""

import asyncio
from typing import Any

import pytest

from holdfast.adapters.journal.memory import MemoryJournal
from holdfast.agent.services.door import REPLACE, Door, Ground
from holdfast.errors import Failed, NotPermitted
from holdfast.gate.acts import Act
from holdfast.gate.authority import Authority
from holdfast.gate.containers import MADE, RUN
from holdfast.model.container import LABEL_SERVICE, Container, ContainerSpec
from holdfast.model.proven_address import ProvenAddress
from holdfast.ports.allowed import Allowed
from holdfast.ports.runtime import CreateContainer

WEB = Container("id-1", "ours", "running", True, {LABEL_SERVICE: "web"})
RUNS = Container("id-2", "a-run", "running", True)
FOREIGN = Container("id-3", "stranger", "running", True, {LABEL_SERVICE: "web"})
NEW = CreateContainer("new", ContainerSpec("f" * 64, "web", "main", 1, "reg.test/web", ""), {})


class Runtime:
    """Notes the permission of each call."""

    def __init__(self) -> None:
        self.given: list[tuple[str, Allowed]] = []

    def __getattr__(self, verb: str) -> Any:
        async def call(*given: Any) -> None:
            self.given.append((verb, given[-1]))

        return call


class UnreadableJournal(MemoryJournal):
    def made_by(self, path: str) -> str | None:
        raise Failed("the journal cannot be read", remedy="df")


def door(journal: MemoryJournal | None = None) -> tuple[Door, Runtime, list[str]]:
    """The last one lists the addresses that the accepted revision was asked about."""
    kept, runtime, asked = journal or MemoryJournal(), Runtime(), list[str]()
    kept.note_made(MADE + "ours", "o1", False)
    kept.note_made(RUN + "a-run", "o2", False)

    def vouch(address: str) -> ProvenAddress:
        asked.append(address)
        return ProvenAddress(7, address)

    return Door(runtime, kept, vouch, "w1"), runtime, asked


def test_each_verb_has_the_permission_for_its_act_and_its_thing() -> None:
    async def story() -> None:
        one, runtime, asked = door()
        await one.create(NEW)
        await one.run(NEW, 5.0)
        await one.remove_network("net", "web")
        await one.start(WEB)
        await one.stop(WEB)
        await one.remove(WEB)
        await one.remove(WEB, REPLACE)
        assert [(verb, allowed.act, allowed.thing) for verb, allowed in runtime.given] == [
            ("create", "CREATE", "new"),
            ("run", "EXEC", "new"),
            ("remove_network", "CLEAN_UP", "net"),
            ("start", "START", "id-1"),
            ("stop", "STOP", "id-1"),
            ("remove", "RETIRE", "id-1"),
            ("remove", "REPLACE", "id-1"),
        ]
        assert one.probes(WEB) == Allowed("EXEC", "id-1")
        assert set(asked) == {"service.web"}

    asyncio.run(story())


def test_the_label_of_a_container_names_its_service_and_only_a_run_without_one_is_told() -> None:
    one, _, asked = door()
    one.touch(WEB, Ground(Act.STOP), "db")
    one.touch(RUNS, Ground(Act.STOP), "db")
    assert asked == ["service.web", "service.db"]


def test_a_container_that_this_agent_did_not_make_is_touched_by_an_approval_of_the_node_alone() -> None:
    one, _, asked = door()
    with pytest.raises(NotPermitted) as refused:
        one.touch(FOREIGN, Ground(Act.STOP))
    assert refused.value.code == "signature_required" and refused.value.remedy.startswith("holdfast plan -o")
    assert "may not take away a container (node.w1)" in refused.value.message
    asked.clear()
    approval = Authority("destroy", None, 7, "node.w1")
    assert one.touch(FOREIGN, Ground(Act.RETIRE, approval)) == Allowed("RETIRE", "id-3") and asked == []


def test_while_the_journal_cannot_be_read_no_container_counts_as_made_here() -> None:
    one, _, _ = door(UnreadableJournal())
    with pytest.raises(NotPermitted, match="did not make it"):
        one.touch(WEB, Ground(Act.STOP))
