"""Applying verbs end when a public hostname is seen to be public: service, then names, then edge (M-78, M-83, M-85)."""

import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.cli.waiting import verdict
from holdfast.cli.waiting.outcome import Outcome
from holdfast.model.deployment import StepResult
from holdfast.model.fleet import Service
from holdfast.model.manifest import NodeManifest
from holdfast.model.report import CertificateState, ContainerState, EdgeState, NamesState
from holdfast.model.revision import Table, decode_header
from holdfast.planning.manifests import compile_manifests
from holdfast.planning.plan import plan
from holdfast.reconcile import dns_records
from holdfast.status import dns
from holdfast.status.edges.settled import EdgeObserved
from holdfast.trust.reports import verify
from tests.fleets.build import START_S
from tests.fleets.commands import Scene, scene
from tests.fleets.desks import Puppet
from tests.fleets.public import ADDRESSES, HOST, carries, joins_as_edge, public_fleet, public_service


class Public(Scene):
    """A scene with an edge."""

    e1: Puppet

    @property
    def served(self) -> NamesState:
        """What a DNS server says that has everything."""
        applied = self.rig.hub.applied()
        assert applied is not None
        wanted = dns.wanted(applied.table)
        return NamesState(dns_records.digest(wanted), len(wanted), "dnsmasq 2.90")

    def edge_state(self, phase: Any = "live", **more: Any) -> EdgeState:
        return carries(self.rig, phase, **more)

    def worker(self, *states: Any, dns: bool = True, **more: Any) -> None:
        self.says(*states, names=self.served if dns else NamesState(), **more)

    def edge(self, *states: EdgeState, dns: bool = True, **more: Any) -> None:
        said: dict[str, Any] = {"runtime": "", "proxy": "envoy 1.40", "names": self.served if dns else NamesState()}
        self.says(by=self.e1, edge=states, **(said | more))

    def everybody(self, *states: Any, phase: Any = "live", **more: Any) -> None:
        self.worker(*(states or (self.state("converged"),)))
        self.says(by=self.w2, names=self.served)
        self.edge(self.edge_state(phase, **more))

    def deploys(self, *words: str, code: int = 0, service: Service | None = None) -> str:
        services = {**self.operator.fleet.services, "web": service or public_service(node="w1")}
        self.operator.fleet = replace(self.operator.fleet, services=services)
        return self.operator.does("deploy", "web", *words, code=code)


def public_scene(home: Path, story: Callable[[Public], Coroutine[Any, Any, None]]) -> None:
    async def told(one: Scene) -> None:
        public = Public(one.rig, one.operator, [one.w1, one.w2])
        public.e1 = Puppet(one.rig, "e1")
        await public.w2.join()
        await joins_as_edge(public.e1)
        await story(public)

    scene(home, told, public_fleet())


def steps(*names: str) -> tuple[StepResult, ...]:
    return tuple(StepResult(name, "done", START_S + at, 0.1) for at, name in enumerate(names))


def test_a_deploy_ends_when_the_edge_says_that_the_hostname_is_live(tmp_path: Path) -> None:
    """M-78: the steps of the node, then of the names, then of the edge, whoever was first."""

    async def story(one: Public) -> None:
        certificate = CertificateState((HOST,), "d", expires_s=START_S + 90 * 86_400)
        done = steps("domain", "certificate", "route")
        one.then(
            lambda: one.edge(one.edge_state("waiting", steps=done[:1]), dns=True),
            lambda: one.worker(one.state("settling", steps=(one.step("pull web:1", "running"),))),
            lambda: one.worker(one.state("converged", steps=(one.step("pull web:1", took_s=0.2),))),
            lambda: one.edge(one.edge_state("waiting", step="certificate", steps=done[:1])),
            lambda: one.says(by=one.w2, names=one.served),
            lambda: one.edge(one.edge_state(steps=done, certificate=certificate)),
        )
        one.deploys()
        err = one.operator.err.getvalue()
        assert one.operator.held.then == []
        told = [line for line in err.splitlines() if line.startswith(("w1  ", "dns", "edge"))]
        assert told == [
            "w1  web  pull web:1  done 0.2 s",
            "dns  e1, w1, w2  done",
            "edge e1 web.example.test: domain  done 0.1 s",
            "edge e1 web.example.test: certificate  done 0.1 s",
            "edge e1 web.example.test: route  done 0.1 s",
        ]
        assert f"Public: https://{HOST}/ on e1." in err

    public_scene(tmp_path, story)


