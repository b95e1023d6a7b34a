"""Secrets at the node's door: judged like everything else, opened with the node's own key, told to nobody (S13)."""

from contextlib import suppress
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.adapters.acceptance.memory import MemoryAcceptance
from holdfast.adapters.random_source.seeded import SeededRandom
from holdfast.adapters.sealing.memory import MemoryOpener, MemorySealer
from holdfast.adapters.secret_files.directory import DirectorySecretFiles
from holdfast.adapters.secret_files.memory import MemorySecretFiles
from holdfast.agent.acceptance.manifest import Followed, needed
from holdfast.agent.acceptance.manifest_grades import judge
from holdfast.agent.services.secrets import Secrets
from holdfast.errors import Failed, TryLater
from holdfast.model import canonical
from holdfast.model.applied import Applied
from holdfast.model.container import Mount, SecretUse
from holdfast.model.fleet import Component, FleetDocument, Node, Service
from holdfast.model.manifest import NodeManifest
from holdfast.model.revision import Candidate, Entry, NodeIdentity
from holdfast.model.trust import Trust
from holdfast.planning.plan import plan
from holdfast.planning.service_entry import serving_metadata
from tests.fleets.agents import Lone, PaperHub, applied_after, turn
from tests.fleets.build import ALICE, digest_pinned, operator_signer, sign, small_fleet
from tests.fleets.desks import key_of
from tests.fleets.sealing import CANARY, node_key, node_opener, sealed_to
from tests.fleets.virtual import VirtualLoop, run


class Held(MemoryAcceptance):
    def __init__(self, *contents: bytes) -> None:
        super().__init__()
        self._blobs = {canonical.digest(content): content for content in contents}


def use(content: bytes, file: str = "", env: str = "", name: str = "db") -> SecretUse:
    return SecretUse(name, canonical.digest(content), file, env)


def secrets(*contents: bytes, node: str = "w1") -> Secrets:
    return Secrets(Held(*contents), node_opener(node), MemorySecretFiles())


# ---- opening


def test_files_are_mounted_read_only_and_variables_handed_over(tmp_path: Path) -> None:
    one, other = sealed_to("w1"), sealed_to("w1", value=b"\0binary")
    found = Secrets(Held(one, other), node_opener("w1"), DirectorySecretFiles(str(tmp_path)))
    mounts, variables = found.prepare("hf-web", (use(one, "db"), use(one, env="DB"), use(other, "tls.pem", name="tls")))
    assert mounts == (
        Mount(str(tmp_path / "hf-web" / "db"), "/run/secrets/db", read_only=True),
        Mount(str(tmp_path / "hf-web" / "tls.pem"), "/run/secrets/tls.pem", read_only=True),
    )
    assert variables == (("DB", CANARY),)
    assert [Path(mount.source).read_bytes() for mount in mounts] == [CANARY, b"\0binary"]


def test_after_a_reboot_they_are_written_again_in_the_same_place(tmp_path: Path) -> None:
    content = sealed_to("w1")
    found = Secrets(Held(content), node_opener("w1"), DirectorySecretFiles(str(tmp_path / "run" / "secrets")))
    before = found.prepare("hf-web", (use(content, "db"),))
    found.forget("hf-web")
    assert not Path(before[0][0].source).exists()
    assert found.prepare("hf-web", (use(content, "db"),)) == before
    assert Path(before[0][0].source).read_bytes() == CANARY


def test_files_of_containers_that_went_while_the_agent_was_dead_go_too() -> None:
    content, files = sealed_to("w1"), MemorySecretFiles()
    found = Secrets(Held(content), node_opener("w1"), files)
    for name in ("old", "new"):
        found.prepare(name, (use(content, "db"),))
    found.forget_all_but({"new", "without-secrets"})
    assert files.containers() == ["new"]


def test_a_container_without_secrets_costs_nothing() -> None:
    assert secrets().prepare("hf-web", ()) == ((), ())


@pytest.mark.parametrize(
    ("content", "node"),
    [(sealed_to("w2", "@ada"), "w1"), (sealed_to("w1")[:-1], "w1"), (b"nonsense", "w1")],
    ids=["foreign", "cut", "nonsense"],
)
def test_what_does_not_open_fails_with_the_command_that_helps(content: bytes, node: str) -> None:
    with pytest.raises(Failed) as caught:
        secrets(content, node=node).prepare("hf-web", (use(content, "db"),))
    assert caught.value.code == "secret_not_readable"
    assert caught.value.remedy.startswith("`holdfast secret rotate db --keep`")


