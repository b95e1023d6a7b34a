"""The report of a node: one JSON object out of the sections of its keepers, short enough for every hub."""

from argparse import Namespace
from typing import Any

import msgspec
import pytest

from holdfast.agent.keeper import Section
from holdfast.agent.link.report import NodeReport, TroubleReport
from holdfast.agent.link.report_limits import STAGES, fitted, joined
from holdfast.agent.services.status import ServicesReport
from holdfast.agent.traffic.certificates.keeper import CertificatesReport
from holdfast.agent.traffic.certificates.node import IssuerReport
from holdfast.agent.traffic.dns.keeper import DnsReport
from holdfast.agent.traffic.edges.keeper import EdgesKeeper, EdgesReport
from holdfast.agent.traffic.keeper import ProxyReport
from holdfast.agent.wake import Wake
from holdfast.model.checkin import REPORT_BYTES_MAX
from holdfast.model.deployment import ServiceState, StepResult
from holdfast.model.report import (
    CertificateState,
    CheckpointState,
    ContainerState,
    Departure,
    EdgeState,
    NamesState,
    NodeFinding,
    Parked,
    Report,
    RetiredData,
    UnlistedCheckpoints,
)
from tests.fleets.deploying import Scene, play, service


def sections(many: int, words: str = "x") -> tuple[Section, ...]:
    """A node with `many` of everything."""
    step = StepResult("pull", "done", 1.0, 0.5, words)
    certificate = CertificateState(("a.test",), "d", "1", "own", 1.0, 2.0, 1, 3.0)
    containers = tuple(ContainerState(f"s{n}", "main", "running", words, orphan=n % 2 == 0) for n in range(many))
    return (
        NodeReport("f", "w1", "1", "x86_64", "10.0.0.1", "processing", "degraded", "observe"),
        IssuerReport(b"der", "digest"),
        ServicesReport(
            containers,
            tuple(ServiceState(f"s{n}", "converged", "d", 1, message=words, steps=(step,) * 12) for n in range(many)),
            tuple(Departure(f"gone{n}", (step,)) for n in range(many)),
            tuple(RetiredData(f"old{n}", "/srv", 1, 1) for n in range(many)),
            "podman 5",
        ),
        ProxyReport("envoy 1"),
        EdgesReport(
            tuple(
                EdgeState(
                    f"h{n}",
                    "s",
                    "main",
                    "w1",
                    "b",
                    "live" if n % 2 else "failed",
                    message=words,
                    steps=(step,),
                    certificate=certificate,
                )
                for n in range(many)
            ),
            ("gone.test",),
            many,
        ),
        CertificatesReport((certificate, msgspec.structs.replace(certificate, trouble=words))),
        DnsReport(NamesState("digest", 3, "dnsmasq")),
        TroubleReport(
            tuple(Parked(f"service.p{n}", words, "sign", 1.0) for n in range(many)),
            tuple(NodeFinding(f"code{n}", words, words) for n in range(many)),
            ("operation",),
            7,
            "head",
        ),
    )


def test_sections_are_the_fields_of_a_report_in_its_order() -> None:
    content = joined(sections(2))
    assert msgspec.json.encode(msgspec.json.decode(content, type=Report)) == content
    assert list(msgspec.json.decode(content)) == list(Report.__struct_fields__)


def test_a_section_without_fields_leaves_no_trace() -> None:
    assert joined((NodeReport("f", "w1", "1"), ServicesReport(), DnsReport(), TroubleReport(operations=("x",)))) == (
        b'{"fleet":"f","node":"w1","version":"1","operations":["x"]}'
    )


def test_a_report_that_fits_is_not_touched() -> None:
    whole = sections(3)
    assert fitted(whole) == joined(whole)


