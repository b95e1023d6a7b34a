"""Serve what was applied, never what is desired: the seed's commitments on the real hub and command line."""

import json
import os
import re
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from holdfast.adapters.tls.client import pinned_context
from tests.fleets.ports import free_port
from tests.fleets.waiting import wait_until
from tests.lab.product import Place, Warm, end, fingerprints, new_place, warm

pytestmark = pytest.mark.lab

POLICY = b"permit(principal, action, resource);\n"


@pytest.fixture(scope="module")
def cli() -> Iterator[Warm]:
    with warm() as interpreter:
        yield interpreter


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = new_place(tmp_path)
    (made.fleet / "policies").mkdir()
    (made.fleet / "policies" / "base.cedar").write_bytes(POLICY)
    with (made.fleet / "fleet.toml").open("a") as file:
        file.write('\n[[policies]]\nname = "base"\nfile = "policies/base.cedar"\napplies_to = ["fleet"]\n')
    made.applied_before()  # policies are refused until they are evaluated, but revisions have them
    return made


@dataclass(frozen=True)
class Hub:
    url: str
    key: str
    token: str


@contextmanager
def running(place: Place, *words: str, wrap: tuple[str, ...] = ()) -> Iterator[Hub]:
    """`holdfast hub run` as a process of its own, and a token to read from it."""
    command = [*wrap, *place.command("hub", "run", "--listen", f"127.0.0.1:{free_port()}", *words)]
    log = place.root / "hub.log"
    with log.open("w") as said:
        process = subprocess.Popen(command, cwd=place.fleet, env=place.environ, stderr=said, start_new_session=True)
    try:
        wait_until(lambda: process.poll() is not None or serving(log), "the hub serves")
        found = serving(log)
        assert found is not None, log.read_text()
        place.hub_key.write_text(found[2])
        made = place.run("token", "create", "--hub", found[1], "--json").ok().json
        yield Hub(found[1], found[2], made["text"])
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        end(process)


def serving(log: Path) -> re.Match[str] | None:
    return re.search(r"serving on (\S+)\nhub key: (.+)\n", log.read_text())


def fetch(hub: Hub, target: str) -> bytes:
    asked = urllib.request.Request(hub.url + target, headers={"Authorization": f"Bearer {hub.token}"})
    context = pinned_context(hub.key, "127.0.0.1", time.time)
    with urllib.request.urlopen(asked, timeout=60, context=context) as answer:
        content: bytes = answer.read()
    return content


ANSWERS = ("/v1/head", "/v1/applied", "/v1/history", "/v1/observations", "/openapi.json")


def answers(hub: Hub) -> list[bytes]:
    status = {k: v for k, v in json.loads(fetch(hub, "/v1/status")).items() if k != "findings"}
    return [*(fetch(hub, target) for target in ANSWERS), json.dumps(status, sort_keys=True).encode()]


def test_edits_that_were_not_applied_never_leak_o_04_i_05(place: Place, cli: Warm) -> None:
    """O-04, O-26, O-39, I-05, I-06: any edit, or the loss, of the desired files leaves every answer as it was."""
    with running(place, "--state-dir", str(place.ledger)) as hub:
        before = answers(hub)
        place.service("extra")
        place.replace("fleet.toml", 'name = "lab"', 'name = "other"')
        assert answers(hub) == before
        assert cli.run(place, "plan", "--json").ok().json["changes"], "the edit shows up in plan, and only there"
        (place.fleet / "fleet.toml").write_text("this is not TOML [")
        assert answers(hub) == before
        (place.fleet / "fleet.toml").unlink()
        assert answers(hub) == before
    with running(place, "--state-dir", str(place.ledger)) as hub:
        assert answers(hub) == before, "a boot reads none of them either"


def test_one_operator_applies_and_another_users_client_sees_it_o_06(place: Place, cli: Warm) -> None:
    """O-06, O-15: apply is the verb that changes what is applied; C-16: through the hub it is served at once."""
    with running(place, "--state-dir", str(place.ledger)) as hub:
        place.service("extra")
        for verb in (("validate",), ("plan",), ("history",), ("status",)):
            cli.run(place, *verb, "--hub", hub.url).ok()
        assert json.loads(fetch(hub, "/v1/status"))["resources"]["service"] == 1
        cli.run(place, "apply", "--yes", "--hub", hub.url).ok()
        assert json.loads(fetch(hub, "/v1/status"))["resources"]["service"] == 2


def test_a_running_hub_never_reloads_by_itself_o_44(place: Place, cli: Warm) -> None:
    """O-07, O-44, C-16: a revision committed behind its back is reported and needs a restart."""
    with running(place, "--state-dir", str(place.ledger)) as hub:
        place.service("extra")
        cli.run(place, "apply", "--yes").ok()
        status = cli.run(place, "status", "--hub", hub.url, "--json").ok().json
        assert codes(status) == {"revision_behind"}, "the hub says so, and the command line noticed by itself"
        assert (status["serving"]["number"], status["head"]["number"]) == (1, 2)
        place.service("more")
        refused = cli.run(place, "apply", "--yes", "--hub", hub.url, "--json", "--adopt")
        assert "restart the hub" in refused.refused(5, "revision_behind")["remedy"]
    with running(place, "--state-dir", str(place.ledger)) as hub:
        assert codes(json.loads(fetch(hub, "/v1/status"))) == set()


