"""Where alerts cannot go, and what the process that sends them cannot do (X04)."""

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.adapters.notifier.apprise import SENDER, AppriseNotifier
from holdfast.adapters.notifier.targets import Targets
from holdfast.adapters.notifier.webhook import WebhookNotifier
from holdfast.errors import HoldfastError
from holdfast.model import apprise_url
from holdfast.ports.notifier import Notifier
from tests.contracts.test_notifier import ALARM, HERE, SECRET, Ear
from tests.fleets.waiting import Stopwatch, wait_until

AGENT_UNIT = Path(__file__).parents[2] / "deploy" / "systemd" / "holdfast-agent.service"
BAD = (
    "127.0.0.1 127.9.9.9 0.0.0.0 ::1 :: ::ffff:127.0.0.1 64:ff9b::7f00:1 2002:7f00:1:: 169.254.169.254 fe80::1 "
    "fe80::1%2 224.0.0.1 ff02::1 255.255.255.255 240.0.0.1 100.64.0.7 100.127.255.254 ::ffff:100.64.0.7 "
    "10.9.0.1 localhost"
)


@pytest.mark.parametrize("address", BAD.split())
def test_this_machine_its_link_and_the_overlay_are_no_targets_x04(address: str) -> None:
    assert Targets("10.9.0.0/16").complaint(address) is not None


@pytest.mark.parametrize("address", ["192.168.1.9", "198.51.100.7", "2001:db8::7", "10.8.0.1", "::ffff:192.168.1.9"])
def test_other_addresses_are_targets(address: str) -> None:
    assert Targets("10.9.0.0/16").complaint(address) is None


def test_only_the_flag_of_the_hub_allows_more() -> None:
    allowed = Targets(allowed=("100.64.7.1",))
    assert allowed.complaint("100.64.7.1") is None and allowed.complaint("::ffff:100.64.7.1") is None
    assert allowed.complaint("100.64.7.2") is not None


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "2130706433"])
@pytest.mark.parametrize("kind", ["webhook", "apprise"])
def test_no_request_arrives_at_the_hubs_own_machine_x04(kind: str, host: str) -> None:
    ear, nowhere = Ear(), Targets()
    with ear.listening() as port:
        notifier: Notifier = WebhookNotifier("ops", f"http://{host}:{port}/{SECRET}", nowhere)
        if kind == "apprise":
            notifier = AppriseNotifier("ops", f"json://{host}:{port}/{SECRET}", nowhere)
        with pytest.raises(HoldfastError) as trouble:
            asyncio.run(notifier.send(ALARM))
    assert ear.paths == [] and SECRET not in trouble.value.message
    if host in ("127.0.0.1", "localhost"):
        assert "is a loopback address" in trouble.value.message


def test_apprise_follows_no_redirect_x04() -> None:
    ear = Ear()
    ear.status = 307  # a POST stays one
    with ear.listening() as port, pytest.raises(HoldfastError):
        asyncio.run(AppriseNotifier("ops", f"json://127.0.0.1:{port}/hook", HERE).send(ALARM))
    assert ear.paths == ["/hook"]


@pytest.mark.parametrize(
    "url",
    [
        "json://h.test/internal/api?method=DELETE",
        "json://h.test/x?+X-Evil=1",
        "json://h.test/x?%2BX-Evil=1",
        "json://h.test/x?-key=v",
        "json://h.test/x?:key=v",
        "json://h.test/x?format=text;method=PUT",
        "json://h.test/x?format=a?method=PUT",
        "json://h.test/x?METHOD=PUT",
        "jsons://h.test/x?verify=no",
        "ntfy://h.test/t?attach=/etc/shadow",
        "workflows://h.test/a/b?template=/etc/shadow",
        "slack://a/b/c?template=/var/lib/holdfast/hub/hub.key",
        "mailto://u:p@h.test?pgppub=/etc/shadow",
        "fcm://p@k/t?keyfile=/etc/shadow",
        "syslog://localhost",
        "file:///etc/passwd",
        "xml://h.test/x",
        "form://h.test/x",
        "mqtt://h.test/t",
        "http://h.test/x",
        "apprise://h.test/x",
    ],
)
def test_no_other_service_and_no_other_option_is_sent_to_x04(url: str) -> None:
    assert apprise_url.complaint(url) is not None


def test_the_process_asks_the_lists_again_x04() -> None:
    """A target that an older release applied."""
    ear = Ear()
    with ear.listening() as port, pytest.raises(HoldfastError, match="its URL has the option"):
        asyncio.run(AppriseNotifier("ops", f"json://127.0.0.1:{port}/x?method=DELETE", HERE).send(ALARM))
    assert ear.paths == []


