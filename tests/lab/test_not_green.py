"""Ways to be not green: status, ps, edge list, edge status, apply and alerts call none of them well (issue 14).

The truth is shown within 15 seconds. Ways that come with a deployment are tried all at once here; those that befall a
service later are here if they are its own, and in test_traffic_faults.py if proxies, names, nodes and networks are
(a hanging proxy, silent DNS, a cut, a dead node, an edge that is dead or cut off). test_traffic_certificates.py has the
certificate that cannot be renewed, test_green.py the service that an order holds.
"""

from __future__ import annotations

import json

import pytest

from tests.fleets.traffic_scene import TrafficScene
from tests.fleets.truth import Verdicts, alarms_of, none_calls_it_well
from tests.fleets.waiting import wait_until

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

SHELL = "ARG REGISTRY\nFROM $REGISTRY/hello:1\nENTRYPOINT []\n"
FOREVER = "sleep 10000"
REMOVALS_MAX = 3  # the fleet's own limit


@pytest.fixture(scope="module")
def scene(traffic_lab: TrafficScene, tmp_path_factory: pytest.TempPathFactory) -> TrafficScene:
    folder = tmp_path_factory.mktemp("shell")
    (folder / "Containerfile").write_text(SHELL)
    traffic_lab.made.lab("image", "build", str(folder), "--name", "shell:1").ok()
    for name in {row["name"] for row in traffic_lab.run("ps", "--json").ok().json["services"]}:
        if not (traffic_lab.fleet / "services" / f"{name}.toml").exists():  # another file of tests removed its file
            traffic_lab.run("undeploy", name, "--yes", "--detach").ok()
    return traffic_lab


def shell(scene: TrafficScene, script: str, *more: str, port: int | None = None, health: str = "") -> str:
    image, command = f"{scene.registry}/shell:1", json.dumps(["sh", "-c", script])
    lines = ['node = "w1"', "[[components]]", 'name = "web"', f'image = "{image}"', f"cmd = {command}"]
    lines += [f'health = {{ {health}, start_period = "4s" }}'] if health else []
    route = ["[[components.routes]]", 'name = "http"', f"port = {port}", "public = true"] if port else []
    return "\n".join([*lines, *more, *route]) + "\n"


def ways(scene: TrafficScene) -> dict[str, str]:
    """name → its declaration. Each is planned and accepted; none of them works."""
    http = 'type = "http", path = "/health"'
    return {
        "nothing-listens": shell(scene, FOREVER, port=9999),
        "elsewhere": shell(scene, "/bin/hello", port=8080, health=f"{http}, port = 8081"),
        "another-port": shell(scene, "/bin/hello", port=9999, health=f"{http}, port = 8080"),
        "not-found": shell(scene, "/bin/hello", port=8080, health='type = "http", path = "/no/such/page", port = 8080'),
        "no-grpc": shell(scene, "/bin/hello", health='type = "grpc", port = 8080'),
        "exec-says-no": shell(scene, FOREVER, health='type = "exec", cmd = ["false"]'),
        "exec-hangs": shell(scene, FOREVER, health='type = "exec", cmd = ["sleep", "60"], timeout = "500ms"'),
        "ends-at-once": shell(scene, "echo no such table >&2; exit 7", port=8080),
        "ends-well": shell(scene, "exit 0"),
        "ends-later": shell(scene, "sleep 2.5; exit 3"),
        "no-memory": shell(scene, "x=a; while :; do x=$x$x; done", 'resources = { memory = "24Mi" }'),
        "no-command": shell(scene, FOREVER).replace('"sh"', '"no-such-program"'),
        "bad-hook": shell(scene, FOREVER, 'hooks = { pre_deploy = ["sh", "-c", "exit 9"] }'),
        "no-secret-user": shell(scene, FOREVER, 'user = "no-such-user"'),
    }


def test_what_is_deployed_and_does_not_work_is_called_well_by_no_command(scene: TrafficScene) -> None:
    """N15, N16, N20, N108, M-44: fourteen ways at once. None is called well, also when the same is applied again; each
    has an alarm."""
    wanted = ways(scene)
    before = len(scene.ear.heard)
    for name, text in wanted.items():
        scene.write(name, text)
    try:
        first = scene.run("apply", "--yes", "--json")
        assert first.code == 1 and first.json["success"] is False, first
        none_calls_it_well(scene, *wanted)
        again = scene.run("apply", "--yes", "--json")
        assert again.code == 1 and not [name for name in wanted if f"https://{name}." in again.err], again
        missing = alarms_of(scene, *wanted)
        wait_until(lambda: not missing(), lambda: f"no alarm for {missing()}")
        heard = [(code, about) for code, about in scene.ear.heard[before:] if about.removeprefix("service.") in wanted]
        ended = [(code, about) for code, about in heard if code in ("rollout_recovered", "service_healthy")]
        assert not [one for one in ended if one[1] != "service.ends-later"], heard
    finally:
        for at in range(0, len(wanted), REMOVALS_MAX):
            leaving = list(wanted)[at : at + REMOVALS_MAX]
            for name in leaving:
                (scene.fleet / "services" / f"{name}.toml").unlink(missing_ok=True)
            scene.run("apply", "--yes", "--detach", "--allow-removals", str(len(leaving)))
    wait_until(lambda: not [row for row in Verdicts(scene).rows if row["name"] in wanted], "they are gone")
