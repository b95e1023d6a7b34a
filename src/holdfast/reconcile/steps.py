"""The steps of a rollout: small values with the names that results show. The agent performs them."""

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from holdfast.model.container import Container, Part

When = Literal["pre_deploy", "post_deploy"]
Which = Literal["", "old", "failed"]  # of a container that goes: it served before, or its deployment failed


def label(container: Container) -> str:
    return f"{container.component} {container.replica}"


def _labels(containers: Iterable[Container]) -> str:
    return ", ".join(label(one) for one in containers)


def _words(*words: str) -> str:
    return " ".join(word for word in words if word)


class Pull(Struct, frozen=True):
    reference: str
    image: str  # as written

    @property
    def name(self) -> str:
        return f"pull {self.image}"


class MakeNetwork(Struct, frozen=True):
    network: str

    @property
    def name(self) -> str:
        return f"network {self.network}"


class Hook(Struct, frozen=True):
    part: Part
    when: When

    @property
    def name(self) -> str:
        return f"{self.when} {self.part.spec.component}"


class Create(Struct, frozen=True):
    part: Part
    replica: int

    @property
    def name(self) -> str:
        return f"create {self.part.spec.component} {self.replica}"


class Start(Struct, frozen=True):
    container: Container
    part: Part

    @property
    def name(self) -> str:
        return f"start {label(self.container)}"


class AwaitHealthy(Struct, frozen=True):
    """Done as soon as one of them is no longer `starting`; then the rules run again."""

    containers: tuple[Container, ...]

    @property
    def name(self) -> str:
        return f"healthy {_labels(self.containers)}"


class Stop(Struct, frozen=True):
    container: Container
    which: Which = ""

    @property
    def name(self) -> str:
        return _words("stop", self.which, label(self.container))


class CopyAhead(Struct, frozen=True):
    """Copy its data while it still runs, so that the checkpoint has little to do. `more` parts owe one besides."""

    part: Part
    more: int = 0

    @property
    def name(self) -> str:
        return f"copy {self.part.spec.component}"


class Checkpoint(Struct, frozen=True):
    """Copy its data as it is now, without a writer."""

    part: Part

    @property
    def name(self) -> str:
        return f"checkpoint {self.part.spec.component}"


class Certify(Struct, frozen=True):
    """Certificates for the internal names of the target, from this node's own issuer."""

    @property
    def name(self) -> str:
        return "certificate"


class Switch(Struct, frozen=True):
    """The target serves from now on: routes are applied and acknowledged, then it is recorded as `serving`."""

    @property
    def name(self) -> str:
        return "switch"


class Unroute(Struct, frozen=True):
    """Its names have no backend: requests get 502."""

    @property
    def name(self) -> str:
        return "unroute"


class Unlist(Struct, frozen=True):
    """Its names are no longer served. After the containers: only then may an edge drop its route (I-19)."""

    @property
    def name(self) -> str:
        return "unlist"


class Drain(Struct, frozen=True):
    containers: tuple[Container, ...]

    @property
    def name(self) -> str:
        return f"drain {_labels(self.containers)}"


class Remove(Struct, frozen=True):
    """The container, never what it mounted."""

    container: Container
    which: Which = ""

    @property
    def name(self) -> str:
        return _words("remove", self.which, label(self.container))


class RemoveNetwork(Struct, frozen=True):
    network: str

    @property
    def name(self) -> str:
        return f"remove network {self.network}"


class Fail(Struct, frozen=True):
    """This attempt failed. Nothing to perform: the target becomes what served before."""

    part: Part
    container: Container
    why: str

    @property
    def name(self) -> str:
        return f"healthy {label(self.container)}"  # the step that failed


Step = (
    Pull
    | MakeNetwork
    | Hook
    | Create
    | Start
    | AwaitHealthy
    | Stop
    | CopyAhead
    | Checkpoint
    | Certify
    | Switch
    | Unroute
    | Unlist
    | Drain
    | Remove
    | RemoveNetwork
    | Fail
)
