"""Whether a container may mount a path of this machine, a volume may be filled or given to an owner, and a disk mounted
as a storage target. Pure."""

from holdfast.gate.acts import Act, Data, Provenance
from holdfast.gate.authority import by_revision
from holdfast.gate.decide import Decision, Deed, Park, decide
from holdfast.gate.facts import NO_THING, Facts, data
from holdfast.model.mounts import on_node
from holdfast.model.proven_address import ProvenAddress
from holdfast.ports.backup_target import Mountable
from holdfast.ports.storage import DataDirectory


def may_mount(proof: ProvenAddress, path: str, made: bool, found: DataDirectory | None, node: str) -> Decision:
    """A path in the directory of the service. `made`: its passport says that this agent made it for this service, so
    it is not measured. No revision attaches other data: its grade counts as apply."""
    facts = Facts(Provenance.OWN_EARLIER, Data.MAYBE_ONLY_COPY) if made else Facts(Provenance.FOREIGN, data(found))
    return decide(Deed(Act.MOUNT, proof.address, node, facts, by_revision(proof), path))


def may_reach(proof: ProvenAddress, source: str, data_dir: str, node: str) -> Decision:
    """Any other path, which must be one that signatures of grade destroy approved."""
    approved = next((path for path in proof.approved if on_node(path, data_dir) == source), "")
    return decide(Deed(Act.REACH_HOST, proof.address, node, NO_THING, by_revision(proof, approved), source))


def may_write(
    proof: ProvenAddress, service: str, path: str, found: DataDirectory | None, node: str, asked: str = ""
) -> Decision:
    """Put something into a volume, or give it to another owner: grade apply while it is empty. With data in it,
    signatures of grade destroy must have approved exactly what is `asked` (model/proven_address.py)."""
    facts = Facts(Provenance.OWN_EARLIER, data(found))
    return decide(Deed(Act.OVERWRITE_DATA, f"data.{service}", node, facts, by_revision(proof, asked), path))


def may_mount_storage(name: str, proof: ProvenAddress, uuid: str, node: str) -> Mountable | Park:
    """A file system by its UUID, as the target that the accepted revision names so."""
    decision = decide(Deed(Act.MOUNT_STORAGE, f"storage.{name}", node, NO_THING, by_revision(proof), uuid))
    return decision if isinstance(decision, Park) else Mountable(name, uuid)
