"""The machines of a lab: nodes, wires, images, faults, and an end that leaves nothing (bare labs: no fleet yet)."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.fleets.counts import SOAK
from tests.fleets.lab import LabUnderTest, command, lab, new_lab, traces
from tests.fleets.lab_pasting import pastes, runs
from tests.fleets.waiting import Stopwatch, wait_until
from tests.lab.product import PYTHON, Outcome

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabUnderTest]:
    """One bare lab for every test that leaves it as it found it."""
    with lab(tmp_path_factory.mktemp("shared"), bare=True) as made:
        yield made


def hello(made: LabUnderTest, node: str, tag: str = "1", port: int = 8080, *words: str) -> str:
    image = f"{made.registry}/hello:{tag}"
    run = ("podman", "run", "--quiet", "--detach", "--replace", "--name", f"hello-{port}", "-p", f"{port}:8080")
    return made.inside(node, *run, *words, image).ok().out.strip()


def fetch(made: LabUnderTest, node: str, url: str) -> dict[str, object]:
    """Asked until it answers: a container may need a moment to listen."""
    answers: list[Outcome] = []

    def answered() -> bool:
        answers.append(made.inside(node, "curl", "--silent", "--max-time", "10", url))
        return answers[-1].code == 0

    wait_until(answered, lambda: answers[-1])
    found = json.loads(answers[-1].out)
    assert isinstance(found, dict)
    return found


def reaches(made: LabUnderTest, node: str, address: str) -> bool:
    return made.inside(node, "busybox", "ping", "-c", "1", "-W", "1", address).code == 0


# ---- a lab that is up ------------------------------------------------------------------------------------------------


def test_status_names_registry_nodes_processes_and_directories(shared: LabUnderTest) -> None:
    status = shared.status
    assert set(status) == {"registry", "nodes"}
    assert [node["name"] for node in status["nodes"]] == ["hub1", "w1", "e1"]
    assert [node["roles"] for node in status["nodes"]] == [["hub", "worker"], ["worker"], ["edge"]]
    for node in status["nodes"]:
        assert set(node) == {"name", "roles", "address", "pids", "dirs"}
        assert node["address"].startswith("100.") and all(Path(path).is_dir() for path in node["dirs"].values())
        assert os.readlink(f"/proc/{node['pids']['node']}/ns/net") != os.readlink("/proc/self/ns/net")


def test_a_second_up_changes_nothing_and_says_so(shared: LabUnderTest) -> None:
    before = shared.status
    again = shared.lab("up", "--bare").ok()
    assert "is up" in again.err and shared.status == before
    other = shared.lab("up", "--bare", "--nodes", "hub1:hub", "--json").refused(5, "already_exists")
    assert "lab down" in other["remedy"]


def test_exec_has_the_lab_s_variables_the_caller_s_paths_and_the_node_s_namespaces(shared: LabUnderTest) -> None:
    mine = shared.home / "mine"
    mine.write_text("seen")
    script = f"cat {mine}; pwd; hostname; echo $HOLDFAST_HUB; echo $HOLDFAST_KEY; echo $HOLDFAST_FLEET; cat /srv/own"
    (Path(shared.node("w1")["dirs"]["data"]) / "own").write_text("of w1\n")
    said = shared.inside("w1", "sh", "-c", script).ok().out.splitlines()
    hub = f"https://{shared.address('hub1')}:9555"
    assert said == [f"seen{shared.home}", "w1", hub, f"{shared.dir}/operator", f"{shared.dir}/fleet", "of w1"]
    assert shared.inside("w1", "sh", "-c", "exit 7").code == 7
    assert shared.inside("w1", "no-such-command").code == 127
    assert "podman version" in shared.inside("w1", "podman", "--version").ok().out


def test_what_exec_started_ends_with_it(shared: LabUnderTest) -> None:
    """A test runner that loses patience leaves no orphan inside."""
    mark = f"54321.{os.getpid()}"
    started = subprocess.Popen(command("lab", "exec", "w1", "--", "sleep", mark), env=shared.environ, cwd=shared.home)
    try:
        wait_until(lambda: shared.inside("w1", "pgrep", "-f", f"^sleep {mark}").code == 0, "the command runs")
    finally:
        started.kill()
        started.wait()
    wait_until(lambda: shared.inside("w1", "pgrep", "-f", f"^sleep {mark}").code == 1, "the command is gone")


def test_a_signal_to_exec_reaches_the_command(shared: LabUnderTest) -> None:
    script = "trap 'exit 5' TERM; echo ready; while :; do sleep 0.05; done"
    words = command("lab", "exec", "w1", "--", "sh", "-c", script)
    started = subprocess.Popen(words, env=shared.environ, cwd=shared.home, stdout=subprocess.PIPE)
    assert started.stdout is not None and started.stdout.readline() == b"ready\n"
    started.terminate()
    assert started.wait(60) == 5
    started.stdout.close()


BEFORE_THE_WAIT = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void signalled(void) {
    static int done;
    if (done++) return;
    while (access(getenv("READY"), F_OK)) usleep(1000);
    kill(getpid(), SIGTERM);
}

pid_t waitpid(pid_t pid, int *status, int how) {
    signalled();
    return ((pid_t (*)(pid_t, int *, int))dlsym(RTLD_NEXT, "waitpid"))(pid, status, how);
}

int sigwait(const sigset_t *set, int *number) {
    signalled();
    return ((int (*)(const sigset_t *, int *))dlsym(RTLD_NEXT, "sigwait"))(set, number);
}
"""


