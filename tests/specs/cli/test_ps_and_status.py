"""`ps`, `status` and `retired` say what nodes signed: every container, applied against serving, nothing twice."""

from pathlib import Path
from typing import Any

from msgspec.structs import replace

from holdfast.cli import main
from holdfast.cli.nodes import fleet_view
from holdfast.cli.services import ps
from holdfast.cli.services.copies import stale
from holdfast.model.deployment import StepResult
from holdfast.model.fleet import Component, Service
from holdfast.model.hub_status import StatusFinding
from holdfast.model.move import Move
from holdfast.model.node_view import NodeView
from holdfast.model.report import ContainerState, NamesState, NodeFinding, RetiredData
from holdfast.status.nodes import merged
from holdfast.trust.reports import verify
from tests.fleets.build import digest_pinned, small_fleet
from tests.fleets.commands import Scene, changed, scene
from tests.fleets.tools import HUB

START_S = 1_700_000_000.0
KEYS = {"name", "component", "node", "status", "image", "epoch"}
MORE = {"id", "pid", "ports", "replica", "deployment", "started", "held", "orphan", "verified", "age_s"}


def main_of(**more: Any) -> ContainerState:
    whole: dict[str, Any] = {"id": "c1", "image": "registry.example.com/web:2", "deployment": "d" * 16, "pid": 77}
    return ContainerState("web", "main", more.pop("status", "running"), **(whole | more))


# ---- ps


