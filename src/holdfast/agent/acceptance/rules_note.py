"""Remember from which revision on this node judges by the newest rules, over restarts."""

import msgspec

from holdfast.model.rules import RulesSince, met_at
from holdfast.ports.journal import Facts

RULES_FACT = "rules-since"


class RulesNote:
    def __init__(self, journal: Facts) -> None:
        self._journal = journal
        noted = journal.fact(RULES_FACT)
        self._since = msgspec.json.decode(noted, type=RulesSince) if noted is not None else None
        self._is_durable = noted is not None

    def met(self, number: int) -> RulesSince:
        """`number` is a verified head of the hub. The first one that this code meets ends the old rules."""
        if self._since is None:
            self._since = met_at(number)
        if not self._is_durable:
            self._journal.set_aside(RULES_FACT, msgspec.json.encode(self._since))
            self._is_durable = True
        return self._since
