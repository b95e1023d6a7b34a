"""When an SSHSIG holds (design §3; S07: one valid signature and its mutations; A7: a key that needs a touch)."""

import base64
import hashlib
import os
import subprocess
import sys
from collections.abc import Callable

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

import holdfast
from holdfast.errors import Corrupt, Invalid
from holdfast.model import ssh_key
from holdfast.model.ssh_key import PublicKey, pack, pack_integer
from holdfast.trust import sshsig
from holdfast.trust.sshsig import SignatureFacts, armour, parse, signed_data, verify

SOURCE = os.path.dirname(os.path.dirname(holdfast.__file__))
MESSAGE, NAMESPACE = b"revision 7", "holdfast-revision"
ED25519 = Ed25519PrivateKey.from_private_bytes(b"\x07" * 32)
ED25519_KEY = PublicKey("ssh-ed25519", pack(b"ssh-ed25519", ED25519.public_key().public_bytes_raw()))
P256 = ec.derive_private_key(7, ec.SECP256R1())
SK_ED25519, SK_P256 = "sk-ssh-ed25519@openssh.com", "sk-ecdsa-sha2-nistp256@openssh.com"

# Made once by: ssh-keygen -Y sign -n file, over b"hi\n", so that a change of ours cannot change both sides.
STOCK_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPcudlp7MP6JNL/cMlpWaS6J0dxou/8UqEe+OwfhyJ4r"
STOCK_SIGNATURE = """\
-----BEGIN SSH SIGNATURE-----
U1NIU0lHAAAAAQAAADMAAAALc3NoLWVkMjU1MTkAAAAg9y52Wnsw/ok0v9wyWlZpLonR3G
i7/xSoR747B+HInisAAAAEZmlsZQAAAAAAAAAGc2hhNTEyAAAAUwAAAAtzc2gtZWQyNTUx
OQAAAEDhd1CdtSKHm7xmiqTeaKkQtxi9bMvN30ve01erQgcHnhfGOKZ+Sl2X6yAcOYFznc
zy5dGfp+jEXEt5HSewiBoB
-----END SSH SIGNATURE-----
"""


def ed25519_text(message: bytes = MESSAGE, namespace: str = NAMESPACE, hash_algorithm: str = "sha512") -> str:
    signature = ED25519.sign(signed_data(message, namespace, hash_algorithm))
    return armour(ED25519_KEY, namespace, pack(b"ssh-ed25519", signature), hash_algorithm)


def framed(*parts: bytes, magic: bytes = b"SSHSIG", version: int = 1) -> str:
    """A signature from raw parts, laid out as ssh-keygen does, for what `armour` would refuse to make."""
    body = base64.b64encode(magic + version.to_bytes(4, "big") + pack(*parts)).decode()
    lines = "\n".join(body[at : at + 70] for at in range(0, len(body), 70))
    return f"-----BEGIN SSH SIGNATURE-----\n{lines}\n-----END SSH SIGNATURE-----\n"


def point_of(private: ec.EllipticCurvePrivateKey) -> bytes:
    numbers = private.public_key().public_numbers()
    return b"\x04" + numbers.x.to_bytes(32, "big") + numbers.y.to_bytes(32, "big")


def pair(der: bytes) -> bytes:
    r, s = utils.decode_dss_signature(der)
    return pack(pack_integer(r), pack_integer(s))


def sk_key(type_: str, application: bytes = b"ssh:") -> PublicKey:
    point = [ED25519.public_key().public_bytes_raw()] if type_ == SK_ED25519 else [b"nistp256", point_of(P256)]
    return PublicKey(type_, pack(type_.encode(), *point, application))


def sk_text(type_: str, flags: int = 1, application: bytes = b"ssh:", claimed: bytes = b"ssh:") -> str:
    """What a security key answers that was made for `application`, in a signature that says `claimed`."""
    tail = bytes([flags]) + (258).to_bytes(4, "big")
    data = hashlib.sha256(signed_data(MESSAGE, NAMESPACE)).digest()
    said = hashlib.sha256(application).digest() + tail + data
    raw = ED25519.sign(said) if type_ == SK_ED25519 else pair(P256.sign(said, ec.ECDSA(hashes.SHA256())))
    return armour(sk_key(type_, claimed), NAMESPACE, pack(type_.encode(), raw) + tail)


