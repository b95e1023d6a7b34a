"""A remedy that names a command works when the command is pasted.

Each row makes a mistake, reads the remedy that is printed, and pastes the commands in it; words in capitals are filled
in as the row says. Every remedy of the source with a command has a row, or a reason in LEFT_OUT. Besides, every command
of Holdfast in any remedy is pasted once into a fleet where it makes sense, or has a reason in NOT_HERE.
"""

import re
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
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
FIRST = "`holdfast apply` makes the first revision"
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
    Row(FIRST, "holdfast history show 1", heals=True),
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
        "import ledger fills an empty one: holdfast hub init --trust FINGERPRINT --state-dir DIR",
        f"{APPLY}\nholdfast import ledger --state-dir .ledger",
        "FINGERPRINT=$ID DIR=~/hub",
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
    Row("`holdfast --help` lists the commands that are built", "holdfast migrate web"),
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


# ---- every remedy has a row or a reason

AGENT = "an agent on its machine says it: tests/lab and tests/scenarios run agents"
MACHINE = "names a program or a service of the machine"
HUB = "a running hub says it: its commands are pasted below or have a reason there"
LAB = "a lab says it, and tests/lab runs labs"
DAMAGE = "needs damaged bytes or an impostor; its commands are pasted below or have a reason there"
STREAM = "needs a hub that relays streams: tests/scenarios/test_logs.py"
ORDER = "needs a hub that takes orders: tests/specs/cli/test_order_verbs.py"
TOUCH = "needs a security key or a person who types"
RUN = "needs a node that runs containers: tests/lab/test_schedules.py"
MORE = "one of several that a branch can give: the scan joins them"

LEFT_OUT = {  # module or folder → why its remedies are not provoked here
    "adapters": MACHINE,
    "agent": AGENT,
    "cli.agent": AGENT,
    "cli.hub.audit": HUB,
    "cli.hub.tokens": HUB,
    "cli.lab": LAB,
    "cli.logs": STREAM,
    "cli.nodes.node_invite": HUB,
    "cli.orders": ORDER,
    "cli.schedules": RUN,
    "cli.services.orders": ORDER,
    "cli.services.purge": ORDER,
    "cli.waiting": HUB,
    "gate": AGENT,
    "hub": HUB,
    "lab": LAB,
    "ledger": DAMAGE,
    "model": DAMAGE,
    "planning.identity": HUB,
    "planning.plan": "needs an edge: tests/specs/planning/test_edges.py",
    "planning.secrets": HUB,
    "planning.unsound": DAMAGE,
    "ports.runtime": MACHINE,
    "status": HUB,
    "trust": DAMAGE,
    "wire": DAMAGE,
}
PASTED_ROOMS = ("adapters.signer.keyfile", "adapters.fleet_directory")  # in spite of LEFT_OUT
LEFT_OUT_TEXTS = {  # beginning of a remedy → why
    "give yourself read access": "tests run as root, who may read everything",
    "write its public half again": TOUCH,
    "sudo chown": "tests run as root, who may read everything",
    "convert it to the OpenSSH format": TOUCH,
    "create another: ssh-keygen": TOUCH,
    "`holdfast history` shows what is applied; plan again": HUB,
    "get the fleet.lock of this fleet": DAMAGE,
    "restore the fleet.lock of this fleet": DAMAGE,
    "get the fleet.lock that belongs": HUB,
    "`holdfast validate` shows where": HUB,
    "write the line that `holdfast hub check` prints": HUB,
    "create one (`ssh-keygen": TOUCH,
    "delete the file and create it again": DAMAGE,
    "get the newest fleet.lock": DAMAGE,
    "do not apply; run `holdfast hub check`": DAMAGE,
    f"`holdfast sign {HOLE} --hub URL` verifies it": HUB,
    "`holdfast hub run` serves it": "a server does not end",
    f"remove {HOLE} from fleet.toml; `holdfast plan": "needs two signatures, as rows of plans above",
    f"did you mean {HOLE}? public hostnames": MORE,
    f"did you mean {HOLE}? services are: none": MORE,
    "use another one with --identity FILE": "a colleague's identity opens it",
    "load the key into ssh-agent first": TOUCH,
    "repeat the command and type it": TOUCH,
    "run the command again with another output": "needs a full disk: tests/lab/test_io_errors.py",
    "restore it from version control, or remove it and run": "a problem of a file, printed with its line",
    f"holdfast secret set {HOLE}; or": "a problem of a file, printed with its line",
}


def pattern(remedy: Remedy) -> str:
    """What a remedy of the source can be when it is printed."""
    return ".*".join(map(re.escape, re.split(f"{HOLE}+", remedy.text)))


def is_pasted(remedy: Remedy) -> bool:
    return any(re.fullmatch(pattern(remedy), row.remedy) for row in (*ROWS, *HUB_ROWS))


def reason(remedy: Remedy) -> str:
    """Why it is not pasted; "" if there is none."""
    room = remedy.place.partition(":")[0]
    texts = [why for start, why in LEFT_OUT_TEXTS.items() if remedy.text.startswith(start)]
    rooms = [why for left, why in LEFT_OUT.items() if f"{room}.".startswith(f"{left}.")]
    return (texts or ([] if room.startswith(PASTED_ROOMS) else rooms) or [""])[0]


