"""What is known of a hub before it is asked: its key, its fleet, its operators; never guessed from a broken file."""

import pytest

from holdfast.adapters.disk.memory import MemoryDisk
from holdfast.adapters.identity_key.memory import MemoryIdentityKey
from holdfast.cli.fleet import hub_identity
from holdfast.cli.fleet.hub_identity import Acquaintance
from holdfast.errors import Corrupt, Invalid
from holdfast.model import ssh_key
from tests.fleets.build import ALICE, ALICE_SIGNER

HUB, OTHER = MemoryIdentityKey(b"hub".ljust(32)).line, MemoryIdentityKey(b"other".ljust(32)).line
FLEET = "a" * 64
LOCK = f'fleet = "{FLEET}"\nnumber = 3\ndigest = "{"b" * 64}"\n'
FILE = f"""
[fleet]
name = "small"
hub_key = "{HUB} of our hub"

[[operators]]
name = "alice"
grade = "root"
key = "{ALICE.key}"
"""


def known(files: dict[str, str], environ: dict[str, str] | None = None) -> Acquaintance:
    disk = MemoryDisk()
    disk.make_directory("/fleet")
    for name, text in files.items():
        disk.replace(f"/fleet/{name}", text.encode())
    return hub_identity.of("/fleet", disk, environ or {})


def test_a_directory_tells_key_fleet_and_operators() -> None:
    found = known({"fleet.toml": FILE, "fleet.lock": LOCK})
    assert (found.pin, found.fleet) == (HUB, FLEET)
    assert found.knows(ALICE_SIGNER.public_key.blob)
    assert not found.knows(ssh_key.parse(OTHER).blob)


def test_no_directory_tells_nothing_and_any_key_may_be_an_operator_s() -> None:
    found = known({})
    assert (found.pin, found.fleet) == ("", "")
    assert found.knows(ALICE_SIGNER.public_key.blob)


def test_the_environment_goes_first() -> None:
    assert known({"fleet.toml": FILE}, {"HOLDFAST_HUB_KEY": OTHER}).pin == OTHER
    assert known({"fleet.toml": "= broken"}, {"HOLDFAST_HUB_KEY": OTHER}).pin == OTHER


@pytest.mark.parametrize("text", ["= broken", "[fleet", "[fleet]\nhub_key = 'ssh"])
def test_a_pin_in_a_broken_file_is_not_forgotten_silently(text: str) -> None:
    """Else the system's authorities would decide where a pin was written."""
    with pytest.raises(Invalid) as raised:
        known({"fleet.toml": text})
    assert raised.value.code == "hub_key_unknown"


HALF_EDITED = f"{FILE}\n[[nodes]]\nname = \n"


def test_a_mistake_elsewhere_in_the_file_hides_neither_the_key_of_the_hub_nor_the_operators_t8() -> None:
    found = known({"fleet.toml": HALF_EDITED, "fleet.lock": LOCK})
    assert (found.pin, found.fleet) == (HUB, FLEET)
    assert found.knows(ALICE_SIGNER.public_key.blob) and not found.knows(ssh_key.parse(OTHER).blob)
    assert known({"fleet.toml": HALF_EDITED}, {"HOLDFAST_HUB_KEY": OTHER}).pin == OTHER
    assert known({"fleet.toml": f"fleet.hub_key = '{HUB}' # ours\n= broken"}).pin == HUB


@pytest.mark.parametrize(
    "text",
    [
        f'hub_key = "{HUB}"\nhub_key = "{OTHER}"\n',
        f'# hub_key = "{HUB}"\n= broken',
        f'old_hub_key = "{HUB}"\n= broken',
        f'hub_key = "{HUB}\n',
        f'hub_key = "{HUB}" and more\n',
        'hub_key = "nonsense"\n= broken',
    ],
    ids=["two", "comment", "another key", "no end", "more on the line", "no key"],
)
def test_a_key_that_a_broken_file_does_not_tell_for_sure_is_asked_for_t8(text: str) -> None:
    with pytest.raises(Invalid) as raised:
        known({"fleet.toml": text})
    assert raised.value.code == "hub_key_unknown"
    assert "HOLDFAST_HUB_KEY='ssh-ed25519 " in raised.value.remedy and "`holdfast hub check`" in raised.value.remedy


RSA = "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAgQC7"


@pytest.mark.parametrize("value", ['"nonsense"', "7", "[1]", f'"{RSA}"', '"ssh-ed25519 AAAA"'])
def test_a_hub_key_that_is_none_is_said(value: str) -> None:
    with pytest.raises(Invalid) as raised:
        known({"fleet.toml": f"[fleet]\nhub_key = {value}\n"})
    assert raised.value.code == "hub_key_invalid"


def test_an_elliptic_hub_key_is_refused() -> None:
    point = ssh_key.fields(ssh_key.parse(HUB))[0]
    hardware = ssh_key.line(ssh_key.from_blob(ssh_key.pack(b"sk-ssh-ed25519@openssh.com", point, b"ssh:")))
    with pytest.raises(Invalid, match="not ssh-ed25519"):
        known({}, {"HOLDFAST_HUB_KEY": hardware})


@pytest.mark.parametrize("text", ["fleet = 3\n", "operators = 3\n", "operators = [3]\n", '[[operators]]\nkey = "x"\n'])
def test_a_file_of_another_shape_tells_nothing(text: str) -> None:
    found = known({"fleet.toml": text})
    assert (found.pin, found.operators) == ("", frozenset())


def test_a_damaged_lock_is_damage() -> None:
    with pytest.raises(Corrupt):
        known({"fleet.toml": FILE, "fleet.lock": "nonsense"})


def test_where_memory_is_kept() -> None:
    assert hub_identity.state_dir({"HOLDFAST_STATE": "/s"}) == "/s"
    assert hub_identity.state_dir({"XDG_STATE_HOME": "/x"}) == "/x/holdfast"
    assert hub_identity.state_dir({"HOME": "/home/a"}) == "/home/a/.local/state/holdfast"
