"""A stricter rule holds from a revision on: the past of a fleet stays valid, the same act today is refused.

A fleet of the release before: its key of grade apply added an alert target (X04) and made a node observe only (X22).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.adapters.disk.memory import MemoryDisk
from holdfast.adapters.high_water.memory import MemoryHighWater
from holdfast.adapters.ledger_store.memory import MemoryStore
from holdfast.agent.acceptance.rules_note import RULES_FACT
from holdfast.cli.fleet import saved_plan
from holdfast.cli.fleet.seen_heads import Heads, Memory
from holdfast.errors import Corrupt, Invalid, SignatureRequired
from holdfast.hub.ledger import commit as committing
from holdfast.hub.ledger import ledger_check, reading
from holdfast.hub.ledger.revisions import Revisions
from holdfast.ledger import keys
from holdfast.model import canonical
from holdfast.model.applied import Applied
from holdfast.model.fleet import AlertTarget, Fleet, Node
from holdfast.model.plan import covered
from holdfast.model.revision import Candidate, Head
from holdfast.model.rules import RulesSince
from holdfast.planning import diff, succession
from holdfast.planning.plan import plan
from holdfast.ports.ledger_store import Transaction
from holdfast.trust.approval import missing
from tests.fleets.agents import Lone, PaperHub, applied_after
from tests.fleets.build import ALICE, ALICE_SIGNER, commit, mailbox, next_candidate, operator_signer, small_fleet
from tests.fleets.virtual import VirtualLoop, run

DEV, DEV_SIGNER = operator_signer("dev", "apply")
FOUNDED = small_fleet(nodes=("w1",), operators=(ALICE, DEV))
CHAT = AlertTarget("chat", apprise="json://a.test/x")


def alerting(fleet: Fleet, *names: str) -> Fleet:
    return replace(fleet, alerts={name: replace(CHAT, name=name) for name in names})


def observing(fleet: Fleet, mode: str = "observe") -> Fleet:
    return replace(fleet, nodes={"w1": Node("w1", ("worker",), reconcile=mode)})  # type: ignore[arg-type]


OLD_ACTS = (alerting(FOUNDED, "chat"), observing(alerting(FOUNDED, "chat")))


@contextmanager
def release_before() -> Iterator[None]:
    """Plans and judges by the first rules."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(committing, "judge", partial(succession.judge, rules="first"))
        patched.setattr("holdfast.planning.step.changes", partial(diff.changes, rules="first"))
        yield


def old_ledger() -> tuple[MemoryStore, MemoryHighWater]:
    """Three revisions of the release before; the last two are signed with grade apply."""
    store, mark = MemoryStore(), MemoryHighWater()
    with release_before():
        hub = mailbox(store, high_water=mark)
        commit(hub, FOUNDED)
        for fleet in OLD_ACTS:
            commit(hub, fleet, DEV_SIGNER)
    note = store.get(keys.RULES)
    assert note is not None
    store.commit(Transaction(expect={}, put={}, delete=(keys.RULES,)))  # that release did not write it
    return store, mark


def of(hub: Revisions) -> Applied:
    found = hub.applied()
    assert found is not None
    return found


def test_the_ledger_of_the_release_before_is_sound_and_stays_so() -> None:
    store, mark = old_ledger()
    assert ledger_check.examine(store, mark).findings == ()
    hub = mailbox(store, high_water=mark)
    assert len(hub.records(3, 10)) == 3
    commit(hub, replace(OLD_ACTS[-1], services={}))
    assert reading.rules_since(store) == RulesSince(bounded=3)
    assert ledger_check.examine(store, mark).findings == ()


@pytest.mark.parametrize("act", [partial(alerting, OLD_ACTS[-1]), partial(observing, OLD_ACTS[-1], "converge")])
def test_the_same_act_today_is_refused_by_command_line_and_hub_x04_x22(act: Callable[..., Fleet]) -> None:
    store, mark = old_ledger()
    hub = mailbox(store, high_water=mark)
    wanted = act("chat", "more") if act.func is alerting else act()  # type: ignore[attr-defined]
    planned = plan(wanted, hub.applied())
    assert planned.grade == "destroy"
    assert missing(of(hub).trust, (DEV.key,), planned.grade, covered(planned.changes)) is not None
    with pytest.raises(SignatureRequired) as refused:
        commit(hub, wanted, DEV_SIGNER)
    assert refused.value.exit_code == 4 and of(hub).head.number == 3
    commit(hub, wanted)
    assert of(hub).head.number == 4


def test_a_hub_that_let_it_pass_later_is_found_out_by_its_own_check_and_by_every_command_line() -> None:
    store, mark = old_ledger()
    hub, disk = mailbox(store, high_water=mark), MemoryDisk()
    disk.make_directory("/fleet")
    heads = Heads(disk, "/fleet", "/state")
    heads.check(hub)  # a fresh clone: what is there was judged by the rules of its time
    commit(hub, replace(OLD_ACTS[-1], services={}))
    with release_before():
        commit(hub, alerting(replace(OLD_ACTS[-1], services={}), "more"), DEV_SIGNER)
    assert [f.code for f in ledger_check.examine(store, mark).findings] == ["signature_invalid"]
    with pytest.raises(Corrupt) as refused:
        heads.check(hub, adopt=True)
    assert refused.value.exit_code == 7 and "revision 5" in refused.value.message


