"""What a hub shows: a certificate of its own key, kept, renewed while it runs, never another key (S01, design §3)."""

import os
import ssl
import stat
import time
from hashlib import sha256
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.adapters.clock.virtual import VirtualClock
from holdfast.adapters.disk.posix import PosixDisk
from holdfast.adapters.identity_key import file as key_file
from holdfast.adapters.machine.addresses import own_names
from holdfast.adapters.random_source.system import SystemRandom
from holdfast.adapters.tls.hub import HubTls
from holdfast.errors import Corrupt
from tests.fleets.build import mailbox
from tests.fleets.serving import HOST, Served, connected, get, parts_of, reply, running

DAY_S = 86_400.0
KEY, PRIVATE = key_file.made(SystemRandom())
OTHER = key_file.made(SystemRandom())[1]


def shown(folder: Path, *names: str, private: bytes = PRIVATE, now_s: float | None = None) -> HubTls:
    clock = VirtualClock(time.time() if now_s is None else now_s)
    return HubTls(private, names, str(folder / "hub.crt"), clock, PosixDisk())


def test_the_certificate_is_of_the_hubs_own_key_and_lasts_ninety_days(tmp_path: Path) -> None:
    found = shown(tmp_path, HOST, "hub.example").facts
    assert (found.key, found.self_signed) == (KEY.line, True)
    assert (found.names, found.addresses) == (("hub.example",), (HOST,))
    assert 89 * DAY_S < found.not_after_s - time.time() <= 90 * DAY_S


def test_it_is_kept_readable_by_nobody_else_and_shown_again_after_a_restart(tmp_path: Path) -> None:
    first = shown(tmp_path, HOST)
    assert stat.S_IMODE(os.stat(tmp_path / "hub.crt").st_mode) == 0o600
    assert shown(tmp_path, HOST).facts == first.facts


def test_a_name_once_given_stays_and_a_new_one_is_added(tmp_path: Path) -> None:
    first = shown(tmp_path, "hub.example").facts
    both = shown(tmp_path, HOST).facts
    assert both.digest != first.digest
    assert (both.names, both.addresses) == (("hub.example",), (HOST,))
    assert shown(tmp_path, HOST, "hub.example").facts == both


@pytest.mark.parametrize(
    "content", [b"", b"rubbish", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]
)
def test_a_damaged_certificate_is_made_anew(tmp_path: Path, content: bytes) -> None:
    shown(tmp_path, HOST)
    (tmp_path / "hub.crt").write_bytes(content)
    assert shown(tmp_path, HOST).facts.key == KEY.line


def test_a_certificate_of_another_key_is_never_shown(tmp_path: Path) -> None:
    shown(tmp_path, HOST, "theirs.example", private=OTHER)
    found = shown(tmp_path, HOST).facts
    assert (found.key, found.names) == (KEY.line, ()), "nor are its names believed"


def test_a_damaged_key_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Corrupt):
        shown(tmp_path, HOST, private=PRIVATE[:-40])


def test_it_is_renewed_with_a_third_of_its_life_left_and_not_before(tmp_path: Path) -> None:
    clock = VirtualClock(time.time())
    tls = HubTls(PRIVATE, (HOST,), str(tmp_path / "hub.crt"), clock, PosixDisk())
    first = tls.facts
    clock.sleep(59 * DAY_S)
    assert not tls.renew() and tls.facts == first
    clock.sleep(2 * DAY_S)
    assert tls.renew() and tls.facts.digest != first.digest
    assert (tls.facts.key, tls.facts.addresses) == (first.key, first.addresses)
    assert not tls.renew()
    again = HubTls(PRIVATE, (HOST,), str(tmp_path / "hub.crt"), clock, PosixDisk())
    assert again.facts == tls.facts


def peer(line: ssl.SSLSocket) -> str:
    return sha256(line.getpeercert(binary_form=True) or b"").hexdigest()


def test_a_renewal_while_it_runs_cuts_nobody_off(tmp_path: Path) -> None:
    """New handshakes see the new one; whoever is connected stays, and everybody pins the same key."""
    clock = VirtualClock(time.time() - 61 * DAY_S)
    tls = HubTls(PRIVATE, (HOST,), str(tmp_path / "hub.crt"), clock, PosixDisk())
    parts, store = parts_of(mailbox(), key=PRIVATE)
    hub = Served(replace(parts, shown=tls), store)
    with running(hub), connected(hub) as before:
        old = tls.facts.digest
        assert peer(before) == old
        clock.sleep(61 * DAY_S)
        assert tls.renew()
        with connected(hub) as after:
            assert peer(after) == tls.facts.digest != old
        before.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert reply(before).status == 200
        assert get(hub, "/v1/head").status == 200


def test_a_hub_that_listens_everywhere_is_called_by_every_address_of_its_machine() -> None:
    assert {"localhost", "127.0.0.1", "::1"} <= set(own_names("10.9.8.7"))
    assert "10.9.8.7" in own_names("10.9.8.7")
    everywhere = own_names("0.0.0.0")
    assert "0.0.0.0" not in everywhere and "127.0.0.1" in everywhere
    assert len(everywhere) == len(set(everywhere))
