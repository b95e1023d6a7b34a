"""S11: fleet directories that mean harm. Each is loaded by a process of its own: it ends within 10 s and 300 MB, with
exit code 2 and a message, without a traceback, and without opening anything outside the directory."""

import binascii
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.model.ssh_key import pack
from tests.fleets.waiting import STRETCH_MAX, Stopwatch

pytestmark = pytest.mark.lab

SOURCE = str(Path(__file__).parents[2] / "src")
SECONDS_MAX, KIB_MAX = 10, 300 * 1024

LOAD = """
import os, sys
from holdfast.adapters.fleet_directory.posix import PosixFleetDirectory
from holdfast.declared.load import load
from holdfast.errors import HoldfastError

class Meddled(PosixFleetDirectory):
    def read(self, path, bytes_max):
        if "vanish" in path:
            os.unlink(os.path.join(self.name, path))
        if "swapped" in path:
            os.unlink(os.path.join(self.name, path))
            os.symlink("/etc/shadow", os.path.join(self.name, path))
        return super().read(path, bytes_max)

try:
    with Meddled(sys.argv[1]) as directory:
        load(directory)
except HoldfastError as trouble:
    sys.stderr.write(f"{trouble.message}\\nremedy: {trouble.remedy}\\n")
    sys.exit(trouble.exit_code)
"""

KEY = "ssh-ed25519 " + binascii.b2a_base64(pack(b"ssh-ed25519", b"k" * 32), newline=False).decode()
FLEET = f"""\
[fleet]
name = "home"
[[operators]]
name = "ada"
grade = "root"
key = "{KEY}"
[[nodes]]
name = "hub1"
roles = ["hub", "worker"]
"""
WEB = '[[components]]\nname = "web"\nimage = "registry.test/web:1"\n'

Hostile = tuple[str, Callable[[Path], object]]
CASES: dict[str, Hostile] = {}


def service(text: str | bytes, file: str = "web.toml") -> Callable[[Path], object]:
    content = text if isinstance(text, bytes) else text.encode()
    return lambda root: (root / "services" / file).write_bytes(content)


def in_fleet(text: str | bytes) -> Callable[[Path], object]:
    content = text if isinstance(text, bytes) else text.encode()
    return lambda root: (root / "fleet.toml").write_bytes(content)


def setting(line: str) -> Callable[[Path], object]:
    return in_fleet(FLEET.replace('name = "home"\n', f'name = "home"\n{line}\n'))


def link(path: str, target: str) -> Callable[[Path], object]:
    def act(root: Path) -> None:
        place = root / path
        if place.is_dir():
            shutil.rmtree(place)
        place.unlink(missing_ok=True)
        place.symlink_to(target)

    return act


def policy(file: str) -> Callable[[Path], object]:
    return in_fleet(FLEET + f'[[policies]]\nname = "p"\nfile = "{file}"\napplies_to = ["fleet"]\n')


def special(path: str, make: Callable[[Path], object]) -> Callable[[Path], object]:
    def act(root: Path) -> None:
        (root / path).unlink(missing_ok=True)
        make(root / path)

    return act


def make_socket(path: Path) -> None:
    handle = os.open(path.parent, os.O_DIRECTORY)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"/proc/self/fd/{handle}/{path.name}")
    os.close(handle)


def make_device(path: Path) -> None:
    os.mknod(path, 0o020666, os.makedev(1, 5))  # /dev/zero: a file without an end


def of_size(size_bytes: int) -> Callable[[Path], object]:
    def make(path: Path) -> None:
        with path.open("wb") as file:
            file.truncate(size_bytes)

    return make


def a_hundred_megabytes(path: Path) -> None:
    with path.open("wb") as file:
        for _ in range(100):
            file.write(b"#" * 1023 * 1024 + b"\n")


def a_hundred_thousand_files(root: Path) -> None:
    first = root / "services" / "s0.toml"
    first.write_text(WEB)
    for number in range(1, 100_001):
        # A file system limits the links to one inode, so a new inode is begun now and then.
        if number % 30_000 == 0:
            first = root / "services" / f"s{number}.toml"
            first.write_text(WEB)
        else:
            os.link(first, root / "services" / f"s{number}.toml")


