"""The files of a revision say what the revision says (N36)."""

from typing import Any

import pytest
import tomli
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace

from holdfast.adapters.fleet_directory.memory import Content, MemoryFleetDirectory
from holdfast.declared import toml_text
from holdfast.declared.load import load
from holdfast.declared.rendered import Rendered, render
from holdfast.declared.toml_file import parse
from holdfast.errors import Corrupt
from holdfast.model.applied import Applied
from holdfast.model.fleet import Fleet
from holdfast.planning.kinds.every import documents
from holdfast.planning.plan import plan
from tests.fleets.directories import files
from tests.fleets.sealing import person, sealed_to
from tests.fleets.strategies import fleets
from tests.specs.declared.declared_fleets import FLEET, fleet_of, key_line
from tests.specs.planning.test_plan import after

texts = st.text(st.characters(codec="utf-8"), max_size=12)
scalars = st.booleans() | st.integers(-(2**53), 2**53) | texts
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3))


@settings(max_examples=300)
@given(st.dictionaries(texts, values, max_size=4))
def test_what_is_written_as_toml_is_read_back_n36(table: dict[str, Any]) -> None:
    assert tomli.loads(toml_text.document(table)) == table


@given(st.text(st.sampled_from(' \t\r"\\a\x00\x1f\x7fé'), min_size=1990, max_size=2030), st.integers(1, 3))
@settings(max_examples=40)
def test_a_long_text_is_cut_into_lines_and_read_back_n36(text: str, times: int) -> None:
    written = toml_text.document({"text": text * times}).encode()
    assert tomli.loads(written.decode()) == {"text": text * times}
    assert max(map(len, written.split(b"\n"))) < 16 * 1024, "the limit of a line"


def rendered(applied: Applied) -> Rendered:
    return render(applied.head.number, applied.table, applied.contents)


def loaded(found: Rendered) -> Fleet:
    return load(MemoryFleetDirectory(found.files))


@settings(max_examples=100)
@given(fleets(with_data=True))
def test_a_plan_of_the_files_of_a_revision_has_no_changes_n36(fleet: Fleet) -> None:
    applied = after(plan(load(MemoryFleetDirectory(files(fleet))), None))
    found = rendered(applied)
    again = loaded(found)
    assert found.notes == () and documents(again) == documents(fleet)
    assert plan(again, applied).changes == ()


EVERYTHING: dict[str, Content] = {
    "fleet.toml": f"""{FLEET}
[trust]
id = "00112233445566778899aabbccddeeff"
[[operators]]
name = "bob"
grade = "apply"
key = "{key_line(2)}"
scope = ["service.*", "name:*.example.test"]
[[nodes]]
name = "w1"
roles = ["worker"]
address = "100.64.0.9"
[[alerts]]
name = "phone"
secret = "pager"
nodes = ["w1"]
after = "2m"
[[policies]]
name = "read"
file = "policies/other.cedar"
applies_to = ["service.web", "fleet"]
[timeouts]
deploy = "9m"
[dns]
nodes = ["w1"]
upstream = ["9.9.9.9"]
[acme]
directory = "https://acme.test/directory"
contact = ["mailto:a@example.test"]
terms_agreed = true
""".encode(),
    "policies/other.cedar": b"permit (principal, action, resource);\r\n// \xc3\xa9\n",
    "services/web.toml": b'''
node = "w1"
[[components]]
name = "web"
image = "registry.test/web:1"
cmd = ["sh", "-c", """
one
  two \\\\ "three"
"""]
env = { A = "", LONG = "  x" }
volumes = ["/srv/other:/srv", { name = "data", path = "/data", protect = "none", owner = "1:1" }]
secrets = ["db", { name = "pager", env = "PAGER" }]
user = "1000:1000"
scratch = ["/tmp"]
[components.resources]
memory = "64Mi"
[components.hooks]
pre_deploy = ["true"]
[[components.routes]]
name = "http"
port = 8080
public = true
[components.health]
type = "http"
[[schedule]]
name = "nightly"
component = "web"
cron = "0 3 * * *"
cmd = ["true"]
''',
}