def test_a_signal_right_before_the_wait_is_not_lost(tmp_path: Path) -> None:
    """It comes after Python has looked for signals, and before the kernel waits."""
    (tmp_path / "shim.c").write_text(BEFORE_THE_WAIT)
    shim, ready = tmp_path / "shim.so", tmp_path / "ready"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", shim, tmp_path / "shim.c", "-ldl"], check=True)
    script = 'trap "exit 5" TERM; : >"$READY"; while :; do sleep 0.05; done'
    program = "import os, sys; from holdfast.lab import inside; env = {**os.environ}; del env['LD_PRELOAD']; "
    program += "sys.exit(inside.run(os.getpid(), ['sh', '-c', sys.argv[1]], env))"
    env = {**os.environ, "LD_PRELOAD": str(shim), "READY": str(ready)}
    assert subprocess.run([PYTHON, "-c", program, script], env=env, timeout=60).returncode == 5


AT_THE_FORK = """
import os, signal, sys
from holdfast.lab import inside

ready, script = sys.argv[1:]
os.mkfifo(ready)

def signalled():
    with open(ready) as pipe:
        pipe.read()
    os.kill(os.getpid(), signal.SIGTERM)

os.register_at_fork(after_in_parent=signalled)
sys.exit(inside.run(os.getpid(), ["sh", "-c", script, "sh", ready], dict(os.environ)))
"""


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("trap 'exit 5' TERM; echo ready >\"$1\"; while :; do sleep 0.05; done", 5),
        ('echo ready >"$1"; while :; do sleep 0.05; done', 128 + signal.SIGTERM),
    ],
)
def test_a_signal_in_the_first_instant_of_exec_reaches_the_command(tmp_path: Path, script: str, code: int) -> None:
    """The signal arrives when the command already runs and `exec` has not yet left its fork; this test needs no lab."""
    words = [PYTHON, "-c", AT_THE_FORK, str(tmp_path / "ready"), script]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done.stderr


def test_a_command_of_exec_has_the_signals_of_any_other_command() -> None:
    """None is blocked, and those that Python ignores are not ignored; this test needs no lab."""
    script = (
        "import os, sys; from holdfast.lab import inside; sys.exit(inside.run(os.getpid(), sys.argv[1:], os.environ))"
    )
    words = ["grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"]
    by_exec, plain = (
        subprocess.run([*before, *words], capture_output=True, text=True, timeout=60)
        for before in ([PYTHON, "-c", script], [])
    )
    assert by_exec.stdout == plain.stdout and plain.stdout, by_exec.stderr


