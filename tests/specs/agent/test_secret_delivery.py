"""Secrets at the node's door: judged like everything else, opened with the node's own key, told to nobody (S13)."""

from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.adapters.acceptance.memory import MemoryAcceptance
from holdfast.adapters.journal.memory import MemoryJournal
from holdfast.adapters.random_source.seeded import SeededRandom
from holdfast.adapters.sealing.memory import MemoryOpener, MemorySealer
from holdfast.adapters.secret_files.directory import DirectorySecretFiles
from holdfast.adapters.secret_files.memory import MemorySecretFiles
from holdfast.agent.acceptance.manifest import Followed, needed
from holdfast.agent.acceptance.manifest_grades import judge
from holdfast.agent.services.records import PREFIX, Record
from holdfast.agent.services.secrets import unbound
from holdfast.agent.services.secrets.delivery import Secrets
from holdfast.errors import Failed, TryLater
from holdfast.model import canonical, trust
from holdfast.model.applied import Applied
from holdfast.model.container import ContainerSpec, Guest, Mount, Part, SecretUse, spec_digest
from holdfast.model.fleet import Component, FleetDocument, Node, Service
from holdfast.model.manifest import NodeManifest
from holdfast.model.purpose import Purpose, wrapped
from holdfast.model.record import Link
from holdfast.model.revision import Candidate, Entry, Head, NodeIdentity
from holdfast.model.trust import Trust
from holdfast.planning.plan import plan
from holdfast.planning.service_entry import serving_metadata
from holdfast.ports.acceptance import Accepted
from tests.fleets.agents import Lone, PaperHub, applied_after, turn
from tests.fleets.build import ALICE, digest_pinned, operator_signer, sign, small_fleet
from tests.fleets.desks import key_of
from tests.fleets.sealing import CANARY, node_key, node_opener, sealed_to
from tests.fleets.virtual import VirtualLoop, run

FLEET = "f" * 64


class Held(MemoryAcceptance):
    def __init__(self, *contents: bytes) -> None:
        super().__init__()
        self._blobs = {canonical.digest(content): content for content in contents}


def use(content: bytes, file: str = "", env: str = "", name: str = "db") -> SecretUse:
    return SecretUse(name, canonical.digest(content), file, env)


def spec(*uses: SecretUse, service: str = "web", fleet: str = FLEET) -> ContainerSpec:
    return ContainerSpec(fleet, service, "main", 1, "web", "", secrets=uses)


def bound(*recipients: str, value: bytes = CANARY, name: str = "db") -> bytes:
    return sealed_to(*recipients, value=wrapped(value, Purpose(FLEET, name, ("service.web",))))


def secrets(*contents: bytes, node: str = "w1") -> Secrets:
    return Secrets(Held(*contents), node_opener(node), MemorySecretFiles())


# ---- opening


def test_files_are_mounted_read_only_and_variables_handed_over(tmp_path: Path) -> None:
    one, other = bound("w1"), bound("w1", value=b"\0binary", name="tls")
    found = Secrets(Held(one, other), node_opener("w1"), DirectorySecretFiles(str(tmp_path)))
    uses = (use(one, "db"), use(one, env="DB"), use(other, "tls.pem", name="tls"))
    mounts, variables = found.prepare("hf-web", spec(*uses))
    assert mounts == (
        Mount(str(tmp_path / "hf-web" / "db"), "/run/secrets/db", read_only=True),
        Mount(str(tmp_path / "hf-web" / "tls.pem"), "/run/secrets/tls.pem", read_only=True),
    )
    assert variables == (("DB", CANARY),)
    assert [Path(mount.source).read_bytes() for mount in mounts] == [CANARY, b"\0binary"]


def test_after_a_reboot_they_are_written_again_in_the_same_place(tmp_path: Path) -> None:
    content = bound("w1")
    found = Secrets(Held(content), node_opener("w1"), DirectorySecretFiles(str(tmp_path / "run" / "secrets")))
    before = found.prepare("hf-web", spec(use(content, "db")))
    found.forget("hf-web")
    assert not Path(before[0][0].source).exists()
    assert found.prepare("hf-web", spec(use(content, "db"))) == before
    assert Path(before[0][0].source).read_bytes() == CANARY


def test_files_of_containers_that_went_while_the_agent_was_dead_go_too() -> None:
    content, files = bound("w1"), MemorySecretFiles()
    found = Secrets(Held(content), node_opener("w1"), files)
    for name in ("old", "new"):
        found.prepare(name, spec(use(content, "db")))
    found.forget_all_but({"new", "without-secrets"})
    assert files.containers() == ["new"]


