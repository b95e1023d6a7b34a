"""The same facts written down twice: as a fleet directory and as Terraform. Knows nothing of measuring."""

import os
from hashlib import sha256

_HEAD = """\
[fleet]
name = "bench"
public_domains = ["example.com"]
nodes_max = 10000

[[operators]]
name = "operator"
grade = "root"
key = "{key}"
"""
_NODE = """
[[nodes]]
name = "w{number:03}"
roles = ["worker"]
"""
_EDGE = """
[[nodes]]
name = "e1"
roles = ["edge"]
"""
_SERVICE = """\
tier = "worker"

[[components]]
name = "web"
image = "{image}"
env = {{ LOG_LEVEL = "info", DATABASE_URL = "{database}" }}
update = "rolling"

[[components.routes]]
name = "http"
port = 8080
hostname = "{name}.example.com"
public = true

[components.health]
type = "http"
path = "/health"
"""
_COUNTED_DATA = """\
resource "terraform_data" "service" {{
  count = {services}
  input = "registry.example.com/team/svc-${{count.index}}:1"
}}
"""
_TERRAFORM_DATA = """\
resource "terraform_data" "{name}" {{
  input = {{
    tier = "worker"
    components = [{{
      name   = "web"
      image  = "{image}"
      env    = {{ LOG_LEVEL = "info", DATABASE_URL = "{database}" }}
      update = "rolling"
      routes = [{{ name = "http", port = 8080, hostname = "{name}.example.com", public = true }}]
      health = {{ type = "http", path = "/health" }}
    }}]
  }}
}}

"""


def _facts(number: int) -> dict[str, str]:
    name = f"svc-{number:05}"
    digest = sha256(name.encode()).hexdigest()
    return {
        "name": name,
        "image": f"registry.example.com/team/{name}@sha256:{digest}",
        "database": f"postgres://db.svc.example.com/{name}",
    }


def write_fleet(folder: str, key_line: str, services: int, nodes: int) -> None:
    os.makedirs(os.path.join(folder, "services"))
    listed = "".join(_NODE.format(number=number) for number in range(nodes)) + _EDGE
    _write(os.path.join(folder, "fleet.toml"), _HEAD.format(key=key_line) + listed)
    for number in range(services):
        facts = _facts(number)
        _write(os.path.join(folder, "services", facts["name"] + ".toml"), _SERVICE.format(**facts))


def write_terraform(folder: str, services: int) -> None:
    """Separate resource blocks in one file, as people write them; the same facts but for nodes and operators."""
    os.makedirs(folder)
    _write(os.path.join(folder, "main.tf"), "".join(_TERRAFORM_DATA.format(**_facts(n)) for n in range(services)))


def write_counted_terraform(folder: str, services: int) -> None:
    """The form in which Terraform is fastest: one block, counted, and one string in each resource."""
    os.makedirs(folder)
    _write(os.path.join(folder, "main.tf"), _COUNTED_DATA.format(services=services))


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
