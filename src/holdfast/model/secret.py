"""The secrets of services and targets: their names, and how a component gets them. Knows no values."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import UNSET

from holdfast.model.fleet import Component, Fleet, SecretRef, Service
from holdfast.model.need import Provides

if TYPE_CHECKING:
    from holdfast.model.container import SecretUse  # only nodes make containers: a plan need not load it

MOUNTED_AT = "/run/secrets"


def refs_of(component: Component) -> tuple[SecretRef, ...]:
    """A bare name is short for a file of that name."""
    return tuple(SecretRef(used) if isinstance(used, str) else used for used in component.secrets)


def names_of(service: Service) -> tuple[str, ...]:
    return tuple(sorted({ref.name for component in service.components for ref in refs_of(component)}))


def secrets_of(provides: Provides) -> tuple[str, ...]:
    """The one by which a provider makes credentials, if it needs one."""
    return (provides.params["secret"],) if "secret" in provides.params else ()


def users(fleet: Fleet) -> dict[str, tuple[str, ...]]:
    """Resources that name secrets, by address, with their names."""
    found = {f"service.{name}": names_of(service) for name, service in fleet.services.items()}
    found |= {f"alert.{name}": (alert.secret,) for name, alert in fleet.alerts.items() if alert.secret is not UNSET}
    found |= {f"storage.{name}": (one.secret,) for name, one in fleet.storage.items() if one.secret is not UNSET}
    found |= {f"provides.{name}": secrets_of(one) for name, one in fleet.provides.items()}
    return {address: names for address, names in found.items() if names}


def file_of(ref: SecretRef) -> str:
    """Below MOUNTED_AT; "" for a secret that is only a variable."""
    if ref.file is not UNSET:
        return ref.file
    return ref.name if ref.env is UNSET else ""


def env_of(ref: SecretRef) -> str:
    return "" if ref.env is UNSET else ref.env


def uses_of(component: Component, sealed: Mapping[str, str]) -> "tuple[SecretUse, ...]":
    """`sealed`: name → digest, from the table. Sorted, so that the order in the file does not matter."""
    from holdfast.model.container import SecretUse

    used = [SecretUse(ref.name, sealed.get(ref.name, ""), file_of(ref), env_of(ref)) for ref in refs_of(component)]
    return tuple(sorted(used, key=lambda use: (use.name, use.file, use.env)))


def doubled(component: Component) -> str:
    """The first file or variable that two secrets of a component would share, as text; else ""."""
    seen: set[tuple[str, str]] = {("variable", name) for name in component.env}
    for ref in refs_of(component):
        for target in (("file", file_of(ref)), ("variable", env_of(ref))):
            if target[1] and target in seen:
                return f"the {target[0]} {target[1]}"
            seen.add(target)
    return ""