def codes(status: Any) -> set[str]:
    """Of findings, without the one about nodes: none joins here."""
    return {finding["code"] for finding in status["findings"]} - {"node_not_joined"}


def test_the_source_is_an_exclusive_switch_o_02(place: Place, cli: Warm) -> None:
    """O-02: both at once is an error before either is opened; no precedence, no merging."""
    config, ledger = str(place.fleet / "fleet.toml"), str(place.ledger)
    found = cli.run(place, "hub", "run", "--config", config, "--state-dir", ledger, "--json").refused(2, "two_sources")
    assert "omit one" in found["remedy"]


def opened(trace: Path) -> str:
    return trace.read_text()


def test_each_source_never_opens_the_other_o_03_o_10(place: Place, tmp_path: Path) -> None:
    """O-03, O-10: in ledger mode the legacy file is not opened at all, and legacy mode serves without a ledger."""
    legacy = new_place(tmp_path / "legacy")
    trace = tmp_path / "trace"
    wrap = ("strace", "-f", "-qq", "-e", "trace=open,openat", "-o", str(trace))
    with running(place, "--state-dir", str(place.ledger), wrap=wrap) as hub:
        assert json.loads(fetch(hub, "/v1/status"))["source"] == "ledger"
    assert '.toml"' not in opened(trace), "neither fleet.toml nor a file of services/"
    with running(legacy, "--config", str(legacy.fleet / "fleet.toml"), wrap=wrap) as hub:
        status = json.loads(fetch(hub, "/v1/status"))
        assert (status["source"], status["resources"]["service"]) == ("config", 1)
    assert "ledger.db" not in opened(trace) and 'fleet.toml"' in opened(trace)


def test_going_back_is_the_same_switch_reversed_o_38(place: Place, cli: Warm) -> None:
    """O-37, O-38: nothing in ledger mode changes the old files; the guide from-a-config-file walks the way there."""
    before = {k: v for k, v in fingerprints(place.fleet).items() if not k.startswith((".ledger", "fleet.lock"))}
    with running(place, "--state-dir", str(place.ledger)):
        pass
    with running(place, "--config", str(place.fleet / "fleet.toml")) as hub:
        refused = cli.run(place, "apply", "--yes", "--hub", hub.url, "--json")
        assert refused.code != 0
    after = {k: v for k, v in fingerprints(place.fleet).items() if not k.startswith((".ledger", "fleet.lock"))}
    assert after == before


def test_contents_lie_under_their_digest_and_the_layout_is_what_is_documented_o_12(place: Place) -> None:
    """O-12, O-14, O-43: every blob is verified in full, and its name is the sha256 of its content."""
    from holdfast.adapters.ledger_store.sqlite.store import SqliteStore
    from holdfast.model.canonical import digest

    assert sorted(path.name for path in place.ledger.iterdir() if "-" not in path.suffix) >= ["high-water", "ledger.db"]
    reader = SqliteStore.open_read_only(str(place.database))
    try:
        found = dict(reader.read_blobs(list(reader.blob_digests())))
    finally:
        reader.close()
    assert POLICY in found.values()
    assert all(content is not None and digest(content) == name for name, content in found.items())


def test_a_policy_is_served_as_applied_with_its_binding_o_25(place: Place, cli: Warm) -> None:
    """O-25, O-28, O-32, O-08: bound by applied metadata, stored and shown, evaluated by a later step. Until then a
    plan warns about it, and refuses another binding."""
    with running(place, "--state-dir", str(place.ledger)) as hub:
        assert json.loads(_table(hub))["entries"]["policy.base"]["applies_to"] == ["fleet"]
        (warning,) = cli.run(place, "plan", "--hub", hub.url, "--json").ok().json["warnings"]
        assert "policies are not evaluated" in warning and "fleet.toml: policies.base" in warning
        place.replace("fleet.toml", 'applies_to = ["fleet"]', 'applies_to = ["fleet", "service.hello"]')
        assert json.loads(_table(hub))["entries"]["policy.base"]["applies_to"] == ["fleet"], "not until applied"
        refused = cli.run(place, "plan", "--hub", hub.url, "--json").refused(2, "invalid_fleet")
        assert "policies[0]: not built yet" in refused["message"]


def _table(hub: Hub) -> bytes:
    import base64

    return base64.b64decode(json.loads(fetch(hub, "/v1/applied"))["revision"]["table"])


