"""A report that a hub takes: what is too long would be refused, and with it the whole check-in. Pure.

What containers, images and other people's programs are called and say goes into it; so the least needed is left out
first, and that is said.
"""

from collections.abc import Callable, Iterator

import msgspec
from msgspec.structs import replace

from holdfast.model.checkin import REPORT_BYTES_MAX
from holdfast.model.report import (
    CertificateState,
    ContainerState,
    EdgeState,
    NodeFinding,
    Report,
)

STEPS_KEPT = 8
WORDS_MAX = 200
NAME_MAX = 100
OURS_MAX = 400
FEW = 50

_encode = msgspec.json.Encoder().encode


def fitted(report: Report) -> bytes:
    content = b""
    for shorter in _ever_shorter(report):
        content = _encode(shorter)
        if len(content) <= REPORT_BYTES_MAX:
            break
    return content


def _ever_shorter(report: Report) -> Iterator[Report]:
    yield report
    report = replace(report, findings=(*report.findings, _said()), health="degraded")
    for cut in _CUTS:
        report = cut(report)
        yield report


def _said() -> NodeFinding:
    return NodeFinding(
        "report_cut",
        f"this node has more to tell than the {REPORT_BYTES_MAX:,} bytes that a report may have; the rest is left out",
        "holdfast agent journal and podman ps --all on the node show all of it",
    )


def _no_certificates(report: Report) -> Report:
    """Of what works: that it works is said by its route."""
    troubled = tuple(one for one in report.certificates if one.trouble)
    return replace(report, certificates=troubled, edge=tuple(_plain(one) for one in report.edge))


def _plain(one: EdgeState) -> EdgeState:
    if one.phase != "live":
        return one
    shown = one.certificate
    short = CertificateState((), expires_s=shown.expires_s, trouble=shown.trouble) if shown is not None else None
    return replace(one, steps=(), certificate=short)


def _few_steps(report: Report) -> Report:
    services = tuple(replace(one, steps=one.steps[-STEPS_KEPT:]) for one in report.services)
    return replace(report, services=services, left=())


def _no_steps(report: Report) -> Report:
    services = tuple(
        replace(one, steps=(), step=one.step[:WORDS_MAX], message=one.message[:WORDS_MAX]) for one in report.services
    )
    findings = tuple(
        replace(one, message=one.message[:WORDS_MAX], remedy=one.remedy[:WORDS_MAX]) for one in report.findings
    )
    edge = tuple(replace(one, steps=(), message=one.message[:WORDS_MAX]) for one in report.edge)
    return replace(report, services=services, findings=findings, edge=edge)


def _short_names(report: Report) -> Report:
    """Of somebody else's: ours are as long as declared."""
    return replace(report, containers=tuple(_short(one) if one.orphan else one for one in report.containers))


def _short(one: ContainerState) -> ContainerState:
    words = {name: getattr(one, name)[:NAME_MAX] for name in ("service", "component", "image", "deployment")}
    return replace(one, **words, ports=one.ports[:2])


def _ours_only(report: Report) -> Report:
    """Everything else that is not what runs here."""
    ours = tuple(one for one in report.containers if not one.orphan)
    return replace(report, containers=ours, retired=report.retired[:FEW], parked=report.parked[:FEW])


def _few_of_ours(report: Report) -> Report:
    findings = (*report.findings[:FEW], report.findings[-1])
    edge = sorted(report.edge, key=lambda one: one.phase == "live")[:OURS_MAX]  # whatever does not work comes first
    return replace(report, containers=report.containers[:OURS_MAX], findings=findings, edge=tuple(edge))


def _nothing_running(report: Report) -> Report:
    """No claim at all about what runs is better than silence."""
    empty = replace(report, containers=(), services=(), retired=(), parked=(), runtime="", findings=(_said(),))
    return replace(empty, edge=(), certificates=(), gone=())


_CUTS: tuple[Callable[[Report], Report], ...] = (
    _no_certificates,
    _few_steps,
    _no_steps,
    _short_names,
    _ours_only,
    _few_of_ours,
    _nothing_running,
)
