"""Keys without an effect: refused where they are new, warned about where the applied revision has them."""

from collections.abc import Mapping
from typing import NamedTuple

import pytest
from msgspec import UNSET, inspect
from msgspec.structs import replace

from holdfast.declared import later, without_effect
from holdfast.declared.later import NO_WAY_BACK, OWN, TABLE, Row
from holdfast.declared.reference import is_known
from holdfast.declared.without_effect import Judged, judge
from holdfast.model.applied import Applied
from holdfast.model.fleet import Fleet
from holdfast.planning.plan import plan
from tests.specs.declared.declared_fleets import FLEET, WEB, fleet_of, problems_of
from tests.specs.declared.test_declared_reference import TABLES
from tests.specs.planning.test_plan import after

PLAIN = FLEET.partition("[[storage]]")[0]
FILES = {"fleet.toml": PLAIN.encode(), "services/web.toml": WEB.encode()}
VOLUME = WEB + 'volumes = [{name = "d", path = "/d", protect = "none"}]\n'
BOX = '[[storage]]\nname = "box"\ntype = "local-dir"\ndurable_id = "box-1"\nlocation = "/srv/box"\n'
STORAGE = '[[storage]]\nname = "nas"\ntype = "nfs"\ndurable_id = "nas:/x"\n'


class Sample(NamedTuple):
    """What is written, the place that is named, and another value of the same key."""

    files: Mapping[str, str]
    place: str
    other: Mapping[str, str] = {}


def fleet_file(more: str) -> dict[str, str]:
    return {"fleet.toml": PLAIN + more}


def node(more: str) -> dict[str, str]:
    return fleet_file(f'[[nodes]]\nname = "w1"\nroles = ["worker"]\n{more}')


def roles(role: str) -> dict[str, str]:
    return fleet_file(f'[[nodes]]\nname = "w1"\nroles = ["worker", "{role}"]\n')


def volume(keys: str) -> dict[str, str]:
    return {"services/web.toml": WEB + f'volumes = [{{name = "d", path = "/d", {keys}}}]\n'}


def policy(targets: str, text: str = "permit;") -> dict[str, str]:
    table = f'[[policies]]\nname = "base"\nfile = "policies/base.cedar"\napplies_to = [{targets}]\n'
    return {**fleet_file(table), "policies/base.cedar": text}


SAMPLES: dict[Row, Sample] = {
    **{
        ("Storage", "type", type): Sample(fleet_file(STORAGE.replace("nfs", type)), "fleet.toml: storage.nas.type")
        for type in ("nfs", "cifs", "pbs")
    },
    **{
        ("Storage", "role", role): Sample(fleet_file(BOX + f'role = "{role}"\n'), "fleet.toml: storage.box.role")
        for role in ("vzdump-target", "pbs-offsite", "bulk-data")
    },
    ("StoragePolicy", "schedule", ""): Sample(
        fleet_file(BOX + 'policy = { schedule = "daily" }\n'),
        "fleet.toml: storage.box.policy.schedule",
        fleet_file(BOX + 'policy = { schedule = "hourly" }\n'),
    ),
    ("FleetFile", "policies", ""): Sample(policy('"fleet"'), "fleet.toml: policies.base", policy('"fleet"', "forbid;")),
    ("Node", "roles", "builder"): Sample(roles("builder"), "fleet.toml: nodes.w1.roles.builder"),
    ("Node", "direct", "on"): Sample(node('direct = "on"\n'), "fleet.toml: nodes.w1.direct"),
    ("Node", "labels", ""): Sample(node('labels = {rack = "a"}\n'), "fleet.toml: nodes.w1.labels"),
    ("Service", "custody", ""): Sample({"services/web.toml": 'custody = "hub"\n' + WEB}, "services/web.toml: custody"),
    NO_WAY_BACK: Sample(
        {"services/web.toml": WEB + '[snapshot]\nmethod = "exec: dump"\n'},
        "services/web.toml: snapshot.method",
        {"services/web.toml": WEB + '[snapshot]\nmethod = "exec: dump --all"\n'},
    ),
    ("Volume", "class", ""): Sample(
        volume('protect = "none", class = "slow"'), "services/web.toml: components.web.volumes.d.class"
    ),
}

