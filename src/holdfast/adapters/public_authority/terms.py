"""How we stand with a public authority: what has to be agreed before anything is asked, and when it is only busy."""

from holdfast.errors import Failed
from holdfast.model.fleet import Acme

BUSY = "acme_busy"  # a code: what the next moment may mend, such as two orders that came in each other's way


def check_terms(settings: Acme) -> None:
    """Nobody agrees for the operator: it is written and signed in the fleet file, or nothing is ordered."""
    if not settings.terms_agreed:
        raise Failed(
            f"the terms of the authority {settings.directory} are not agreed to",
            remedy="read them, then set terms_agreed = true in [acme] of fleet.toml and holdfast apply",
            code="acme_terms",
        )
