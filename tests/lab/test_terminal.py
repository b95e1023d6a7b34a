"""A newcomer at a terminal: questions, passphrases, colours. Everything typed into a real pty."""

import os
import pty
import re
import select
import signal
import time
from pathlib import Path

import pytest

from tests.fleets.waiting import PATIENCE_S
from tests.lab.product import PYTHON, Place, make_key, new_place

pytestmark = pytest.mark.lab


def typed(place: Place, words: list[str], answers: list[tuple[str, str]], cwd: Path | None = None) -> tuple[int, str]:
    """Run a command on a terminal, typing each answer when its prompt appears; exit code and everything shown."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(cwd or place.fleet)
        environ = {k: v for k, v in place.environ.items() if k != "NO_COLOR"} | {"TERM": "xterm-256color"}
        os.execve(PYTHON, place.command(*words), environ)
    shown, waiting, until = "", list(answers), time.monotonic() + PATIENCE_S
    try:
        while time.monotonic() < until:
            if not select.select([terminal], [], [], 0.1)[0]:
                continue
            try:
                shown += os.read(terminal, 65536).decode()
            except OSError:  # the other end is closed: the command is done
                break
            if waiting and re.search(waiting[0][0], shown.rpartition("\x00")[2]):
                os.write(terminal, waiting.pop(0)[1].encode() + b"\n")
                shown += "\x00"
        else:
            os.kill(pid, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    finally:
        os.close(terminal)
    assert not waiting, f"never asked: {waiting[0][0]}\n{shown}"
    return code, shown.replace("\x00", "")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    (tmp_path / "home").mkdir()
    return Place(tmp_path)


def test_a_newcomer_is_led_from_init_to_no_changes(place: Place) -> None:
    """`holdfast init f && cd f && holdfast plan && holdfast apply && holdfast history && holdfast plan`."""
    code, shown = typed(
        place,
        ["init", "fleet"],
        [
            (r"no SSH key at .* Create one\?", "y"),
            (r"Create an offline recovery key \(grade root\)", ""),
            (r"Passphrase for the recovery key", "hunter2-canary"),
            (r"Repeat the passphrase", "hunter2-canary"),
        ],
        place.root,
    )
    assert code == 0 and "Operators: alice (grade destroy), recovery (grade root)" in shown
    assert "Move it off this machine" in shown and "hunter2-canary" not in shown
    recovery = place.root / "fleet-recovery"
    assert recovery.stat().st_mode & 0o777 == 0o600 and b"OPENSSH PRIVATE KEY" in recovery.read_bytes()

    code, shown = typed(place, ["plan"], [])
    assert code == 0 and "\x1b[32m+\x1b[0m service.hello" in shown and "Apply with: holdfast apply" in shown
    code, shown = typed(place, ["apply"], [(r'Apply these 4 changes\? Only "yes" is accepted: ', "y")])
    assert code == 1 and "nothing was changed" in shown
    code, shown = typed(place, ["apply"], [(r'Only "yes" is accepted: ', "yes")])
    assert code == 0 and "Applied revision 1: 4 changes" in shown
    assert "no hub serves it: nothing runs yet" in shown, "N19"
    code, shown = typed(place, ["status"], [])
    assert code == 0 and "whether anything runs is not known" in shown, "N19"
    code, shown = typed(place, ["deploy", "hello"], [])
    assert code == 0 and shown.startswith("No changes: service.hello matches the applied revision 1."), "N48"
    assert "whether anything runs is not known" in shown, "N48"
    code, shown = typed(place, ["history"], [])
    assert code == 0 and "signed by alice" in shown
    code, shown = typed(place, ["plan"], [])
    assert code == 0 and shown.startswith("No changes")


def test_a_question_that_is_declined_leaves_no_key_behind(place: Place) -> None:
    asked = [(r"no SSH key at .* Create one\?", "n")]
    code, shown = typed(place, ["init", "my fleet", "--recovery-key", "recovery"], asked, place.root)
    assert code == 2 and "an operator needs an SSH key" in shown
    assert sorted(path.name for path in place.root.rglob("*")) == ["home"]


def test_keys_without_a_passphrase_are_named_as_a_shell_needs_them(place: Place) -> None:
    words = ["init", "fleet", "--yes", "--key", "my key", "--recovery-key", "the other"]
    shown = place.run(*words).ok().err
    assert "ssh-keygen -p -f 'my key')" in shown and "ssh-keygen -p -f 'the other'\n" in shown


def test_the_recovery_key_changes_trust_where_the_daily_key_may_not(place: Place) -> None:
    """design §3: root by the old and the new trust; the passphrase is asked for once and never shown."""
    recovery = place.root / "recovery"
    make_key(recovery, "old and safe")
    place.run("init", str(place.fleet), "--yes", "--recovery-key", str(recovery)).ok()
    place.run("apply", "--yes").ok()
    line = make_key(place.root / "bob")
    with (place.fleet / "fleet.toml").open("a") as file:
        file.write(f'\n[[operators]]\nname = "bob"\ngrade = "apply"\nkey = "{line}"\n')
    refused = place.run("apply", "--yes", "--json").refused(4, "signature_required")
    assert "operators who can sign by the old and the new trust: recovery" in refused["message"]
    place.run("plan", "-o", "change.plan").ok()
    wrong = [(r"Passphrase for .*recovery: ", "no"), (r"Passphrase for .*recovery: ", "old and safe")]
    code, shown = typed(place, ["sign", "change.plan", "--yes", "--key", str(recovery)], wrong)
    assert code == 0 and "has 1 signature" in shown and "old and safe" not in shown
    place.run("apply", "change.plan", "--yes").ok()
    place.service("bobs")
    place.run("deploy", "bobs", "--yes", "--key", str(place.root / "bob")).ok()


def test_a_passphrase_is_asked_once_for_a_whole_apply(tmp_path: Path) -> None:
    key = tmp_path / "alice"
    make_key(key, "pass")
    place = new_place(tmp_path, "--key", str(key))
    code, shown = typed(place, ["apply", "--yes", "--key", str(key)], [(r"Passphrase for ", "pass")])
    assert code == 0 and shown.count("Passphrase") == 1
    assert place.run("plan").ok().out.startswith("No changes")


def test_help_is_a_page_with_an_example(place: Place) -> None:
    for words in (["--help"], ["plan", "--help"], ["history", "show", "--help"], []):
        code, shown = typed(place, words, [], place.root)
        assert (code == 0 and "holdfast plan" in shown) or "holdfast history show" in shown
