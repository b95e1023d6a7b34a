"""The other node of a move: without a key that was signed for it nothing is sealed and nothing is believed."""

import pytest

from holdfast.agent.moves.declared import Moving, known_peer
from holdfast.errors import Failed
from holdfast.model.move import Move, Peer
from holdfast.model.revision import Entry

W2 = Peer("ssh-ed25519 of-w2", "100.64.0.2")


def moving(peer: Peer | None) -> Moving:
    return Moving("web", Entry("0" * 64, "w2", 2), Move("w1"), "w1", "w2", peer)


def test_a_move_without_a_signed_key_of_the_other_node_names_the_way_back() -> None:
    assert known_peer(moving(W2), "w2") == W2
    with pytest.raises(Failed, match="no key of w2") as raised:
        known_peer(moving(None), "w2")
    assert "holdfast migrate web --abort" in raised.value.remedy and raised.value.code == "no_peer"
