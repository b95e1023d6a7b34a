"""Roles come from the applied revision; a flag may only assert one (C-36, T-18)."""

from holdfast.agent.agent import Agent
from holdfast.errors import Conflict


def of(agent: Agent) -> tuple[str, ...]:
    """As accepted; before the first revision, as in the signed invite."""
    own = agent.accepting.own()
    return own[0].roles if own is not None else agent.me.roles


def check_role(agent: Agent, asserted: str) -> None:
    roles = of(agent)
    if asserted and asserted not in roles:
        raise Conflict(
            f"--proxy requires that {agent.me.node} has the role {asserted}, the revision says {', '.join(roles)}",
            remedy=f'omit --proxy, or give {agent.me.node} roles = ["{asserted}"] in fleet.toml and apply',
            code="failed_precondition",
        )
