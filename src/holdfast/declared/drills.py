"""Check the drill of a service: it needs a backup to restore."""

from collections.abc import Mapping

from msgspec import UNSET

from holdfast.declared.flaw import Flaws
from holdfast.model import coverage
from holdfast.model.fleet import Service

MEANINGS: Mapping[str, str] = {
    "cmd": "a command that must end with exit code 0. It runs in a container of the restored service, of the first "
    "component whose data is backed up, when all components are healthy",
    "timeout": "how long all components may take to become healthy and the command to end, together",
}


def check(file: str, service: Service, flaws: Flaws) -> None:
    name = file.rpartition("/")[2].removesuffix(".toml")
    if service.drill is not UNSET and not coverage.is_backed_up(coverage.of_service(name, service)):
        remedy = 'write protect = "backup" for a volume, or remove the table'
        flaws.add_checked(
            file, ("drill",), "no data of this service is backed up, so there is nothing to drill", remedy
        )
