"""The time of a log line as the runtime tells it."""

import pytest

from holdfast.cli.logs.log_lines import moment, read_by_people


@pytest.mark.parametrize(
    ("at_s", "shown"),
    [
        (1_700_000_000.0, "2023-11-14T22:13:20Z"),  # podman 4.3: whole seconds; a fraction would be invented (N45)
        (1_700_000_000.25, "2023-11-14T22:13:20.250000Z"),
        (1_700_000_000.000001, "2023-11-14T22:13:20.000001Z"),
        (-5.0, "1970-01-01T00:00:00Z"),
    ],
)
def test_people_read_no_more_digits_than_are_known_and_programs_always_six(at_s: float, shown: str) -> None:
    assert read_by_people(at_s) == shown
    assert moment(at_s) == (shown if "." in shown else shown.replace("Z", ".000000Z"))