def test_a_container_without_secrets_costs_nothing() -> None:
    assert secrets().prepare("hf-web", spec()) == ((), ())


@pytest.mark.parametrize(
    ("content", "node"),
    [(sealed_to("w2", "@ada"), "w1"), (sealed_to("w1")[:-1], "w1"), (b"nonsense", "w1")],
    ids=["foreign", "cut", "nonsense"],
)
def test_what_does_not_open_fails_with_the_command_that_helps(content: bytes, node: str) -> None:
    with pytest.raises(Failed) as caught:
        secrets(content, node=node).prepare("hf-web", spec(use(content, "db")))
    assert caught.value.code == "secret_not_readable"
    assert caught.value.remedy.startswith("`holdfast secret rotate db --keep`")


def test_nothing_is_written_unless_everything_opens() -> None:
    good, bad, files = bound("w1"), bound("w2"), MemorySecretFiles()
    found = Secrets(Held(good, bad), node_opener("w1"), files)
    with pytest.raises(Failed):
        found.prepare("hf-web", spec(use(good, "a"), use(bad, "b")))
    assert files.files == {}


def test_a_content_that_is_missing_or_was_swapped_is_not_opened() -> None:
    wanted, other = sealed_to("w1"), sealed_to("w1", value=b"planted")
    held = Held(other)
    held._blobs[canonical.digest(wanted)] = other
    for acceptance in (Held(), held):
        with pytest.raises(Failed) as caught:
            Secrets(acceptance, node_opener("w1"), MemorySecretFiles()).prepare("hf-web", spec(use(wanted, "db")))
        assert caught.value.code == "secret_missing"


def test_a_value_that_cannot_be_a_variable_is_refused_without_being_told() -> None:
    content = bound("w1", value=CANARY + b"\0")
    with pytest.raises(Failed) as caught:
        secrets(content).prepare("hf-web", spec(use(content, env="DB")))
    assert caught.value.code == "secret_not_text"
    assert CANARY.decode() not in caught.value.message + caught.value.remedy


# ---- what it is for (X03)


def refused(found: Secrets, wanted: ContainerSpec) -> str:
    with pytest.raises(Failed) as caught:
        found.prepare("hf-web", wanted)
    assert caught.value.code == "secret_not_for_it" and CANARY.decode() not in caught.value.message
    return caught.value.message


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ({"service": "db"}, "is sealed for service.web, not for service.db"),
        ({"fleet": "e" * 64}, "is sealed for another fleet, ffffffffffff…"),
    ],
    ids=["another service", "another fleet"],
)
def test_x03_a_value_is_given_only_to_what_its_seal_names(wanted: dict[str, str], why: str) -> None:
    content = bound("w1")
    assert why in refused(secrets(content), spec(use(content, "db"), **wanted))


def test_x03_a_secret_under_another_name_is_refused_with_a_command_that_names_the_service() -> None:
    content = bound("w1")
    with pytest.raises(Failed) as caught:
        secrets(content).prepare("hf-web", spec(use(content, "db", name="mine")))
    assert "is the secret db under another name" in caught.value.message
    assert "`holdfast secret rotate mine --keep --for service.web`" in caught.value.remedy


def test_x03_a_file_of_an_older_release_is_given_to_the_pairs_that_were_applied_before_and_to_no_other() -> None:
    content = sealed_to("w1")
    pairs = {("service.web", canonical.digest(content))}
    found = Secrets(Held(content), node_opener("w1"), MemorySecretFiles(), pairs)
    assert found.prepare("hf-web", spec(use(content, env="DB"))) == ((), (("DB", CANARY),))
    assert "was sealed by an older release" in refused(found, spec(use(content, "db"), service="db"))
    other = sealed_to("w1", value=CANARY + b"2")
    new = Secrets(Held(other), node_opener("w1"), MemorySecretFiles(), pairs)
    assert "is new to service.web" in refused(new, spec(use(other, "db")))


ALIKE = wrapped(b"inner", Purpose(FLEET, "db", ("service.other",)))


def test_an_old_value_that_looks_like_a_purpose_stays_the_value_for_the_service_that_had_it() -> None:
    content = sealed_to("w1", value=ALIKE)
    pairs = {("service.web", canonical.digest(content))}
    found = Secrets(Held(content), node_opener("w1"), MemorySecretFiles(), pairs)
    assert found.prepare("hf-web", spec(use(content, env="DB"))) == ((), (("DB", ALIKE),))


