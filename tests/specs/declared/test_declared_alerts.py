"""Alert targets and keys of machines as fleet.toml declares them."""

import json

import pytest

from holdfast.model import sealed
from holdfast.model.alert_codes import RECOVERY_OF
from holdfast.model.fleet import AlertTarget
from tests.fleets.sealing import sealed_to
from tests.specs.declared.declared_fleets import BASE, FLEET, fleet_of, key_line, lines_of, only_problem, with_fleet

CHAT = '[[alerts]]\nname = "chat"\nwebhook = "https://chat.example.com:8443/hooks/abc?x=1"\n'


def test_a_webhook_and_an_apprise_url_are_targets() -> None:
    more = '[[alerts]]\nname = "app"\napprise = "ntfys://ntfy.example.com/fleet"\non = ["node_silent"]\n'
    fleet = fleet_of(with_fleet(FLEET + CHAT + more))
    assert list(fleet.alerts) == ["app", "chat"]
    assert fleet.alerts["app"] == AlertTarget("app", apprise="ntfys://ntfy.example.com/fleet", on=("node_silent",))


def test_a_target_of_nodes_names_a_secret() -> None:
    text = '[[alerts]]\nname = "phone"\nsecret = "phone-url"\nnodes = ["hub1"]\nafter = "5m"\n'
    files = {**with_fleet(FLEET + text), "secrets/phone-url.age": sealed.armoured(sealed_to("hub1"))}
    assert fleet_of(files).alerts["phone"] == AlertTarget("phone", secret="phone-url", nodes=("hub1",), after="5m")
    found = only_problem(with_fleet(FLEET + text))
    assert found[2] == "alerts[0].secret" and "there is no secrets/phone-url.age" in found[3]
    found = only_problem({**files, **with_fleet(FLEET + text.replace('"hub1"', '"w9"'))})
    assert found[2] == "alerts[0].nodes[0]" and 'there is no node "w9"' in found[3]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('name = "x"\n', "has neither webhook nor apprise"),
        ('name = "x"\nwebhook = "https://a.test/"\napprise = "ntfy://a/b"\n', "has both"),
        ('name = "x"\nwebhook = "https://a.test/"\nnodes = ["hub1"]\n', "has nodes and webhook"),
        ('name = "x"\nwebhook = "https://a.test/"\nafter = "1h"\n', "has no effect without nodes"),
        ('name = "x"\nwebhook = "https://a.test/"\ntimezone = "Europe/Oslo"\n', "has no effect without quiet"),
        ('name = "x"\nwebhook = "https://a.test/"\nquiet_except = ["node_silent"]\n', "has no effect without quiet"),
        ('name = "x"\nwebhook = "https://a.test/"\nquiet = "22-7"\n', "must be two times of day"),
        ('name = "x"\nwebhook = "https://a.test/"\nquiet = "24:00-07:00"\n', "must be two times of day"),
        ('name = "x"\nwebhook = "https://a.test/"\nquiet = "07:00-07:00"\n', "begins and ends at the same time"),
        (
            'name = "x"\nwebhook = "https://a.test/"\nquiet = "22:00-07:00"\ntimezone = "Mars/Olympus"\n',
            'there is no time zone "Mars/Olympus"',
        ),
        ('name = "x"\nwebhook = "http://a.test/"\n', "must be an https:// address"),
        ('name = "x"\nwebhook = "https://user@a.test/"\n', "must be an https:// address"),
        ('name = "x"\napprise = "no url"\n', "must be an Apprise URL"),
        ('name = "x"\nwebhook = "https://a.test/"\non = ["Node Silent"]\n', "must be the code of an alert"),
    ],
)
def test_a_target_that_could_tell_nobody_is_refused(text: str, what: str) -> None:
    found = only_problem(with_fleet(FLEET + "[[alerts]]\n" + text))
    assert what in found[3]


