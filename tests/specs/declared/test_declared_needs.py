"""[[needs]] of a service and [[provides]] of the fleet: every mistake with its line and its remedy."""

import pytest

from holdfast.adapters.fleet_directory.memory import Content, MemoryFleetDirectory
from holdfast.declared.load import load
from holdfast.declared.rendered import render
from holdfast.planning.kinds.every import documents
from holdfast.planning.plan import plan
from tests.fleets.sealing import sealed_to
from tests.specs.declared.declared_fleets import FLEET, WEB, fleet_of, only_problem, problems_of
from tests.specs.planning.test_plan import after

PROVIDER = '\n[[nodes]]\nname = "p1"\nroles = ["provider"]\n'
POSTGRES = """\
[[provides]]
node = "p1"
type = "postgres"
services = ["web"]
params = { address = "db.example.com:5432", secret = "admin" }
"""
HANDLER = f"""\
[[provides]]
node = "p1"
type = "tokens"
services = ["web"]
grace = "2d"
ttl = "1h"
[provides.params]
exec = "/opt/make"
sha256 = "{"a" * 64}"
fields = "user token"
user = "maker"
"""
NEED = '[[needs]]\nname = "db"\ntype = "postgres"\n'


def files(service: str = WEB + NEED, provides: str = POSTGRES, more: str = PROVIDER) -> dict[str, Content]:
    fleet = FLEET.partition("[[storage]]")[0] + more + provides
    return {"fleet.toml": fleet.encode(), "services/web.toml": service.encode(), "secrets/admin.age": sealed_to("p1")}


def test_needs_and_what_is_provided_are_read_and_written_back_n36() -> None:
    tokens = '[[needs]]\nname = "token"\ntype = "tokens"\non_change = "nothing"\nrequired = true\n'
    tokens += 'provider = "p1"\nparams = { scope = "a b" }\ndeliver = { path = "/etc/token", components = ["web"] }\n'
    declared = fleet_of(files(WEB + NEED + tokens, POSTGRES + HANDLER))
    assert [need.path for need in declared.services["web"].needs] == ["/run/needs/db", "/etc/token"]
    assert list(declared.provides) == ["p1.postgres", "p1.tokens"]
    applied = after(plan(declared, None))
    found = render(applied.head.number, applied.table, applied.contents)
    again = load(MemoryFleetDirectory(found.files))
    assert found.notes == () and documents(again) == documents(declared)
    assert plan(again, applied).changes == ()


OF_NEEDS: dict[str, tuple[str, str, str, str]] = {  # more of the service file → key, what, remedy
    "two of one name": (NEED + NEED, "needs[1].name", '"db" is the name of two needs', "rename"),
    "a type that is not built": (
        NEED.replace("postgres", "oidc"),
        "needs[0].type",
        'the type "oidc" is not built yet',
        "use postgres",
    ),
    "parameters of postgres": (
        NEED + 'params = { size = "1" }\n',
        "needs[0].params.size",
        '"size" is not a parameter: a need of type postgres has none',
        "remove it",
    ),
    "no such component": (
        NEED + 'deliver = { components = ["wbe"] }\n',
        "needs[0].deliver.components[0]",
        'there is no component "wbe"',
        "did you mean web?",
    ),
    "a path with dots": (
        NEED + 'deliver = { path = "/a/../b" }\n',
        "needs[0].deliver.path",
        "empty, . or ..",
        "without",
    ),
    "failover": ('failover = ["p1"]\n' + WEB + NEED, "failover", "cannot fail over", "remove failover"),
    "no provider of the type": (
        NEED.replace("postgres", "postgrs"),
        "needs[0].type",
        'nothing provides "postgrs"',
        "mean",
    ),
    "a node that provides nothing": (
        NEED + 'provider = "hub1"\n',
        "needs[0].provider",
        "hub1 provides no postgres",
        "nodes that provide it are: p1",
    ),
    "an unknown key": (NEED + 'provder = "p1"\n', "needs[0].provder", "unknown key", 'did you mean "provider"?'),
    "a signal": (NEED + 'on_change = "signal:HUP"\n', "needs[0].on_change", "not built yet", '"restart" or "nothing"'),
    "another reaction": (NEED + 'on_change = "reboot"\n', "needs[0].on_change", 'must be "restart", "nothing"', ""),
}


@pytest.mark.parametrize("case", OF_NEEDS)
def test_a_mistake_in_needs_has_its_line_and_a_remedy(case: str) -> None:
    text, key, what, remedy = OF_NEEDS[case]
    found = only_problem(files(text if "[[components]]" in text else WEB + text))
    assert (found[0], found[2]) == ("services/web.toml", key) and found[1] > 0
    assert what in found[3] and remedy in found[4]


COMPONENT = WEB + 'volumes = [{ name = "d", path = "/data", protect = "none" }, "/srv/x:/x"]\nscratch = ["/tmp"]\n'
OTHER = '[[components]]\nname = "job"\nimage = "registry.test/job:1"\n'


