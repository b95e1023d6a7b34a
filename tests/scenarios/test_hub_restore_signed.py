"""Where [trust] asks for two signatures, one operator alone restores no hub (issue 16 §5)."""

import os
from pathlib import Path

import pytest

from tests.fleets.pasting import KEY, Seat, seat
from tests.scenarios.test_pasted_remedies import SIGN, TWO_SIGN, filled


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Seat:
    monkeypatch.chdir(tmp_path)
    return seat(tmp_path / "home")


def test_a_second_operator_signs_the_restore_in_a_file(here: Seat) -> None:
    for line in TWO_SIGN.splitlines():
        assert (done := here.run(line)).code == 0, (line, done)
    state = f"--state-dir {here.home}/hub"
    for line in (
        f"holdfast hub init --trust {here.fleet_id()} {state}",
        f"{SIGN}holdfast sign change.plan --key KEY2 && holdfast apply change.plan --hub ~/hub --detach".replace(
            "plan -o", "plan --hub ~/hub -o"
        )
        .replace("KEY2", f"~/{KEY}")
        .replace("KEY", "~/bob"),
        f"holdfast hub backup {state} --to ~/hub.file",
    ):
        assert (done := here.run(line)).code == 0, (line, done)
    new = f"--state-dir {here.home}/new --trust {here.fleet_id()}"
    alone = here.run(f"holdfast hub restore ~/hub.file {new} --key ~/{KEY}")
    assert alone.code == 4 and not (here.home / "new").exists(), alone
    (remedy,) = alone.remedies
    assert remedy.startswith("holdfast sign hub.generation --key KEY && holdfast hub restore"), remedy
    again = here.run(f"holdfast hub restore ~/hub.file {new} --from hub.generation")
    assert again.code == 4 and not (here.home / "new").exists(), "one signature was enough"
    first, second = filled(remedy, "KEY=~/bob").split(" && ")
    assert (done := here.run(first)).code == 0, done
    assert (done := here.run(f"{second} --trust {here.fleet_id()}")).code == 0, done
    assert "ledger.db" in os.listdir(here.home / "new")
    assert here.run(f"holdfast hub check --state-dir {here.home}/new").code == 0
