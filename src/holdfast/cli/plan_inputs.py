"""What a plan knows besides the directory and the ledger: registries, what nodes proved, what secrets are for."""

from argparse import Namespace

from msgspec.structs import replace

from holdfast.cli.nodes import known_nodes
from holdfast.cli.tools import Toolbox
from holdfast.model.applied import Applied
from holdfast.model.fleet import Fleet
from holdfast.planning import images
from holdfast.planning.plan import Inputs
from holdfast.ports.hub_link import HubReader
from holdfast.trust.reports import Reports


def inputs(
    fleet: Fleet, hub: HubReader | None, applied: Applied | None, args: Namespace, box: Toolbox, only: str | None
) -> tuple[Inputs, Reports | None]:
    """Also what the nodes signed; None for a ledger directory, and before the first revision."""
    wanted = images.asked_for(fleet)
    answers = box.files.registry().resolve(wanted) if wanted and not getattr(args, "offline", False) else {}
    if unknown := images.unknown(fleet, answers, applied, only):
        from holdfast.declared import unknown_images

        raise unknown_images.refusal(unknown, box.files.fleet(args.fleet))
    seen = hub.observations() if hub is not None else {}
    nodes = known_nodes.look(hub, applied, box)
    found = _with_nodes(Inputs(seen, answers, only=only), nodes)
    if not fleet.secrets:
        return found, nodes
    from holdfast.cli.secrets import purposes  # it loads age: most fleets' plans have no new secret

    return purposes.with_purposes(found, fleet, applied, box), nodes


def _with_nodes(found: Inputs, nodes: Reports | None) -> Inputs:
    if nodes is None:
        return found
    known = nodes.identities
    return replace(
        found,
        identities=known.proven,
        revoked=known.revoked,
        addresses=known.addresses,
        uses=replace(found.uses, formats=known_nodes.formats(nodes.nodes)),
    )
