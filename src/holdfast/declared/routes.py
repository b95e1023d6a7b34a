"""Check the routes of one service, and that no other service has the same names. Pure."""

from holdfast.declared.flaw import Flaws
from holdfast.model.fleet import Service, Settings
from holdfast.model.ids import is_name
from holdfast.planning import reach


def check(file: str, name: str, service: Service, settings: Settings, claims: dict[str, str], flaws: Flaws) -> None:
    """A name belongs to one service; `claims` has the file that claimed it first."""
    if not is_name(name) or not any(component.routes for component in service.components):
        return  # a file with an unusable service name was reported already
    for complaint in reach.complaints(name, service, settings):
        flaws.add_checked(file, complaint.at, complaint.what, complaint.remedy)
    found = reach.reach(name, service, settings)
    for hostname in (*found.names, *found.public):
        first = claims.setdefault(hostname, file)
        if first != file:
            what = f'{file} and {first} both claim "{hostname}"'
            flaws.add_checked(file, _where(service, hostname), what, "give one of them another hostname")


def _where(service: Service, hostname: str) -> tuple[str | int, ...]:
    """The route that declares this name; else the name follows from the names of service and component."""
    for at, component in enumerate(service.components):
        for index, route in enumerate(component.routes):
            if route.hostname == hostname:
                return ("components", at, "routes", index, "hostname")
    return ("components",)
