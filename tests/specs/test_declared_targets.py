"""A declared target becomes the product of its type, with its location and credentials."""

import pytest

from holdfast.errors import HoldfastError
from holdfast.model.fleet import Storage
from holdfast.wiring.targets import opener

DIRECTORIES = ("/nonexistent/mounts", "/nonexistent/storage")
KEYS = b"AWS_ACCESS_KEY_ID=a\nAWS_SECRET_ACCESS_KEY=b\nAWS_REGION=eu-1\n"


def test_a_declared_target_becomes_the_product_of_its_type() -> None:
    made = {
        "LocalDir": opener(*DIRECTORIES)(Storage("a", "local-dir", "box-1", location="/srv/box"), b"", None),
        "S3Target": opener(*DIRECTORIES)(Storage("b", "s3", "cold-1", location="https://h.test/backups"), KEYS, None),
        "ResticTarget": opener(*DIRECTORIES)(
            Storage("c", "restic", "ab" * 32, location="rest:https://h.test/"),
            b"RESTIC_PASSWORD=p\nRESTIC_REST_USERNAME=u\nRESTIC_REST_PASSWORD=q\n",
            None,
        ),
    }
    assert {name: type(one).__name__ for name, one in made.items()} == {name: name for name in made}
    assert made["ResticTarget"]._restic.repository == "rest:https://u:q@h.test/"  # type: ignore[attr-defined]
    assert made["LocalDir"]._path == "/srv/box"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("storage", "secret", "words"),
    [
        (Storage("b", "s3", "cold-1", location="https://h.test/backups"), b"", "lack AWS_ACCESS_KEY_ID"),
        (Storage("b", "s3", "cold-1", location="https://h.test"), KEYS, "not the address of a bucket"),
        (Storage("c", "restic", "ab" * 32, location="/r"), b"", "lack RESTIC_PASSWORD"),
        (Storage("c", "restic", "ab", location="/r"), b"RESTIC_PASSWORD=p", "not the id of a restic repository"),
        (Storage("d", "nfs", "n:/x"), b"", "no targets of type nfs"),
    ],
)
def test_what_cannot_be_a_target_is_said(storage: Storage, secret: bytes, words: str) -> None:
    with pytest.raises(HoldfastError, match=words):
        opener(*DIRECTORIES)(storage, secret, None)
