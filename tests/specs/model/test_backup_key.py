"""Keys of backup objects have closed forms: anything else is refused before it becomes a path (A13)."""

import pytest

from holdfast.errors import Corrupt, Invalid
from holdfast.model import backup_key
from holdfast.model.backup_key import OBJECT_BYTES_MAX, BackupKey
from tests.fleets.backup_targets import FLEET, HOSTILE, HOSTILE_PREFIXES, D, G


def test_every_form_is_read_and_written_the_same() -> None:
    content = b"x"
    digest = backup_key.digest(content)
    for kind in ("keys", "packs", "manifests"):
        text = backup_key.sealed(FLEET, "my-web2", 12, kind, content)
        assert text == f"{G}/my-web2/g12/{kind}/{digest}"
        assert backup_key.parse(text) == BackupKey(text, G, "my-web2", kind, digest, generation=12)
    text = backup_key.receipt(FLEET, "w", 7, content)
    assert text == f"{G}/w/receipts/00000007-{digest}"
    assert backup_key.parse(text) == BackupKey(text, G, "w", "receipts", digest, sequence=7)


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text[:40]))
def test_what_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(Invalid) as refused:
        backup_key.parse(text)
    assert refused.value.code == "backup_key" and len(refused.value.message) < 800
    assert not backup_key.is_key(text)


def test_there_are_enough_of_them() -> None:
    assert len(set(HOSTILE)) > 30


@pytest.mark.parametrize("text", HOSTILE_PREFIXES, ids=ascii)
def test_what_begins_no_key_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        backup_key.check_prefix(text)


def test_a_prefix_ends_at_a_slash_and_names_at_least_the_fleet() -> None:
    good = (f"{G}/", f"{G}/web/", f"{G}/web/receipts/", f"{G}/web/g3/", f"{G}/web/g3/packs/", f"{G}/web/g3/keys/")
    assert [backup_key.check_prefix(text) for text in good] == list(good)
    assert [backup_key.service_of(text) for text in good] == ["", "web", "web", "web", "web", "web"]


def test_bytes_belong_to_their_key() -> None:
    key = backup_key.parse(f"{G}/web/g1/packs/{D}")
    with pytest.raises(Corrupt) as refused:
        backup_key.check_content(key, b"other")
    assert refused.value.code == "object_digest"
    with pytest.raises(Invalid) as long:
        backup_key.check_content(key, bytes(OBJECT_BYTES_MAX + 1))
    assert long.value.code == "body_too_large"
    with pytest.raises(Invalid):
        backup_key.check_content(backup_key.parse(backup_key.sealed(FLEET, "web", 0, "packs", b"")), b"")
    most = bytes(OBJECT_BYTES_MAX)
    backup_key.check_content(backup_key.parse(backup_key.sealed(FLEET, "web", 0, "packs", most)), bytearray(most))
