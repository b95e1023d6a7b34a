"""Declared fleets whose revisions are fixed: files as an operator writes them, one set for every stage."""

from hashlib import sha256

from msgspec import Struct

from holdfast.adapters.fleet_directory.memory import MemoryFleetDirectory
from holdfast.adapters.random_source.seeded import SeededRandom
from holdfast.adapters.sealing.memory import MemorySealer
from holdfast.declared.load import load
from holdfast.model.fleet import Fleet
from tests.fleets.build import operator_signer

PEOPLE = ("alice", "bob", "carol", "dave")
RECIPIENT = "age1" + "q" * 58


def key(name: str) -> str:
    return operator_signer(name)[0].key


def node_key(name: str) -> str:
    """The key that a node of these fleets has once it joined."""
    return key(f"node {name}")


def image(name: str) -> str:
    return f"registry.example.com/{name}@sha256:{sha256(name.encode()).hexdigest()}"


def sealed(name: str, *nodes: str) -> bytes:
    sealer = MemorySealer(SeededRandom(f"secret {name}"))
    return sealer.seal(f"value of {name}".encode(), [RECIPIENT, *map(node_key, nodes)])


TAGS = {"registry.example.com/tools/report:1.4": "sha256:" + sha256(b"report").hexdigest()}

_OPERATORS = f"""
[trust]
destroy = 2
id = "0123456789abcdef"

[[operators]]
name = "alice"
key = "{key("alice")}"
grade = "root"
recipient = "{RECIPIENT}"

[[operators]]
name = "bob"
key = "{key("bob")}"
grade = "destroy"

[[operators]]
name = "carol"
key = "{key("carol")}"
grade = "apply"
scope = ["service.shop", "service.*", "node.w1"]

[[operators]]
name = "dave"
key = "{key("dave")}"
grade = "root"
"""

_SHOP = f"""
[fleet]
name = "shop"
hub = "https://hub.example.com:9555"
hub_key = "{key("hub")}"
internal_zone = "svc.example.net"
public_domains = ["example.com", "example.org"]
overlay_cidr = "100.64.0.0/16"
removals_max = 5
nodes_max = 50
parallel = 2
{_OPERATORS}
[timeouts]
deploy = "10m"
edge_route = "45s"
health_check = "3s"
undeploy = "1m"

[acme]
directory = "https://acme.example.com/directory"
contact = ["mailto:ops@example.com"]
terms_agreed = true
domains = ["example.com"]

[dns]
nodes = ["hub1", "w1"]
upstream = ["192.0.2.53"]

[overlay]
driver = "external"
encrypted = true

[[alerts]]
name = "chat"
webhook = "https://chat.example.com/hooks/abc"
on = ["node_silent", "service_unhealthy"]

[[alerts]]
name = "phone"
apprise = "ntfys://ntfy.example.com/fleet"

[[nodes]]
name = "hub1"
roles = ["hub", "worker"]
address = "100.64.0.1"

[[nodes]]
name = "edge1"
roles = ["edge"]
address = "100.64.0.2"
public_address = "203.0.113.7"
link = "dial"

[[nodes]]
name = "w1"
roles = ["worker"]
address = "100.64.0.11"
orphans = "stop"
[nodes.labels]
disk = "ssd"
rack = "r1"

[[nodes]]
name = "w2"
roles = ["worker"]
address = "100.64.0.12"
orphans_foreign = true
proxy = "internal"

[[nodes]]
name = "w3"
roles = ["worker"]
address = "100.64.0.13"
key = "{node_key("w3")}"
reconcile = "observe"
"""

_WEB = f"""
node = "w1"
failover = ["w2", "hub1"]
protect = true
tier = "core"

[[components]]
name = "shop"
image = "{image("shop")}"
cmd = ["serve", "--port", "8080"]
replicas = 2
update = "rolling"
secrets = ["session-key", {{ name = "tls", file = "tls.pem" }}]
[components.env]
LANG = "de_DE.UTF-8"
GREETING = "grüß Gott ✓"
[components.resources]
cpu = 1.5
memory = "512Mi"
[components.health]
type = "http"
path = "/health"
port = 8080
interval = "2s"
[components.hooks]
pre_deploy = ["migrate", "--to", "7"]
post_deploy = ["warm-up"]
[[components.routes]]
name = "http"
port = 8080
public = true
hostname = "www.example.com"
[[components.routes]]
name = "admin"
port = 9000
hostname = "admin.svc.example.net"
protocol = "h2c"
"""

_DATABASE = f"""
node = "w1"

[[components]]
name = "db"
image = "{image("db")}"
volumes = [
  {{ name = "rows", path = "/var/lib/db", protect = "backup" }},
  {{ name = "cache", path = "/cache", protect = "none" }},
]
update = "recreate"
[[components.secrets]]
name = "db-password"
env = "DB_PASSWORD"
[components.health]
type = "tcp"
port = 5432
[[components.routes]]
name = "sql"
port = 5432
mode = "l4"
"""

