"""One value, one spelling: our canonical bytes are RFC 8785's."""

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import Corrupt
from holdfast.model import canonical
from holdfast.model.revision import Head

text = st.text(st.characters(codec="utf-8"))
keys = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E))
values = st.recursive(
    st.none() | st.booleans() | st.integers(-canonical.INT_MAX, canonical.INT_MAX) | text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)


@given(values)
def test_our_bytes_are_rfc_8785_bytes(value: object) -> None:
    """C-13: canonical, sorted, hashable JSON."""
    assert canonical.encode(value) == rfc8785.dumps(value)  # type: ignore[arg-type]


@given(st.dictionaries(keys, st.integers(0, 9)))
def test_the_order_of_keys_does_not_matter(value: dict[str, int]) -> None:
    backwards = dict(reversed(value.items()))
    assert canonical.encode(value) == canonical.encode(backwards)


@pytest.mark.parametrize(
    "other",
    [
        b'{"digest":"d","number":1} ',
        b'{"number":1,"digest":"d"}',
        b'{"digest":"d","number":1,"number":1}',
        b'{"digest":"\\u0064","number":1}',
        b'{"digest":"d","number":1.0}',
        b'{"digest":"d","number":1,"x":2}',
        b"[" * 10_000,
        b"",
    ],
)
def test_a_second_spelling_of_the_same_value_is_corruption(other: bytes) -> None:
    """S07: duplicate keys, reordered, white space, escapes."""
    assert canonical.decode(b'{"digest":"d","number":1}', Head, "head") == Head(1, "d")
    with pytest.raises(Corrupt):
        canonical.decode(other, Head, "head")
