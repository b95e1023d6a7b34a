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


@pytest.mark.parametrize(
    ("call", "remedy", "pasted"),
    [
        ("lab exec w1 --dir d -- x --dir e", "holdfast lab start w1", "holdfast lab start w1 --dir d"),
        ("lab --dir d exec w1", "holdfast lab exec w1 -- CMD", "holdfast lab exec w1 --dir d -- CMD"),
        ("lab status", "holdfast lab up", "holdfast lab up"),
        ("agent check --state-dir s", "holdfast agent join TOKEN", "holdfast agent join TOKEN --state-dir s"),
        ("agent check --state-dir s", "holdfast hub check", "holdfast hub check"),
        ("hub run --state-dir s", "holdfast hub check", "holdfast hub check --state-dir s"),
        ("hub check --state-dir s", "holdfast import ledger", "holdfast import ledger --state-dir s"),
        ("hub run --state-dir s", "holdfast hub init --state-dir DIR", "holdfast hub init --state-dir DIR"),
        ("hub run --state-dir s", "`holdfast agent join TOKEN`", "`holdfast agent join TOKEN`"),
    ],
)
def test_a_remedy_repeats_the_directory_of_the_call(call: str, remedy: str, pasted: str) -> None:
    """Of a lab, of a hub, or of an agent."""
    assert for_pasting(remedy, call.split()) == pasted
