"""The address of a hub, as an agent has it: an https URL without a path."""

import re

from msgspec import Struct

from holdfast.errors import Invalid

_URL = re.compile(
    r"https://(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?)(?::([0-9]{1,5}))?/?"
)


class HubAddress(Struct, frozen=True):
    url: str  # without a slash at its end
    host: str  # without brackets
    port: int

    @property
    def authority(self) -> str:
        return self.url.removeprefix("https://")


def parse(url: str) -> HubAddress:
    parsed = _URL.fullmatch(url)
    port = int(parsed[2] or 443) if parsed is not None else 0
    if parsed is None or not 0 < port < 65536:
        raise Invalid(f"{url!r} is not the address of a hub", remedy='give one such as "https://hub.example:9555"')
    return HubAddress(url.rstrip("/"), parsed[1].strip("[]"), port)
