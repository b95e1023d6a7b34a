"""Whether a container may be made or touched. Pure."""

from holdfast.gate.acts import Act, Data, Provenance
from holdfast.gate.authority import Authority
from holdfast.gate.decide import Decision, Deed, decide
from holdfast.gate.facts import NO_THING, Facts, provenance
from holdfast.model.container import Container
from holdfast.ports.journal import Journal

MADE = "container:"  # in the journal, before the name of a container of a service
RUN = "run:"  # the same, of a run of a schedule

_NOT_MADE_HERE = (Provenance.FOREIGN, Provenance.UNKNOWN)


def may_make(act: Act, name: str, service: str, node: str, authority: Authority) -> Decision:
    """Nothing is there yet: what it mounts is decided for each mount."""
    return decide(Deed(act, f"service.{service}", node, NO_THING, authority, name))


def may_touch(
    journal: Journal, act: Act, container: Container, service: str, node: str, authority: Authority
) -> Decision:
    """`service` is that of a run, which has no label of one. Whatever is done to a container that this agent did not
    make counts as taking it away, and is a matter of the node."""
    made = provenance(journal, MADE + container.name, None)
    if made in _NOT_MADE_HERE:
        made = provenance(journal, RUN + container.name, None)
    facts = Facts(made, Data.NOTHING)
    if made in _NOT_MADE_HERE:
        return decide(Deed(Act.RETIRE, f"node.{node}", node, facts, authority, container.id))
    return decide(Deed(act, f"service.{container.service or service}", node, facts, authority, container.id))