def test_a_container_on_one_node_answers_another_node_and_the_host(shared: LabUnderTest) -> None:
    container = hello(shared, "w1")
    url = f"http://{shared.address('w1')}:8080"
    assert fetch(shared, "e1", f"{url}/") == {"version": "1", "instance": container[:12]}
    assert shared.inside("hub1", "curl", "-s", f"{url}/health").ok().out == "ok\n"
    assert json.loads(shared.lab("curl", "http://w1:8080/").ok().out)["version"] == "1"
    assert shared.lab("curl", f"{url}/nothing").code == 22, "curl --fail"
    watch = Stopwatch()
    shared.inside("w1", "podman", "stop", "hello-8080").ok()
    assert watch.within(5), "a first process that hears SIGTERM"


def test_sick_starts_and_never_answers_broken_exits_at_once(shared: LabUnderTest) -> None:
    hello(shared, "w1", "sick", 8081)
    hello(shared, "w1", "broken", 8082)
    wait_until(lambda: state(shared, "hello-8082") == "exited 1", "the broken one exits")
    assert state(shared, "hello-8081") == "running 0"
    assert shared.inside("w1", "curl", "-s", "-m", "1", f"http://{shared.address('w1')}:8081/health").code != 0
    shared.inside("w1", "podman", "rm", "-f", "-t", "1", "hello-8081", "hello-8082").ok()


def state(made: LabUnderTest, name: str) -> str:
    words = ("podman", "inspect", "--format", "{{.State.Status}} {{.State.ExitCode}}", name)
    return made.inside("w1", *words).ok().out.strip()


def test_the_witness_reports_only_what_is_on_the_disk(shared: LabUnderTest) -> None:
    data = Path(shared.node("w1")["dirs"]["data"]) / "witness"
    data.mkdir()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as collector:
        host = shared.registry.partition(":")[0]
        collector.bind((host, 0))
        collector.settimeout(60)
        where = f"udp://{host}:{collector.getsockname()[1]}"
        run = ("podman", "run", "--quiet", "--detach", "--replace", "--name", "witness", "-p", "8083:8080")
        given = ("-v", "/srv/witness:/data", "-e", f"WITNESS_COLLECTOR={where}", "-e", "WITNESS_EPOCH=4")
        shared.inside("w1", *run, *given, f"{shared.registry}/witness:1").ok()
        reports = [json.loads(collector.recv(4096)) for _ in range(20)]
    shown = fetch(shared, "e1", f"http://{shared.address('w1')}:8083/")
    shared.inside("w1", "podman", "kill", "witness").ok()
    wait_until(lambda: state(shared, "witness").startswith("exited"), "it is dead")
    numbers = [report["seq"] for report in reports]
    assert numbers == sorted(set(numbers)) and numbers[-1] - numbers[0] < 40, "every 50 ms, hardly one is skipped"
    assert {report["epoch"] for report in reports} == {4} and shown["instance"] == reports[0]["instance"]
    lines = (data / "sequence").read_text().splitlines()
    assert [int(line.split()[0]) for line in lines] == list(range(1, len(lines) + 1))
    assert set(numbers) | {shown["seq"]} <= set(range(1, len(lines) + 1))
    shared.inside("w1", "podman", "start", "witness").ok()
    goes_on = fetch(shared, "e1", f"http://{shared.address('w1')}:8083/")["seq"]
    assert isinstance(goes_on, int) and goes_on > len(lines) - 1, "it goes on where the disk is"
    shared.inside("w1", "podman", "rm", "-f", "witness").ok()


# ---- faults ----------------------------------------------------------------------------------------------------------


def test_a_cut_pair_still_reaches_others_and_heals(shared: LabUnderTest) -> None:
    hub, worker, edge = (shared.address(name) for name in ("hub1", "w1", "e1"))
    assert reaches(shared, "w1", hub) and reaches(shared, "hub1", worker)
    try:
        shared.lab("cut", "w1", "hub1").ok()
        assert not reaches(shared, "w1", hub) and not reaches(shared, "hub1", worker)
        assert reaches(shared, "w1", edge) and reaches(shared, "hub1", edge)
        assert "cut: hub1 from w1" in shared.lab("status").ok().out
    finally:
        shared.lab("heal").ok()
    assert reaches(shared, "w1", hub) and reaches(shared, "hub1", worker)