def everything(**secrets: bytes) -> Fleet:
    sealed = {f"secrets/{name}.age": content for name, content in secrets.items()}
    return fleet_of({**EVERYTHING, **sealed})


def test_every_kind_of_table_and_secret_comes_back_n36() -> None:
    fleet = everything(db=sealed_to("w1", "@ada"), pager=sealed_to("w1", "@ada"))
    applied = after(plan(fleet, None))
    found = rendered(applied)
    again = loaded(found)
    assert documents(again) == documents(fleet) and again.secrets == fleet.secrets
    assert plan(again, applied).changes == ()
    assert sorted(found.files) == [
        *("fleet.toml", "policies/read.cedar"),
        *("secrets/db.age", "secrets/pager.age", "services/web.toml"),
    ]
    assert found.files["secrets/db.age"].startswith(b"-----BEGIN AGE"), "as `secret set` writes it"
    assert found.files["fleet.toml"].startswith(
        b"# Written by Holdfast from revision 1. The ledger keeps no comments.\n\n"
    )
    assert b"\nname = " in found.files["fleet.toml"] and b"storage = []" not in found.files["fleet.toml"]
    assert all(parse(found.files[path]) for path in found.files if path.endswith(".toml"))
    assert b'"""' in found.files["services/web.toml"], "a text of several lines stays one"


def test_a_secret_of_two_values_is_noted_n36() -> None:
    """A deploy of one service gives it the new value; the other one has the old value."""
    person("ada")
    fleet = everything(db=sealed_to("w1", "@ada"), pager=sealed_to("w1", "@ada"))
    applied = after(plan(fleet, None))
    entry = applied.table.entries["alert.phone"]
    other = {**applied.table.entries, "alert.phone": replace(entry, secrets={"db": entry.secrets["pager"]})}
    (note,) = render(1, replace(applied.table, entries=other), applied.contents).notes
    assert note == "service.web has another value of the secret db than the one that is written."


@pytest.mark.parametrize("name", ["../../x", "a/b", "..", "", "Web", "x\n", "-", "x" * 41])
def test_a_name_that_would_lead_elsewhere_is_refused_n36(name: str) -> None:
    """Names become paths: of a service, a policy and a secret."""
    fleet = everything(db=sealed_to("w1", "@ada"), pager=sealed_to("w1", "@ada"))
    applied = after(plan(fleet, None))
    entries = applied.table.entries
    web = entries["service.web"]
    for more in (
        {f"service.{name}": web},
        {f"policy.{name}": entries["policy.read"]},
        {"service.web": replace(web, secrets={name: web.secrets["db"]})},
    ):
        with pytest.raises(Corrupt) as refused:
            render(1, replace(applied.table, entries={**entries, **more}), applied.contents)
        assert refused.value.code == "unsafe_name"


def test_a_policy_that_applies_to_nothing_is_noted_and_left_out_n36() -> None:
    applied = after(plan(everything(db=sealed_to("w1", "@ada"), pager=sealed_to("w1", "@ada")), None))
    entries = applied.table.entries
    loose = replace(
        applied.table, entries={**entries, "policy.read": replace(entries["policy.read"], applies_to=UNSET)}
    )
    found = render(1, loose, applied.contents)
    assert found.notes == ("policy.read applies to nothing in that revision and is left out.",)
    assert "policies/read.cedar" not in found.files and "policies" not in parse(found.files["fleet.toml"])


def test_a_secret_that_has_no_room_for_its_armour_is_written_without_n36() -> None:
    large = sealed_to("w1", "@ada", value=b"x" * 55_000)
    applied = after(plan(everything(db=large, pager=sealed_to("w1", "@ada")), None))
    found = rendered(applied)
    assert found.files["secrets/db.age"] == large and loaded(found).secrets["db"] == large


def test_a_long_list_has_one_value_on_each_line_n36() -> None:
    """A line of a file has a limit."""
    values = ["x" * 90, "y" * 90]
    assert toml_text.document({"cmd": values}) == f'cmd = [\n  "{values[0]}",\n  "{values[1]}",\n]\n'