def refused(armoured: str, key: PublicKey = ED25519_KEY, message: bytes = MESSAGE, namespace: str = NAMESPACE) -> str:
    with pytest.raises(Corrupt) as refusal:
        verify(message, armoured, namespace, key)
    assert refusal.value.code == "signature_invalid"
    assert refusal.value.remedy
    return refusal.value.message


def test_a_signature_that_ssh_keygen_once_made_holds() -> None:
    assert verify(b"hi\n", STOCK_SIGNATURE, "file", ssh_key.parse(STOCK_KEY)) == SignatureFacts()


@pytest.mark.parametrize("hash_algorithm", ["sha256", "sha512"])
def test_both_hashes_are_accepted(hash_algorithm: str) -> None:
    armoured = ed25519_text(hash_algorithm=hash_algorithm)
    assert verify(MESSAGE, armoured, NAMESPACE, ED25519_KEY) == SignatureFacts()
    assert parse(armoured).hash_algorithm == hash_algorithm


def test_a_signature_for_another_hash_than_it_names_is_refused() -> None:
    signature = pack(b"ssh-ed25519", ED25519.sign(signed_data(MESSAGE, NAMESPACE, "sha256")))
    assert "did not sign" in refused(armour(ED25519_KEY, NAMESPACE, signature, "sha512"))


def test_the_comment_of_a_key_does_not_matter() -> None:
    key = PublicKey(ED25519_KEY.type, ED25519_KEY.blob, "ada@laptop")
    assert verify(MESSAGE, ed25519_text(), NAMESPACE, key) == SignatureFacts()


def test_another_message_is_refused() -> None:
    assert "did not sign" in refused(ed25519_text(), message=MESSAGE + b" ")


def test_another_namespace_is_refused() -> None:
    assert "'holdfast-order'" in refused(ed25519_text(namespace="holdfast-order"))
    assert "'holdfast-revision'" in refused(ed25519_text(), namespace="holdfast-order")


def test_a_namespace_swapped_in_the_frame_is_refused() -> None:
    parsed = parse(ed25519_text(namespace="holdfast-order"))
    assert "did not sign" in refused(armour(ED25519_KEY, NAMESPACE, parsed.signature))


def test_another_key_is_refused_and_both_are_named() -> None:
    other = PublicKey("ssh-ed25519", pack(b"ssh-ed25519", b"\x01" * 32))
    assert refused(ed25519_text(), key=other).count("SHA256:") == 2


def test_a_key_swapped_in_the_frame_is_refused() -> None:
    other = Ed25519PrivateKey.from_private_bytes(b"\x08" * 32).public_key().public_bytes_raw()
    key = PublicKey("ssh-ed25519", pack(b"ssh-ed25519", other))
    refused(armour(key, NAMESPACE, parse(ed25519_text()).signature), key=key)


@pytest.mark.parametrize("namespace", ["", "a\0b", "a\nb"])
def test_nothing_is_framed_for_a_namespace_that_is_none(namespace: str) -> None:
    with pytest.raises(Invalid):
        signed_data(MESSAGE, namespace)
    with pytest.raises(Invalid):
        armour(ED25519_KEY, namespace, b"x")


@pytest.mark.parametrize("hash_algorithm", ["sha1", "md5", "SHA512", "", "sha384"])
def test_nothing_is_framed_for_another_hash(hash_algorithm: str) -> None:
    with pytest.raises(Invalid):
        signed_data(MESSAGE, NAMESPACE, hash_algorithm)
    with pytest.raises(Invalid):
        armour(ED25519_KEY, NAMESPACE, b"x", hash_algorithm)


