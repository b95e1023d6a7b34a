"""Give containers the directories of their needs, beside their secrets. A container whose need is required waits."""

from collections.abc import Callable

from holdfast.agent.services.rollout.containers import SecretDelivery
from holdfast.errors import TryLater
from holdfast.model.container import ContainerSpec, Mount
from holdfast.ports.need_files import NeedFiles, NeedKey


class NeedMounts:
    """The same as the delivery of secrets, which it contains: what makes containers knows only that one."""

    def __init__(self, secrets: SecretDelivery, files: NeedFiles, is_required: Callable[[NeedKey], bool]) -> None:
        self._secrets = secrets
        self._files = files
        self._is_required = is_required
        self.value = secrets.value
        self.forget = secrets.forget
        self.forget_all_but = secrets.forget_all_but

    def prepare(self, name: str, spec: ContainerSpec) -> tuple[tuple[Mount, ...], tuple[tuple[str, bytes], ...]]:
        for use in spec.needs:
            self._check(spec.service, use.name)
        mounts, variables = self._secrets.prepare(name, spec)
        needs = tuple(
            Mount(self._files.directory((spec.service, use.name)), use.path, read_only=True) for use in spec.needs
        )
        return (*mounts, *needs), variables

    def _check(self, service: str, need: str) -> None:
        if self._is_required((service, need)) and not self._files.has((service, need)):
            raise TryLater(
                f"service.{service} waits for its need {need}, which is required and not fulfilled yet",
                remedy=f"`holdfast need list {service}` says why; required = false lets it start without it",
                code="need_required",
            )