def test_ps_has_a_row_for_every_container(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        one.says(
            one.state("converged"),
            containers=(
                main_of(replica=1, id="c2", status="unhealthy"),
                main_of(ports=("100.64.0.1:20003→8080",), started_s=START_S - 600),
            ),
        )
        first, second = one.operator.shows("ps")["services"]
        assert set(first) >= KEYS | MORE
        assert (first["id"], first["pid"], first["ports"], first["replica"]) == ("c1", 77, ["100.64.0.1:20003→8080"], 0)
        assert first["deployment"] == "d" * 16 and first["started"] == "2023-11-14T22:03:20Z"
        assert (second["id"], second["status"], second["replica"], second["started"]) == ("c2", "unhealthy", 1, None)
        text = one.operator.does("ps")
        assert "web:2" in text and "100.64.0.1:20003→8080" in text and "10 min" in text and "web/main 1" in text
        assert text.splitlines()[0].split() == " ".join(ps.HEADS).split()

    scene(tmp_path, story)


def test_ps_tells_restarts_and_the_last_exit_n20(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        looping = main_of(id="c1", status="unhealthy", state="restarting", restarts=8, last_exit="137 oom")
        one.says(one.state("converged"), containers=(looping, main_of(replica=1, id="c2", state="starting")))
        first, second = one.operator.shows("ps")["services"]
        assert (first["status"], first["state"], first["restarts"], first["last_exit"]) == (
            "unhealthy", "restarting", 8, "137 oom"
        )  # fmt: skip
        assert second["state"] == "starting"
        text = one.operator.does("ps").splitlines()
        assert "restarting" in text[1] and " 8 " in text[1] and "137 oom" in text[1]
        assert "main is restarting (8 restarts, last exit 137 oom) on w1" in one.operator.does("status")

    scene(tmp_path, story)


def test_a_service_that_no_hub_confirmed_since_a_boot_is_marked(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        found = NodeFinding("unconfirmed", "no hub confirmed it", "holdfast node show w1", START_S, "service.web")
        one.says(one.state("converged"), containers=(main_of(),), findings=(found,))
        (row,) = one.operator.shows("ps")["services"]
        assert (row["status"], row["unconfirmed"]) == ("running", True)
        assert "web/main (unconfirmed)" in one.operator.does("ps")
        assert "no hub confirmed it" in one.operator.does("status")
        assert "no hub confirmed it" not in one.operator.does("status", "--check", code=1), "it runs"
        one.says(one.state("converged"), containers=(main_of(),))
        assert one.operator.shows("ps")["services"][0]["unconfirmed"] is False

    scene(tmp_path, story)


def test_a_stopped_service_is_held_and_not_only_stopped_n17(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        one.says(one.state("held"), containers=(main_of(status="stopped", pid=0),))
        (row,) = one.operator.shows("ps")["services"]
        assert (row["status"], row["state"]) == ("stopped", "held")

    scene(tmp_path, story)


def test_an_image_is_called_what_it_was_called_when_it_was_applied(tmp_path: Path) -> None:
    """Also the one before, which still serves."""

    async def story(one: Scene) -> None:
        applied = one.rig.hub.applied()
        assert applied is not None
        entry = replace(applied.table.entries["service.web"], images={"example.com/web:2": "sha256:" + "b" * 64})
        newer, older = (f"example.com/web@sha256:{letter * 64}" for letter in "ba")
        one.says(
            one.state("failed", serving="old", images=("example.com/web:1", "example.com/db:7")),
            containers=(main_of(image=newer), main_of(id="c2", image=older, deployment="old")),
        )
        table = replace(applied.table, entries=applied.table.entries | {"service.web": entry})
        view = fleet_view.FleetView(
            "",
            one.rig.hub,
            replace(applied, table=table),
            verify(one.rig.desk.nodes(), applied, START_S).nodes,
            True,
            None,
        )
        rows = {row["id"]: row for row in ps.services(view)}
        assert (rows["c1"]["image"], rows["c1"]["digest"]) == ("example.com/web:2", "sha256:" + "b" * 64)
        assert (rows["c2"]["image"], rows["c2"]["digest"]) == ("example.com/web:1", "sha256:" + "a" * 64)

    scene(tmp_path, story)


def test_ps_marks_what_is_held_and_what_is_an_orphan(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        ghost = ContainerState("ghost", "app", "running", id="g1", orphan=True)
        left = ContainerState("web", "worker", "running", id="l1", orphan=True)  # a component web has no more
        both = (left, replace(left, id="l2", replica=1))
        one.says(one.state("held"), containers=(main_of(status="stopped"), ghost, *both))
        rows = {row["id"]: row for row in one.operator.shows("ps")["services"]}
        assert (rows["c1"]["held"], rows["c1"]["orphan"], rows["c1"]["status"]) == (True, False, "stopped")
        assert (
            rows["g1"]["orphan"]
            and not rows["g1"]["held"]
            and rows["l1"]["orphan"]
            and rows["l2"]["orphan"]
            and len(rows) == 4
        )
        text = one.operator.does("ps")
        assert "ghost/app (orphan)" in text
        assert next(line for line in text.splitlines() if "web/main" in line).split()[1] == "held"

    scene(tmp_path, story)


def test_no_container_is_stopped_if_the_node_has_a_runtime_and_unknown_if_it_makes_no_claim(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        one.says(runtime="")
        (row,) = one.operator.shows("ps")["services"]
        assert (row["status"], row["verified"], row["age_s"]) == ("unknown", False, None)
        one.says(runtime="podman 4.3.1")
        (row,) = one.operator.shows("ps")["services"]
        assert (row["status"], row["verified"], row["id"]) == ("stopped", True, "")

    scene(tmp_path, story)


def test_every_component_has_a_row(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        one.says(one.state("converged"), containers=(main_of(),))
        rows = [(row["component"], row["status"]) for row in one.operator.shows("ps")["services"]]
        assert rows == [("main", "running"), ("db", "stopped")]

    parts = tuple(Component(name, digest_pinned(f"{name}:1")) for name in ("main", "db"))
    scene(tmp_path, story, small_fleet({"web": Service(parts)}, ("w1", "w2")))


def test_ps_shows_only_the_services_it_is_asked_for(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        ghost = ContainerState("ghost", "app", "running", id="g1", orphan=True)
        one.says(one.state("converged"), containers=(main_of(), ghost))
        for asked, names in (((), ["api", "web", "ghost"]), (("web", "service.ghost"), ["web", "ghost"])):
            assert [row["name"] for row in one.operator.shows("ps", *asked)["services"]] == names
        text = one.operator.does("ps", "api")
        assert "api" in text and "web" not in text
        one.operator.does("ps", "web", "wep", "--json", code=2)
        assert "'wep'" in one.operator.complaint["message"] and "did you mean web?" in one.operator.complaint["remedy"]

    services = {n: Service((Component("main", digest_pinned(f"{n}:1")),), node="w1") for n in ("api", "web")}
    scene(tmp_path, story, small_fleet(services, ("w1", "w2")))


def test_a_fleet_directory_that_is_not_there_is_told_although_a_hub_is_named(tmp_path: Path) -> None:
    """It holds the lock and whom to trust: a slip in its name must not become another fleet's view."""

    async def story(one: Scene) -> None:
        one.operator.environ = {**one.operator.environ, "HOLDFAST_HUB": HUB}
        for words in (("ps",), ("restart", "web"), ("order", "list")):
            one.operator.err.seek(0)
            one.operator.err.truncate()
            assert main.run([*words, "--fleet", "/nonexist", "--json"], one.operator) == 2
            assert "/nonexist" in one.operator.complaint["message"]

    scene(tmp_path, story)


def test_a_hub_cannot_make_ps_say_running(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        one.says(one.state("settling"), containers=(main_of(status="stopped"),))

        def lie(view: NodeView) -> NodeView:
            return replace(view, report=view.report.replace(b'"stopped"', b'"running"'))

        one.operator.held.lie = lie
        (row,) = one.operator.shows("ps")["services"]
        assert (row["status"], row["verified"]) == ("unknown", False)

    scene(tmp_path, story)


# ---- status


def found(one: Scene, code: str) -> list[dict[str, Any]]:
    return [finding for finding in one.operator.shows("status")["findings"] if finding["code"] == code]


def test_status_says_applied_x_serving_y_and_why(tmp_path: Path) -> None:
    """Komodo #464: what is applied and what serves are two things, and both are said."""

    async def story(one: Scene) -> None:
        one.rig.commit(changed(one.operator.fleet, web=2))
        one.rig.watched.follow()
        step = StepResult("healthy main 0", "failed", START_S - 20, 8.0, "not healthy after 8 s")
        one.says(
            one.state(
                "failed",
                serving="before",
                serving_revision=1,
                images=("registry.example.com/web:1@sha256:" + "a" * 64,),
                step="healthy main 0",
                message="not healthy after 8 s",
                steps=(step,),
            )
        )
        (finding,) = found(one, "rollout_failed")
        assert finding["address"] == "service.web" and finding["age_s"] == 12.0
        assert "holdfast logs web" in finding["remedy"] and "holdfast rollback" in finding["remedy"]
        for words in (
            "applied web@",
            "(revision 2) on w1",
            "serving web:1 (revision 1)",
            "step 'healthy main 0' failed",
        ):
            assert words in finding["message"], words
        text = one.operator.does("status")
        assert text.count("rollout_failed") == 1 and "service.web: applied" in text and "(for 12 s)" in text

    scene(tmp_path, story)


def test_what_settles_is_held_or_unwell_is_said_and_what_is_fine_is_not(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        def codes() -> set[str]:
            of_web = [f for f in one.operator.shows("status")["findings"] if f["address"] == "service.web"]
            assert all(finding["remedy"] for finding in of_web)
            return {finding["code"] for finding in of_web}

        one.says(one.state("converged"), containers=(main_of(),))
        assert codes() == set()
        one.says(one.state("settling", step="pull"), containers=(main_of(status="unhealthy"),))
        assert codes() == {"rollout_settling"}
        one.operator.held.lie = lambda view: replace(view, status="unhealthy")
        (silent,) = [each for each in one.operator.shows("status")["findings"] if each["code"] == "rollout_settling"]
        assert silent["message"].endswith(", as w1 reported before it became silent"), "N58"
        assert silent["remedy"].startswith("holdfast node show w1"), "N58: its logs cannot be read"
        one.operator.held.lie = lambda view: view
        away = NodeFinding("runtime_unavailable", "podman does not answer", "podman info", START_S)
        one.says(one.state("settling"), containers=(main_of(status="unknown"),), findings=(away,))
        assert codes() == {"service_unknown"}, "no rollout is under way (T9)"
        one.says(one.state("held"), containers=(main_of(status="stopped"),))
        assert codes() == {"service_held"}
        one.says(one.state("converged"), containers=(main_of(status="unhealthy"),))
        assert codes() == {"service_unhealthy"}
        hook = StepResult("post_deploy main", "failed", START_S, 1.0, "exit 3")
        one.says(one.state("converged", steps=(hook,)), containers=(main_of(),))
        assert codes() == {"step_failed"}

    scene(tmp_path, story)


def test_what_a_hub_says_of_services_is_not_believed(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        one.says(one.state("failed", message="real"))

        def lie(view: NodeView) -> NodeView:
            return replace(view, report=view.report.replace(b'"failed"', b'"converged"'))

        one.operator.held.lie = lie
        assert found(one, "rollout_failed") == [], "unproven: neither the one nor the other"
        one.operator.held.lie = lambda view: view
        assert "real" in found(one, "rollout_failed")[0]["message"]

    scene(tmp_path, story)


def test_no_finding_is_shown_twice() -> None:
    hub = StatusFinding("revision_behind", "warning", "says the hub", "restart the hub")
    own = StatusFinding("revision_behind", "fatal", "noticed here", "restart the hub")
    orphans = [StatusFinding("orphan", "warning", f"x runs on {node}", "r", "service.x") for node in ("w1", "w2")]
    shown = merged((hub, *orphans, orphans[0]), [own])
    assert shown == [*orphans, own]


def test_copies_are_what_runs_stands_still_or_is_left_as_data(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        one.says(
            one.state("converged"),
            containers=(main_of(epoch=3), ContainerState("old", "app", "stopped", epoch=2)),
            retired=(RetiredData("blog", "/srv/blog", 4096, 3, 1),),
        )
        document = one.operator.shows("status")
        assert document["copies"] == [
            {"service": "blog", "node": "w1", "epoch": 0, "state": "retired"},
            {"service": "old", "node": "w1", "epoch": 2, "state": "stopped"},
            {"service": "web", "node": "w1", "epoch": 3, "state": "running"},
        ]

    scene(tmp_path, story)


def test_stale_copies_are_named_with_the_node_that_has_the_service_instead(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        manifest, backup = "b" * 64, "c" * 64
        moved = RetiredData(
            "web", "/srv/web", 4096, 3, 1, epoch=2, state="superseded", target="w2", digest=manifest, left_s=START_S
        )
        one.says(one.state("converged"), retired=(moved,))
        (copy,) = [found for found in one.operator.shows("status")["copies"] if found["state"] == "superseded"]
        assert copy == {
            "service": "web", "node": "w1", "epoch": 2, "state": "superseded", "target": "w2", "digest": manifest,
            "left_s": START_S,
        }  # fmt: skip
        shown = "Copies of services that run elsewhere: web on w1 (superseded, epoch 2; runs on w1); holdfast retired"
        assert shown in one.operator.does("status"), "where it is applied, and not where it went from here"
        (row,) = one.operator.shows("retired")["retired"]
        assert (row["state"], row["epoch"], row["target"], row["digest"]) == ("superseded", 2, "w2", manifest)
        assert row["left"] == "2023-11-14T22:13:20Z" and "holdfast purge web -n w1" in row["purge"]
        text = one.operator.does("retired")
        assert "restore: holdfast retired restore web -n w1" in text, "N106: only the way to delete it was shown"
        assert "purge: holdfast purge web -n w1" in text
        assert f"superseded 2023-11-14T22:13:20Z: handed over to w2 (manifest {manifest[:16]}, epoch 2)" in text
        one.says(one.state("converged"), retired=(replace(moved, state="fenced", target="", digest=""),))
        applied = one.rig.hub.applied()
        assert applied is not None
        entry = replace(applied.table.entries["service.web"], node="w2", epoch=3, move=Move("w1", backup))
        nodes = verify(one.rig.desk.nodes(), applied, one.rig.clock.now_s()).nodes
        table = replace(applied.table, entries={**applied.table.entries, "service.web": entry})
        assert not stale(nodes, replace(applied, table=replace(table, entries={}))), "N105: nothing runs elsewhere"
        (fenced,) = stale(nodes, replace(applied, table=table))
        assert (fenced.state, fenced.epoch, fenced.target, fenced.digest) == ("fenced", 2, "w2", backup)

    scene(tmp_path, story)


# ---- retired


def test_retired_data_is_listed_with_its_purge(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        one.rig.commit(changed(one.operator.fleet, web=0))
        one.rig.watched.follow()
        one.says(retired=(RetiredData("web", "/srv/web", 3 * 1024 * 1024, 12),))
        document = one.operator.shows("retired")
        (row,) = document["retired"]
        assert (row["name"], row["node"], row["path"], row["size_bytes"], row["files"]) == (
            "web",
            "w1",
            "/srv/web",
            3 * 1024 * 1024,
            12,
        )
        assert row["removed_in"] == 2, "the tombstone knows, where the node does not"
        assert row["purge"].startswith("holdfast purge web -n w1")
        text = one.operator.does("retired")
        assert "3.0 MiB, 12 files" in text and "removed in revision 2" in text and "holdfast purge web" in text

    scene(tmp_path, story)


def test_a_node_that_cannot_be_believed_is_named_instead_of_having_no_data(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        one.says(retired=(RetiredData("blog", "/srv/blog", 1, 1),))
        one.operator.held.lie = lambda view: replace(view, report=view.report.replace(b"/srv/blog", b"/srv/else"))
        document = one.operator.shows("retired")
        assert document == {"retired": [], "unknown": ["w1"]}
        one.operator.does("retired")
        assert "Unknown for w1" in one.operator.err.getvalue()

    scene(tmp_path, story)


def test_numbers_agree_with_their_nouns_and_reasons_are_sentences_n42(tmp_path: Path) -> None:
    async def story(one: Scene) -> None:
        one.says(one.state("converged"), names=NamesState("0" * 64, 1, "dnsmasq 2"))
        assert ", 1 record\n" in one.operator.does("node", "show", "w1")
        said = one.operator.does("plan", "--explain", "service.web")
        assert one.operator.does("plan", "--explain", "web") == said, "N79: it was told that web is not declared"
        assert "\n  w2 was not chosen (runs 0 containers in this plan)\n" in said, said
        assert one.operator.does("checkpoint", "list") == "", "no table without a row"

    scene(tmp_path, story)
