"""Nodes tell people themselves, without the hub, when they do not hear it (X17). Hub and agents in virtual time."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from msgspec.structs import replace

from holdfast.adapters.random_source.seeded import SeededRandom
from holdfast.adapters.sealing.memory import MemorySealer
from holdfast.agent.hub_silence import keeper
from holdfast.errors import Failed, TryLater, Unreachable
from holdfast.model import trust
from holdfast.model.alert import Alert
from holdfast.model.checkin import CheckInAnswer
from holdfast.model.fleet import AlertTarget, Fleet
from holdfast.model.purpose import Purpose, wrapped
from holdfast.model.revision import Head
from holdfast.ports.prober import Verdict
from tests.fleets.agents import until
from tests.fleets.build import ALICE, operator_signer, small_fleet
from tests.fleets.counts import SOAK
from tests.fleets.deploying import HEALTH, Scene, image, service
from tests.fleets.deploying import play as play_scene
from tests.fleets.desks import key_of
from tests.fleets.raid import Raid

DEV, DEV_SIGNER = operator_signer("dev", "apply")
BASE = small_fleet({"web": service()}, ("w1",), (ALICE, DEV))
FLEET_ID = trust.digest(trust.of(BASE.operators, BASE.thresholds))
URL = b"json://alerts.test/phone"
PHONE = AlertTarget("phone", secret="phone-url", nodes=("w1",), after="15m")
GONE = Unreachable("gone", remedy="wait")
MINUTE = 60.0
DAYS_S = (3 * 24 if SOAK else 3) * 60 * MINUTE


def sealed(value: bytes = URL, *addresses: str, name: str = "phone-url", fleet: str = FLEET_ID) -> bytes:
    """Without an address: as a release before purposes sealed it."""
    plain = wrapped(value, Purpose(fleet, name, addresses)) if addresses else value
    return MemorySealer(SeededRandom(f"{value!r}{addresses}{name}")).seal(plain, [key_of("w1").line])


def fleet(*targets: AlertTarget, **secrets: bytes) -> Fleet:
    found = {name.replace("_", "-"): value for name, value in secrets.items()}
    return replace(BASE, alerts={target.name: target for target in targets}, secrets=found)


TOLD = fleet(PHONE, phone_url=sealed(URL, "alerts.phone"))


def gone(answer: CheckInAnswer) -> CheckInAnswer:
    raise GONE


class Watched:
    """One node and its hub, and what the node told people."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.machine = scene.machine
        self.rig = scene.rig

    def sent(self, name: str = "phone") -> list[str]:
        found = self.machine.notifiers.made.get(name)
        return [alert.code for alert in found.alerts] if found is not None else []

    def alert(self, at: int = -1) -> Alert:
        return self.machine.notifiers.made["phone"].alerts[at]

    def failing(self, times: int) -> None:
        trouble = TryLater("the Apprise target phone did not accept the alert", remedy="x", code="alert_undelivered")
        self.machine.notifiers.made["phone"].troubles += [trouble] * times

    async def level(self) -> None:
        await self.scene.settled()
        await asyncio.sleep(30)

    def hub_dies(self) -> None:
        self.machine.link.down = GONE

    def hub_lives(self) -> None:
        self.machine.link.down = None

    def shows(self, head: Head | None) -> None:
        """None: the honest one."""

        def bend(answer: CheckInAnswer) -> CheckInAnswer:
            return replace(answer, head=head, links=(), manifest=b"")

        self.machine.link.bend = bend if head is not None else None


def play(start: Fleet, story: Callable[[Watched], Awaitable[None]]) -> None:
    async def whole(scene: Scene) -> None:
        await story(Watched(scene))

    play_scene(start, whole)


# ---- a dead hub


def test_x17_a_dead_hub_is_told_once_and_its_return_once() -> None:
    async def story(on: Watched) -> None:
        await on.level()
        on.hub_dies()
        await asyncio.sleep(14.5 * MINUTE)
        assert on.sent() == []
        await asyncio.sleep(MINUTE)
        assert on.sent() == ["hub_silent"]
        alarm = on.alert()
        assert (alarm.level, alarm.address, alarm.fleet) == ("alarm", "node.w1", FLEET_ID)
        assert "w1 has got no good answer from the hub for 15 min" in alarm.message
        assert on.machine.notifiers.asked[-1] == AlertTarget("phone", apprise=URL.decode())
        await asyncio.sleep(DAYS_S)
        assert on.sent() == ["hub_silent"], "once for the whole silence"
        on.hub_lives()
        await asyncio.sleep(4 * MINUTE)
        assert on.sent() == ["hub_silent"], "it is not back before it was heard for a third of the time"
        await asyncio.sleep(3 * MINUTE)
        assert on.sent() == ["hub_silent", "hub_heard"] and on.alert().level == "recovery"
        await asyncio.sleep(60 * MINUTE)
        on.hub_dies()
        await asyncio.sleep(16 * MINUTE)
        assert on.sent() == ["hub_silent", "hub_heard", "hub_silent"], "the next silence"

    play(TOLD, story)


