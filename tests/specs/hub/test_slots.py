"""Places at the door: strangers crowd out strangers, never those who are known (D6, S05)."""

import pytest

from holdfast.errors import Limited
from holdfast.hub.http.slots import (
    KNOWN_PER_IDENTITY,
    STRANGERS_MAX,
    STRANGERS_PER_ADDRESS,
    ConnectionSlots,
    Place,
    neighbourhood,
)


class Door:
    def __init__(self) -> None:
        self.places = ConnectionSlots()
        self.gone: list[str] = []

    def comes(self, name: str, address: str = "a") -> Place | None:
        place = Place(address, lambda: self.gone.append(name))
        return place if self.places.admit(place) else None

    def known(self, name: str, identity: str) -> Place:
        place = self.comes(name, address=name)
        assert place is not None
        self.places.identify(place, identity)
        return place


def test_the_oldest_who_keeps_us_waiting_makes_room_for_a_newcomer_of_his_address() -> None:
    door = Door()
    door.comes("elsewhere", "b")
    here = [door.comes(str(n)) for n in range(STRANGERS_PER_ADDRESS)]
    assert here[0] is not None
    here[0].waiting = False  # is being served
    assert door.comes("new") is not None
    assert door.gone == ["1"]
    assert door.places.strangers == STRANGERS_PER_ADDRESS + 1


def test_a_newcomer_is_refused_when_all_are_being_served() -> None:
    door = Door()
    for number in range(STRANGERS_PER_ADDRESS):
        place = door.comes(str(number))
        assert place is not None
        place.waiting = False
    assert door.comes("new") is None
    assert door.gone == []
    assert door.comes("new", "b") is not None


def test_all_strangers_together_have_so_many_places() -> None:
    door = Door()
    for number in range(STRANGERS_MAX + 100):
        assert door.comes(str(number), f"address {number}") is not None
    assert door.places.strangers == STRANGERS_MAX
    assert door.gone == [str(number) for number in range(100)]


def test_whoever_is_known_is_out_of_the_strangers_reach() -> None:
    door = Door()
    for number in range(100):
        door.known(f"node {number}", f"node:{number}")
    for number in range(3 * STRANGERS_MAX):
        door.comes(str(number), f"address {number % 50}")
    assert door.places.known == 100
    assert not [name for name in door.gone if name.startswith("node")]


def test_one_identity_has_so_many_and_loses_the_idle_one_first() -> None:
    door = Door()
    mine = [door.known(str(n), "node:w1") for n in range(KNOWN_PER_IDENTITY)]
    mine[0].waiting = False
    door.known("new", "node:w1")
    assert door.gone == ["1"]
    for place in mine:
        place.waiting = False
    door.known("newer", "node:w1")
    assert door.gone == ["1", "new"]


def test_an_identity_all_of_whose_connections_are_busy_is_told_to_wait() -> None:
    door = Door()
    for number in range(KNOWN_PER_IDENTITY):
        door.known(str(number), "node:w1").waiting = False
    late = door.comes("late")
    assert late is not None
    with pytest.raises(Limited):
        door.places.identify(late, "node:w1")
    assert late.identity == "" and door.places.strangers == 1, "it stays what it was"


def test_leaving_gives_everything_back_and_twice_is_once() -> None:
    door = Door()
    place = door.known("a", "node:w1")
    stranger = door.comes("b")
    assert stranger is not None
    for each in (place, stranger, place, stranger):
        door.places.leave(each)
    assert (door.places.known, door.places.strangers) == (0, 0)
    assert door.places._by_address == door.places._by_identity == {}


@pytest.mark.parametrize(
    ("host", "counted"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2::7", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
    ],
)
def test_a_machine_with_many_addresses_is_one_neighbour(host: str, counted: str) -> None:
    assert neighbourhood(host) == counted