def test_every_remedy_with_a_command_is_pasted_or_has_a_reason_why_not() -> None:
    found = [remedy for remedy in remedies() if commands(remedy.text)]
    left = [remedy for remedy in found if not is_pasted(remedy)]
    print(f"{len(found)} remedies with commands, {len(left)} not provoked here:")  # pytest -s shows it
    print("\n".join(f"{one.place}: {one.text}  ({reason(one)})" for one in left))
    assert [f"{one.place}: {one.text}" for one in left if not reason(one)] == []


def test_every_reason_is_still_needed() -> None:
    found = [remedy for remedy in remedies() if commands(remedy.text)]
    rooms = {remedy.place.partition(":")[0] + "." for remedy in found}
    assert [left for left in LEFT_OUT if not any(room.startswith(f"{left}.") for room in rooms)] == []
    assert [start for start in LEFT_OUT_TEXTS if not any(one.text.startswith(start) for one in found)] == []


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
    "holdfast rollback N": f"{CHANGE}\n{APPLY}",
    "holdfast secret rotate {}": "holdfast secret set pw",
    "holdfast secret rotate {} --keep": "holdfast secret set pw",
    "holdfast sign FILE --key KEY": SAVED,
    "holdfast sign change.plan --key KEY": f"{SAVED}\nmv x.plan change.plan",
    "holdfast sign {} --key KEY": SAVED,
}
VALUES = {  # first words of a command → what its {} is
    "node": "w1", "secret": "pw", "init": "~/new", "sign": "x.plan", "apply {}": "x.plan", "hub": "~/hub",
    "apply --hub": "~/hub", "plan --fleet": ".", "plan -o": "x.plan",
}  # fmt: skip
WORDS = (
    f"NODE=w1 NAME=w1 SERVICE=web FILE=x.plan KEY=~/{KEY} FINGERPRINT=$ID DIR=~/hub HOST=h1 N=1 "
    "ACTION=ping TARGET=node.w1"
)
NOT_HERE = {  # beginning of a command → why it is not pasted here; its usage is tested with all others
    "holdfast lab": LAB,
    "holdfast agent": AGENT,
    "holdfast hub run": "a server does not end",
    "holdfast logs": STREAM,
    "holdfast order list": ORDER,
    "holdfast order sign --node": ORDER,
    "holdfast order submit": ORDER,
    "holdfast sign {}-{}.order": ORDER,
    "holdfast sign {} --hub": HUB,
    "holdfast restart": ORDER,
    "holdfast start": ORDER,
    "holdfast {}": ORDER,
    "holdfast schedule logs": RUN,
    "holdfast schedule run": RUN,
    "holdfast purge": ORDER,
    "holdfast token": "needs a hub over HTTP: tests/specs/cli/test_token_verbs.py",
    "holdfast edge status {}": "needs a public hostname: tests/specs/cli/test_edge_verbs.py",
    "holdfast import ledger": "needs nodes to ask: tests/scenarios/test_fleet_requirements.py",
}


def distinct() -> list[str]:
    """Commands of Holdfast in remedies, each once; {} is a value, and flags that were given are left out."""
    found = (part for remedy in remedies() for command in commands(remedy.text) for part in chain(command))
    plain = (re.sub(rf"\{{\w+\}}|{HOLE}+", "{}", one) for one in found if one.startswith("holdfast "))
    return sorted({re.sub(r"(?<=[a-z])\{\}$", "", one) for one in plain})


def value_of(command: str) -> str:
    rest = command.removeprefix("holdfast ")
    return next((value for start, value in VALUES.items() if rest.startswith(start)), "web")


OF_A_HUB = ("holdfast audit", "holdfast ca bundle", "holdfast node invite", "holdfast node revoke")


@pytest.mark.parametrize("command", [one for one in distinct() if one.startswith(OF_A_HUB)])
def test_a_command_of_a_remedy_works_with_a_hub(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    is_new = command.startswith("holdfast node invite") and "--replace" not in command

    def story(person: Seat) -> None:
        line = filled(command.replace("{}", "NAME"), f"NAME={'w2' if is_new else 'w1'} KEY=none")
        assert (done := person.run(line)).code == 0, done

    with_a_hub(tmp_path, monkeypatch, story)


@pytest.mark.parametrize("command", [one for one in distinct() if not one.startswith((*NOT_HERE, *OF_A_HUB))])
def test_a_command_of_a_remedy_works_in_a_fleet(command: str, here: Seat) -> None:
    assert here.run(APPLY).code == 0
    fleet_id = here.fleet_id()
    line = command.replace("--trust {}", "--trust $ID").replace("{}", value_of(command))
    for one in PREPARED.get(command, "").splitlines():
        assert (done := here.run(one.replace("$ID", fleet_id))).code == 0, (one, done)
    done = here.run(filled(line, WORDS).replace("$ID", fleet_id))
    assert done.code == 0, done


def test_every_reason_why_a_command_is_not_pasted_is_still_needed() -> None:
    assert [start for start in NOT_HERE if not any(one.startswith(start) for one in distinct())] == []
    assert [one for one in PREPARED if one not in distinct()] == []