def ten_thousand_wrong_files(root: Path) -> None:
    for number in range(10_000):
        text = f"k{number} = 1\n[[component]]\nnaem = 1\nimag{number} = 2\n"
        (root / "services" / f"s{number}.toml").write_text(text)


def policy_link(root: Path) -> None:
    policy("policies/p.cedar")(root)
    (root / "policies").mkdir()
    (root / "policies" / "p.cedar").symlink_to("/etc/shadow")


def emptied(root: Path) -> None:
    shutil.rmtree(root)
    root.mkdir()


def named(stem: str) -> Callable[[Path], object]:
    return service(WEB, stem + ".toml")


CASES |= {
    # links, pipes, devices
    "a service is a link to /etc/shadow": ("symbolic link", link("services/web.toml", "/etc/shadow")),
    "a service is a link into the directory": ("symbolic link", link("services/web.toml", "../fleet.toml")),
    "a service is a dangling link": ("symbolic link", link("services/web.toml", "/nowhere")),
    "a service is a link to itself": ("symbolic link", link("services/web.toml", "web.toml")),
    "fleet.toml is a link to /etc/shadow": ("fleet.toml: is a symbolic link", link("fleet.toml", "/etc/shadow")),
    "services is a link to /etc": ("services: is a symbolic link", link("services", "/etc")),
    "policies is a link to /etc": ("policies: is a symbolic link", link("policies", "/etc")),
    "a directory of services is a link": ("symbolic link", link("services/more", "/etc")),
    "a policy is a link to /etc/shadow": ("policies/p.cedar: is a symbolic link", policy_link),
    "a file is swapped for a link while being read": ("symbolic link", named("swapped")),
    "a service is a pipe": ("not a plain file", special("services/web.toml", os.mkfifo)),
    "fleet.toml is a pipe": ("fleet.toml: is not a plain file", special("fleet.toml", os.mkfifo)),
    "a service is a socket": ("not a plain file", special("services/web.toml", make_socket)),
    "a service is a device": ("not a plain file", special("services/web.toml", make_device)),
    "a service is a directory": ("is a directory where", special("services/web.toml", os.mkdir)),
    "fleet.toml is a directory": ("fleet.toml: is a directory where", special("fleet.toml", os.mkdir)),
    "a service vanishes": ("does not exist", named("vanish")),
    # size and number
    "a file of 100 MB": ("bytes long; the limit is", special("services/web.toml", a_hundred_megabytes)),
    "a sparse file of 1 TB": ("bytes long; the limit is", special("services/web.toml", of_size(2**40))),
    "a sparse fleet.toml of 1 TB": ("fleet.toml: is 1,099,511,627,776", special("fleet.toml", of_size(2**40))),
    "a hundred thousand files": ("services: holds more than 50,000", a_hundred_thousand_files),
    "ten thousand wrong files": ("more problems", ten_thousand_wrong_files),
    "a hundred thousand keys": ("unknown key", in_fleet(FLEET + "".join(f"{n:x}=1\n" for n in range(100_000)))),
    "a hundred thousand tables": ("missing key", in_fleet(FLEET + "[[nodes]]\n" * 100_000)),
    "ten thousand different tables": ("unknown key", service("".join(f"[t{n}]\n" for n in range(10_000)))),
    "a line of 1 MiB": ("a line of", in_fleet(FLEET + "# " + "x" * 1_000_000 + "\n")),
    "a value of 15 KiB": ("is 15,000 characters long", service(WEB + f'cmd = ["{"x" * 15_000}"]\n')),
    # the shape of TOML
    "duplicate keys": ("is not TOML", service('tier = "core"\ntier = "core"\n' + WEB)),
    "duplicate tables": ("is not TOML", in_fleet(FLEET + "[trust]\n[trust]\n")),
    "deep arrays": ("nested more than 32", service("a = " + "[" * 8_000)),
    "closed deep arrays": ("nested more than 32", service("a = " + "[" * 200 + "]" * 200)),
    "deep inline tables": ("nested more than 32", service("a = " + "{a = " * 3_000)),
    "a dotted key of 8,000 parts": ("nested more than 32", service("a" + ".a" * 8_000 + " = 1")),
    "a header of 8,000 parts": ("nested more than 32", service("[a" + ".a" * 8_000 + "]")),
    "a number of 5,000 digits": ("thousands of digits", service("replicas = " + "9" * 5_000)),
    "a number beyond 2^53": ("whole number from 1 to 32", service(WEB + "replicas = 9007199254740993\n")),
    "not a number": ("not nan", service(WEB + "replicas = nan\n")),
    "infinity": ("not -inf", service(WEB + "replicas = -inf\n")),
    "a date": ("not a date or a time", service(WEB + "replicas = 2020-01-01\n")),
    "a time": ("not a date or a time", service(WEB + "cmd = [07:32:00]\n")),
    # bytes
    "a NUL byte": ("holds a NUL byte", service(b"a = '\0'\n")),
    "an escaped NUL": ("holds a NUL character", service(WEB + 'cmd = ["a\\u0000b"]\n')),
    "a byte order mark": ("byte order mark", service(b"\xef\xbb\xbf" + WEB.encode())),
    "UTF-16": ("byte order mark", service(WEB.encode("utf-16"))),
    "invalid UTF-8": ("is not UTF-8", service(b"a = '\xff'\n")),
    "a terminal escape in a key": (r"\x1b", service(WEB + '"\\u001b[2J" = 1\n')),
    # names
    "a file named -rf": ('"-rf" cannot be the name', named("-rf")),
    "a file named --privileged": ('"--privileged" cannot be the name', named("--privileged")),
    "a file named UPPER": ('"UPPER" cannot be the name', named("UPPER")),
    "a file name of 41 characters": ("cannot be the name", named("n" * 41)),
    "a file name with a line break": (r'"a\nb" cannot be the name', named("a\nb")),
    "a file name that is not UTF-8": (r'"\udcff" cannot be the name', named(os.fsdecode(b"\xff"))),
    "a file name from right to left": (r'"\u202egpj" cannot be the name', named("\u202egpj")),
    "a file name with a Cyrillic letter": (r'"p\u0430ypal" cannot be the name', named("p\u0430ypal")),
    "a node named ..": ('not ".."', in_fleet(FLEET.replace('"hub1"', '".."'))),
    "a node named -rf": ('not "-rf"', in_fleet(FLEET.replace('"hub1"', '"-rf"'))),
    "a node named with a homoglyph": (r'not "h\u0443b1"', in_fleet(FLEET.replace('"hub1"', '"hуb1"'))),
    "a name that ends in a line break": (r'not "hub1\n"', in_fleet(FLEET.replace('"hub1"', '"hub1\\n"'))),
    "a component named ../../etc": ('not "../../etc"', service(WEB.replace('"web"', '"../../etc"'))),
    # values that would reach a command line or another file
    "an image with a space": ("must be an image", service(WEB.replace("web:1", "web:1 --privileged"))),
    "an image that is an option": ("must be an image", service(WEB.replace("registry.test/web:1", "--privileged"))),
    "an image that is a command": ("must be an image", service(WEB.replace("registry.test/web:1", "$(id)"))),
    "an environment name with =": ("must be a name of letters", service(WEB + '[components.env]\n"A=B" = "x"\n')),
    "a host path with ..": ("has empty, . or .. parts", service(WEB + 'volumes = ["/srv/../etc:/x"]\n')),
    "a host path with options": ("HOST:CONTAINER", service(WEB + 'volumes = ["/srv:/x:rw,dev"]\n')),
    "a relative host path": ("HOST:CONTAINER", service(WEB + 'volumes = ["srv:/x"]\n')),
    "a policy outside": ("is not a file in policies/", policy("policies/../../etc/passwd")),
    "an absolute policy": ("is not a file in policies/", policy("/etc/passwd")),
    "an include": ("unknown key", service('include = "/etc/passwd"\n' + WEB)),
    "YAML": ("end in .toml", service("!!python/object/apply:os.system ['id']", "web.yaml")),
    "a hub that is a file": ("must be the address of the hub", setting('hub = "file:///etc/passwd"')),
    "a hub with a password": ("must be the address of the hub", setting('hub = "https://a:b@c"')),
    "an overlay that is no network": ("is not a network", setting('overlay_cidr = "everything"')),
    # nothing
    "an empty fleet.toml": ("is empty", in_fleet("")),
    "an empty directory": ("is empty", emptied),
    "no directory": ("does not exist", shutil.rmtree),
}


