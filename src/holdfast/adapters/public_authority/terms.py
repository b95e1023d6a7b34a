"""What has to be agreed with a public authority before anything is asked of it."""

from holdfast.errors import Failed
from holdfast.model.fleet import Acme


def check_terms(settings: Acme) -> None:
    """Nobody agrees for the operator: it is written and signed in the fleet file, or nothing is ordered."""
    if not settings.terms_agreed:
        raise Failed(
            f"the terms of the authority {settings.directory} are not agreed to",
            remedy="read them, then set terms_agreed = true in [acme] of fleet.toml and holdfast apply",
            code="acme_terms",
        )
