"""What every proxy refuses, in the same words."""

from collections.abc import Collection

from holdfast.errors import Failed


def no_certificate(lacking: Collection[str]) -> Failed:
    """Of every adapter: no route without a certificate that was judged (I-16)."""
    return Failed(
        f"{len(lacking)} routes name a certificate that nobody handed over",
        remedy="report this, with the log of the agent",
        code="no_certificate",
    )