@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("/data", "the volume d of component web"),
        ("/data/", "the volume d of component web"),
        ("/data/db", "the volume d of component web"),
        ("/x/y", "the volume /x of component web"),
        ("/tmp", "the scratch directory /tmp of component web"),
        ("/", "the directory of secrets of component web"),
        ("/run/secrets/db", "the directory of secrets of component web"),
        ("/run", "the directory of secrets of component web"),
        ("/run/needs/other", 'the need "other"'),
        ("/run/needs", 'the need "other"'),
        ("/database", ""),
    ],
)
def test_a_directory_of_credentials_overlaps_no_other_mount(path: str, what: str) -> None:
    need = f'[[needs]]\nname = "other"\ntype = "postgres"\n{NEED}deliver = {{ path = "{path}" }}\n'
    if not what:
        assert fleet_of(files(COMPONENT + need)).services["web"].needs[1].path == path
        return
    found = only_problem(files(COMPONENT + need))
    assert found[2].startswith("needs[") and f"overlaps {what}" in found[3] and found[4]
    if "volume" in what:
        elsewhere = need.replace(" }", ', components = ["job"] }')
        assert fleet_of(files(COMPONENT + OTHER + elsewhere)).services["web"].needs, "another component gets it"


OF_PROVIDERS: dict[str, tuple[str, str, str, str]] = {  # [[provides]] → key, what, remedy
    "two of one type": (POSTGRES + POSTGRES, "provides[1].type", "p1 provides postgres already", "remove one"),
    "no such node": (POSTGRES.replace("p1", "pp1"), "provides[0].node", 'there is no node "pp1"', 'did you mean "p1"?'),
    "no provider": (POSTGRES.replace("p1", "hub1"), "provides[0].node", '"hub1" has not the role provider', "add it"),
    "a type that is not built": (
        POSTGRES.replace("postgres", "s3"),
        "provides[0].type",
        "not built yet",
        "use postgres",
    ),
    "a service twice": (POSTGRES.replace('["web"]', '["web", "web"]'), "provides[0].services", "twice", "remove"),
    "a short ttl": (POSTGRES + 'ttl = "9m"\n', "provides[0].ttl", "9m is too short", '"10m"'),
    "no address": (
        POSTGRES.replace('address = "db.example.com:5432", ', ""),
        "provides[0].params.address",
        "missing key",
        "HOST:PORT",
    ),
    "no secret": (POSTGRES.replace(', secret = "admin"', ""), "provides[0].params.secret", "missing key", "secret set"),
    "no file of the secret": (
        POSTGRES.replace('"admin"', '"admn"'),
        "provides[0].params.secret",
        "there is no secrets/admn.age",
        'holdfast secret set admn; or did you mean "admin"?',
    ),
    "no name of a secret": (POSTGRES.replace('"admin"', '"A/b"'), "provides[0].params.secret", "is not the name", ""),
    "no port": (POSTGRES.replace(":5432", ""), "provides[0].params.address", "is not HOST:PORT", "HOST:PORT"),
    "a port too high": (POSTGRES.replace(":5432", ":65536"), "provides[0].params.address", "is not HOST:PORT", ""),
    "ca": (POSTGRES.replace("{", '{ ca = "ca.pem", '), "provides[0].params.ca", "is not the path", 'tls = "on"'),
    "tls": (POSTGRES.replace("{", '{ tls = "yes", '), "provides[0].params.tls", "neither on nor off", '"on"'),
    "a user": (POSTGRES.replace("{", '{ user = "a b", '), "provides[0].params.user", "not a name", ""),
    "a service of its own": (
        POSTGRES.replace("{", '{ service = "db", '),
        "provides[0].params.service",
        '"service" is not a parameter of postgres',
        "address, secret, user, database, tls, ca",
    ),
    "an unknown parameter": (
        POSTGRES.replace("{", '{ adress = "x:1", '),
        "provides[0].params.adress",
        "",
        "mean address?",
    ),
    "a type without a program": (
        POSTGRES.replace("postgres", "postgrs").replace("address", "user").replace("db.example.com:5432", "maker"),
        "provides[0].params.exec",
        "missing key",
        "did you mean postgres?",
    ),
    "a relative program": (HANDLER.replace("/opt/make", "make"), "provides[0].params.exec", "not the path", "absolute"),
    "dots": (HANDLER.replace("/opt/make", "/opt/../make"), "provides[0].params.exec", "not the path", "absolute"),
    "no digest": (HANDLER.replace("a" * 64, "a" * 63), "provides[0].params.sha256", "is not a sha256", "64"),
    "no fields": (HANDLER.replace("user token", " "), "provides[0].params.fields", "not a list of fields", "1 to 16"),
    "a field twice": (HANDLER.replace("user token", "a a"), "provides[0].params.fields", "not a list of fields", ""),
    "a field that is a path": (HANDLER.replace("user token", "../a"), "provides[0].params.fields", "not a list", ""),
    "root": (HANDLER.replace("maker", "root"), "provides[0].params.user", "may run a handler", "no rights"),
    "a number": (HANDLER.replace("maker", "0"), "provides[0].params.user", "may run a handler", ""),
}


@pytest.mark.parametrize("case", OF_PROVIDERS)
def test_a_mistake_in_what_is_provided_has_its_line_and_a_remedy(case: str) -> None:
    text, key, what, remedy = OF_PROVIDERS[case]
    found = {problem.key: problem for problem in problems_of(files(WEB, text))}
    assert key in found and found[key].file == "fleet.toml" and found[key].line > 1
    assert what in found[key].what and remedy in found[key].remedy


def test_a_need_is_not_blamed_for_a_wrong_provider() -> None:
    assert [one.key for one in problems_of(files(provides=POSTGRES.replace(":5432", "")))] == [
        "provides[0].params.address"
    ]
