"""The check that the operator agreed to an authority's terms, and the code for a busy authority."""

from holdfast.errors import Failed
from holdfast.model.fleet import Acme

BUSY = "acme_busy"  # a code for temporary errors, such as two orders that interfere with each other


def check_terms(settings: Acme) -> None:
    """Only the operator agrees, in the signed fleet file; without that nothing is ordered."""
    if not settings.terms_agreed:
        raise Failed(
            f"terms_agreed is not set for the authority {settings.directory}",
            remedy="read its terms, then set terms_agreed = true in [acme] of fleet.toml and run: holdfast apply",
            code="acme_terms",
        )