GOOD = ed25519_text()
KEY, SIGNATURE, SPACE = ED25519_KEY.blob, parse(GOOD).signature, NAMESPACE.encode()
HEAD, FOOT = "-----BEGIN SSH SIGNATURE-----\n", "-----END SSH SIGNATURE-----\n"
BODY = GOOD.removeprefix(HEAD).removesuffix(FOOT)
MISSHAPEN = {
    "nothing": "",
    "only armour": HEAD + FOOT,
    "no header": BODY + FOOT,
    "no footer": HEAD + BODY,
    "no last newline": GOOD[:-1],
    "trailing garbage": GOOD + "x",
    "a trailing newline": GOOD + "\n",
    "leading space": " " + GOOD,
    "armour twice": GOOD + GOOD,
    "armour inside armour": HEAD + GOOD + FOOT,
    "windows line ends": GOOD.replace("\n", "\r\n"),
    "one long line": HEAD + BODY.replace("\n", "") + "\n" + FOOT,
    "an empty line": HEAD + "\n" + BODY + FOOT,
    "letters that are not ascii": GOOD.replace("A", "А"),
    "too long": HEAD + "A" * sshsig.ARMOUR_CHARS_MAX + "\n" + FOOT,
    "another magic": framed(KEY, SPACE, b"", b"sha512", SIGNATURE, magic=b"SSHSIC"),
    "version 0": framed(KEY, SPACE, b"", b"sha512", SIGNATURE, version=0),
    "version 2": framed(KEY, SPACE, b"", b"sha512", SIGNATURE, version=2),
    "an empty namespace": framed(KEY, b"", b"", b"sha512", SIGNATURE),
    "a namespace that is no text": framed(KEY, b"\xff", b"", b"sha512", SIGNATURE),
    "a namespace with a NUL": framed(KEY, SPACE + b"\0", b"", b"sha512", SIGNATURE),
    "a reserved field in use": framed(KEY, SPACE, b"x", b"sha512", SIGNATURE),
    "an unknown hash": framed(KEY, SPACE, b"", b"sha1", SIGNATURE),
    "a field too many": framed(KEY, SPACE, b"", b"sha512", SIGNATURE, b""),
    "a field too few": framed(KEY, SPACE, b"", b"sha512"),
    "a key that is none": framed(b"key", SPACE, b"", b"sha512", SIGNATURE),
    "an empty signature": framed(KEY, SPACE, b"", b"sha512", b""),
    "bytes after the signature": framed(KEY, SPACE, b"", b"sha512", SIGNATURE + b"\0"),
    "a string after the signature": framed(KEY, SPACE, b"", b"sha512", SIGNATURE + pack(b"")),
    "a longer raw signature": framed(KEY, SPACE, b"", b"sha512", pack(b"ssh-ed25519", bytes(65))),
    "another algorithm": framed(KEY, SPACE, b"", b"sha512", SIGNATURE.replace(b"ed25519", b"ed25518")),
}


def test_the_hand_made_frame_of_these_tests_is_the_real_one() -> None:
    assert framed(KEY, SPACE, b"", b"sha512", SIGNATURE) == GOOD


@pytest.mark.parametrize("misshapen", MISSHAPEN.values(), ids=MISSHAPEN)
def test_a_misshapen_signature_is_refused(misshapen: str) -> None:
    """S07: envelopes that differ from the one canonical text."""
    refused(misshapen)


@pytest.mark.parametrize("namespace", [b"", b"a\0b", b"a\nb", b"\xff"])
def test_a_signature_for_a_namespace_that_is_none_is_not_even_read(namespace: bytes) -> None:
    with pytest.raises(Corrupt):
        parse(framed(KEY, namespace, b"", b"sha512", SIGNATURE))


def test_a_signature_is_not_read_beyond_its_bound() -> None:
    assert "longer than" in refused(armour(ED25519_KEY, NAMESPACE, bytes(sshsig.ARMOUR_CHARS_MAX)))


@given(st.integers(0, len(GOOD) - 1), st.integers(1, 127))
def test_a_signature_with_any_character_changed_is_refused(at: int, difference: int) -> None:
    """S07: each envelope byte flipped."""
    refused(GOOD[:at] + chr(ord(GOOD[at]) ^ difference) + GOOD[at + 1 :])


@given(st.integers(0, len(GOOD) - 1))
def test_a_signature_cut_anywhere_is_refused(size: int) -> None:
    refused(GOOD[:size])


@given(st.text(max_size=300))
def test_arbitrary_text_is_refused_and_nothing_else_happens(text: str) -> None:
    refused(text)