def test_json_says_of_every_hostname_how_it_is_and_until_when_its_certificate_lasts(tmp_path: Path) -> None:
    """M-44, M-46: edge_route_result and dns_result beside the result of the deploy."""

    async def story(one: Public) -> None:
        certificate = CertificateState((HOST,), "d", expires_s=START_S + 86_400)
        one.then(lambda: one.everybody(certificate=certificate, steps=steps("route")))
        document = json.loads(one.deploys("--json"))
        (web,) = document["services"]
        (edge,) = web["edge"]
        assert set(edge) == {
            *("hostname", "edge", "phase", "step", "code", "message", "remedy", "steps", "expires"),
        }
        assert (edge["hostname"], edge["edge"], edge["phase"]) == (HOST, "e1", "live")
        assert edge["expires"].startswith("2023-11-15T") and edge["steps"][0]["name"] == "route"
        assert web["dns"]["phase"] == "served" and [n["node"] for n in web["dns"]["nodes"]] == ["e1", "w1", "w2"]
        assert document["success"] and set(document) >= {"receipts", "services", "success", "applied"}

    public_scene(tmp_path, story)


@pytest.mark.parametrize("status", ["stopped", "unhealthy"])
def test_a_hostname_behind_a_failed_rollout_whose_old_containers_do_not_work_is_not_public_n109(
    tmp_path: Path, status: Any
) -> None:
    """`deploy` failed, and said all the same that the hostname is public and that the old version keeps serving."""

    async def story(one: Public) -> None:
        before = {"serving": "before", "serving_revision": 1, "images": ("registry.example.com/web:1",)}
        shown = ContainerState("web", "main", status)
        failed: dict[str, Any] = {"step": "start main 0", "message": "podman refused", **before}
        one.then(
            lambda: one.worker(one.state("failed", **failed), containers=(shown,)),
            lambda: one.says(by=one.w2, names=one.served),
            lambda: one.edge(one.edge_state()),
        )
        one.deploys(code=1)
        err = one.operator.err.getvalue()
        assert f"main is {status}" in err and "keeps serving" not in err and "Public:" not in err, err

    public_scene(tmp_path, story)


def test_what_is_deployed_and_not_public_is_exit_1_with_the_step(tmp_path: Path) -> None:
    """M-83, M-84: it serves internally, it is not public, and a second deploy goes on."""

    async def story(one: Public) -> None:
        failed = StepResult("certificate", "failed", START_S, 0.3, "the authority refused")
        trouble: dict[str, Any] = {"step": "certificate", "message": "the authority refused", "steps": (failed,)}
        one.then(lambda: one.everybody(phase="failed", code="certificate_failed", **trouble))
        document = json.loads(one.deploys("--json", code=1))
        assert document["success"] is False and document["services"][0]["phase"] == "converged"
        said = one.operator.complaint
        for words in ("runs on w1", "is not public", "edge e1 web.example.test", "'certificate'"):
            assert words in said["message"], words
        assert said["code"] == "edge_route_failed" and "holdfast deploy web" in said["remedy"]
        one.deploys(code=1)
        assert "is not public" in one.operator.err.getvalue(), "nothing to change, and not done either"
        one.then(lambda: one.everybody())
        one.edge(one.edge_state("waiting", step="certificate"))
        one.deploys()
        assert one.operator.held.then == [], "what is under way is waited for"

    public_scene(tmp_path, story)