def test_listen_address_and_credentials_are_process_facts_o_17(place: Place) -> None:
    """O-17, C-10: they differ per process and are nowhere in the ledger."""
    with running(place, "--state-dir", str(place.ledger)) as hub:
        port = hub.url.rpartition(":")[2]
        assert all(port.encode() not in content for content in answers(hub))


def test_revision_and_digests_are_in_the_listing_o_45(place: Place) -> None:
    """O-11, O-45, O-46: cheap, so included; the surface is described by /openapi.json."""
    with running(place, "--state-dir", str(place.ledger)) as hub:
        head = json.loads(fetch(hub, "/v1/head"))["head"]
        (record,) = json.loads(fetch(hub, "/v1/history"))["revisions"]
        assert record["digest"] == head["digest"] and len(head["digest"]) == 64
        assert "/v1/status" in json.loads(fetch(hub, "/openapi.json"))["paths"]


@pytest.mark.parametrize("where", ["/nowhere/at/all", "s3://bucket/ledger"])
def test_a_missing_or_remote_ledger_is_refused_with_the_way_to_one_o_20(place: Place, cli: Warm, where: str) -> None:
    """O-09, O-20: only local directories are ledger roots; missing state names its remedy."""
    found = cli.run(place, "hub", "run", "--state-dir", where, "--json").refused(7, "ledger_missing")
    assert "hub init" in found["remedy"] and "apply" in found["remedy"]


def test_a_manifest_is_all_that_a_node_needs_and_tells_nothing_of_others_c_11(place: Place, cli: Warm) -> None:
    """C-11, C-12: with its manifest and the contents it names, an agent needs no hub and knows no other node."""
    place.replace("fleet.toml", "# The machines.", '[[nodes]]\nname = "w2"\nroles = ["worker"]\n# The machines.')
    place.service("mine", node="w2")
    place.service("theirs", node="hub1")
    cli.run(place, "apply", "--yes").ok()
    manifests = cli.run(place, "history", "show", "2", "--json").ok().json["manifests"]
    contents = blobs(place)
    manifest = json.loads(contents[manifests["w2"]])
    assert set(manifest["services"]) == {"service.mine"}
    named = [manifest["own"]["digest"], manifest["settings"], *(e["digest"] for e in manifest["services"].values())]
    reach = b"".join(contents[digest] for digest in [manifests["w2"], *named])
    assert b"hub1" not in reach and b"theirs" not in reach


def blobs(place: Place) -> dict[str, bytes]:
    from holdfast.adapters.ledger_store.sqlite.store import SqliteStore

    reader = SqliteStore.open_read_only(str(place.database))
    try:
        return {d: c for d, c in reader.read_blobs(list(reader.blob_digests())) if c is not None}
    finally:
        reader.close()


def test_sync_is_declarative_and_its_dry_run_executes_nothing_m_121(place: Place, cli: Warm) -> None:
    """M-120, M-121: new → create, changed → update, absent → retire, and a preview of all three."""
    place.service("gone")
    cli.run(place, "sync", "--yes").ok()
    (place.fleet / "services" / "gone.toml").unlink()
    place.service("fresh")
    place.replace("services/hello.toml", 'tier = "worker"', 'tier = "core"')
    before = fingerprints(place.ledger)
    shown = cli.run(place, "sync", "--dry-run", "--json").ok().json
    kinds = {change["address"]: change["kind"] for change in shown["changes"]}
    assert kinds == {"service.fresh": "create", "service.gone": "retire", "service.hello": "update"}
    assert fingerprints(place.ledger) == before
    cli.run(place, "sync", "--yes", "--allow-removals", "1").ok()
    assert cli.run(place, "sync", "--dry-run").ok().out.startswith("No changes")


def test_deploy_and_undeploy_are_limited_to_one_address_m_122(place: Place, cli: Warm) -> None:
    """M-122, M-123, M-124, C-09: files stay on the operator's machine; what the ledger does not know is a create."""
    place.service("one")
    place.service("two")
    cli.run(place, "deploy", "one", "--yes").ok()
    assert [c["address"] for c in cli.run(place, "plan", "--json").ok().json["changes"]] == ["service.two"]
    gone = cli.run(place, "undeploy", "one", "--yes").ok()
    assert "still exists" in gone.err
    shown: list[Any] = cli.run(place, "plan", "--json").ok().json["changes"]
    assert {c["address"]: c["kind"] for c in shown} == {"service.one": "create", "service.two": "create"}


def test_the_slices_of_the_seed_hold_together_o_42(place: Place, cli: Warm) -> None:
    """O-42: metadata is written (5A), a converged ledger boots and serves (5B), and the docs name every code (5C)."""
    from holdfast.ledger.boot_findings import ROWS

    text = (Path(__file__).parents[2] / "docs" / "reference" / "ledger.md").read_text()
    assert [code for code in ROWS if f"`{code}`" not in text] == []
    assert cli.run(place, "hub", "check", "--state-dir", str(place.ledger), "--json").ok().json["sound"] is True