@pytest.mark.parametrize(
    ("lines", "where", "what"),
    [
        ('on = ["node_silent", "node_silnet"]', "on[1]", 'no alert "node_silnet" did you mean "node_silent"?'),
        ('on = ["disk-filling"]', "on[0]", "must be the code of an alert"),
        ('on = ["quota_over"]', "on[0]", 'no alert "quota_over" docs/reference/alerts.md'),
        ('on = ["hub_silent"]', "on[0]", 'the hub sends no alert "hub_silent"'),
        (
            'quiet = "22:00-07:00"\nquiet_except = ["node_silent", "crash_lop"]',
            "quiet_except[1]",
            'no alarm "crash_lop" did you mean "crash_loop"?',
        ),
        (
            'quiet = "22:00-07:00"\nquiet_except = ["node_back"]',
            "quiet_except[0]",
            'the hub sends no alarm "node_back"',
        ),
    ],
)
def test_a_code_that_no_alert_has_is_a_mistake_t10(lines: str, where: str, what: str) -> None:
    found = only_problem(with_fleet(f'{FLEET}[[alerts]]\nname = "x"\nwebhook = "https://a.test/"\n{lines}\n'))
    assert found[2] == f"alerts[0].{where}" and what in f"{found[3]} {found[4]}", found


def test_every_code_that_the_hub_sends_may_be_named_t10() -> None:
    on, alarms = sorted(RECOVERY_OF), sorted(code for code, ended in RECOVERY_OF.items() if not ended)
    text = f'on = {json.dumps(on)}\nquiet = "22:00-07:00"\nquiet_except = {json.dumps(alarms)}\n'
    found = fleet_of(with_fleet(f'{FLEET}[[alerts]]\nname = "x"\nwebhook = "https://a.test/"\n{text}')).alerts["x"]
    assert (found.on, found.quiet_except) == (tuple(on), tuple(alarms))


def test_a_target_of_nodes_has_quiet_hours_without_exceptions() -> None:
    """Issue 14: nodes send only one alarm, so that an exception would be no quiet hours."""
    text = '[[alerts]]\nname = "phone"\nsecret = "url"\nnodes = ["hub1"]\nquiet = "22:00-07:00"\ntimezone = "UTC"\n'
    files = {**with_fleet(FLEET + text), "secrets/url.age": sealed.armoured(sealed_to("hub1"))}
    assert fleet_of(files).alerts["phone"].quiet == "22:00-07:00"
    found = only_problem({**files, **with_fleet(FLEET + text + 'quiet_except = ["hub_silent"]\n')})
    assert found[2] == "alerts[0].quiet_except" and "nodes send only" in found[3]


def test_a_command_is_only_a_flag_of_the_hub_process() -> None:
    """No revision may ever make the hub run a program."""
    found = lines_of(with_fleet(FLEET + '[[alerts]]\nname = "x"\ncommand = "rm -rf /"\nwebhook = "https://a.test/"\n'))
    assert len(found) == 1
    assert "a command can only be a flag of the hub process" in found[0]
    assert "--alert-command" in found[0]


def test_two_targets_of_one_name_are_refused() -> None:
    assert "already the name of another alert target" in only_problem(with_fleet(FLEET + CHAT + CHAT))[3]


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("ssh-ed25519 nonsense", "not a usable SSH public key"),
        ("ssh-rsa " + "A" * 16, "not a usable SSH public key"),
    ],
)
def test_the_hub_key_must_be_a_key(line: str, what: str) -> None:
    text = FLEET.replace("[fleet]\n", f'[fleet]\nhub_key = "{line}"\n', 1)
    found = only_problem(with_fleet(text))
    assert found[2] == "fleet.hub_key"
    assert what in found[3]


def test_the_hub_key_is_part_of_the_settings() -> None:
    text = FLEET.replace("[fleet]\n", f'[fleet]\nhub_key = "{key_line(7)}"\n', 1)
    assert fleet_of(with_fleet(text)).settings.hub_key == key_line(7)
    assert fleet_of(BASE).settings.hub_key == ""


def test_two_machines_cannot_have_one_key() -> None:
    text = FLEET + "".join(
        f'[[nodes]]\nname = "{name}"\nroles = ["worker"]\nkey = "{key_line(7)} {name}"\n' for name in ("x1", "x2")
    )
    assert 'is also the key of node "x1"' in only_problem(with_fleet(text))[3]
