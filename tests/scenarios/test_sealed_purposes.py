"""Secrets name their purpose inside the seal (X03): whatever key signed, a node gives a value to no other service."""

import asyncio

from msgspec.structs import replace

from holdfast.adapters.random_source.seeded import SeededRandom
from holdfast.adapters.sealing.memory import MemoryOpener, MemorySealer
from holdfast.agent.services.secrets.delivery import Secrets
from holdfast.model import trust
from holdfast.model.fleet import Fleet, Hooks, Service
from holdfast.model.purpose import Purpose, wrapped
from holdfast.ports.prober import Verdict
from tests.fleets.agents import until
from tests.fleets.build import small_fleet
from tests.fleets.deploying import Scene, image, play, service
from tests.fleets.desks import key_of

VALUE = b"what db uses today"
FLEET_ID = trust.digest(trust.of(small_fleet().operators, small_fleet().thresholds))


def sealed(value: bytes = VALUE, *addresses: str, name: str = "pw", seed: str = "") -> bytes:
    """Without an address: as a release before purposes sealed it."""
    plain = wrapped(value, Purpose(FLEET_ID, name, addresses)) if addresses else value
    return MemorySealer(SeededRandom(f"{value!r}{addresses}{seed}")).seal(plain, [key_of("w1").line])


def fleet(services: dict[str, Service], **secrets: bytes) -> Fleet:
    return replace(small_fleet(services), secrets=secrets)


def given(scene: Scene, service: str) -> list[bytes]:
    """The values of secrets that containers of this service have."""
    held = scene.machine.secret_files.files
    return [value for name, files in held.items() if f"-{service}_" in name for value in files.values()]


class Everything(frozenset[tuple[str, str]]):
    """As the agent before purposes: it opened everything for everyone."""

    def __contains__(self, use: object) -> bool:
        return True


def as_before(scene: Scene) -> None:
    machine = scene.machine
    machine.secrets = Secrets(
        machine.acceptance, MemoryOpener(machine.key.line), machine.secret_files, unbound=Everything()
    )
    for fact in machine.journal.facts("services/unbound"):
        machine.journal.drop_fact(fact)


async def upgrade(scene: Scene) -> None:
    await scene.kill()
    scene.machine.secrets = None
    scene.start()


# ---- the attack


async def attack(scene: Scene, old: bytes, new: bytes) -> None:
    """The owner rotated the file and kept the value; the old file, from version control, becomes a secret of web."""
    await scene.settled()
    await scene.settled(name="db")
    web = next(one for one in scene.ours() if one.service == "web")
    scene.apply(fleet({"web": service(), "db": service(secrets=("pw",))}, pw=new))
    await scene.settled(name="db")
    scene.apply(fleet({"web": service(2, secrets=("mine",)), "db": service(secrets=("pw",))}, pw=new, mine=old))
    state = await scene.settled("failed")
    assert state.code == "secret_not_for_it" and "service.web does not get it" in state.message
    assert "holdfast secret rotate mine --keep" in state.remedy and VALUE.decode() not in state.message
    assert given(scene, "web") == [] and given(scene, "db") == [VALUE]
    assert scene.machine.runtime.named(web.name).running, "what served before was never stopped"
    assert [call for call in scene.machine.runtime.calls if call.verb == "stop" and call.subject == web.name] == []


def test_x03_another_services_secret_is_not_given_to_a_service_that_names_its_file() -> None:
    old, new = sealed(VALUE, "service.db"), sealed(VALUE, "service.db", seed="again")

    async def story(scene: Scene) -> None:
        await attack(scene, old, new)

    play(fleet({"web": service(), "db": service(secrets=("pw",))}, pw=old), story)


def test_x03_nor_is_a_file_that_was_sealed_before_purposes() -> None:
    old, new = sealed(), sealed(VALUE, "service.db")

    async def story(scene: Scene) -> None:
        as_before(scene)
        await scene.kill()
        scene.start()
        await scene.settled(name="db")
        await upgrade(scene)
        await attack(scene, old, new)

    play(fleet({"web": service(), "db": service(secrets=("pw",))}, pw=old), story)


def test_x03_a_hook_gets_no_secret_that_is_not_its_services() -> None:
    other = sealed(VALUE, "service.db")

    async def story(scene: Scene) -> None:
        await scene.settled()
        stolen = service(2, secrets=("pw",), hooks=Hooks(pre_deploy=("cat", "/run/secrets/pw")))
        scene.apply(fleet({"web": stolen}, pw=other))
        state = await scene.settled("failed")
        assert (state.code, state.step) == ("secret_not_for_it", "pre_deploy main")
        assert scene.verbs("run") == []

    play(fleet({"web": service()}), story)


# ---- the upgrade


def test_uses_before_the_upgrade_go_on_over_restarts_and_new_deployments_and_new_uses_are_refused() -> None:
    old = sealed()

    async def story(scene: Scene) -> None:
        as_before(scene)
        await scene.kill()
        scene.start()
        await scene.settled()
        before = scene.one().id
        for _ in range(2):
            await upgrade(scene)
            await scene.settled()
            assert scene.one().id == before and given(scene, "web") == [VALUE], "no container restarts"
        scene.apply(fleet({"web": service(2, secrets=("pw",))}, pw=old))
        await scene.settled()
        assert scene.one().image == image(2) and given(scene, "web") == [VALUE]
        for version in (3, 4):
            scene.apply(fleet({"web": service(version, secrets=("pw",))}, pw=sealed(b"new value, old form")))
            state = await scene.settled("failed")
            assert "was sealed by an older release" in state.message and scene.one().image == image(2)
            await upgrade(scene)  # the pairs are noted once
        scene.apply(fleet({"web": service(3, secrets=("pw",))}, pw=sealed(VALUE, "service.web")))
        await scene.settled()
        assert given(scene, "web") == [VALUE] and scene.one().image == image(3)

    play(fleet({"web": service(secrets=("pw",))}, pw=old), story)


def test_what_serves_after_a_failed_deployment_keeps_its_secret_over_the_upgrade() -> None:
    """The manifest in force names the secret of the deployment that failed, not of the one that serves."""
    first, second = sealed(b"first"), sealed(b"second")

    async def story(scene: Scene) -> None:
        as_before(scene)
        await scene.kill()
        scene.start()
        await scene.settled()
        scene.machine.prober.script(image("sick"), Verdict(False, "ill"))
        scene.apply(fleet({"web": service("sick", secrets=("pw",))}, pw=second))
        await scene.settled("failed", at_most_s=120)
        await upgrade(scene)
        scene.machine.runtime.power_cut()
        await asyncio.sleep(1)
        await until(scene.rig, lambda: [one.running for one in scene.ours()] == [True], 120)
        assert given(scene, "web") == [b"first"]

    play(fleet({"web": service(secrets=("pw",))}, pw=first), story)


def test_an_agent_that_joins_with_this_release_takes_no_file_without_a_purpose() -> None:
    async def story(scene: Scene) -> None:
        state = await scene.settled("failed")
        assert state.code == "secret_not_for_it" and given(scene, "web") == []

    play(fleet({"web": service(secrets=("pw",))}, pw=sealed()), story)