REFUSED = [row for row in SAMPLES if TABLE[row].refused]


def written(files: Mapping[str, str]) -> Fleet:
    return fleet_of({**FILES, **{path: text.encode() for path, text in files.items()}})


def applied(fleet: Fleet) -> Applied:
    return after(plan(fleet, None))


def rows(judged: Judged) -> tuple[list[Row], list[Row]]:
    return [use.row for use in judged.refused], [use.row for use in judged.warned]


def test_every_row_that_the_schema_takes_has_a_sample_here() -> None:
    assert {row for row in TABLE if is_known(row)} == SAMPLES.keys() | {OWN}


def test_every_row_names_a_table_of_the_schema_and_each_has_a_sentence_and_a_remedy() -> None:
    assert {table for table, _, _ in TABLE} <= {table.__name__ for table in TABLES}
    assert all(entry.reason and entry.remedy for entry in TABLE.values())


@pytest.mark.parametrize("row", SAMPLES)
def test_what_is_new_is_refused_or_warned_about_with_its_place(row: Row) -> None:
    judged = judge(written(SAMPLES[row].files), None)
    assert rows(judged) == (([row], []) if TABLE[row].refused else ([], [row]))
    assert [str(use) for use in (*judged.refused, *judged.warned)] == [SAMPLES[row].place]


@pytest.mark.parametrize("row", SAMPLES)
def test_what_is_applied_is_only_warned_about_and_its_bytes_stay(row: Row) -> None:
    fleet = written(SAMPLES[row].files)
    before = applied(fleet)
    assert rows(judge(fleet, before)) == ([], [row])
    (warning,) = judge(fleet, before).warnings()
    assert TABLE[row].reason in warning and TABLE[row].remedy in warning and SAMPLES[row].place in warning
    assert plan(fleet, before).candidate is None


@pytest.mark.parametrize("row", SAMPLES)
def test_an_applied_key_stays_a_warning_when_the_same_resource_changes_elsewhere(row: Row) -> None:
    fleet = written(SAMPLES[row].files)
    before = applied(fleet)
    changed = replace(
        fleet,
        settings=replace(fleet.settings, parallel=7),
        nodes={name: replace(node, reconcile="observe") for name, node in fleet.nodes.items()},
        services={name: replace(service, active=False) for name, service in fleet.services.items()},
    )
    assert rows(judge(changed, before)) == ([], [row])


@pytest.mark.parametrize("row", REFUSED)
def test_a_key_that_the_applied_revision_lacks_is_refused(row: Row) -> None:
    assert rows(judge(written(SAMPLES[row].files), applied(written({})))) == ([row], [])


@pytest.mark.parametrize("row", [row for row in REFUSED if SAMPLES[row].other])
def test_another_value_than_the_applied_one_is_refused(row: Row) -> None:
    assert rows(judge(written(SAMPLES[row].other), applied(written(SAMPLES[row].files))))[0] == [row]


@pytest.mark.parametrize("row", SAMPLES)
def test_a_key_that_is_removed_is_no_matter(row: Row) -> None:
    assert judge(written({"services/web.toml": VOLUME}), applied(written(SAMPLES[row].files))) == Judged((), ())


def test_a_volume_on_a_storage_target_is_refused_with_the_target() -> None:
    files = {**fleet_file(STORAGE), **volume('protect = "own:nas"')}
    fleet = written(files)
    share: Row = ("Storage", "type", "nfs")
    assert rows(judge(fleet, None)) == ([share, OWN], [])
    assert rows(judge(fleet, applied(fleet))) == ([], [share, OWN])
    assert rows(judge(fleet, applied(written(fleet_file(STORAGE))))) == ([OWN], [share])


def test_a_policy_that_is_bound_to_more_is_refused() -> None:
    before = applied(written(policy('"fleet"')))
    assert rows(judge(written(policy('"fleet", "service.web"')), before))[0] == [("FleetFile", "policies", "")]


def test_a_policy_whose_binding_is_missing_in_the_ledger_can_be_applied_again() -> None:
    """`binding_missing` has this remedy."""
    fleet = written(policy('"fleet"'))
    before = applied(fleet)
    entry = replace(before.table.entries["policy.base"], applies_to=UNSET)
    damaged = replace(before, table=replace(before.table, entries=before.table.entries | {"policy.base": entry}))
    assert rows(judge(fleet, damaged)) == ([], [("FleetFile", "policies", "")])