def test_a_short_outage_and_a_restart_with_a_living_hub_tell_nothing() -> None:
    async def story(on: Watched) -> None:
        await on.level()
        for _ in range(3):
            on.hub_dies()
            await asyncio.sleep(10 * MINUTE)
            on.hub_lives()
            await asyncio.sleep(5 * MINUTE)
            await on.scene.kill()
            await asyncio.sleep(2 * 60 * MINUTE)
            on.scene.start()
            await asyncio.sleep(5 * MINUTE)
        assert on.sent() == []

    play(TOLD, story)


def test_a_hub_that_comes_and_goes_is_one_alarm() -> None:
    async def story(on: Watched) -> None:
        await on.level()
        on.hub_dies()
        await asyncio.sleep(16 * MINUTE)
        for _ in range(6):
            on.hub_lives()
            await asyncio.sleep(2 * MINUTE)
            on.hub_dies()
            await asyncio.sleep(20 * MINUTE)
        assert on.sent() == ["hub_silent"]
        on.hub_lives()
        await asyncio.sleep(8 * MINUTE)
        assert on.sent() == ["hub_silent", "hub_heard"]

    play(TOLD, story)


def test_each_target_has_its_own_time() -> None:
    chat = AlertTarget("chat", secret="chat-url", nodes=("w1",), after="4m")
    start = fleet(
        PHONE,
        chat,
        phone_url=sealed(URL, "alerts.phone"),
        chat_url=sealed(b"https://chat.test/hook", "alerts.chat", name="chat-url"),
    )

    async def story(on: Watched) -> None:
        await on.level()
        on.hub_dies()
        await asyncio.sleep(5 * MINUTE)
        assert (on.sent("chat"), on.sent()) == (["hub_silent"], [])
        assert on.machine.notifiers.asked[-1] == AlertTarget("chat", webhook="https://chat.test/hook")
        await asyncio.sleep(11 * MINUTE)
        assert (on.sent("chat"), on.sent()) == (["hub_silent"], ["hub_silent"])

    play(start, story)


# ---- over restarts


def test_an_alarm_that_was_due_while_no_agent_ran_is_sent() -> None:
    async def story(on: Watched) -> None:
        await on.level()
        on.hub_dies()
        await asyncio.sleep(5 * MINUTE)
        await on.scene.kill()
        await asyncio.sleep(60 * MINUTE)
        assert on.sent() == []
        on.scene.start()
        await asyncio.sleep(2 * MINUTE)
        assert on.sent() == ["hub_silent"] and "for 67 min" in on.alert().message

    play(TOLD, story)


def test_a_node_that_never_heard_its_hub_and_one_that_cannot_write_tell_too() -> None:
    async def story(on: Watched) -> None:
        await on.level()
        before = on.scene.findings()
        on.hub_dies()
        await on.scene.kill()
        on.machine.journal.drop_fact(keeper.FACT)
        set_aside = on.machine.journal.set_aside

        def full(name: str, value: bytes) -> None:
            if name == keeper.FACT:
                raise Failed("no space is left", remedy="free some")
            set_aside(name, value)

        on.machine.journal.set_aside = full  # type: ignore[method-assign]
        on.scene.start()
        await asyncio.sleep(16 * MINUTE)
        assert on.scene.findings() == before, "a full disk is told by what needs it"
        assert on.sent() == ["hub_silent"] and "no good answer from the hub: the hub is down" in on.alert().message

    play(TOLD, story)