# --- RSA ---

RSA = rsa.generate_private_key(65537, 2048)
RSA_KEY = PublicKey("ssh-rsa", pack(b"ssh-rsa", b"\x01\0\x01", pack_integer(RSA.public_key().public_numbers().n)))


def rsa_text(label: bytes, digest: hashes.HashAlgorithm) -> str:
    raw = RSA.sign(signed_data(MESSAGE, NAMESPACE), padding.PKCS1v15(), digest)
    return armour(RSA_KEY, NAMESPACE, pack(label, raw))


@pytest.mark.parametrize(("label", "digest"), [(b"rsa-sha2-256", hashes.SHA256()), (b"rsa-sha2-512", hashes.SHA512())])
def test_rsa_signs_with_sha2(label: bytes, digest: hashes.HashAlgorithm) -> None:
    assert verify(MESSAGE, rsa_text(label, digest), NAMESPACE, RSA_KEY) == SignatureFacts()


@pytest.mark.parametrize("label", [b"ssh-rsa", b"rsa-sha2-256", b"rsa-sha2-512", b"rsa-sha1", b""])
def test_rsa_with_sha1_is_refused_whatever_it_calls_itself(label: bytes) -> None:
    refused(rsa_text(label, hashes.SHA1()), key=RSA_KEY)


def test_the_legacy_name_is_refused_even_over_sha2() -> None:
    assert "rsa-sha2-512" in refused(rsa_text(b"ssh-rsa", hashes.SHA512()), key=RSA_KEY)


def test_a_short_rsa_key_is_refused_although_its_signature_would_hold() -> None:
    weak = rsa.generate_private_key(65537, 1024)
    modulus = pack_integer(weak.public_key().public_numbers().n)
    key = PublicKey("ssh-rsa", pack(b"ssh-rsa", b"\x01\0\x01", modulus))
    raw = weak.sign(signed_data(MESSAGE, NAMESPACE), padding.PKCS1v15(), hashes.SHA512())
    assert "1024 bits" in refused(armour(key, NAMESPACE, pack(b"rsa-sha2-512", raw)), key=key)


# --- ECDSA ---

CURVES = {
    "nistp256": (ec.SECP256R1(), hashes.SHA256(), 32),
    "nistp384": (ec.SECP384R1(), hashes.SHA384(), 48),
    "nistp521": (ec.SECP521R1(), hashes.SHA512(), 66),
}


def ecdsa_key_and_text(curve_name: str, reframe: Callable[[bytes], bytes] = pair) -> tuple[PublicKey, str]:
    curve, digest, size = CURVES[curve_name]
    private = ec.derive_private_key(11, curve)
    numbers = private.public_key().public_numbers()
    point = b"\x04" + numbers.x.to_bytes(size, "big") + numbers.y.to_bytes(size, "big")
    type_ = f"ecdsa-sha2-{curve_name}"
    key = PublicKey(type_, pack(type_.encode(), curve_name.encode(), point))
    raw = reframe(private.sign(signed_data(MESSAGE, NAMESPACE), ec.ECDSA(digest)))
    return key, armour(key, NAMESPACE, pack(type_.encode(), raw))


@pytest.mark.parametrize("curve_name", CURVES)
def test_ecdsa_holds_on_each_curve(curve_name: str) -> None:
    key, armoured = ecdsa_key_and_text(curve_name)
    assert verify(MESSAGE, armoured, NAMESPACE, key) == SignatureFacts()
    assert "did not sign" in refused(armoured, key=key, message=b"another")


def padded(der: bytes) -> bytes:
    r, s = utils.decode_dss_signature(der)
    return pack(b"\0" + pack_integer(r), pack_integer(s))


@pytest.mark.parametrize(
    "reframe", [padded, lambda der: der, lambda der: pack(b"", b""), lambda der: pair(der) + b"\0"]
)
def test_ecdsa_numbers_have_one_encoding(reframe: Callable[[bytes], bytes]) -> None:
    key, armoured = ecdsa_key_and_text("nistp256", reframe)
    refused(armoured, key=key)