def test_a_default_that_is_written_out_declares_nothing() -> None:
    fleet_text = PLAIN + '[backups]\ninterval = "24h"\nretain = 7\n[timeouts]\nsnapshot = "10m"\ndeploy = "9m"\n'
    fleet_text += '[[nodes]]\nname = "w1"\nroles = ["worker"]\npeer_calls = "declared"\ndirect = "off"\n'
    service = 'custody = "sealed"\n' + WEB + 'volumes = [{name = "d", path = "/d", protect = "none", class = "fast"}]\n'
    assert judge(written({"fleet.toml": fleet_text, "services/web.toml": service}), None) == Judged((), ())


def test_a_volume_that_is_backed_up_and_a_path_of_the_host_are_not_warned_about() -> None:
    text = WEB + 'volumes = [{name = "d", path = "/d", protect = "backup"}, "/srv/x:/x"]\n'
    judged = judge(written({"services/s.toml": text}), None)
    assert judged.refused == judged.warned == ()


def test_what_is_applied_as_declared_is_not_read_from_the_ledger() -> None:
    """A damaged content is repaired by an apply of the same file, so judging that file must not need it."""
    fleet = written(SAMPLES["Service", "custody", ""].files)
    damaged = replace(applied(fleet), contents={})
    assert rows(judge(fleet, damaged)) == ([], [("Service", "custody", "")])


def test_a_refusal_names_the_line_also_where_nodes_are_not_in_order() -> None:
    files = {
        path: text.encode()
        for path, text in {**node('direct = "on"\n'), **volume('protect = "none", class = "slow"')}.items()
    }
    text = files["fleet.toml"].replace(b'name = "edge1"', b'name = "zz"')
    judged = judge(fleet_of({**FILES, **files, "fleet.toml": text}), None)
    first, second = without_effect.problems(judged.refused, {**files, "fleet.toml": text}).problems
    line = text.decode().splitlines().index('direct = "on"') + 1
    assert (first.file, first.line, first.key) == ("fleet.toml", line, "nodes[2].direct")
    assert (second.file, second.line, second.key) == ("services/web.toml", 4, "components[0].volumes[0].class")
    assert first.what == TABLE["Node", "direct", "on"].reason and first.remedy


def test_a_reader_who_does_not_know_what_is_applied_is_only_warned() -> None:
    remarks = without_effect.remarks(judge(written(node('direct = "on"\nlabels = {rack = "a"}\n')), None))
    assert len(remarks) == 2
    assert "holdfast plan refuses it if it is new" in remarks[0] and "refuses" not in remarks[1]


@pytest.mark.parametrize("row", [row for row in TABLE if not is_known(row)])
def test_what_the_schema_does_not_take_is_refused_when_it_is_read(row: Row) -> None:
    table, key, value = row
    homes = {
        "FleetFile": "",
        "Overlay": "[overlay]\n",
        "AlertTarget": '[[alerts]]\nname = "a"\nwebhook = "https://a.b"\n',
    }
    line = f'{key} = "{value}"\n' if value else f"{key} = []\n"
    files = FILES | ({"services/web.toml": (line + WEB).encode()} if table == "Service" else {})
    if table != "Service":
        more = homes[table] + line
        files |= {"fleet.toml": (line + PLAIN if not homes[table] else PLAIN + more).encode()}
    (problem,) = problems_of(files)
    assert (problem.what, problem.remedy) == (TABLE[row].reason, TABLE[row].remedy)


def test_values_are_values_of_their_key() -> None:
    """A row about one value would never match if it were misspelt."""
    for table, key, value in TABLE:
        fields = {
            field.encode_name: field.type
            for kind in TABLES.values()
            if kind.cls.__name__ == table
            for field in kind.fields
        }
        kind = fields.get(key)
        choices = kind.item_type if isinstance(kind, inspect.VarTupleType) else kind
        if value and isinstance(choices, inspect.LiteralType) and (table, key) != ("Overlay", "driver"):
            assert value in choices.values
    assert later.of_value("Node", "roles", "worker") is None
