"""Failed rollouts: from the open alarm and a report to the alerts that follow. Pure.

One alarm per failed deployment of a service, one recovery once it converged or another one is applied.
"""

from typing import Literal

from msgspec import Struct

from holdfast.model.deployment import ServiceState

Consequence = Literal["alarm", "recover"]


class Step(Struct, frozen=True):
    told: str  # the deployment whose failure has an open alarm, "" for none
    follows: tuple[Consequence, ...] = ()


def after(told: str, wanted: str, state: ServiceState | None) -> Step:
    """`wanted` is what is applied there by now. A report without the service proves nothing: an agent that has just
    started has not looked yet."""
    converged = state is not None and state.phase == "converged" and state.applied == told
    is_over = told != "" and (told != wanted or converged)
    known = "" if is_over else told
    failed = state is not None and state.phase == "failed" and state.applied == wanted != ""
    is_new = failed and known != wanted
    follows: tuple[Consequence, ...] = (*(("recover",) if is_over else ()), *(("alarm",) if is_new else ()))
    return Step(wanted if is_new else known, follows)