def test_the_unit_of_the_agent_lets_the_process_that_sends_stop_being_root_x17() -> None:
    """The agent is root, with few powers; without these two no alert of a node would leave a real machine."""
    given = re.search(r"^CapabilityBoundingSet=(.*)$", AGENT_UNIT.read_text(), re.MULTILINE)
    assert given is not None and os.geteuid() == 0
    powers = [name.removeprefix("CAP_").lower() for name in given[1].split()]
    ear = Ear()
    with ear.listening() as port:
        message = AppriseNotifier("ops", f"json://127.0.0.1:{port}/hook", HERE)._message(ALARM)

        def sends(*powers: str) -> str:
            bounds = ("setpriv", "--bounding-set", ",".join(("-all", *(f"+{name}" for name in powers))))
            words = [*bounds, sys.executable, "-I", "-B", "-m", SENDER]
            return subprocess.run(words, input=message, capture_output=True, timeout=60).stdout.decode()

        assert "PermissionError" in sends(*(name for name in powers if name != "setuid")) and ear.paths == []
        assert sends(*powers) == "" and ear.paths == ["/hook"]


def test_every_listed_service_exists_in_apprise() -> None:
    from importlib import import_module

    for scheme, (module, name) in apprise_url.SCHEMES.items():
        plugin = getattr(import_module(f"apprise.plugins.{module}"), name)
        known = {*_texts(plugin.protocol), *_texts(plugin.secure_protocol)}
        assert scheme in known, scheme


def _texts(value: object) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value or ())  # type: ignore[arg-type]


def in_the_process(code: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """In a process with the bounds and the guard of one that sends."""
    begin = (
        "import os, socket, sys, subprocess\n"
        "from holdfast.adapters.notifier.apprise_sender import guard, without_power\n"
        "from holdfast.adapters.notifier.targets import Targets\n"
        "without_power(); sys.addaudithook(guard(Targets(), []))\n"
    )
    argv = [sys.executable, "-I", "-B", "-c", begin + code]
    return subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False, env=env or {})


def test_a_name_that_means_another_address_the_second_time_leads_nowhere_x04() -> None:
    ear = Ear()
    with ear.listening() as port:
        done = in_the_process(
            f"socket.getaddrinfo = lambda *a, **k: [(2, 1, 6, '', ('127.0.0.1', {port}))]\n"
            f"socket.create_connection(('rebound.test', {port}))\n"
        )
        named = in_the_process(f"socket.socket().connect(('localhost', {port}))\n")
    assert "is a loopback address" in done.stderr and "not to a name" in named.stderr


@pytest.mark.parametrize(
    "code",
    [
        "open('/etc/passwd')",
        "open('{file}')",
        "open('/dev/null', 'w')",
        "subprocess.run(['true'])",
        "os.system('true')",
        "os.fork()",
        "os.execv('/bin/true', ['true'])",
        "socket.socket(socket.AF_UNIX).connect('/run/podman/podman.sock')",
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', 514))",
    ],
)
def test_the_process_opens_no_file_starts_no_program_and_reaches_no_socket_of_the_hub_x04(
    code: str, tmp_path: Path
) -> None:
    secret = tmp_path / "hub.key"
    secret.write_text("secret")
    done = in_the_process(code.format(file=secret))
    assert done.returncode == 1 and "PermissionError" in done.stderr, done.stderr


def test_the_process_that_sends_is_not_root_and_has_no_environment_and_no_file_of_the_hub_x04(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUB_SECRET", SECRET)
    ear = Ear()
    ear.pause_s = 2.0
    seen: list[tuple[str, bytes, list[str]]] = []

    async def look() -> None:
        while not ear.paths:
            await asyncio.sleep(0.02)
        place = Path("/proc") / _senders()[0]
        uids = next(line for line in (place / "status").read_text().splitlines() if line.startswith("Uid:"))
        seen.append((uids, (place / "environ").read_bytes(), [os.readlink(fd) for fd in (place / "fd").iterdir()]))

    async def main(port: int) -> None:
        notifier = AppriseNotifier("ops", f"json://127.0.0.1:{port}/{SECRET}", HERE)
        await asyncio.gather(notifier.send(ALARM), look())

    with (tmp_path / "hub.key").open("w") as held, ear.listening() as port:
        os.set_inheritable(held.fileno(), True)
        asyncio.run(main(port))
    uids, environment, files = seen[0]
    assert uids.split()[1:] == ["65534"] * 4 and environment == b""
    assert not [one for one in files if one.startswith("/") and one != "/dev/null"]


def test_a_process_that_hangs_is_ended_x04() -> None:
    ear = Ear()
    ear.pause_s = 3.0
    watch = Stopwatch()
    with ear.listening() as port:
        slow = AppriseNotifier("ops", f"json://127.0.0.1:{port}/{SECRET}", HERE, 2.0)
        with pytest.raises(HoldfastError, match="longer than"):
            asyncio.run(slow.send(ALARM))
        assert watch.within(4)
    wait_until(lambda: not _senders(), "no process is left")


def _senders() -> list[str]:
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
            parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if b"apprise_sender" in words and parent == os.getpid():
            found.append(pid)
    return found
