"""Which targets are on the machine of the data: a copy there counts as none."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.adapters.backup_target.memory import MemoryTarget
from holdfast.adapters.journal.memory import MemoryJournal
from holdfast.agent.backups.targets.attached import Targets
from holdfast.agent.backups.targets.spread import Proving
from holdfast.model.proven_address import ProvenAddress
from tests.fleets.backup_targets import pack


def revision(*roles: str) -> Any:
    return SimpleNamespace(node=SimpleNamespace(roles=roles), manifest=SimpleNamespace(storage={}))


@pytest.fixture
def targets() -> Targets:
    def unused(*given: Any) -> Any:
        raise AssertionError(given)

    return Targets(
        hub=MemoryTarget(),
        open=unused,
        content=unused,
        secret=unused,
        facts=MemoryJournal(),
        vouch=lambda address: ProvenAddress(7, address),
        member=("f" * 64, "w1"),
    )


def test_the_hub_is_on_the_machine_of_the_data_where_the_revision_in_force_says_so(targets: Targets) -> None:
    assert not targets.is_same_machine(targets.primary), "nothing is known yet"
    for roles, is_same in ((("hub", "worker"), True), (("worker",), False), (("edge", "hub"), True)):
        targets.follow(revision(*roles))
        assert targets.is_same_machine(targets.primary) == is_same, roles


def test_a_drill_reads_from_the_machine_of_the_data_where_there_is_no_other_target(targets: Targets) -> None:
    targets.follow(revision("hub", "worker"))
    key = pack(b"content")
    asyncio.run(targets.primary.inner.put(key, b"content"))
    assert asyncio.run(Proving(targets).get(key)) == b"content"
