"""What an agent of an older release cannot read is not sent to it (N13, N14)."""

from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.errors import Conflict
from holdfast.model.fleet import Component, Service, Volume
from holdfast.planning import formats
from holdfast.planning.plan import Inputs, plan
from holdfast.planning.secrets import Uses
from tests.fleets.build import digest_pinned, small_fleet

NEW: dict[str, dict[str, Any]] = {
    "user of component main": {"user": "1000"},
    "scratch of component main": {"scratch": ("/tmp",)},
    "owner of volume book": {"volumes": (Volume("book", "/data", "none", owner="5:5"),)},
}


def known(number: int) -> Inputs:
    return Inputs(uses=Uses(formats={"w1": number}))


def declared(**more: Any) -> Service:
    return Service((Component("main", digest_pinned("web:1"), **more),), node="w1")


@pytest.mark.parametrize("what", NEW)
def test_an_older_agent_gets_no_service_with_a_key_that_it_cannot_read_n13(what: str) -> None:
    fleet = small_fleet({"web": declared(**NEW[what])})
    with pytest.raises(Conflict) as refused:
        plan(fleet, None, known(formats.OWNERS - 1))
    assert refused.value.code == "agent_too_old" and f"cannot read {what} of service.web" in refused.value.message
    plan(fleet, None, known(formats.OWNERS))
    plan(fleet, None)  # no pulse was verified: a node that has not joined yet


def test_a_service_without_them_is_for_every_agent() -> None:
    plain = small_fleet({"web": declared(volumes=(Volume("book", "/data", "none"),))})
    plan(plain, None, known(formats.OWNERS - 1))
    assert formats.NEWEST >= formats.OWNERS and replace(plain) == plain