def test_a_restart_in_an_episode_sends_no_second_alarm_and_one_recovery() -> None:
    async def story(on: Watched) -> None:
        await on.level()
        on.hub_dies()
        await asyncio.sleep(16 * MINUTE)
        for _ in range(3):
            await on.scene.kill()
            await asyncio.sleep(30 * MINUTE)
            on.scene.start()
            await asyncio.sleep(30 * MINUTE)
        assert on.sent() == ["hub_silent"]
        on.hub_lives()
        await asyncio.sleep(2 * MINUTE)
        await on.scene.kill()
        on.scene.start()
        await asyncio.sleep(8 * MINUTE)
        assert on.sent() == ["hub_silent", "hub_heard"]
        await on.scene.kill()
        on.scene.start()
        await asyncio.sleep(8 * MINUTE)
        assert on.sent() == ["hub_silent", "hub_heard"]

    play(TOLD, story)


def test_an_agent_that_ends_again_and_again_still_tells() -> None:
    async def story(on: Watched) -> None:
        await on.level()
        on.hub_dies()
        for _ in range(10):
            await on.scene.kill()
            on.scene.start()
            await asyncio.sleep(2 * MINUTE)
        assert on.sent() == ["hub_silent"]

    play(TOLD, story)


@pytest.mark.parametrize("jump_s", [-3600.0, 10_000 * 86_400.0])
def test_a_jump_of_the_clock_tells_nothing_while_the_hub_is_heard(jump_s: float) -> None:
    async def story(on: Watched) -> None:
        await on.level()
        on.machine.clock.skew_s += jump_s
        await asyncio.sleep(30 * MINUTE)
        await on.scene.kill()
        on.machine.clock.skew_s -= jump_s
        on.scene.start()
        await asyncio.sleep(30 * MINUTE)
        assert on.sent() == []
        on.hub_dies()
        on.machine.clock.skew_s += jump_s
        await asyncio.sleep(14 * MINUTE)
        assert on.sent() == [], "silence is measured by a clock that does not jump"
        await asyncio.sleep(2 * MINUTE)
        assert on.sent() == ["hub_silent"]

    play(TOLD, story)


# ---- a hub that answers, and lies


@pytest.mark.parametrize("lie", ["set back", "fork", "no content"])
def test_x17_a_hub_that_answers_with_what_the_node_refuses_counts_as_silent(lie: str) -> None:
    async def story(on: Watched) -> None:
        await on.level()
        first = on.rig.head
        on.scene.apply(replace(TOLD, services={"web": service(2)}))
        await on.level()
        if lie == "no content":
            on.machine.link.blobs = lambda digest: None
            on.scene.apply(replace(TOLD, services={"web": service(3)}))
        else:
            on.shows(first if lie == "set back" else Head(on.rig.head.number, "f" * 64))
        await asyncio.sleep(14 * MINUTE)
        assert on.sent() == []
        await asyncio.sleep(2 * MINUTE)
        assert on.sent() == ["hub_silent"]
        await on.scene.kill()
        on.scene.start()
        await asyncio.sleep(60 * MINUTE)
        assert on.sent() == ["hub_silent"], "the first answer after a start is not believed either"
        on.shows(None)
        on.machine.link.blobs = None
        await asyncio.sleep(8 * MINUTE)
        assert on.sent() == ["hub_silent", "hub_heard"]

    play(TOLD, story)


def test_no_answer_after_a_start_counts_before_it_was_compared() -> None:
    """Else an agent that is started again and again would never tell of a hub that was put back."""

    async def story(on: Watched) -> None:
        await on.level()
        first = on.rig.head
        on.scene.apply(replace(TOLD, services={"web": service(2)}))
        await on.level()
        on.shows(first)
        for _ in range(5):
            await asyncio.sleep(4 * MINUTE)
            await on.scene.kill()
            on.scene.start()
        assert on.sent() == ["hub_silent"]

    play(TOLD, story)


def test_a_hub_that_does_not_know_the_node_counts_as_silent() -> None:
    async def story(on: Watched) -> None:
        await on.level()
        on.machine.link.bend = lambda answer: replace(answer, registered=False)
        await asyncio.sleep(16 * MINUTE)
        assert on.sent() == ["hub_silent"]

    play(TOLD, story)


def test_a_long_deployment_is_no_silence() -> None:
    """While work is under way the node sends heartbeats only; their answers count."""
    slow = replace(HEALTH, start_period="4m")
    quick = fleet(replace(PHONE, after="1m"), phone_url=sealed(URL, "alerts.phone"))

    async def story(on: Watched) -> None:
        await on.level()
        on.machine.prober.script(image(2), Verdict(False, "not yet"))
        on.scene.apply(replace(quick, services={"web": service(2, health=slow)}))
        await asyncio.sleep(3 * MINUTE)
        assert on.scene.agent.state == "processing"  # type: ignore[union-attr]
        await on.scene.settled("failed", at_most_s=10 * MINUTE)
        assert on.sent() == []

    play(quick, story)


