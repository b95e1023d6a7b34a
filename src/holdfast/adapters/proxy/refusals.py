"""Errors that all proxy adapters share."""

from collections.abc import Collection

from holdfast.errors import Failed


def no_certificate(lacking: Collection[str]) -> Failed:
    """No route without a verified certificate (I-16)."""
    return Failed(
        f"{len(lacking)} routes name a certificate that the agent did not provide",
        remedy="report this, and attach the agent's log: journalctl -u holdfast-agent",
        code="no_certificate",
    )
