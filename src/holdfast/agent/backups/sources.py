"""What there is to back up on this node."""

from holdfast.agent.backups.declared import Wanted
from holdfast.agent.services.records import Records
from holdfast.model import backup_key
from holdfast.ports.storage import Storage


class Sources:
    def __init__(self, storage: Storage, records: Records) -> None:
        self._storage = storage
        self._records = records

    def has_data(self, wanted: Wanted) -> bool:
        """A volume that a dump stands for has data once its program has served: before that it may be half made."""
        if not backup_key.is_of_service(wanted.service):
            return True
        if wanted.dumped and self._records.of(wanted.service).serving is None:
            return False
        return self._storage.directory(wanted.service) is not None

    def wrote(self, service: str) -> tuple[str, int]:
        """The deployment that writes the data, and the revision that brought it."""
        record = self._records.of(service)
        return record.serving.deployment if record.serving is not None else "", record.serving_revision
