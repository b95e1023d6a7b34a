"""Whose disk is full, and who made which token: what a hub says of itself over HTTP and in its logs."""

import json
import logging

import pytest

from holdfast.errors import Failed
from holdfast.model.audit import AuditEntry, Event
from holdfast.wire import codec, token_messages
from tests.fleets.build import grown_mailbox
from tests.fleets.serving import served


def test_tokens_that_are_made_and_revoked_are_in_the_audit_log_without_their_secret(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """I-38: who, which token, durable; never what would let somebody in."""
    with served(grown_mailbox(1)) as hub:
        kept: list[tuple[str, bool]] = []
        append = hub.parts.audit.append

        def watched(event: Event, durable: bool = True) -> AuditEntry:
            kept.append((event.action, durable))
            return append(event, durable)

        monkeypatch.setattr(hub.parts.audit, "append", watched)
        made = hub.signed("POST", "/v1/tokens", codec.write(token_messages.TokenRequest("grafana", 3600))).json()
        token = made["token"]["id"]
        target = f"/v1/tokens/{token}/revocation"
        assert hub.signed("POST", target, codec.write(token_messages.RevokeTokenRequest())).status == 200
        found = [event for event in hub.events() if event.target == f"token.{token}"]
        assert [(e.principal, e.action, e.result) for e in found] == [
            ("operator:alice", "make-token", "done"),
            ("operator:alice", "revoke-token", "done"),
        ]
        assert "grafana" in found[0].detail and found[0].source
        assert [durable for action, durable in kept if "token" in action] == [True, True]
        whole = b"".join(hub.parts.audit.lines(0, 1000)).decode()
        secret = made["text"].partition(f"{token}_")[2]  # it may have an underscore itself
        assert len(secret) > 20 and secret not in whole


def test_a_full_disk_of_the_hub_is_the_hubs_and_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever asks is not sent to look at his own disk."""
    with served(grown_mailbox(1)) as hub, caplog.at_level(logging.ERROR, "holdfast.hub"):

        def full(*args: object) -> object:
            raise Failed("no space is left for ledger.db", remedy="free space on its file system", code="no_space")

        monkeypatch.setattr(type(hub.parts.tokens), "create", full)
        body = codec.write(token_messages.TokenRequest("grafana", 3600))
        for _ in range(3):
            answer = hub.signed("POST", "/v1/tokens", body)
            assert (answer.status, answer.headers["holdfast-exit"]) == (500, "1")
            assert json.loads(answer.body) == {
                "code": "no_space",
                "message": "on the hub: no space is left for ledger.db",
                "remedy": "on the hub: free space on its file system",
            }
        assert [r.getMessage() for r in caplog.records if r.name == "holdfast.hub"] == [
            "no_space: no space is left for ledger.db; free space on its file system"
        ]
