"""The format of revisions that a node must read for each thing that older agents do not understand. Pure.

Every pulse names the newest format that its agent reads. A plan that sends such a thing to a node whose verified pulse
names an older format is refused: the agent would misread it.
"""

from holdfast.errors import Conflict

BOUND_SECRETS = 2  # the purpose of a secret inside its seal (model/purpose.py): older agents take it for the value
NEWEST = 2  # what this release reads


def too_old(node: str, what: str) -> Conflict:
    return Conflict(
        f"the agent on {node} is of an older release, which cannot read {what}",
        remedy=f"upgrade the agent on {node} to this release and start it again; then repeat the command",
        code="agent_too_old",
    )