@pytest.mark.parametrize(
    ("phase", "status", "code"), [("held", "stopped", 0), ("converged", "unhealthy", 1)], ids=["held", "unhealthy"]
)
def test_no_url_is_named_of_a_service_that_does_not_work_n17(
    tmp_path: Path, phase: str, status: str, code: int
) -> None:
    async def story(one: Public) -> None:
        one.then(lambda: one.everybody())
        one.deploys()
        assert f"https://{HOST}/" in one.operator.err.getvalue()
        one.says(one.state(phase), containers=(ContainerState("web", "web", status),))  # type: ignore[arg-type]
        one.operator.does("deploy", "web", code=code)
        assert f"https://{HOST}/" not in one.operator.err.getvalue()

    public_scene(tmp_path, story)


def test_a_failed_dns_step_shows_the_edge_step_as_skipped(tmp_path: Path) -> None:
    """D-27: reported as skipped with the reason, not attempted."""

    async def story(one: Public) -> None:
        def broken() -> None:
            one.worker(one.state("converged"))
            one.says(by=one.w2, names=one.served)
            one.edge(one.edge_state("waiting", step="dns"), names=NamesState(trouble="port 53 is taken by named"))

        one.then(broken)
        document = json.loads(one.deploys("--json", code=1))
        (web,) = document["services"]
        assert web["dns"]["phase"] == "failed" and web["edge"][0]["phase"] == "skipped"
        assert "port 53 is taken by named" in web["edge"][0]["message"]
        assert one.operator.complaint["code"] == "dns_failed" and "'dns'" in one.operator.complaint["message"]
        assert 10 <= one.clock.passed_s < 13, "a server in trouble is given a while to mend"

    public_scene(tmp_path, story)


def test_an_edge_whose_dns_leads_elsewhere_says_skipped(tmp_path: Path) -> None:
    """D-27: all servers say they are right, and the edge's own question is answered otherwise."""

    async def story(one: Public) -> None:
        skipped = StepResult("certificate", "failed", START_S, 0.0, "skipped: the name leads elsewhere")
        failed = StepResult("dns", "failed", START_S, 0.1, "leads to 100.64.0.9")
        one.then(
            lambda: one.everybody(phase="failed", step="dns", message="leads to 100.64.0.9", steps=(failed, skipped))
        )
        one.deploys(code=1)
        err = one.operator.err.getvalue()
        assert "edge e1 web.example.test: dns  failed 0.1 s: leads to 100.64.0.9" in err
        assert "edge e1 web.example.test: certificate  skipped: the name leads elsewhere" in err
        assert "edge e1 web.example.test  skipped: as the DNS step failed: leads to 100.64.0.9" in err

    public_scene(tmp_path, story)


def test_a_service_that_failed_is_the_failure_and_its_edge_is_not_waited_for(tmp_path: Path) -> None:
    async def story(one: Public) -> None:
        one.then(lambda: one.everybody(one.state("failed", step="start web 0"), phase="waiting", step="backend"))
        document = json.loads(one.deploys("--json", code=1))
        assert one.operator.complaint["code"] == "rollout_failed" and one.clock.passed_s < 5
        assert document["services"][0]["edge"][0]["phase"] == "skipped"

    public_scene(tmp_path, story)


def test_an_edge_that_does_not_get_there_is_exit_6_after_its_own_time(tmp_path: Path) -> None:
    """M-78 (9): thirty seconds from when the service was there."""

    async def story(one: Public) -> None:
        one.then(lambda: one.everybody(phase="waiting", step="backend"))
        one.deploys("--json", code=6)
        assert 30 <= one.clock.passed_s < 35
        assert f"edge e1 {HOST} (step 'backend'), not public yet" in one.operator.complaint["message"]

    public_scene(tmp_path, story)