def fleet(root: Path) -> Path:
    (root / "services").mkdir(parents=True)
    (root / "fleet.toml").write_text(FLEET)
    (root / "services" / "good.toml").write_text(WEB)
    return root


# The kernel counts the memory of whoever forks into the child's peak, and a test runner may be large by now: so a small
# process in between starts the command, and tells its peak.
BETWEEN = """
import os, sys
pid = os.posix_spawnp(sys.argv[2], sys.argv[2:], os.environ)
_, status, usage = os.wait4(pid, 0)
with open(sys.argv[1], "w") as told:
    told.write(str(usage.ru_maxrss))
sys.exit(os.waitstatus_to_exitcode(status) % 256)
"""


def run(root: Path, scratch: Path, prefix: tuple[str, ...] = ()) -> tuple[int, str, int]:
    """Exit code, what was said, and the most memory it had, in KiB."""
    between = (sys.executable, "-S", "-E", "-c", BETWEEN, str(scratch / "peak"))
    environment = {"PYTHONPATH": SOURCE, "PATH": "/usr/bin:/bin", "HOME": str(scratch), "PYTHONDONTWRITEBYTECODE": "1"}
    watch = Stopwatch()
    with (scratch / "said").open("wb") as said:
        child = subprocess.Popen(
            [*between, *prefix, sys.executable, "-P", "-c", LOAD, str(root)],
            stdout=said,
            stderr=said,
            env=environment,
            start_new_session=True,
        )
        try:
            child.wait(STRETCH_MAX * SECONDS_MAX)
            assert watch.within(SECONDS_MAX), watch
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            pytest.fail(f"still running after {SECONDS_MAX} s")
    return child.returncode, (scratch / "said").read_text(), int((scratch / "peak").read_text())


