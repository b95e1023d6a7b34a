"""Secrets at the node's door: opened with this node's own key, for one use at a time. Keeps none in memory.

Only the fleet, the name and the addresses that are named inside the seal get a value (X03). A file that names none is
of an older release: it is given to the services that had it when this node's agent was upgraded, and to no other.

What is sealed came with a signed revision; what is inside is written to the run directory for a bind mount, or handed
to the runtime as a variable, and is named nowhere: not in a report, a log line or an error.
"""

from collections.abc import Collection, Set

from holdfast.agent.services.secrets.unbound import Use
from holdfast.errors import Failed
from holdfast.model import canonical
from holdfast.model.container import ContainerSpec, Mount, SecretUse
from holdfast.model.purpose import mismatch, opened, resealed
from holdfast.model.secret import MOUNTED_AT
from holdfast.ports.acceptance import Acceptance
from holdfast.ports.sealing import CannotOpen, Opener
from holdfast.ports.secret_files import SecretFiles

Prepared = tuple[tuple[Mount, ...], tuple[tuple[str, bytes], ...]]


class Secrets:
    """`unbound`: uses of files without a purpose that were applied before the upgrade."""

    def __init__(
        self, acceptance: Acceptance, opener: Opener, files: SecretFiles, unbound: Set[Use] = frozenset()
    ) -> None:
        self._acceptance = acceptance
        self._opener = opener
        self._files = files
        self._unbound = unbound

    def prepare(self, name: str, spec: ContainerSpec) -> Prepared:
        """Everything is opened before anything is written. The same again after a reboot: files do not survive one."""
        uses = spec.secrets
        if not uses:
            return (), ()
        address = f"service.{spec.service}"
        values = {(use.name, use.digest): self.value(use.name, use.digest, spec.fleet, address) for use in uses}
        files = {use.file: values[use.name, use.digest] for use in uses if use.file}
        variables = tuple((use.env, _as_variable(use, values[use.name, use.digest])) for use in uses if use.env)
        paths = self._files.put(name, files) if files else {}
        mounts = tuple(Mount(paths[file], f"{MOUNTED_AT}/{file}", read_only=True) for file in sorted(paths))
        return mounts, tuple(sorted(variables))

    def forget(self, name: str) -> None:
        self._files.forget(name)

    def forget_all_but(self, names: Collection[str]) -> None:
        """Files of containers that are gone: an agent that was dead meanwhile did not see them go."""
        for name in self._files.containers():
            if name not in names:
                self._files.forget(name)

    def value(self, name: str, digest: str, fleet: str, address: str) -> bytes:
        """`address` as seals name it: `service.web`, `alerts.phone`."""
        plain = self._open(name, digest)
        found = opened(plain)
        why = mismatch(found.purpose, fleet, name, address)
        if not why:
            return found.value
        if (address, digest) in self._unbound:
            return plain
        again = resealed(found.purpose, name, address)
        raise Failed(
            f"the secret {name} {why}, so {address} does not get it",
            remedy=f"if {address} may have it: `{again}`, then `holdfast apply`",
            code="secret_not_for_it",
        )

    def _open(self, name: str, digest: str) -> bytes:
        sealed = self._acceptance.blob(digest)
        if sealed is None or canonical.digest(sealed) != digest:
            raise Failed(
                f"the secret {name} is not here as the revision that names it says",
                remedy="`holdfast hub check` names contents that are missing; then `holdfast apply`",
                code="secret_missing",
            )
        try:
            return self._opener.open(sealed)
        except CannotOpen:
            raise Failed(
                f"the secret {name} cannot be opened with this node's key",
                remedy=f"`holdfast secret rotate {name} --keep`, then `holdfast apply`",
                code="secret_not_readable",
            ) from None


def _as_variable(use: SecretUse, value: bytes) -> bytes:
    """A process cannot have it otherwise: the system ends a variable at a NUL."""
    if b"\0" in value:
        raise Failed(
            f"the secret {use.name} holds a NUL byte, so it cannot be the variable {use.env}",
            remedy=f'give it as a file: {{ name = "{use.name}", file = "…" }}, then `holdfast apply`',
            code="secret_not_text",
        )
    return value