# ---- sending


def test_a_send_that_fails_is_tried_again_ever_more_rarely_and_is_in_the_report() -> None:
    async def story(on: Watched) -> None:
        await on.level()
        on.failing(6)
        on.hub_dies()
        await until(on.rig, lambda: "alert_undelivered" in on.scene.findings(), 20 * MINUTE)
        failed = on.scene.agent.findings.all()  # type: ignore[union-attr]
        (found,) = [one for one in failed if one.code == "alert_undelivered"]
        assert found.address == "alert.phone" and "holdfast secret rotate phone-url" in found.remedy
        asked = len(on.machine.notifiers.asked)
        await asyncio.sleep(20)
        assert asked < len(on.machine.notifiers.asked) <= asked + 5, "1, 2, 4, 8 … s"
        await asyncio.sleep(2 * MINUTE)
        assert on.sent() == ["hub_silent"] and "alert_undelivered" not in on.scene.findings()

    play(TOLD, story)


def test_an_alarm_that_was_never_delivered_is_dropped_when_the_hub_is_back() -> None:
    async def story(on: Watched) -> None:
        await on.level()
        on.failing(10_000)
        on.hub_dies()
        await asyncio.sleep(30 * MINUTE)
        on.hub_lives()
        await asyncio.sleep(5 * MINUTE)
        assert "alert_undelivered" not in on.scene.findings()
        on.machine.notifiers.made["phone"].troubles.clear()
        await asyncio.sleep(60 * MINUTE)
        assert on.sent() == []

    play(TOLD, story)


def test_the_undelivered_alert_is_in_the_report_that_the_hub_gets() -> None:
    async def story(on: Watched) -> None:
        await on.level()
        on.failing(10_000)
        on.shows(Head(1, "f" * 64))  # it takes reports, and is not believed
        await asyncio.sleep(20 * MINUTE)
        report = on.rig.registry.members["w1"].report
        assert report is not None and "alert_undelivered" in [one.code for one in report.findings]

    play(TOLD, story)


# ---- the seal (X03, X17)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (sealed(URL, "service.web"), "is sealed for service.web, not for alerts.phone"),
        (sealed(URL, "alert.phone"), "is sealed for alert.phone, not for alerts.phone"),
        (sealed(URL, "alerts.chat"), "is sealed for alerts.chat, not for alerts.phone"),
        (sealed(URL, "alerts.phone", name="other"), "is the secret other under another name"),
        (sealed(URL, "alerts.phone", fleet="0" * 64), "is sealed for another fleet"),
        (sealed(URL), "was sealed by an older release"),
        (sealed(b"file:///etc/passwd", "alerts.phone"), 'has the scheme "file"'),
        (sealed(b"json://a.test/?method=DELETE", "alerts.phone"), 'has the option "method"'),
        (sealed(b"http://a.test/", "alerts.phone"), 'has the scheme "http"'),
        (sealed(b"not an address", "alerts.phone"), "is neither an https:// address nor an Apprise URL"),
        (sealed(b"json://a.test/\x00\xff", "alerts.phone"), "is neither an https:// address nor an Apprise URL"),
    ],
)
def test_an_address_that_is_sealed_for_another_use_or_is_none_is_shown_before_it_is_needed(
    value: bytes, why: str
) -> None:
    async def story(on: Watched) -> None:
        await on.level()
        assert why in on.scene.findings()["alert_unusable"]
        on.hub_dies()
        await asyncio.sleep(20 * MINUTE)
        assert on.machine.notifiers.asked == [] and "alert_undelivered" in on.scene.findings()
        on.hub_lives()
        on.scene.apply(TOLD)
        await asyncio.sleep(3 * MINUTE)
        assert not on.scene.findings().keys() & {"alert_unusable", "alert_undelivered"}

    play(fleet(PHONE, phone_url=value), story)


def test_x03_a_service_does_not_get_the_address_of_an_alert_target() -> None:
    async def story(on: Watched) -> None:
        await on.level()
        stolen = fleet(PHONE, phone_url=sealed(URL, "alerts.phone"))
        on.scene.apply(replace(stolen, services={"web": service(2, secrets=("phone-url",))}))
        state = await on.scene.settled("failed")
        assert state.code == "secret_not_for_it" and "is sealed for alerts.phone, not for service.web" in state.message

    play(TOLD, story)