def test_a_word_about_another_place_is_not_the_result(tmp_path: Path) -> None:
    """M-02: after a move the edge must lead to the new node; that it led to the old one is no success."""

    async def story(one: Public) -> None:
        one.then(lambda: one.everybody())
        one.deploys()
        before = one.edge_state()

        def arrived() -> None:
            one.worker(replace(one.state("converged"), applied="before"))
            one.says(one.state("converged"), by=one.w2, names=one.served)
            one.edge(before)

        one.then(
            arrived,
            lambda: one.edge(one.edge_state()),
            lambda: one.worker(),
        )
        one.deploys(service=public_service(node="w2"))
        assert one.operator.held.then == []
        assert f"Public: https://{HOST}/ on e1." in one.operator.err.getvalue()

    public_scene(tmp_path, story)


def test_a_new_image_asks_nothing_of_the_edge_and_ends_at_once(tmp_path: Path) -> None:
    """M-02: a redeploy changes only the node's own proxy; that it is still public is looked at."""

    async def story(one: Public) -> None:
        one.then(lambda: one.everybody())
        one.deploys()
        one.then(lambda: one.worker(one.state("converged")))
        passed_s = one.clock.passed_s
        document = json.loads(one.deploys("--json", service=public_service(2, node="w1")))
        assert one.clock.passed_s - passed_s < 1
        (web,) = document["services"]
        assert document["receipts"]["accepted"] == ["w1"] and web["dns"]["phase"] == "unchanged"
        assert web["edge"][0]["phase"] == "live"

    public_scene(tmp_path, story)


def test_undeploy_waits_for_the_node_then_the_edge_then_the_names(tmp_path: Path) -> None:
    """M-85, I-19, A13: nothing is called retired while its hostname or its record is still answered."""

    async def story(one: Public) -> None:
        one.then(lambda: one.everybody())
        one.deploys()
        live, before = one.edge_state(), one.served
        left = (ContainerState("web", "web", "running", id="c1"),)
        leaving = replace(live, phase="leaving", step="backend gone")
        one.then(
            lambda: one.says(containers=left, names=before),
            lambda: one.says(by=one.w2, names=one.served),
            lambda: one.edge(leaving, names=before),
            lambda: one.says(names=before),
            lambda: one.edge(gone=(HOST,), names=before),
            lambda: one.says(names=one.served),
            lambda: one.edge(gone=(HOST,)),
        )
        document = json.loads(one.operator.does("undeploy", "web", "--json"))
        (web,) = document["services"]
        assert one.operator.held.then == [] and document["success"]
        assert (web["phase"], web["edge"][0]["phase"], web["dns"]["phase"]) == ("retired", "gone", "served")

    public_scene(tmp_path, story)


def test_what_an_undeploy_leaves_behind_is_named(tmp_path: Path) -> None:
    """A13: leftovers are said, with where they are."""

    async def story(one: Public) -> None:
        one.then(lambda: one.everybody())
        one.deploys()
        leaving = replace(one.edge_state(), phase="leaving")
        before = one.served
        one.then(lambda: one.says(names=before), lambda: one.edge(leaving, names=before))
        one.operator.does("undeploy", "web", "--json", code=6)
        said = one.operator.complaint["message"]
        assert f"edge e1 {HOST} (step 'let go'), not removed yet" in said and "DNS names on w1" in said

    public_scene(tmp_path, story)


def test_a_node_with_new_names_alone_is_not_waited_for_while_it_is_silent(tmp_path: Path) -> None:
    """Nothing that runs depends on it: it is named in a note, and the command has done its work."""

    async def story(one: Public) -> None:
        def others() -> None:
            one.worker(one.state("converged"))
            one.edge(one.edge_state())

        one.then(others)
        document = json.loads(one.deploys("--json"))
        assert document["receipts"]["unheard"] == ["w2"] and document["receipts"]["missing"] == []
        assert document["success"] and 5 <= one.clock.passed_s < 8
        assert [n["phase"] for n in document["services"][0]["dns"]["nodes"]] == ["served", "served", "unknown"]

    public_scene(tmp_path, story)