_MAIL = f"""
node = "w2"

[[components]]
name = "smtp"
image = "{image("smtp")}"
[[components.routes]]
name = "submission"
port = 8443
mode = "l4"
public = true
hostname = "mail.example.org"

[[components]]
name = "queue"
image = "{image("queue")}"
[components.health]
type = "exec"
cmd = ["queue", "check"]
"""

_REPORTS = """
[[components]]
name = "reports"
image = "registry.example.com/tools/report:1.4"
[[components.routes]]
name = "http"
port = 3000
"""

_LEGACY = f"""
node = "w3"
active = false

[[components]]
name = "legacy"
image = "{image("legacy")}"
"""

_SHOP_FILES: dict[str, bytes] = {
    "fleet.toml": _SHOP.encode(),
    "services/shop.toml": _WEB.encode(),
    "services/db.toml": _DATABASE.encode(),
    "services/mail.toml": _MAIL.encode(),
    "services/reports.toml": _REPORTS.encode(),
    "services/legacy.toml": _LEGACY.encode(),
    "secrets/session-key.age": sealed("session-key", "w1", "w2", "hub1"),
    "secrets/tls.age": sealed("tls", "w1", "w2", "hub1"),
    "secrets/db-password.age": sealed("db-password", "w1"),
}

_SMALL = f"""
[fleet]
name = "small"
[[operators]]
name = "alice"
key = "{key("alice")}"
grade = "root"
[[nodes]]
name = "w1"
roles = ["worker"]
"""

# Every key that is declared, signed and stored today and has no effect yet (issue 11, deliver 5). Once declared files
# with such keys are refused, build this fleet without that check: its bytes must stay as they are.
_LATER = f"""
[fleet]
name = "later"
{_OPERATORS}
[backups]
interval = "12h"
retain = 14
drill_interval = "30d"

[timeouts]
snapshot = "20m"

[[nodes]]
name = "w1"
roles = ["worker", "provider", "builder"]
peer_calls = "relay"
direct = "on"

[[nodes]]
name = "w2"
roles = ["worker"]
peer_calls = "off"

[[storage]]
name = "nas"
type = "nfs"
durable_id = "nas.example.net:/export"
class = "slow"
role = "bulk-data"
[storage.policy]
schedule = "0 3 * * *"
retain = 30

[[storage]]
name = "stick"
type = "usb"
durable_id = "uuid-1234"
state = "disconnected"

[[policies]]
name = "no-exec"
file = "policies/no-exec.cedar"
applies_to = ["service.files", "fleet"]
"""

_LATER_SERVICE = f"""
node = "w1"
custody = "hub"

[snapshot]
method = "exec: dump --all"
include = ["/data"]
exclude = ["/data/tmp"]

[[components]]
name = "files"
image = "{image("files")}"
volumes = [
  {{ name = "store", path = "/data", protect = "own:nas", class = "slow" }},
  {{ name = "index", path = "/index", protect = "backup" }},
]
"""

_LATER_FILES: dict[str, bytes] = {
    "fleet.toml": _LATER.encode(),
    "services/files.toml": _LATER_SERVICE.encode(),
    "policies/no-exec.cedar": b'forbid (principal, action == Action::"exec", resource);\n',
}


class Stage(Struct, frozen=True):
    """One revision: the directory it is planned from, or what is done without one."""

    name: str
    files: dict[str, bytes] = {}
    joined: bool = False
    undeploys: str = ""
    drains: str = ""


def _edited(files: dict[str, bytes], path: str, before: str, after: str) -> dict[str, bytes]:
    text = files[path].decode()
    assert text.count(before) >= 1, f"{before!r} is not in {path}"
    return files | {path: text.replace(before, after).encode()}


_MOVED = _edited(_SHOP_FILES, "services/mail.toml", 'node = "w2"', 'node = "hub1"')
_CHANGED = _edited(_MOVED, "services/shop.toml", "replicas = 2", "replicas = 3")
_CHANGED = {path: text for path, text in _CHANGED.items() if path != "services/legacy.toml"}
_TRUSTED = _edited(_CHANGED, "fleet.toml", "destroy = 2", "destroy = 1\napply = 2")

STAGES: dict[str, tuple[Stage, ...]] = {
    "shop": (
        Stage("first", _SHOP_FILES),
        Stage("nodes joined", _SHOP_FILES, joined=True),
        Stage("service moved, one removed, one changed", _CHANGED, joined=True),
        Stage("one undeployed", undeploys="service.db"),
        Stage("node drained", drains="w1"),
        Stage("trust changed", {p: t for p, t in _TRUSTED.items() if p != "services/db.toml"}, joined=True),
    ),
    "small": (Stage("first", {"fleet.toml": _SMALL.encode(), "services/web.toml": _REPORTS.encode()}),),
    "later": (Stage("first", _LATER_FILES), Stage("nodes joined", _LATER_FILES, joined=True)),
}


def declared(stage: Stage) -> Fleet:
    return load(MemoryFleetDirectory(stage.files))
