"""From something believed to the head: no gap, no fork, no unsigned step (W14)."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.adapters.signer.memory import MemorySigner
from holdfast.errors import Corrupt, HoldfastError
from holdfast.model import canonical
from holdfast.model.fleet import Operator, Thresholds
from holdfast.model.record import Link
from holdfast.model.revision import NAMESPACE, Head, Header, digest_of
from holdfast.model.ssh_key import line
from holdfast.model.trust import Trust, digest, of
from holdfast.trust.chain import Anchor, walk

ANN, EVE = MemorySigner(b"a" * 32), MemorySigner(b"e" * 32)
FIRST = of((Operator("ann", line(ANN.public_key), "root"),), Thresholds())
SECOND = of((Operator("eve", line(EVE.public_key), "root"),), Thresholds())
FLEET = digest(FIRST)
START = Anchor(FLEET, Head(0, ""), None)


def link(
    number: int, parent: str, trust: Trust = FIRST, signers: tuple[MemorySigner, ...] = (ANN,), **more: Any
) -> Link:
    header = Header(1, FLEET, number, parent, digest(trust), "0" * 64, {})
    content = canonical.encode(replace(header, **more))
    return Link(content, tuple(s.sign(content, NAMESPACE) for s in signers), canonical.encode(trust))


def chain(length: int) -> list[Link]:
    links: list[Link] = []
    for number in range(1, length + 1):
        links.append(link(number, digest_of(links[-1].header_bytes) if links else ""))
    return links


def test_a_sound_chain_leads_to_its_head() -> None:
    links = chain(4)
    assert walk(START, links).head == Head(4, digest_of(links[-1].header_bytes))


def test_a_walk_may_start_anywhere_already_believed() -> None:
    links = chain(4)
    middle = Anchor(FLEET, Head(2, digest_of(links[1].header_bytes)), FIRST)
    assert walk(middle, links[2:]) == walk(START, links)


def test_trust_rotates_along_the_chain_and_the_old_key_is_worth_nothing_after() -> None:
    links = chain(1)
    links.append(link(2, digest_of(links[0].header_bytes), SECOND, (ANN, EVE)))
    last = digest_of(links[1].header_bytes)
    assert walk(START, [*links, link(3, last, SECOND, (EVE,))]).trust == SECOND
    with pytest.raises(HoldfastError):
        walk(START, [*links, link(3, last, SECOND, (ANN,))])


BROKEN: dict[str, Callable[[list[Link]], list[Link]]] = {
    "a gap": lambda links: [links[0], links[2]],
    "a swap": lambda links: [links[0], links[2], links[1]],
    "a repetition": lambda links: [links[0], links[0]],
    "a fork": lambda links: [links[0], link(2, "f" * 64)],
    "another fleet": lambda links: [link(1, "", fleet="f" * 64)],
    "a newer format": lambda links: [link(1, "", format=2)],
    "a founder of another trust": lambda links: [link(1, "", SECOND, (EVE,))],
    "a swapped trust": lambda links: [replace(links[0], trust_bytes=canonical.encode(SECOND))],
    "no signature": lambda links: [replace(links[0], signatures=())],
    "somebody else's signature": lambda links: [replace(links[0], signatures=links[1].signatures)],
    "one byte changed": lambda links: [replace(links[0], header_bytes=links[0].header_bytes.replace(b'r":1', b'r":2'))],
    "trust taken over by the new key alone": lambda links: [links[0], _takeover(links[0])],
}


def _takeover(parent: Link) -> Link:
    return link(2, digest_of(parent.header_bytes), SECOND, (EVE,))


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_chain_is_refused(fault: str) -> None:
    with pytest.raises(HoldfastError) as refused:
        walk(START, BROKEN[fault](chain(3)))
    assert isinstance(refused.value, Corrupt) or refused.value.exit_code == 4