def test_a_point_off_the_curve_is_refused() -> None:
    key = PublicKey("ecdsa-sha2-nistp256", pack(b"ecdsa-sha2-nistp256", b"nistp256", b"\x04" + b"\x01" * 64))
    blob = pack(b"ecdsa-sha2-nistp256", pack(b"\x01", b"\x01"))
    refused(armour(key, NAMESPACE, blob), key=key)


# --- security keys (A7: destruction needs a touch) ---


@pytest.mark.parametrize("type_", [SK_ED25519, SK_P256])
@pytest.mark.parametrize(("flags", "user_verified"), [(1, False), (5, True)])
def test_a_security_key_tells_of_touch_and_pin(type_: str, flags: int, user_verified: bool) -> None:
    facts = verify(MESSAGE, sk_text(type_, flags), NAMESPACE, sk_key(type_))
    assert facts == SignatureFacts(touched=True, user_verified=user_verified, counter=258)


@pytest.mark.parametrize("type_", [SK_ED25519, SK_P256])
@pytest.mark.parametrize("flags", [0, 4, 0xFE])
def test_a_security_key_that_nobody_touched_is_refused(type_: str, flags: int) -> None:
    assert "was not touched" in refused(sk_text(type_, flags), key=sk_key(type_))


@pytest.mark.parametrize("type_", [SK_ED25519, SK_P256])
def test_the_touch_flag_cannot_be_added_later(type_: str) -> None:
    untouched = parse(sk_text(type_, flags=0))
    blob = untouched.signature[:-5] + b"\x01" + untouched.signature[-4:]
    assert "did not sign" in refused(armour(untouched.key, NAMESPACE, blob), key=sk_key(type_))


@pytest.mark.parametrize("type_", [SK_ED25519, SK_P256])
def test_the_counter_cannot_be_changed_later(type_: str) -> None:
    parsed = parse(sk_text(type_))
    blob = parsed.signature[:-1] + b"\xff"
    assert "did not sign" in refused(armour(parsed.key, NAMESPACE, blob), key=sk_key(type_))


@pytest.mark.parametrize("type_", [SK_ED25519, SK_P256])
def test_a_security_key_may_be_made_for_an_application_of_its_own(type_: str) -> None:
    own = b"ssh:holdfast"
    assert verify(MESSAGE, sk_text(type_, application=own, claimed=own), NAMESPACE, sk_key(type_, own)).touched


@pytest.mark.parametrize("type_", [SK_ED25519, SK_P256])
def test_another_application_is_another_key(type_: str) -> None:
    assert "it was made by" in refused(sk_text(type_), key=sk_key(type_, b"ssh:other"))


@pytest.mark.parametrize("type_", [SK_ED25519, SK_P256])
def test_a_security_key_signs_for_its_own_application_only(type_: str) -> None:
    """The library drops the application of sk-ssh-ed25519; then a touch given to a web site would count for us."""
    armoured = sk_text(type_, application=b"https://example.org", claimed=b"ssh:")
    assert "did not sign" in refused(armoured, key=sk_key(type_))


@pytest.mark.parametrize("type_", [SK_ED25519, SK_P256])
def test_a_plain_signature_does_not_pass_for_one_of_a_security_key(type_: str) -> None:
    data = signed_data(MESSAGE, NAMESPACE)
    raw = ED25519.sign(data) if type_ == SK_ED25519 else pair(P256.sign(data, ec.ECDSA(hashes.SHA256())))
    for blob in (pack(type_.encode(), raw), pack(type_.encode(), raw) + b"\x01\0\0\0\x01", pack(b"ssh-ed25519", raw)):
        refused(armour(sk_key(type_), NAMESPACE, blob), key=sk_key(type_))


@pytest.mark.parametrize("type_", [SK_ED25519, SK_P256])
def test_a_security_key_signature_cut_short_is_refused(type_: str) -> None:
    parsed = parse(sk_text(type_))
    for size in range(len(parsed.signature)):
        refused(armour(parsed.key, NAMESPACE, parsed.signature[:size]), key=sk_key(type_))


def test_framing_needs_no_cryptography() -> None:
    """Start-up budget: commands that verify nothing do not load the cryptography library."""
    code = "import sys, holdfast.trust.sshsig; sys.exit('cryptography' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": SOURCE}).returncode == 0
