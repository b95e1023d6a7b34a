"""Figures about the data of one service on one node, as its agent reports them. Values only."""

from msgspec import Struct

from holdfast.model.verified_report import VerifiedReport


class DataFigures(Struct, frozen=True, omit_defaults=True):
    """What an update with another writer would do now. Figures have two digits: an unchanged node has an unchanged
    report."""

    service: str
    size_bytes: int
    files: int
    written_bytes: int = 0  # by a checkpoint; the rest is shared
    free_bytes: int = 0
    down_s: float = 0.0  # how long the service would not answer


class DataSection(Struct, frozen=True, omit_defaults=True):
    """The part of a report that lists them."""

    data: tuple[DataFigures, ...] = ()


def figures_of(service: str, node: VerifiedReport | None) -> DataFigures | None:
    section = node.section(DataSection) if node is not None else None
    return next((one for one in section.data if one.service == service), None) if section is not None else None
