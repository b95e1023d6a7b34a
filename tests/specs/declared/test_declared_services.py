"""Service files: M-35, M-36, M-40, M-41, M-42, C-23, 2.E."""

import pytest
from msgspec import UNSET

from holdfast.model.fleet import Resources, Route, Service, Volume
from tests.specs.declared.declared_fleets import (
    BASE,
    WEB,
    fleet_of,
    lines_of,
    only_problem,
    problems_of,
    with_service,
)


def the_service(text: str) -> Service:
    return fleet_of(with_service(text)).services["web"]


def test_a_full_v1_service_file_is_read_key_by_key_m40() -> None:
    service = the_service("""\
name = "web"
tier = "core"
node = "hub1"
active = false
[[components]]
name = "api"
image = "registry.test/web:1"
volumes = ["/srv/web:/data"]
cmd = ["serve", "--port", "80"]
[[components.routes]]
name = "http"
port = 80
mode = "l4"
hostname = "www.example.test"
public = true
[snapshot]
method = "grpc"
exclude = ["cache"]
""")
    assert (service.name, service.tier, service.node, service.active) == ("web", "core", "hub1", False)
    assert service.components[0].volumes == ("/srv/web:/data",)
    assert service.components[0].cmd == ("serve", "--port", "80")
    assert service.components[0].routes == (Route("http", 80, "l4", "www.example.test", True),)
    assert service.snapshot is not UNSET and service.snapshot.exclude == ("cache",)


def test_a_service_with_neither_tier_nor_node_is_for_a_worker_m35_m42() -> None:
    service = the_service(WEB)
    assert (service.tier, service.node) == ("worker", UNSET)


def test_a_v1_file_with_only_a_node_keeps_working_and_the_pin_stands_beside_the_default_tier_m36_m42() -> None:
    service = the_service('node = "hub1"\n' + WEB)
    assert (service.tier, service.node) == ("worker", "hub1")


def test_a_route_is_internal_unless_it_says_public_m41() -> None:
    service = the_service(WEB + '[[components.routes]]\nname = "http"\nport = 80\n')
    assert service.components[0].routes[0].public is False


def test_one_public_route_without_a_hostname_is_named_after_its_service_and_a_second_is_refused_m41_m134() -> None:
    route = '[[components.routes]]\nname = "http"\nport = 80\npublic = true\n'
    assert the_service(WEB + route).components[0].routes[0].hostname is UNSET
    found = problems_of(with_service(WEB + route + route.replace("http", "more")))
    assert [(one.line, one.key) for one in found] == [
        (4, "components[0].routes[0].hostname"),
        (8, "components[0].routes[1].hostname"),
    ]
    assert "only one can have its name" in found[0].what


@pytest.mark.parametrize("stem", ["Web", "9web", "-rf", "--privileged", "w" * 41, "web\n", "wéb", "w b", "a..", "a.b"])
def test_a_file_name_that_is_not_a_name_is_refused_d27(stem: str) -> None:
    (line,) = lines_of({**BASE, f"services/{stem}.toml": WEB.encode()})
    assert "cannot be the name of a service; rename the file" in line
    assert "\n" not in line and line.isascii()


def test_a_name_key_must_repeat_the_file_name_m40() -> None:
    assert only_problem(with_service('name = "wob"\n' + WEB)) == (
        "services/web.toml",
        1,
        "name",
        'is "wob", but the file is named "web"',
        "remove the key, or rename the file",
    )


def test_a_misspelt_key_is_named_with_its_line_and_the_nearest_key() -> None:
    text = '[[components]]\nname = "web"\nimge = "registry.test/web:1"\n'
    assert lines_of(with_service(text)) == [
        'services/web.toml:3: components[0].imge: unknown key; did you mean "image"?'
    ]


def test_an_unknown_key_with_no_neighbour_lists_the_keys_there_are() -> None:
    *_, what, remedy = only_problem(with_service("zzzzzz = 1\n" + WEB))
    assert what == "unknown key"
    assert "components" in remedy and "failover" in remedy


def test_a_missing_key_points_at_the_header_of_its_table() -> None:
    assert only_problem(with_service('\n[[components]]\nname = "web"\n'))[:4] == (
        "services/web.toml",
        2,
        "components[0].image",
        "missing key",
    )


def test_an_empty_service_file_lacks_its_components() -> None:
    assert only_problem(with_service(""))[2:4] == ("components", "missing key")