def test_a_cut_node_reaches_nobody_and_nobody_reaches_it(shared: LabUnderTest) -> None:
    """Open connections fall silent too: the frames are dropped, nobody is told."""
    worker, host = shared.address("w1"), shared.registry.partition(":")[0]
    with socket.create_server((host, 0)) as door:
        port = door.getsockname()[1]
        connect = f"import socket, time; link = socket.create_connection(({host!r}, {port}))"
        script = f"{connect}\nwhile True: link.send(b'x'); time.sleep(0.05)"
        talker = subprocess.Popen(
            command("lab", "exec", "w1", "--", "python3", "-c", script), env=shared.environ, cwd=shared.home
        )
        try:
            link, _ = door.accept()
            assert link.recv(1)
            shared.lab("cut", "w1").ok()
            link.settimeout(1)
            with suppress(TimeoutError):
                while True:
                    assert link.recv(65536), "silence, not an end"
            assert not reaches(shared, "w1", host) and not reaches(shared, "e1", worker)
            assert reaches(shared, "e1", host)
            shared.lab("heal").ok()
            link.settimeout(60)
            assert link.recv(1), "after the cut the same connection goes on"
            link.close()
        finally:
            talker.kill()
            talker.wait()
            shared.lab("heal").ok()


def test_a_power_cut_takes_containers_and_leaves_the_disk(shared: LabUnderTest) -> None:
    container = hello(shared, "e1", "2", 8084)
    process = host_pid_of(shared, container)
    (Path(shared.node("e1")["dirs"]["data"]) / "kept").write_text("kept")
    shared.lab("kill", "e1").ok()
    assert not is_alive(process) and shared.node("e1")["pids"] == {}
    assert not reaches(shared, "w1", shared.address("e1"))
    assert shared.lab("exec", "e1", "--json", "--", "true").refused(1, "node_down")["remedy"].endswith("lab start e1")
    shared.lab("start", "e1").ok()
    assert reaches(shared, "w1", shared.address("e1"))
    assert shared.inside("e1", "cat", "/srv/kept").ok().out == "kept"
    assert shared.inside("e1", "podman", "ps", "--quiet").ok().out == ""
    shared.inside("e1", "podman", "start", "hello-8084").ok()
    assert fetch(shared, "w1", f"http://{shared.address('e1')}:8084/")["version"] == "2"
    shared.inside("e1", "podman", "rm", "-f", "-t", "1", "hello-8084").ok()


def host_pid_of(made: LabUnderTest, container: str) -> int:
    for name in os.listdir("/proc"):
        with suppress(OSError):
            if name.isdecimal() and f"libpod-{container}" in Path(f"/proc/{name}/cgroup").read_text():
                return int(name)
    raise AssertionError("the container has no process")


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


# ---- images of one's own ---------------------------------------------------------------------------------------------


def test_an_image_is_loaded_or_built_and_every_node_can_run_it(shared: LabUnderTest) -> None:
    folder = shared.home / "own"
    folder.mkdir()
    (folder / "Containerfile").write_text("ARG REGISTRY\nFROM $REGISTRY/hello:1\nRUN echo built > /built\n")
    built = shared.lab("image", "build", str(folder), "--name", "own:3").ok().out.strip()
    assert built == f"{shared.registry}/own:3"
    run = ("podman", "run", "--quiet", "--rm", "--entrypoint", "/bin/cat")
    assert shared.inside("e1", *run, built, "/built").ok().out == "built\n"

    archive = shared.home / "own.tar"
    shared.inside("e1", "podman", "tag", built, "localhost/team/other:1").ok()
    shared.inside("e1", "podman", "save", "--quiet", "-o", str(archive), "localhost/team/other:1").ok()
    assert tarfile.is_tarfile(archive)
    (loaded,) = shared.lab("image", "load", str(archive), "--json").ok().json["images"]
    assert loaded == f"{shared.registry}/team/other:1"
    assert shared.inside("w1", *run, loaded, "/built").ok().out == "built\n"
    shared.lab("image", "load", str(shared.home / "nothing"), "--json").refused(2)
    shared.lab("image", "build", str(shared.home), "--json").refused(2)


