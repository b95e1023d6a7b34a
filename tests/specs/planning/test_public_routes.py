"""Which public hostnames of a service are wanted, and which of them an edge must carry."""

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from holdfast.model.revision import Entry
from holdfast.model.route import PublicRoute
from holdfast.planning.public_routes import carried, wanted

AT_EDGE = PublicRoute("main", "", "e1", "web.fleet")
NOWHERE = PublicRoute("main", "", "", "web.fleet")
WEB = Entry("d" * 64, node="w1", containers=1, public={"a.example": AT_EDGE, "b.example": NOWHERE})


def test_a_running_service_wants_every_hostname_and_edges_carry_those_they_have() -> None:
    assert wanted(WEB).keys() == {"a.example", "b.example"}
    assert carried(WEB) == {"a.example": AT_EDGE}


@pytest.mark.parametrize("entry", [None, replace(WEB, containers=0), replace(WEB, node=UNSET)])
def test_a_service_that_is_not_there_inactive_or_placed_nowhere_wants_none(entry: Entry | None) -> None:
    assert not wanted(entry) and not carried(entry)