# ---- a stolen hub with a key of grade apply


EVIL = fleet(replace(PHONE, secret="evil"), evil=sealed(b"json://evil.test/", "alerts.phone", name="evil"))


@pytest.mark.parametrize("wanted", [fleet(), EVIL], ids=["removed", "another address"])
def test_x17_a_stolen_hub_with_a_key_of_grade_apply_cannot_silence_or_redirect_a_node(wanted: Fleet) -> None:
    """No honest hub commits it; the node parks it, and tells as before."""

    async def story(scene: Scene) -> None:
        await scene.kill()
        raid = Raid(scene, TOLD)
        await raid.begun()
        raid.hub.candidates.append(raid._next(wanted, DEV_SIGNER))
        await raid.rest()
        assert [parked.address for parked in scene.agent.accepting.parked] == ["alert.phone"]  # type: ignore[union-attr]
        raid.hub.bend = gone
        on = Watched(scene)
        await asyncio.sleep(20 * MINUTE)
        assert on.sent() == ["hub_silent"]
        assert {target.apprise for target in on.machine.notifiers.asked} == {URL.decode()}

    play_scene(TOLD, story)


def test_a_target_that_is_added_removed_and_added_again_begins_anew() -> None:
    async def story(on: Watched) -> None:
        await on.level()
        on.scene.apply(TOLD)
        await asyncio.sleep(30)
        on.hub_dies()
        await asyncio.sleep(16 * MINUTE)
        on.hub_lives()
        on.scene.apply(BASE)
        await asyncio.sleep(2 * MINUTE)
        assert on.machine.journal.fact(keeper.FACT) == b"{}"
        await asyncio.sleep(60 * MINUTE)
        on.scene.apply(TOLD)
        await asyncio.sleep(1)
        on.hub_dies()
        await asyncio.sleep(14 * MINUTE)
        assert on.sent() == ["hub_silent"], "no recovery to a target that is gone, and no early alarm"
        await asyncio.sleep(3 * MINUTE)
        assert on.sent() == ["hub_silent", "hub_silent"]

    play(BASE, story)


@pytest.mark.parametrize("is_taken", [True, False])
def test_of_a_target_that_is_removed_while_an_alert_is_on_its_way_nothing_stays(is_taken: bool) -> None:
    async def story(on: Watched) -> None:
        async def slow(alert: Alert) -> None:
            await asyncio.sleep(5 * MINUTE)
            if not is_taken:
                raise TryLater("phone did not accept the alert", remedy="x", code="alert_undelivered")

        await on.level()
        before = on.scene.findings()
        on.machine.notifiers.made["phone"].send = slow  # type: ignore[method-assign]
        on.hub_dies()
        await asyncio.sleep(16 * MINUTE)
        on.hub_lives()
        on.scene.apply(BASE)
        await asyncio.sleep(10 * MINUTE)
        assert on.scene.findings() == before and on.machine.journal.fact(keeper.FACT) == b"{}"

    play(TOLD, story)


# ---- what it costs


def test_a_node_without_such_a_target_never_wakes_for_it_and_writes_nothing() -> None:
    async def story(on: Watched) -> None:
        await on.level()
        (kept,) = [one for one in on.scene.agent.keepers.every if one.name == "hub_silence"]  # type: ignore[union-attr]
        looks = 0
        assert isinstance(kept, keeper.HubSilence)
        look = kept._look

        async def counted() -> float | None:
            nonlocal looks
            looks += 1
            return await look()

        kept._look = counted  # type: ignore[method-assign]
        await asyncio.sleep(DAYS_S)
        assert looks == 0 and on.machine.journal.fact(keeper.FACT) is None

    play(BASE, story)


def test_a_node_that_hears_its_hub_looks_once_in_the_declared_time_and_writes_once_a_minute() -> None:
    async def story(on: Watched) -> None:
        await on.level()
        written: list[bytes] = []
        set_aside = on.machine.journal.set_aside

        def counted(name: str, value: bytes) -> None:
            if name == keeper.FACT:
                written.append(value)
            set_aside(name, value)

        on.machine.journal.set_aside = counted  # type: ignore[method-assign]
        await asyncio.sleep(60 * MINUTE)
        assert 45 <= len(written) <= 61

    play(TOLD, story)