# ---- refusals --------------------------------------------------------------------------------------------------------


def test_unknown_names_and_wrong_directories_are_refused_with_a_remedy(shared: LabUnderTest, tmp_path: Path) -> None:
    for words in (("cut", "w9"), ("cut", "w1", "w9"), ("kill", "w9"), ("start", "w9"), ("exec", "w9", "--", "true")):
        told = shared.lab(*words[:1], "--json", *words[1:]).refused(2, "unknown_node")
        assert "hub1, w1, e1" in told["remedy"]
    shared.lab("cut", "w1", "w1", "--json").refused(2)
    empty = new_lab(tmp_path)
    for verb in ("status", "env", "heal", "fast"):
        assert "lab up" in empty.lab(verb, "--json").refused(2, "no_lab")["remedy"]
    assert empty.lab("down").ok().err.startswith("there is no lab"), "nothing to do is done"
    assert not empty.dir.exists()
    empty.lab("up", "--json", "--nodes", "h:hub,w:bogus").refused(2)
    assert not empty.dir.exists()
    empty.dir.mkdir()
    (empty.dir / "fleet").mkdir()
    empty.lab("up", "--json").refused(5, "already_exists")
    assert (empty.dir / "fleet").is_dir(), "what a lab did not make it does not take"


def test_missing_packages_and_hidden_directories_are_named(tmp_path: Path) -> None:
    made = new_lab(tmp_path)
    bare_path = LabUnderTest(made.dir, made.home, {"PATH": str(tmp_path)})
    told = bare_path.lab("up", "--json").refused(2, "missing_package")
    assert "podman" in told["message"] and told["remedy"].startswith("apt-get install")
    assert not made.dir.exists()
    hidden = LabUnderTest(Path("/srv/lab-of-nobody"), made.home)
    assert "/srv" in hidden.lab("up", "--json").refused(2)["message"]
    assert not hidden.dir.exists()


def test_only_root_makes_labs(tmp_path: Path) -> None:
    made = new_lab(tmp_path)
    words = ["setpriv", "--reuid=65534", "--clear-groups", *command("lab", "up", "--json")]
    done = subprocess.run(words, env=made.environ, capture_output=True, text=True, timeout=60)
    assert done.returncode == 3 and "sudo" in json.loads(done.stderr.splitlines()[-1])["remedy"]


@pytest.mark.parametrize("words", [("lab", "status"), ("lab", "env"), ("agent", "check"), ("agent", "journal")])
def test_what_belongs_to_root_is_not_permitted_to_others(words: tuple[str, ...], tmp_path: Path) -> None:
    """contract.md: exit 3."""
    made = new_lab(tmp_path)
    hidden = tmp_path / "nodes" / "w1"
    hidden.mkdir(parents=True)
    hidden.parent.chmod(0o700)
    where = ["--state-dir", str(hidden)] if words[0] == "agent" else []
    run = ["setpriv", "--reuid=65534", "--clear-groups", *command(*words[:2], *where, "--json")]
    done = subprocess.run(run, env=made.environ, capture_output=True, text=True, timeout=60)
    assert done.returncode == 3 and "sudo" in json.loads(done.stderr)["remedy"], done


# ---- the end ---------------------------------------------------------------------------------------------------------