def test_nothing_is_written_unless_everything_opens() -> None:
    good, bad, files = sealed_to("w1"), sealed_to("w2"), MemorySecretFiles()
    found = Secrets(Held(good, bad), node_opener("w1"), files)
    with pytest.raises(Failed):
        found.prepare("hf-web", (use(good, "a"), use(bad, "b")))
    assert files.files == {}


def test_a_content_that_is_missing_or_was_swapped_is_not_opened() -> None:
    wanted, other = sealed_to("w1"), sealed_to("w1", value=b"planted")
    held = Held(other)
    held._blobs[canonical.digest(wanted)] = other
    for acceptance in (Held(), held):
        with pytest.raises(Failed) as caught:
            Secrets(acceptance, node_opener("w1"), MemorySecretFiles()).prepare("hf-web", (use(wanted, "db"),))
        assert caught.value.code == "secret_missing"


def test_a_value_that_cannot_be_a_variable_is_refused_without_being_told() -> None:
    content = sealed_to("w1", value=CANARY + b"\0")
    with pytest.raises(Failed) as caught:
        secrets(content).prepare("hf-web", (use(content, env="DB"),))
    assert caught.value.code == "secret_not_text"
    assert CANARY.decode() not in caught.value.message + caught.value.remedy


# ---- judging


CAROL, _ = operator_signer("carol", "apply")
TRUST = Trust((ALICE, CAROL))


class Scene:
    def __init__(self) -> None:
        self.contents: dict[str, bytes] = {}

    def put(self, value: object) -> str:
        content = value if isinstance(value, bytes) else canonical.encode(value)
        self.contents[canonical.digest(content)] = content
        return canonical.digest(content)

    def entry(self, sealed: bytes | None, node: str = "w1") -> Entry:
        names = ("db",) if sealed is not None else ()
        content = Service((Component("main", digest_pinned("web"), secrets=names),))
        held = {"db": self.put(sealed)} if sealed is not None else {}
        return Entry(self.put(content), node, 1, *serving_metadata(content), secrets=held)

    def manifest(self, **services: Entry) -> NodeManifest:
        own = Entry(self.put(Node("w1", ("worker",))), identity=NodeIdentity(node_key("w1")))
        settings = self.put(FleetDocument(small_fleet().settings))
        return NodeManifest("f" * 64, "w1", settings, own, {f"service.{n}": e for n, e in services.items()})

    def judged(self, before: NodeManifest, after: NodeManifest) -> Followed:
        line = " ".join(CAROL.key.split()[:2])
        return judge(Followed(before, before), after, [((line,), TRUST)], self.contents, 2, 0.0)


def test_a_node_needs_what_is_sealed_for_its_services() -> None:
    scene, content = Scene(), sealed_to("w1")
    assert canonical.digest(content) in needed(scene.manifest(web=scene.entry(content)))


@pytest.mark.parametrize(
    ("recipients", "parked"),
    [(("w1", "@ada"), False), (("w1", "w2", "@ada"), True), (("w1", "@ada", "@bob"), True)],
    ids=["same", "another node", "another person"],
)
def test_a_node_follows_a_rotation_and_parks_a_widening_of_grade_apply(
    recipients: tuple[str, ...], parked: bool
) -> None:
    scene = Scene()
    before = scene.manifest(web=scene.entry(sealed_to("w1", "@ada")))
    after = scene.manifest(web=scene.entry(sealed_to(*recipients)))
    standing = scene.judged(before, after)
    assert (list(standing.parked) == ["service.web"]) == parked
    assert standing.in_force == (before if parked else after)


def test_a_node_does_not_give_a_service_the_secret_of_another_one_on_grade_apply() -> None:
    scene, content = Scene(), sealed_to("w1", "@ada")
    before = scene.manifest(db=scene.entry(content), web=scene.entry(None))
    standing = scene.judged(before, scene.manifest(db=scene.entry(content), web=scene.entry(content)))
    assert "which service.db has" in standing.parked["service.web"].reason