@pytest.mark.parametrize("value", [b"", b"\n", b"\n\n{}", b"\xff\xfe", ALIKE], ids=repr)
def test_any_value_comes_out_of_its_seal_byte_for_byte(value: bytes) -> None:
    content = bound("w1", value=value)
    assert secrets(content).prepare("hf-web", spec(use(content, env="DB"))) == ((), (("DB", value),))


@pytest.mark.parametrize(
    "head",
    [
        b'{"addresses":[],"fleet":"x","holdfast":"secret-1","name":"db"}',
        b'{"addresses":["service.web\\u001b[2J"],"fleet":"' + b"f" * 64 + b'","holdfast":"secret-1","name":"db"}',
        b'{"addresses":["service.web"],"fleet":"' + b"f" * 64 + b'","holdfast":"secret-2","name":"db"}',
        b'{"addresses":["service.web"],"fleet":"' + b"f" * 64 + b'","holdfast":"secret-1","name":"db" }',
        b'{"addresses":["service.web"],"fleet":"' + b"f" * 64 + b'","holdfast":"secret-1","name":"db","x":1}',
        b'{"addresses":[' + b"[" * 3000,
        b'{"addresses":["' + b"x" * 5000,
    ],
    ids=["fleet", "control", "format", "spelling", "field", "deep", "long"],
)
def test_what_is_not_exactly_a_purpose_is_a_bare_value(head: bytes) -> None:
    content = sealed_to("w1", value=head + b"\nvalue")
    assert "was sealed by an older release" in refused(secrets(content), spec(use(content, "db")))


LONG = Purpose(FLEET, "db", ("service.web", *(f"service.{number:040}" for number in range(99))))


@pytest.mark.parametrize(
    "plain",
    [wrapped(b"", LONG), wrapped(b"", Purpose(FLEET, "db", ("service.web",)))[:-1]],
    ids=["too long", "without its line break"],
)
def test_a_purpose_has_a_bounded_length_and_a_line_of_its_own(plain: bytes) -> None:
    content = sealed_to("w1", value=plain)
    assert "was sealed by an older release" in refused(secrets(content), spec(use(content, "db")))


def test_variables_are_handed_over_in_the_order_of_their_names() -> None:
    content = bound("w1")
    uses = [use(content, env=name) for name in ("ZED", "ABC")]
    assert [name for name, _ in secrets(content).prepare("hf-web", spec(*uses))[1]] == ["ABC", "ZED"]


def test_x03_the_remedy_names_the_service_only_if_the_name_inside_is_another() -> None:
    content = bound("w1")
    with pytest.raises(Failed) as caught:
        secrets(content).prepare("hf-db", spec(use(content, "db"), service="db"))
    assert "`holdfast secret rotate db --keep`, then" in caught.value.remedy


# ---- which uses of files without a purpose go on


class Newest(Held):
    def __init__(self, in_force: bytes) -> None:
        super().__init__()
        self._in_force = in_force

    def newest(self) -> Accepted:
        return Accepted("f" * 64, Head(1, "0" * 64), Link(b"", (), b""), manifest=b"", in_force=self._in_force)


def test_x03_what_is_in_force_and_what_still_serves_is_noted_once() -> None:
    scene, journal = Scene(), MemoryJournal()
    applied, older = sealed_to("w1"), [sealed_to("w1", value=CANARY + word) for word in (b"1", b"2")]
    parts = [Part(one := spec(use(content, "db"), service="old"), spec_digest(one)) for content in older]
    serving = Guest("old", "f" * 16, 1, tuple(parts), True)
    journal.set_aside(PREFIX + "old", msgspec.json.encode(Record(serving=serving)))
    manifest = scene.manifest(web=scene.entry(applied))
    found = unbound.noted(journal, Newest(canonical.encode(manifest)))
    expected = {("service.web", canonical.digest(applied))}
    assert found == expected | {("service.old", canonical.digest(content)) for content in older}
    assert unbound.noted(journal, Newest(b"")) == found, "later revisions add nothing"


def test_x03_a_node_that_follows_nothing_yet_has_no_such_use() -> None:
    assert unbound.noted(MemoryJournal(), Newest(b"")) == frozenset()


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
        fleet = trust.digest(trust.of(small_fleet().operators, small_fleet().thresholds))
        inside = wrapped(value, Purpose(fleet, "db", ("service.web",)))
        content = MemorySealer(SeededRandom(f"{len(found)}")).seal(inside, [key_of("w1").line])
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
        wanted = spec(SecretUse("db", digest, env="DB"), fleet=lone.membership.fleet)
        assert opener.prepare("x", wanted) == ((), (("DB", CANARY + b"2"),))
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
