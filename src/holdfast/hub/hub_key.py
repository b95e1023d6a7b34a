"""Compare the hub's key with the key that the applied revision pins. Pure."""

from shlex import quote

from holdfast.errors import Corrupt
from holdfast.hub import settings as hub_settings
from holdfast.model import ssh_key
from holdfast.model.applied import Applied


def check(applied: Applied | None, line: str | None, path: str, state_dir: str) -> None:
    """Raise Corrupt if they differ: nodes and commands would refuse this hub, as they would an impostor."""
    wanted = hub_settings.hub_key(applied) if applied is not None else ""
    if applied is None or not wanted or (line is not None and _is_same(line, wanted)):
        return
    found = f"{path} is another key, {_fingerprint(line)}" if line is not None else f"{path} is missing"
    raise Corrupt(
        f"the applied revision pins the hub's key {_fingerprint(wanted)}, but {found}",
        remedy=f"restore {path} from a backup of the hub; if it is lost: `holdfast hub init --trust {applied.fleet_id} "
        f"--state-dir {quote(state_dir)}` prints the key that is there now (and makes one if there is none), write it "
        f"into fleet.toml as [fleet] hub_key, `holdfast apply --hub {quote(state_dir)}`, and invite every node again "
        "(`holdfast node invite NAME --replace`)",
        code="hub_key_missing" if line is None else "hub_key_differs",
    )


def _is_same(line: str, other: str) -> bool:
    return ssh_key.parse(line).blob == ssh_key.parse(other).blob


def _fingerprint(line: str) -> str:
    return ssh_key.fingerprint(ssh_key.parse(line))