@pytest.mark.parametrize(("many", "words"), [(100, "w" * 400), (400, "w" * 50), (1200, "w" * 400)])
def test_a_report_that_is_too_long_is_cut_says_so_and_keeps_what_does_not_work(many: int, words: str) -> None:
    whole = sections(many, words)
    assert len(joined(whole)) > REPORT_BYTES_MAX
    content = fitted(whole)
    report = msgspec.json.decode(content, type=Report)
    assert len(content) <= REPORT_BYTES_MAX and report.health == "degraded"
    assert "report_cut" in {one.code for one in report.findings}
    assert (report.proxy, report.names, report.operations) == (
        "envoy 1",
        NamesState("digest", 3, "dnsmasq"),
        ("operation",),
    )
    if report.edge:
        assert not any(one.certificate and one.certificate.names for one in report.edge if one.phase == "live")


def test_an_edge_with_2000_hostnames_tells_of_each() -> None:
    """It told of 400 for ever, and no deployment that added one ended."""
    names = CertificateState(("shop-with-a-long-name-1234.example.com",), "d" * 64, "a" * 32, "acme", 1.0, 2.0, 2, 3.0)
    done = tuple(StepResult(name, "done", 1795052881.1, 0.25) for name in ("domain", "dns", "certificate", "route"))
    edge = tuple(
        EdgeState(
            f"shop-with-a-long-name-{number}.example.com", f"shop-with-a-long-name-{number}", "main", "worker-12",
            f"main.shop-with-a-long-name-{number}.svc.example.com", "live", "100.64.12.34", 443, 3, steps=done,
            certificate=names, since_s=1795052881.5,
        )
        for number in range(2000)
    )  # fmt: skip
    edges: Any = Namespace(states=lambda: edge, gone=lambda: ())
    section = EdgesKeeper(edges, lambda revision: (), Wake()).section()
    report = msgspec.json.decode(fitted((NodeReport("f", "e1", "1"), section, TroubleReport())), type=Report)
    assert len(report.routes) == 2000 and not report.edge_unlisted
    assert report.findings == () and report.health == "healthy", "nothing that counts is left out"


def test_how_many_hostnames_are_left_out_is_told() -> None:
    one = EdgeState("", "s", "main", "w1", "b", "live")
    edge = tuple(msgspec.structs.replace(one, hostname=f"h{number}") for number in range(1500))
    failed = msgspec.structs.replace(one, hostname="bad", phase="failed")
    few = EdgesReport((*edge, failed)).shorter("few")
    assert (len(few.edge), few.edge_unlisted, few.edge[0]) == (1000, 501, failed)
    assert few.shorter("nothing") == EdgesReport(edge_unlisted=1501)


def test_of_checkpoints_the_newest_of_each_service_stay_and_the_others_are_counted() -> None:
    many = tuple(CheckpointState(f"s{n % 4}", f"id-{n}", 5, float(n)) for n in range(400))
    whole = ServicesReport(checkpoints=many, unlisted_checkpoints=(UnlistedCheckpoints("s1", 3, 15),))
    cut = whole.shorter("ours_only")
    assert len(msgspec.json.encode(cut.checkpoints)) <= 8 * 1024 + 2 and cut.checkpoints[-1] == many[-1]
    assert len(cut.checkpoints) + sum(one.count for one in cut.unlisted_checkpoints) == 403
    assert {one.service for one in cut.checkpoints} == {"s0", "s1", "s2", "s3"}


def test_each_stage_leaves_less_than_the_one_before() -> None:
    cut, sizes = sections(1000, "w" * 500), []
    for stage in STAGES:
        cut = tuple(section.shorter(stage) for section in cut)
        sizes.append(len(joined(cut)))
    assert sizes == sorted(sizes, reverse=True)
    report = msgspec.json.decode(joined(cut), type=Report)
    assert (report.containers, report.services, report.edge, report.parked) == ((), (), (), ())
    assert [one.code for one in report.findings] == ["report_cut"]


def test_an_idle_node_builds_no_report() -> None:
    async def story(scene: Scene) -> None:
        await scene.settled()
        reporter = scene.machine.built.reporter
        reporter.look()
        before = reporter.content
        assert not reporter.look() and reporter.content is before
        assert msgspec.json.encode(msgspec.json.decode(before, type=Report)) == before

    play({"web": service()}, story)
