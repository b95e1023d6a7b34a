"""The commands in a remedy use the fleet and the hub of the call."""

import pytest

from holdfast.cli.remedies import for_pasting


@pytest.mark.parametrize(
    ("remedy", "pasted"),
    [
        ("`holdfast history` lists them", "`holdfast history --fleet 'a b' --hub h` lists them"),
        (
            "holdfast ps && holdfast node show w1 --fleet 'a b'",
            "holdfast ps --fleet 'a b' --hub h && holdfast node show w1 --fleet 'a b' --hub h",
        ),
        ("holdfast hub check; holdfast init x; holdfast plan --help", None),
        ("use the holdfast command; holdfast --help", None),
    ],
)
def test_a_remedy_repeats_the_fleet_and_the_hub_of_the_call(remedy: str, pasted: str | None) -> None:
    assert for_pasting(remedy, ["apply", "--fleet", "a b", "--hub=h"]) == (pasted or remedy)
    assert for_pasting(remedy, ["apply"]) == remedy
