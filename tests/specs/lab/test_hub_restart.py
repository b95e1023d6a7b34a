"""A hub is started when nobody holds its port any more: a process may be dead before its last thread is."""

from ipaddress import IPv4Network
from typing import Any

import pytest

from holdfast.errors import Failed
from holdfast.lab import blueprint, control, node, processes, roster
from holdfast.lab.place import Place
from holdfast.lab.processes import Known

DRAWN = blueprint.draw("0a1b2c3d", IPv4Network("100.64.7.0/24"), roster.parse(roster.DEFAULT))


def started(monkeypatch: pytest.MonkeyPatch, listening: list[bool]) -> list[bool]:
    """What was left to be asked when the hub was launched."""
    left: list[list[bool]] = []
    monkeypatch.setattr(control, "running", lambda *_: 1)
    monkeypatch.setattr(control, "LISTENING_S_MAX", 0.2)
    monkeypatch.setattr(processes, "lives", lambda _: True)
    monkeypatch.setattr(control, "_listens", lambda _: listening.pop(0) if len(listening) > 1 else listening[0])

    def launch(*_: Any) -> Known:
        left.append(list(listening))
        return Known(1, 1)

    monkeypatch.setattr(node, "launch", launch)
    control.start_hub(Place("/nowhere"), DRAWN, "normal")
    return left[0]


def test_it_waits_until_the_old_one_lets_go(monkeypatch: pytest.MonkeyPatch) -> None:
    assert started(monkeypatch, [True, True, False, True]) == [True]


def test_a_port_that_stays_taken_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Failed) as raised:
        started(monkeypatch, [True])
    assert raised.value.code == "address_in_use" and "lab kill hub" in raised.value.remedy