@pytest.mark.parametrize(
    ("line", "key", "expected"),
    [
        ('replicas = "2"', "replicas", 'must be a whole number from 1 to 32, not the string "2"'),
        ("replicas = 33", "replicas", "must be a whole number from 1 to 32, not 33"),
        ("replicas = true", "replicas", "must be a whole number from 1 to 32, not true"),
        ("replicas = 1.5", "replicas", "must be a whole number from 1 to 32, not 1.5"),
        ("replicas = nan", "replicas", "must be a whole number from 1 to 32, not nan"),
        ("replicas = inf", "replicas", "must be a whole number from 1 to 32, not inf"),
        ("replicas = 9007199254740993", "replicas", "must be a whole number from 1 to 32, not 9007199254740993"),
        ("replicas = 2020-01-01", "replicas", "must be a whole number from 1 to 32, not a date or a time"),
        ("cmd = 07:32:00", "cmd", "must be a list of strings, not a date or a time"),
        ('cmd = "serve"', "cmd", 'must be a list of strings, not the string "serve"'),
        ("cmd = [1]", "cmd[0]", "must be a string, not 1"),
        ("env = []", "env", "must be a table of strings, not a list"),
        ("env = {A = 1}", "env.A", "must be a string, not 1"),
        ("routes = {}", "routes", "must be a list of tables, not a table"),
        ('cmd = ["\\u0000"]', "cmd[0]", "holds a NUL character"),
    ],
)
def test_a_wrong_value_is_refused_in_words(line: str, key: str, expected: str) -> None:
    found = only_problem(with_service(WEB + line + "\n"))
    assert found[:4] == ("services/web.toml", 4, f"components[0].{key}", expected)


@pytest.mark.parametrize(
    "image",
    ["web 1", "--privileged", "-v/:/host", "web;rm -rf", "UPPER/web", "web:1\\n", "", "web@sha256:12", "$(id)"],
)
def test_an_image_that_is_not_an_image_is_refused_s11(image: str) -> None:
    found = only_problem(with_service(f'[[components]]\nname = "web"\nimage = "{image}"\n'))
    assert found[:3] == ("services/web.toml", 3, "components[0].image")
    assert found[3].startswith("must be an image such as")


def test_a_text_over_its_length_is_refused_with_the_limit() -> None:
    assert only_problem(with_service(WEB + f'cmd = ["a", "{"x" * 4_097}"]\n')) == (
        "services/web.toml",
        4,
        "components[0].cmd[1]",
        "is 4,097 characters long",
        "at most 4,096 are allowed",
    )


def test_a_value_from_a_list_is_refused_with_the_nearest_one() -> None:
    assert lines_of(with_service('tier = "wroker"\n' + WEB)) == [
        'services/web.toml:1: tier: must be "core" or "worker", not "wroker"; did you mean "worker"?'
    ]


@pytest.mark.parametrize(
    ("written", "meant"), [("0.5", "0.5"), ("2", "2"), ("2.0", "2"), ('"0.5"', "0.5"), ("0.25", "0.25")]
)
def test_cpu_may_be_written_as_a_number_and_becomes_its_decimal_text(written: str, meant: str) -> None:
    service = the_service(WEB + f"[components.resources]\ncpu = {written}\n")
    assert service.components[0].resources == Resources(cpu=meant)


@pytest.mark.parametrize("written", ["-1", "nan", "inf", "1e-7", "true", '"half"', "123456789012345678901234567890"])
def test_cpu_must_be_a_sensible_number(written: str) -> None:
    found = only_problem(with_service(WEB + f"resources = {{ cpu = {written} }}\n"))
    assert found[:3] == ("services/web.toml", 4, "components[0].resources.cpu")
    assert found[3].startswith("must be a number of processors such as 2 or 0.5")


def test_a_pin_to_an_unknown_node_names_the_nearest_one_m36() -> None:
    assert lines_of(with_service('node = "hub2"\n' + WEB)) == [
        'services/web.toml:1: node: there is no node "hub2"; did you mean "hub1"?'
    ]


def test_a_failover_to_an_unknown_node_names_the_nearest_one() -> None:
    assert lines_of(with_service('failover = ["hub1", "huub"]\n' + WEB)) == [
        'services/web.toml:1: failover[1]: there is no node "huub"; did you mean "hub1"?'
    ]


@pytest.mark.parametrize("line", ['node = "edge1"', 'failover = ["edge1"]'])
def test_an_edge_only_node_is_refused_as_a_home_c23(line: str) -> None:
    found = only_problem(with_service(line + "\n" + WEB))
    assert found[:2] == ("services/web.toml", 1)
    assert 'node "edge1" has only the role edge' in found[3]


