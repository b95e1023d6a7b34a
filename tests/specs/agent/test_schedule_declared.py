"""Whether a service may run a schedule now, by what serves and what runs of it."""

from msgspec.structs import replace

from holdfast.adapters.journal.memory import MemoryJournal
from holdfast.agent.schedules.declared import NOT_CONFIRMED, NOT_DEPLOYED, Declarations, Declared
from holdfast.agent.services.records import Record, Records
from holdfast.model.container import Mount, Part
from holdfast.model.schedule import Schedule
from tests.specs.reconcile.guests import guest, part

BASE = part("db", "1")
WITH_DATA = replace(BASE, spec=replace(BASE.spec, mounts=(Mount("/data/shop/book", "/data"),)), runs=(("old",),))
KEY = ("shop", "nightly")


def declared(
    cmd: str = "old",
    serving: Part = WITH_DATA,
    by: str = "d2",
    applied: str = "d2",
    held: bool = False,
    running: tuple[str, ...] = (),
    withholds_data: bool = False,
) -> Declarations:
    """`serving` is of the deployment d1; the deployment `by` declares the schedule."""
    records = Records(MemoryJournal(), lambda: None)
    records.keep("shop", Record(applied=applied, serving=guest(serving, deployment="d1"), held=held))
    found = Declarations(lambda digest: None, records, lambda service: set(running), lambda: withholds_data)
    found.found[KEY] = Declared(Schedule("nightly", "db", "@daily", (cmd,)), True, by)
    return found


def test_a_new_command_gets_data_only_when_its_deployment_serves() -> None:
    assert declared("new").idle(KEY) == NOT_DEPLOYED
    assert declared("old").idle(KEY) == ""
    assert declared("new", by="d1").idle(KEY) == "", "a record of an earlier release does not name the commands"
    assert declared("new", replace(BASE, runs=())).idle(KEY) == "", "it has no data"


def test_after_a_boot_a_run_with_data_waits_for_the_hub() -> None:
    assert declared("old", withholds_data=True).idle(KEY) == NOT_CONFIRMED
    assert declared("old", replace(BASE, runs=("old",)), withholds_data=True).idle(KEY) == "", "it has no data"


def test_between_stop_and_start_of_a_rollout_what_served_does_not_run() -> None:
    assert declared().is_between(KEY) and declared(running=("another spec",)).is_between(KEY)
    assert not declared(running=(WITH_DATA.digest,)).is_between(KEY), "it was not stopped yet"
    assert not declared(applied="d1").is_between(KEY), "the rollout is over: it has ended by itself"
    assert not declared(held=True).is_between(KEY), "then no run begins at all"
    assert not declared("new").is_between(KEY)
