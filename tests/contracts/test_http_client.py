"""What signed clients share: no nonce is used twice, and a hub's address is read in one way."""

import pytest

from holdfast.adapters.clock.virtual import VirtualClock
from holdfast.adapters.http_client import hub_address
from holdfast.adapters.http_client.signing import Signing
from holdfast.adapters.identity_key.memory import MemoryIdentityKey
from holdfast.adapters.random_source.system import SystemRandom
from holdfast.errors import Invalid
from holdfast.model import ssh_key
from holdfast.wire import http_signature
from tests.fleets.build import START_S

KEY = MemoryIdentityKey(b"k" * 32)
TO = ssh_key.fingerprint(ssh_key.parse(MemoryIdentityKey(b"h" * 32).line))


def test_every_signature_has_a_nonce_of_its_own_and_holds() -> None:
    signing = Signing(KEY, VirtualClock(START_S), SystemRandom())
    nonces = set()
    for _ in range(20):
        made = signing.sign("POST", "/v1/check-in", b"{}", fleet="f" * 64, to=TO)
        parsed = http_signature.read("POST", "/v1/check-in", made.headers)
        http_signature.check_signature(parsed)
        http_signature.check_body(parsed, b"{}")
        assert (parsed.nonce, parsed.to, parsed.fleet, parsed.created_s) == (made.nonce, TO, "f" * 64, int(START_S))
        nonces.add(made.nonce)
    assert len(nonces) == 20


@pytest.mark.parametrize(
    ("url", "host", "port", "authority"),
    [
        ("https://hub.example:9555", "hub.example", 9555, "hub.example:9555"),
        ("https://hub.example/", "hub.example", 443, "hub.example"),
        ("https://[fd00::1]:9555", "fd00::1", 9555, "[fd00::1]:9555"),
    ],
)
def test_a_hub_is_named_by_an_https_url(url: str, host: str, port: int, authority: str) -> None:
    found = hub_address.parse(url)
    assert (found.host, found.port, found.authority) == (host, port, authority)


@pytest.mark.parametrize(
    "url", ["http://hub.example", "hub.example:9555", "https://", "https://a b", "https://hub:0", "https://hub:70000",
            "https://hub/path", "https://user@hub", "https://-hub"],
)  # fmt: skip
def test_anything_else_is_no_address_of_a_hub(url: str) -> None:
    with pytest.raises(Invalid, match="not the address of a hub"):
        hub_address.parse(url)