def test_a_command_line_of_the_release_before_takes_its_memory_over() -> None:
    store, mark = old_ledger()
    hub, disk = mailbox(store, high_water=mark), MemoryDisk()
    disk.make_directory("/fleet")
    heads = Heads(disk, "/fleet", "/state")
    fleet = of(hub).fleet_id
    first = hub.links(1, 1)[0]
    seen = Head(1, canonical.digest(first.header_bytes))
    heads._remember(Memory(fleet, seen))
    assert heads.check(hub) is not None
    found = heads.memory(fleet)
    assert found is not None and found.rules == RulesSince(bounded=3)
    heads.expect(fleet, of(hub).head, Head(4, "0" * 64))
    again = heads.memory(fleet)
    assert again is not None and again.rules == found.rules, "no later commit moves it"


def test_a_saved_plan_of_the_release_before_is_judged_by_the_rules_of_today() -> None:
    store, mark = old_ledger()
    hub = mailbox(store, high_water=mark)
    with release_before():
        old = plan(alerting(OLD_ACTS[-1], "chat", "more"), hub.applied())
        assert old.grade == "apply"
        file = saved_plan.save(old, hub.applied())
    assert saved_plan.read(file).plan.grade == "destroy"


def test_a_saved_plan_that_lacks_what_the_rules_of_today_read_is_made_again() -> None:
    hub = mailbox()
    commit(hub, FOUNDED)
    file = saved_plan.save(plan(replace(FOUNDED, services={"other": FOUNDED.services["web"]}), hub.applied()), of(hub))
    saved = msgspec.json.decode(file, type=saved_plan.SavedPlan)
    fleet = of(hub).table.entries["fleet"].digest
    less = replace(saved, base_contents={fleet: saved.base_contents[fleet]})
    with pytest.raises(Invalid, match="lacks a content") as refused:
        saved_plan.read(msgspec.json.encode(less))
    assert "holdfast plan -o FILE" in refused.value.remedy


# ---- agents


def chain(*fleets: tuple[Fleet, object]) -> list[Candidate]:
    applied: Applied | None = None
    found = []
    with release_before():
        for fleet, signer in fleets:
            found.append(next_candidate(fleet, applied, signer))  # type: ignore[arg-type]
            applied = applied_after(found[-1], applied)
    return found


def mode_of(agent: object) -> str:
    own = agent.accepting.own()  # type: ignore[attr-defined]
    assert own is not None
    return str(own[0].reconcile)


def test_an_agent_that_catches_up_follows_what_was_signed_by_the_rules_of_its_time_and_parks_it_today_x22() -> None:
    founded, _, observe, back = chain(
        (FOUNDED, ALICE_SIGNER),
        (OLD_ACTS[0], DEV_SIGNER),
        (OLD_ACTS[1], DEV_SIGNER),
        (observing(OLD_ACTS[0], "converge"), DEV_SIGNER),
    )
    between = chain((FOUNDED, ALICE_SIGNER), (OLD_ACTS[0], DEV_SIGNER))[1]

    async def story(loop: VirtualLoop) -> None:
        hub = PaperHub(founded)
        lone = Lone(loop, hub)
        await lone.turned(1)
        lone.journal.drop_fact(RULES_FACT)  # it was upgraded at revision 1, while the fleet was at revision 3
        hub.candidates += [between, observe]
        agent = await lone.turned(2)
        assert mode_of(agent) == "observe" and agent.accepting.parked == ()
        noted = lone.journal.fact(RULES_FACT)
        assert msgspec.json.decode(noted, type=RulesSince) == RulesSince(bounded=3)
        hub.candidates.append(back)
        agent = await lone.turned(2)
        assert mode_of(agent) == "observe", "the same act today"
        assert [one.address for one in agent.accepting.parked] == ["node.w1"]

    run(story)


def test_an_agent_that_is_level_with_the_hub_judges_the_next_revision_by_the_newest_rules_x22() -> None:
    founded, alert, observe = chain((FOUNDED, ALICE_SIGNER), (OLD_ACTS[0], DEV_SIGNER), (OLD_ACTS[1], DEV_SIGNER))

    async def story(loop: VirtualLoop) -> None:
        hub = PaperHub(founded, alert)
        lone = Lone(loop, hub)
        await lone.turned(1)
        lone.journal.drop_fact(RULES_FACT)  # upgraded while nothing happened
        await lone.turned(1)
        hub.candidates.append(observe)
        agent = await lone.turned(2)
        assert mode_of(agent) == "converge"
        assert [one.address for one in agent.accepting.parked] == ["node.w1"]

    run(story)
