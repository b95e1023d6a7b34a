"""How the origin of a node's report is shown: who signed it, how old it is, or why it is not proven."""

from holdfast.model.duration import aged
from holdfast.model.verified_report import VerifiedReport


def origin(report: VerifiedReport) -> str:
    if report.is_old:
        return f"old: {report.view.name} signed its last report {aged(report.age_s)} ago"
    if report.verified:
        return f"signed by {report.view.name}, {aged(report.age_s)} ago"
    return report.doubt if report.doubt.startswith("no hub: ") else f"unverified: {report.doubt}"