@pytest.mark.parametrize("case", CASES)
def test_a_hostile_directory_is_refused_in_words_s11(case: str, tmp_path: Path) -> None:
    expected, prepare = CASES[case]
    root = fleet(tmp_path / "fleet")
    prepare(root)
    code, said, memory_kib = run(root, tmp_path)
    shutil.rmtree(root, ignore_errors=True)
    assert "Traceback" not in said
    assert (code, expected in said) == (2, True), said[:2000]
    assert "remedy: " in said and said.replace("…", "").isascii()
    assert memory_kib <= KIB_MAX


def test_there_are_at_least_forty_hostile_directories_s11() -> None:
    assert len(CASES) >= 40


@pytest.mark.parametrize(
    "content", [WEB.replace("\n", "\r\n"), WEB + 'cmd = ["\\u202e"]\n', "# é\n" + WEB], ids=["CRLF", "RTL", "é"]
)
def test_what_only_looks_hostile_is_loaded(content: str, tmp_path: Path) -> None:
    root = fleet(tmp_path / "fleet")
    service(content)(root)
    assert run(root, tmp_path)[:2] == (0, "")


OPEN = re.compile(r'\b(?:open|openat|openat2)\((?:(AT_FDCWD|\d+)(?:<([^>]*)>)?, )?"([^"]*)"')


def test_nothing_outside_the_directory_is_opened_s11(tmp_path: Path) -> None:
    root = fleet(tmp_path / "fleet")
    for case in ("a service is a link to /etc/shadow", "a policy is a link to /etc/shadow", "a policy outside"):
        CASES[case][1](root)
    link("guests", "/etc")(root)
    (root / "examples").symlink_to("/etc")
    trace = tmp_path / "trace"
    code, said, _ = run(root, tmp_path, ("strace", "-f", "-y", "-e", "trace=open,openat,openat2", "-o", str(trace)))
    assert code == 2, said
    calls = [found.groups() for found in map(OPEN.search, trace.read_text().splitlines()) if found]
    inside = [(at, name) for _, at, name in calls if at and at.startswith(str(root))]
    assert ("/".join((str(root), "services")), "good.toml") in inside
    assert [name for _, name in inside if "/" in name or name in ("..", "web.toml", "p.cedar")] == []
    interpreter = (sys.prefix, sys.base_prefix, "/usr/", "/lib", "/etc/ld.so.", "/etc/localtime", SOURCE, "/proc/self/")
    outside = [name for _, at, name in calls if not (at and at.startswith(str(root)))]
    assert [name for name in outside if name != str(root) and not name.startswith(interpreter)] == []
