"""How much data a move copies and how long the service stops, for people."""

from collections.abc import Mapping

from holdfast.cli.sizes import counted, size
from holdfast.model.data_figures import figures_of
from holdfast.model.verified_report import VerifiedReport

SWITCH_S = 1.5  # the last pass, the handover and its way to the other node


def sentence(service: str, home: str, nodes: Mapping[str, VerifiedReport]) -> str:
    """By the figures that its node reported."""
    figures = figures_of(service, nodes.get(home))
    if figures is None:
        return f"how much is copied is not known yet: {home} reports it within a minute; {home} keeps its copy"
    down = f"{figures.down_s + SWITCH_S:.1f}".removesuffix(".0")
    return (
        f"copies {size(figures.size_bytes)} in {counted(figures.files, 'file')} while it runs, then stops it for "
        f"about {down} s; {home} keeps its copy"
    )
