"""Which node may read whose backups: its own, and those that an order tells it to restore, for as long as it does."""

import re

import pytest

from holdfast.errors import Invalid, NotPermitted
from holdfast.hub.backups import access
from holdfast.model import backup_key
from holdfast.model.applied import Applied
from holdfast.model.principal import Principal
from holdfast.planning.move_target import Wish
from holdfast.planning.moving import plan_move
from holdfast.planning.plan import plan
from tests.fleets.build import commit, mailbox, small_fleet
from tests.fleets.desks import key_of
from tests.fleets.move_stories import keyed, notes
from tests.specs.planning.test_plan import after


def principal(node: str) -> Principal:
    return Principal("node", node, key_of(node).line)


@pytest.fixture
def applied() -> Applied:
    hub = mailbox()
    commit(hub, small_fleet({"web": 1}, ("w1", "w2")))
    found = hub.applied()
    assert found is not None
    return found


def home(applied: Applied) -> tuple[str, str]:
    """The node of the service, and the other one."""
    own = str(applied.table.entries["service.web"].node)
    return own, "w2" if own == "w1" else "w1"


def test_a_node_reads_backups_of_another_one_while_it_has_an_order_to_restore_them(applied: Applied) -> None:
    own, other = home(applied)
    asked: list[tuple[str, str]] = []

    def ordered(node: str, service: str) -> bool:
        asked.append((node, service))
        return (node, service) == (other, "web")

    access.check_read(applied, principal(own), "web", ordered)
    assert asked == [], "its own need no order"
    access.check_read(applied, principal(other), "web", ordered)
    assert asked == [(other, "web")]
    for node, service in ((other, f"node.{own}"), (own, f"node.{other}"), (other, "shop"), (other, "")):
        with pytest.raises(Invalid, match="no such backup object"):
            access.check_read(applied, principal(node), service, ordered)
    with pytest.raises(Invalid, match="no such backup object"):
        access.check_read(applied, principal(other), "web", lambda node, service: False)


def test_an_order_to_restore_allows_no_writing(applied: Applied) -> None:
    own, other = home(applied)
    access.check_write(applied, principal(own), "web")
    with pytest.raises(NotPermitted, match="does not run there"):
        access.check_write(applied, principal(other), "web")


def test_the_source_of_a_move_goes_on_with_its_backups_until_the_next_revision() -> None:
    before = after(plan(keyed({"web": notes()}), None))
    source = str(before.table.entries["service.web"].node)
    target, third = sorted({"w1", "w2", "w3"} - {source})
    moving = after(plan_move(Wish("web", target), before, {}), before)
    for node in (source, target):
        access.check_write(moving, principal(node), "web")
        access.check_read(moving, principal(node), "web", lambda node, service: False)
    with pytest.raises(NotPermitted):
        access.check_write(moving, principal(third), "web")
    with pytest.raises(NotPermitted):
        access.check_write(before, principal(target), "web")


def test_a_node_whose_copy_was_given_up_stores_and_reads_no_backups_of_the_service() -> None:
    """Its manifest does not have the service any more, and what it says of it is not wanted."""
    before = after(plan(keyed({"web": notes()}), None))
    source = str(before.table.entries["service.web"].node)
    target = min({"w1", "w2", "w3"} - {source})
    restored = after(plan_move(Wish("web", target, backup="0" * 64, key=b"sealed"), before, {}), before)
    access.check_write(restored, principal(target), "web")
    with pytest.raises(NotPermitted):
        access.check_write(restored, principal(source), "web")
    with pytest.raises(Invalid, match="no such backup object"):
        access.check_read(restored, principal(source), "web", lambda node, service: False)


@pytest.mark.parametrize(("service", "is_stored"), [("web", True), ("node.w1", True), ("hub.w1", False)])
def test_the_file_of_a_hub_has_no_key_at_a_hub(service: str, is_stored: bool) -> None:
    """It would be lost with that hub."""
    above, digest = f"{'a' * 16}/{service}/", "0" * 64
    for key in (f"{above}g1/packs/{digest}", f"{above}receipts/00000001-{digest}"):
        assert bool(re.fullmatch(backup_key.KEY_FORM, key)) == is_stored
        assert backup_key.is_key(key), "a target has it"
    assert bool(re.fullmatch(backup_key.PREFIX_FORM, above)) == is_stored
