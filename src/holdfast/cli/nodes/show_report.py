"""How the origin of a node's report is shown: who signed it, how old it is, or why it is not proven."""

from holdfast.model.duration import aged
from holdfast.model.verified_report import VerifiedReport
from holdfast.trust.reports import NO_HUB


def origin(report: VerifiedReport) -> str:
    if report.is_old:
        return f"old: {report.view.name} signed its last report {aged(report.age_s)} ago"
    if report.verified:
        return f"signed by {report.view.name}, {aged(report.age_s)} ago"
    return "no hub: an offline ledger gets no reports" if report.doubt == NO_HUB else f"unverified: {report.doubt}"