def test_two_services_claiming_one_hostname_is_one_problem_that_names_both_files_2e() -> None:
    route = '[[components.routes]]\nname = "http"\nport = 80\nhostname = "www.example.test"\npublic = true\n'
    files = {**with_service(WEB + route), "services/api.toml": (WEB + route).encode()}
    assert only_problem(files) == (
        "services/web.toml",
        7,
        "components[0].routes[0].hostname",
        'services/web.toml and services/api.toml both claim "www.example.test"',
        "give one of them another hostname",
    )


def test_names_of_components_routes_and_volumes_occur_once_per_service() -> None:
    inner = """\
[[components.routes]]
name = "http"
port = 80
[[components.volumes]]
name = "data"
path = "/data"
protect = "none"
"""
    assert lines_of(with_service((WEB + inner) * 2)) == [
        'services/web.toml:12: components[1].name: "web" is already the name of another component of this service; '
        "rename one of them",
        'services/web.toml:15: components[1].routes[0].name: "http" is already the name of another route of this '
        "service; rename one of them",
        'services/web.toml:18: components[1].volumes[0].name: "data" is already the name of another volume of this '
        "service; rename one of them",
    ]


def test_a_volume_table_is_read_and_may_lie_on_a_storage_target() -> None:
    service = the_service(WEB + 'volumes = [{name = "d", path = "/d", protect = "own:tank", class = "slow"}]\n')
    assert service.components[0].volumes == (Volume("d", "/d", "own:tank", "slow"),)


def test_a_volume_without_protect_is_told_what_the_three_choices_mean() -> None:
    found = only_problem(with_service(WEB + 'volumes = [{name = "data", path = "/data"}]\n'))
    assert found[:4] == ("services/web.toml", 4, "components[0].volumes[0].protect", "missing key")
    for choice in (
        '"backup" (the whole volume is backed up)',
        '"own:NAME"',
        '"none" (it may be lost)',
    ):
        assert choice in found[4]


def test_a_volume_on_an_unknown_storage_target_names_the_nearest_one() -> None:
    found = only_problem(with_service(WEB + 'volumes = [{name = "d", path = "/d", protect = "own:tnak"}]\n'))
    assert found[2:] == (
        "components[0].volumes[0].protect",
        'there is no storage target "tnak"',
        'did you mean "own:tank"?',
    )


@pytest.mark.parametrize("volume", ["/srv/../etc:/x", "/srv//x:/x", "/srv/./x:/x", "/srv/x:/x/../y", "/srv/x/..:/x"])
def test_a_path_that_hides_where_it_leads_is_refused_s11(volume: str) -> None:
    found = only_problem(with_service(WEB + f'volumes = ["{volume}"]\n'))
    assert found[:3] == ("services/web.toml", 4, "components[0].volumes[0]")
    assert "has empty, . or .. parts" in found[3]


@pytest.mark.parametrize(
    "text",
    [
        'volumes = ["/srv/web:/all", "/srv/web/sub:/sub"]\n',
        'volumes = ["/srv/web:/all"]\n[[components]]\nname = "b"\nimage = "registry.test/b:1"\n'
        'volumes = [{ name = "files", path = "/data", protect = "none" }]\n',
    ],
)
def test_nothing_is_mounted_from_inside_what_a_container_has_s10(text: str) -> None:
    """It could put a link there, and the next start would follow it out of the service's data (tried with podman)."""
    found = only_problem(with_service(WEB + text))
    assert "is mounted from inside" in found[3] and "two separate directories" in found[4]


@pytest.mark.parametrize("volume", ["srv/x:/x", "/srv/x", "/a:/b:/c", "/a:b", "/a\\n:/b"])
def test_a_volume_string_is_two_absolute_paths(volume: str) -> None:
    assert "HOST:CONTAINER" in only_problem(with_service(WEB + f'volumes = ["{volume}"]\n'))[3]


def test_a_volume_that_is_neither_table_nor_string_is_refused() -> None:
    assert only_problem(with_service(WEB + "volumes = [7]\n"))[3].endswith('such as "/srv/web:/data", not 7')


ONE_ROUTE = '[[components.routes]]\nname = "http"\nport = 8080\n'


def test_an_http_check_asks_for_the_root_on_the_port_of_the_only_route() -> None:
    health = the_service(WEB + ONE_ROUTE + '[components.health]\ntype = "http"\n').components[0].health
    assert health is not UNSET and (health.path, health.port) == ("/", 8080)