def test_two_labs_live_side_by_side_and_one_goes_without_the_other(tmp_path: Path) -> None:
    """Made at the same moment, so that they must not choose the same addresses."""
    one, other = new_lab(tmp_path, "one"), new_lab(tmp_path, "other")
    makers = [threading.Thread(target=made.lab, args=("up", "--bare", "--nodes", "h:hub")) for made in (one, other)]
    try:
        for maker in makers:
            maker.start()
        for maker in makers:
            maker.join()
        assert one.registry != other.registry and one.address("h") != other.address("h")
        assert reaches(one, "h", one.registry.partition(":")[0])
        hello(other, "h")
        lab_id = one.id
        assert traces(one.dir, lab_id) != []
        told = one.lab("up", "--bare", "--nodes", "other:hub", "--json").refused(5, "already_exists")
        remedy = "`holdfast lab down` first, or choose another directory with --dir"
        pastes(remedy, [told["remedy"]], lambda line: one.run(*line.split()[1:]))[0].ok()
        assert traces(one.dir, lab_id) == [] and not one.dir.exists()
        assert fetch(other, "h", f"http://{other.address('h')}:8080/")["version"] == "1"
    finally:
        lab_id = other.id
        one.lab("down")
        runs("holdfast lab down --dir DIR", (), lambda line: one.run(*line.split()[1:]), DIR=str(other.dir))
    assert traces(other.dir, lab_id) == []


POINTS = range(5) if SOAK else (0, 1, 3)  # how many progress lines `up` is allowed to say; the fifth says "up"


@pytest.mark.parametrize("lines", POINTS)
def test_after_up_was_killed_half_way_down_leaves_nothing(tmp_path: Path, lines: int) -> None:
    made = new_lab(tmp_path)
    kill_half_way(made, lines)
    lab_id = made.id
    try:
        if lines % 2:
            assert "incomplete" in made.lab("status", "--json").refused(2, "no_lab")["message"]
        else:  # the next `up` clears it by itself
            made.lab("up", "--bare", "--nodes", "h:hub,w:worker").ok()
            assert made.id != lab_id and traces(made.dir / "nowhere", lab_id) == []
            lab_id = made.id
    finally:
        made.lab("down").ok()
    assert traces(made.dir, lab_id) == [] and not made.dir.exists()


def kill_half_way(made: LabUnderTest, lines: int) -> None:
    words = command("lab", "up", "--bare", "--nodes", "h:hub,w:worker")
    up = subprocess.Popen(words, env=made.environ, cwd=made.home, stderr=subprocess.PIPE, text=True)
    assert up.stderr is not None
    wait_until((made.dir / "lab.json").exists, "the lab is recorded")
    for _ in range(lines):
        up.stderr.readline()
    os.kill(up.pid, signal.SIGKILL)
    up.wait()
    up.stderr.close()


def test_after_single_processes_were_killed_down_leaves_nothing(tmp_path: Path) -> None:
    """Holder, conmon and registry killed by hand; a stranger who entered the node by hand goes as well."""
    with lab(tmp_path, bare=True, nodes="h:hub,w:worker") as made:
        lab_id = made.id
        container = hello(made, "w")
        process = host_pid_of(made, container)
        conmon = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
        inside = str(made.node("h")["pids"]["node"])
        enter = f"nsenter -t {inside} -n -m sleep 600 >/dev/null 2>&1 & echo $!"
        stranger = int(subprocess.run(["sh", "-c", enter], capture_output=True, check=True).stdout)
        registry = int((made.dir / "parts" / "registry").read_text().split()[0])
        for pid in (conmon, registry, int(inside)):
            os.kill(pid, signal.SIGKILL)
        made.lab("down").ok()
        assert traces(made.dir, lab_id) == [] and not is_alive(process)
        assert not is_alive(stranger)


def test_down_leaves_what_is_mounted_beside_the_lab(tmp_path: Path) -> None:
    """A lab may be made in a directory that holds other things; only its own are its own."""
    made = new_lab(tmp_path)
    beside = Path(made.dir) / "beside"
    beside.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "none", str(beside)], check=True)
    try:
        (beside / "mine").write_text("kept")
        made.lab("up", "--bare", "--nodes", "hub1:hub").ok()
        made.lab("down").ok()
        assert (beside / "mine").read_text() == "kept" and os.path.ismount(beside)
    finally:
        made.lab("down")
        subprocess.run(["umount", str(beside)], check=True)
