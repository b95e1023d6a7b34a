"""Empty the mailbox of moves that are over: taken back, followed by another move, or of a service that was removed.
A move that went well is emptied by its source."""

from holdfast.hub.backups.store import BackupStore
from holdfast.hub.moves import access
from holdfast.model import backup_key
from holdfast.model.applied import Applied
from holdfast.model.backup_key import FLEET_DIGITS
from holdfast.model.principal import Principal

HUB = Principal("hub")


class Sweeping:
    """A watcher of commits."""

    def __init__(self, mailbox: BackupStore) -> None:
        self._mailbox = mailbox

    def committed(self, before: Applied | None, after: Applied) -> None:
        for one in self._mailbox.listed(f"{after.fleet_id[:FLEET_DIGITS]}/"):
            key = backup_key.parse(one.key)
            if access.is_over(after, key):
                self._mailbox.delete(key, HUB)
