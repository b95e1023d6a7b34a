"""What there is to back up on this node."""

from holdfast.agent.services.records import Records
from holdfast.ports.storage import Storage


class Sources:
    def __init__(self, storage: Storage, records: Records) -> None:
        self._storage = storage
        self._records = records

    def has_data(self, service: str) -> bool:
        return self._storage.directory(service) is not None

    def wrote(self, service: str) -> tuple[str, int]:
        """The deployment that writes the data, and the revision that brought it."""
        record = self._records.of(service)
        return record.serving.deployment if record.serving is not None else "", record.serving_revision