def test_a_silent_node_that_must_do_something_is_waited_for(tmp_path: Path) -> None:
    async def story(one: Public) -> None:
        one.then(lambda: one.everybody())
        one.deploys()
        one.then(lambda: one.worker(one.state("converged")))
        one.deploys("--json", service=public_service(node="w2"), code=6)
        assert one.operator.complaint["code"] == "receipts_missing" and "w2" in one.operator.complaint["message"]

    public_scene(tmp_path, story)


def test_the_public_record_is_a_warning_only(tmp_path: Path) -> None:
    """M-80: made by hand elsewhere; a miss is said, and nothing waits for it."""

    async def story(one: Public) -> None:
        one.then(lambda: one.everybody(public_dns="it leads to 192.0.2.9"))
        one.deploys()
        assert f"Warning: public DNS does not point {HOST} to e1: it leads to 192.0.2.9" in (
            one.operator.err.getvalue()
        )

    public_scene(tmp_path, story)


def test_an_edge_that_never_joined_or_runs_no_proxy_is_said_and_not_waited_for(tmp_path: Path) -> None:
    async def story(one: Public) -> None:
        def others() -> None:
            one.worker(one.state("converged"))
            one.says(by=one.w2, names=one.served)
            one.says(by=one.e1, runtime="", names=one.served)

        one.then(others)
        one.deploys()
        assert f"Not waiting for {HOST}: e1 reports no public routes" in one.operator.err.getvalue()
        assert one.clock.passed_s < 5

    public_scene(tmp_path, story)


def test_a_record_that_lingers_is_waited_for_only_by_whoever_took_it_away(tmp_path: Path) -> None:
    """I-19: an undeploy ends after its records; a deploy does not wait for those of others."""

    async def story(one: Public) -> None:
        one.then(lambda: one.everybody())
        one.deploys()
        lingering = replace(one.served, records=one.served.records + 1)
        one.says(names=lingering)
        applied = one.rig.hub.applied()
        assert applied is not None
        word = verify(one.operator.held.nodes(), applied, one.clock.now_s()).nodes["w1"]
        for leaves, phase in ((True, "waiting"), (False, "served")):
            of = dns.NamesAwaited(one.served.served, one.served.records, ("w1",), leaves)
            assert dns.judge(of, "w1", word, has_accepted=True).phase == phase

    public_scene(tmp_path, story)


def test_a_hostname_that_another_service_took_over_is_still_public() -> None:
    """M-83: it is asked of the hostname, whoever answers for it, and not of the service that let go of it."""
    left = EdgeObserved(HOST, "old", "e1", "gone")
    for phase in ("live", "failed", "waiting"):
        taken = EdgeObserved(HOST, "web", "e1", phase, node="w1")
        assert not any("Not public any more" in line for line in verdict.told(Outcome(edges=(left, taken)))), phase
    other = EdgeObserved("shop.example.test", "web", "e1", "live", node="w1")
    said = verdict.told(Outcome(edges=(left, other)))
    assert f"No longer public: {HOST} on e1." in said and "Public: https://shop.example.test/ on e1." in said


def test_names_are_wanted_as_the_manifests_have_them() -> None:
    """D-27: command line and agents mean the same records."""
    found = plan(public_fleet(web=public_service(node="w1"), api=public_service(public=False, active=False)), None)
    assert found.candidate is not None
    table = msgspec.json.decode(found.candidate.table, type=Table)
    manifests = compile_manifests(decode_header(found.candidate.header).fleet, table)
    assert dns.servers(table) == {"w1", "w2", "e1"}
    for node in dns.servers(table):
        assert msgspec.json.decode(manifests[node], type=NodeManifest).records == dns.wanted(table)
    assert dns.wanted(table) == dict.fromkeys(("web.holdfast.internal", "web.web.holdfast.internal"), ADDRESSES["w1"])