@pytest.mark.parametrize("content", [b"hunter2", b"x" * 70_000, sealed_to("w1")[:70]], ids=["plain", "huge", "cut"])
def test_what_is_not_sealed_is_parked_whoever_signed(content: bytes) -> None:
    scene = Scene()
    before = scene.manifest(web=scene.entry(sealed_to("w1")))
    standing = scene.judged(before, scene.manifest(web=scene.entry(content)))
    assert list(standing.parked) == ["service.web"] and standing.in_force == before


def test_a_service_that_a_node_stands_by_for_may_move_with_its_secret() -> None:
    """Its home is not in this node's part of the table, so one key more may be the new home's."""
    from holdfast.model.revision import Table
    from holdfast.planning.secrets import demands

    scene = Scene()
    one, other = scene.entry(sealed_to("w1", "w2"), "w2"), scene.entry(sealed_to("w1", "w3"), "w3")
    wide = scene.entry(sealed_to("w1", "w3", "w4"), "w3")
    own = {"node.w1": scene.manifest().own}

    def asked(after: Entry) -> list[str]:
        tables = Table({"service.web": one, **own}), Table({"service.web": after, **own})
        return [demand.grade for demand in demands("service.web", *tables, scene.contents, scene.contents)]

    assert (asked(other), asked(wide)) == ([], ["destroy"])
    assert asked(replace(one)) == []


# ---- from the hub


def sealed_fleet(*values: bytes) -> list[Candidate]:
    """One revision after the other, each with another value of the secret that service.web is given."""
    found: list[Candidate] = []
    applied: Applied | None = None
    for value in values:
        content = MemorySealer(SeededRandom(f"{len(found)}")).seal(value, [key_of("w1").line])
        web = Service((Component("main", digest_pinned("web"), secrets=("db",)),), node="w1")
        node = Node("w1", ("worker",), key=key_of("w1").line)
        wanted = replace(small_fleet({"web": web}), nodes={"w1": node}, secrets={"db": content})
        planned = plan(wanted, applied)
        assert planned.candidate is not None
        found.append(sign(planned.candidate))
        applied = applied_after(found[-1], applied)
    return found


def sealed_in(candidate: Candidate) -> str:
    (digest,) = (digest for digest, blob in candidate.blobs.items() if blob.startswith(b"age-encryption.org"))
    return digest


def test_an_agent_fetches_what_is_sealed_for_it_and_tells_nobody() -> None:
    async def scene(loop: VirtualLoop) -> None:
        candidates = sealed_fleet(CANARY, CANARY + b"2")
        lone = Lone(loop, PaperHub(candidates[0]))
        agent = await lone.turned()
        lone.hub.candidates.append(candidates[1])
        await turn(agent)
        assert agent.accepting.seen == lone.hub.head and agent.accepting.parked == ()
        digest = sealed_in(candidates[1])
        opener = Secrets(lone.acceptance, MemoryOpener(lone.key.line), MemorySecretFiles())
        assert opener.prepare("x", (SecretUse("db", digest, env="DB"),)) == ((), (("DB", CANARY + b"2"),))
        told = repr((lone.hub.said, lone.said, lone.audit.lines()))
        assert "w1" in told and CANARY.decode() not in told

    run(scene)


@pytest.mark.parametrize("lie", ["other", "cut", "withheld"])
def test_a_hub_that_swaps_cuts_or_withholds_what_is_sealed_is_not_followed(lie: str) -> None:
    async def scene(loop: VirtualLoop) -> None:
        first, second = sealed_fleet(CANARY, CANARY + b"2")
        hub = PaperHub(first)
        lone = Lone(loop, hub)
        agent = await lone.turned()
        before, digest = hub.head, sealed_in(second)
        hub.candidates.append(second)
        if lie == "withheld":
            hub.lost.add(digest)
        else:
            old = first.blobs[sealed_in(first)]
            hub.lies[digest] = old if lie == "other" else second.blobs[digest][:-1]
        with suppress(TryLater):
            await turn(agent)
        assert agent.accepting.seen == before
        code = "revision_waits" if lie == "withheld" else "revision_refused"
        assert code in [finding.code for finding in agent.findings.all()]

    run(scene)
