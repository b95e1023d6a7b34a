"""How much data a move copies and how long the service stops, for people."""

from holdfast.cli.nodes.fleet_view import FleetView
from holdfast.cli.sizes import counted, size
from holdfast.model.data_figures import figures_of

SWITCH_S = 1.5  # the last pass, the handover and its way to the other node


def sentence(service: str, home: str, view: FleetView) -> str:
    """By the figures that its node reported; "" if it reports none."""
    figures = figures_of(service, view.nodes.get(home))
    if figures is None:
        return ""
    down = f"{figures.down_s + SWITCH_S:.1f}".removesuffix(".0")
    return (
        f"copies {size(figures.size_bytes)} in {counted(figures.files, 'file')} while it runs, then stops it for "
        f"about {down} s; {home} keeps its copy"
    )
