"""Which revisions came true, and where a rollback without a number goes (contract.md)."""

import asyncio
import json
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from holdfast.hub.watchers.convergence import PROVEN_S
from holdfast.ledger import keys
from holdfast.model.deployment import ServiceState
from holdfast.model.report import ContainerState
from holdfast.model.revision import Head
from holdfast.ports.ledger_store import Transaction
from tests.fleets.build import small_fleet
from tests.fleets.commands import Scene, changed, scene


def heads(one: Scene) -> list[Head]:
    return [Head(record.number, record.digest) for record in one.rig.hub.records(0, 100)]


def converged(one: Scene) -> set[int]:
    return set(one.rig.desk.converged(heads(one)))


def deploys(one: Scene, phase: Any, code: int = 0, **versions: int) -> None:
    """The whole directory, and what then becomes of web."""
    one.operator.fleet = changed(one.operator.fleet, **versions)
    more: dict[str, Any] = {"serving": "before", "serving_revision": 1, "step": "healthy main 0"}
    more = {} if phase == "converged" else more
    one.then(lambda: one.says(one.state(phase, **more)))
    one.operator.does("apply", code=code)


def test_a_revision_converged_once_every_service_of_it_was_reported_so(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        assert converged(one) == set()
        one.says(one.state("settling"))
        assert converged(one) == set()
        one.says(one.state("converged"))
        assert converged(one) == {1}
        deploys(one, "failed", code=1, web=2)
        assert converged(one) == {1}
        deploys(one, "converged", web=3)
        assert converged(one) == {1, 3}

    scene(tmp_path, story)


def test_the_note_survives_the_hub_and_is_bound_to_its_revision(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        one.says(one.state("converged"))
        again = one.rig.restarted()
        known = heads(one)
        assert again.desk.converged(known) == (1,)
        assert again.desk.converged([replace(known[0], digest="0" * 64)]) == ()
        stored = [record.key for record in one.rig.store.scan(keys.CONVERGED)]
        assert stored == [keys.converged(1)]

    scene(tmp_path, story)


def test_what_a_silent_node_reported_before_still_counts(tmp_path: Path) -> None:
    """web of w1 did not change: a revision that only brings something new needs no new word of it."""

    async def story(one: Scene) -> None:
        one.says(one.state("converged"))
        again = one.rig.restarted()
        again.store.submit(Transaction(expect={}, put={}, delete=(keys.report("w1"),)))  # its word is not here any more
        again = again.restarted()
        again.commit(replace(one.operator.fleet, settings=replace(one.operator.fleet.settings, parallel=2)))
        again.watched.follow()
        known = [Head(record.number, record.digest) for record in again.hub.records(0, 100)]
        assert set(again.desk.converged(known)) == {1, 2}

    scene(tmp_path, story)


def test_only_the_node_a_service_is_placed_on_speaks_for_it(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        await one.w2.join()
        one.says(one.state("converged"), by=one.w2)
        assert converged(one) == set()
        one.says(ServiceState("web", "converged", "another deployment"))
        assert converged(one) == set()
        one.says(one.state("held"))
        assert converged(one) == set(), "stopped by an order is not converged"

    scene(tmp_path, story)


def test_an_observing_node_is_nothing_to_wait_for(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        one.says(mode="observe")
        assert converged(one) == {1}

    scene(tmp_path, story)


def test_rollback_after_a_failed_deploy_goes_to_what_still_serves(tmp_path: Path) -> None:
    """1 converged, 2 converged, 3 and 4 failed: back to 2, which is what serves."""

    async def story(one: Scene) -> None:
        one.says(one.state("converged"))
        deploys(one, "converged", web=2)
        good = one.deployment()
        deploys(one, "failed", code=1, web=3)
        deploys(one, "failed", code=1, web=4)
        one.then(lambda: one.says(one.state("converged")))
        document = json.loads(one.operator.does("rollback", "--json"))
        assert document["success"] and one.deployment() == good and one.rig.head.number == 5

    scene(tmp_path, story)


def test_rollback_names_the_revision_it_takes(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        one.says(one.state("converged"))
        deploys(one, "failed", code=1, web=2)
        one.then(lambda: one.says(one.state("converged")))
        one.operator.does("rollback")
        assert "content of revision 1" in one.operator.err.getvalue()

    scene(tmp_path, story)


def test_where_nothing_is_known_to_have_converged_the_operator_chooses(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        deploys(one, "failed", code=1, web=2)
        one.operator.does("rollback", "--json", code=5)
        trouble = one.operator.complaint
        assert trouble["code"] == "nothing_converged" and "holdfast rollback N" in trouble["remedy"]
        one.then(lambda: one.says(one.state("converged")))
        one.operator.does("rollback", "1")

    scene(tmp_path, story)


def test_an_empty_fleet_converged_by_itself(tmp_path: Path) -> None:
    """So that the first deploy that fails can be taken back; it removes a service, which wants to be allowed."""

    async def story(one: Scene) -> None:
        one.rig.watched.follow()
        one.operator.fleet = changed(one.operator.fleet, web=1)
        one.then(lambda: one.says(one.state("failed")))
        one.operator.does("deploy", "web", code=1)
        one.then(lambda: one.says())
        one.operator.does("rollback", "--allow-removals", "1")
        applied = one.rig.hub.applied()
        assert applied is not None and "service.web" not in applied.table.entries

    scene(tmp_path, story, small_fleet((), ("w1", "w2")))


LOOPING = ContainerState("web", "main", "unhealthy", state="restarting", restarts=2, last_exit="7")


def test_a_service_whose_containers_keep_ending_has_not_converged_t3(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        one.says(one.state("converged"), containers=(LOOPING,))
        assert converged(one) == set()
        one.says(one.state("converged"), containers=(replace(LOOPING, status="running", state=""),))
        assert converged(one) == {1}

    scene(tmp_path, story)


def test_a_service_that_loops_soon_after_it_converged_takes_its_revisions_back_t3(tmp_path: Path) -> None:
    """Revision 2 brings the loop, 3 changes something else; both had converged when it began to loop."""

    async def story(one: Scene) -> None:
        one.says(one.state("converged"))
        deploys(one, "converged", web=2)
        fleet = one.operator.fleet
        one.operator.fleet = replace(fleet, settings=replace(fleet.settings, parallel=2))
        one.operator.does("apply", "--detach")
        one.says(one.state("converged"))
        assert converged(one) == {1, 2, 3}
        one.says(one.state("converged"), containers=(LOOPING,))
        assert converged(one) == {1}
        assert set(one.rig.restarted().desk.converged(heads(one))) == {1}, "also for the next process"
        one.operator.does("undeploy", "web", "--detach")
        one.operator.does("rollback", "--detach")
        assert "content of revision 1" in one.operator.err.getvalue()

    scene(tmp_path, story)


def test_a_service_that_recovers_converged_after_all_t3(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        one.says(one.state("converged"))
        one.says(one.state("converged"), containers=(LOOPING,))
        assert converged(one) == set()
        one.says(one.state("converged"))
        assert converged(one) == {1}

    scene(tmp_path, story)


def test_a_service_that_worked_for_long_before_it_loops_keeps_its_revision_t3(tmp_path: Path) -> None:
    """Else a rollback after a failed deploy of another service would pass over the revision that serves."""

    async def story(one: Scene) -> None:
        one.says(one.state("converged"))
        await asyncio.sleep(PROVEN_S)
        one.says(one.state("converged"), containers=(LOOPING,))
        assert converged(one) == {1}

    scene(tmp_path, story)