def test_a_health_check_keeps_what_was_written() -> None:
    text = WEB + ONE_ROUTE + '[components.health]\ntype = "http"\npath = "/up"\nport = 81\n'
    health = the_service(text).components[0].health
    assert health is not UNSET and (health.path, health.port) == ("/up", 81)


@pytest.mark.parametrize("kind", ["http", "tcp", "grpc"])
@pytest.mark.parametrize(
    ("routes", "why"), [("", "there is no route"), (ONE_ROUTE + ONE_ROUTE.replace("http", "b"), "2 routes")]
)
def test_a_health_check_without_a_port_needs_exactly_one_route(kind: str, routes: str, why: str) -> None:
    text = WEB + routes + f'[components.health]\ntype = "{kind}"\n'
    file, line, key, what, remedy = only_problem(with_service(text))
    assert (file, line, key) == ("services/web.toml", text.count("\n") - 1, "components[0].health.port")
    assert why in what and remedy == "add port = NUMBER"


@pytest.mark.parametrize("beside", [ONE_ROUTE, '[components.health]\ntype = "exec"\ncmd = ["true"]\n'])
def test_settle_has_no_effect_beside_a_route_or_a_check_n16(beside: str) -> None:
    assert the_service(WEB + 'settle = "9s"\n').components[0].settle == "9s"
    found = only_problem(with_service(WEB + 'settle = "9s"\n' + beside))
    assert found[2] == "components[0].settle" and "has no effect" in found[3] and found[4] == "remove settle"


def test_the_time_to_end_has_a_limit_n46() -> None:
    assert the_service(WEB + 'stop_timeout = "4m"\n').components[0].stop_timeout == "4m"
    found = only_problem(with_service(WEB + 'stop_timeout = "241s"\n'))
    assert found[2] == "components[0].stop_timeout" and found[4] == 'write at most "4m"'


def test_an_exec_check_needs_its_command() -> None:
    found = only_problem(with_service(WEB + '[components.health]\ntype = "exec"\n'))
    assert found[1:3] == (4, "components[0].health.cmd")


def test_a_health_check_does_not_complain_about_a_route_that_was_refused_already() -> None:
    text = WEB + '[[components.routes]]\nname = "http"\nport = 0\n[components.health]\ntype = "tcp"\n'
    assert only_problem(with_service(text))[2] == "components[0].routes[0].port"


def test_a_service_may_have_64_components_and_not_one_more() -> None:
    many = "".join(f'[[components]]\nname = "c{at}"\nimage = "a"\n' for at in range(65))
    assert only_problem(with_service(many))[3] == "must have 1 to 64 entries, not 65"


def test_a_user_is_written_as_podman_reads_it_n13() -> None:
    for value in ("1000", "1000:1000", "grafana", "www-data:www-data", "root"):
        assert the_service(WEB + f'user = "{value}"\n').components[0].user == value
    for value in ("", "a b", "1000:", ":5", "-x", "a:b:c"):
        file, line, where, what, _ = only_problem(with_service(WEB + f'user = "{value}"\n'))
        assert (file, line, where) == ("services/web.toml", 4, "components[0].user") and "USER or USER:GROUP" in what


@pytest.mark.parametrize("value", ["1000", "grafana:5", "01:1", "1:-1", "1234567890:1", ""])
def test_an_owner_is_two_numbers_n13(value: str) -> None:
    volume = '[[components.volumes]]\nname = "book"\npath = "/data"\nprotect = "none"\n'
    file, line, where, what, _ = only_problem(with_service(WEB + volume + f'owner = "{value}"\n'))
    assert (file, line, where) == ("services/web.toml", 8, "components[0].volumes[0].owner")
    assert "the numbers of a user and of a group" in what
    assert the_service(WEB + volume + 'owner = "1000:0"\n').components[0].volumes[0].owner == "1000:0"  # type: ignore[union-attr]


def test_a_directory_is_a_volume_or_scratch_and_not_both_n14() -> None:
    volume = '[[components.volumes]]\nname = "book"\npath = "/data"\nprotect = "none"\n'
    assert the_service(WEB + 'scratch = ["/cache"]\n' + volume).components[0].scratch == ("/cache",)
    found = only_problem(with_service(WEB + 'scratch = ["/cache", "/data"]\n' + volume))
    assert found[:3] == ("services/web.toml", 4, "components[0].scratch[1]") and "is a volume" in found[3]
    found = only_problem(with_service(WEB + 'scratch = ["/a/../b"]\n'))
    assert found[2] == "components[0].scratch[0]"
