"""fleet.toml: operators, thresholds, nodes, storage, addresses, what is not built yet; names as in D27, S11."""

import pytest

from holdfast.adapters.fleet_directory.memory import MemoryFleetDirectory
from holdfast.declared.hub_address import hub_of
from holdfast.errors import Invalid
from tests.fleets.authenticator import Authenticator
from tests.specs.declared.declared_fleets import (
    BASE,
    FLEET,
    fleet_of,
    key_line,
    lines_of,
    only_problem,
    problems_of,
    with_fleet,
)

SECOND = '[[operators]]\nname = "{name}"\ngrade = "{grade}"\nkey = "{key}"\n'


def operator(name: str = "ben", grade: str = "apply", key: str = key_line(2)) -> str:
    return SECOND.format(name=name, grade=grade, key=key)


def test_a_plain_fleet_file_is_read() -> None:
    fleet = fleet_of(BASE)
    assert fleet.settings.name == "home"
    assert [one.name for one in fleet.operators] == ["ada"]
    assert list(fleet.nodes) == ["edge1", "hub1"]
    assert list(fleet.storage) == ["tank"]
    assert (fleet.thresholds.root, fleet.backups.interval, fleet.timeouts.deploy) == (1, "24h", "5m")


@pytest.mark.parametrize("table", ["boot"])
def test_a_table_whose_feature_is_not_built_yet_is_refused_with_a_sentence(table: str) -> None:
    found = only_problem(with_fleet(FLEET + f"[[{table}]]\nx = 1\n"))
    assert found[:3] == ("fleet.toml", FLEET.count("\n") + 1, table)
    assert found[3].startswith("not built yet: ")


@pytest.mark.parametrize(
    ("table", "what"),
    [
        (operator("ada", key=key_line(3)), "operator"),
        ('[[nodes]]\nname = "hub1"\nroles = ["worker"]\n', "node"),
        ('[[storage]]\nname = "tank"\ntype = "usb"\ndurable_id = "x"\n', "storage target"),
    ],
)
def test_a_name_used_twice_is_refused_where_it_is_used_again(table: str, what: str) -> None:
    found = only_problem(with_fleet(FLEET + table))
    assert found[:2] == ("fleet.toml", FLEET.count("\n") + 2)
    assert found[3].endswith(f"is already the name of another {what}")


def test_an_operator_key_that_is_no_ssh_key_is_refused() -> None:
    found = only_problem(with_fleet(FLEET.replace(key_line(1), "ssh-ed25519 AAAA")))
    assert found[:3] == ("fleet.toml", 7, "operators[0].key")
    assert "ssh-keygen" in found[4]


def test_one_key_is_one_operator_even_with_another_comment() -> None:
    again = key_line(1).rsplit(" ", 1)[0] + " somebody-else"
    found = only_problem(with_fleet(FLEET + operator(key=again)))
    assert found[:4] == (
        "fleet.toml",
        FLEET.count("\n") + 4,
        "operators[1].key",
        'is also the key of operator "ada"',
    )


@pytest.mark.parametrize(("grade", "able"), [("apply", 2), ("destroy", 1), ("root", 1)])
def test_a_threshold_nobody_can_reach_is_refused(grade: str, able: int) -> None:
    text = FLEET + operator(grade="apply") + f"[trust]\n{grade} = 3\n"
    assert only_problem(with_fleet(text)) == (
        "fleet.toml",
        text.count("\n"),
        f"trust.{grade}",
        f"needs 3 signatures of grade {grade}, but only {able} of the operators can give one",
        "lower it, or add operators",
    )


def test_a_threshold_that_can_be_reached_is_accepted() -> None:
    text = FLEET + operator(grade="destroy") + "[trust]\napply = 2\ndestroy = 2\n"
    assert fleet_of(with_fleet(text)).thresholds.destroy == 2


def test_a_fleet_without_a_root_operator_is_refused() -> None:
    found = only_problem(with_fleet(FLEET.replace('"root"', '"destroy"')))
    assert found[:3] == ("fleet.toml", 4, "operators")
    assert found[4] == 'give one operator grade = "root"'


def test_thresholds_are_not_judged_while_an_operator_is_misspelt() -> None:
    assert only_problem(with_fleet(FLEET.replace('"root"', '"rooot"')))[2] == "operators[0].grade"


@pytest.mark.parametrize(
    "scope",
    ["service.web", "node.w1", "service.*", "fleet", "name:www.a.test", "name:*.a.test", "node:w1"],
)
def test_a_scope_is_an_address_every_service_a_name_or_a_node(scope: str) -> None:
    text = FLEET + operator() + f'scope = ["{scope}"]\n'
    assert fleet_of(with_fleet(text)).operators[1].scope == (scope,)


@pytest.mark.parametrize("scope", ["web", "service.", "service.Web", "*", "node.*", ""])
def test_any_other_scope_is_refused(scope: str) -> None:
    found = only_problem(with_fleet(FLEET + operator() + f'scope = ["fleet", "{scope}"]\n'))
    assert found[2:4] == ("operators[1].scope[1]", f'"{scope}" is not an address')


@pytest.mark.parametrize(
    "scope",
    [
        "name:",
        "name:*",
        "name:*.*.a.test",
        "name:Www.a.test",
        "name:www.a.test.",
        "name:a..test",
        "name:1.2.3.4",
        "name:münchen.test",
        "node:",
        "node:W1",
        "node:*",
        "worker:w1",
    ],
)
def test_a_name_or_node_of_another_form_is_refused_x11(scope: str) -> None:
    found = only_problem(with_fleet(FLEET + operator() + f'scope = ["service.web", "{scope}"]\n'))
    assert found[2] == "operators[1].scope[1]"


@pytest.mark.parametrize("cidr", ["100.64.0.0", "100.64.0.1/10", "net", "", "100.64.0.0/33"])
def test_the_overlay_is_a_network(cidr: str) -> None:
    text = FLEET.replace('name = "home"', f'name = "home"\noverlay_cidr = "{cidr}"')
    if cidr == "100.64.0.0":
        assert fleet_of(with_fleet(text)).settings.overlay_cidr == cidr  # one address is a network of one
        return
    found = only_problem(with_fleet(text))
    assert found[:4] == ("fleet.toml", 3, "fleet.overlay_cidr", f'"{cidr}" is not a network')


def with_address(address: str, more: str = "") -> dict[str, bytes]:
    text = FLEET.replace('name = "hub1"', f'name = "hub1"\naddress = "{address}"')
    return {"fleet.toml": (text + more).encode()}


def test_a_node_address_lies_in_the_overlay() -> None:
    assert fleet_of(with_address("100.64.0.7")).nodes["hub1"].address == "100.64.0.7"
    assert only_problem(with_address("10.0.0.1"))[:4] == (
        "fleet.toml",
        11,
        "nodes[0].address",
        "10.0.0.1 is outside the overlay network 100.64.0.0/10",
    )


@pytest.mark.parametrize("address", ["hub1.example.test", "100.64.0.300", "100.64.0.0/24", "fd00::zz", " 100.64.0.1"])
def test_a_node_address_is_an_ip_address(address: str) -> None:
    assert only_problem(with_address(address))[2:4] == ("nodes[0].address", f'"{address}" is not an IP address')


def test_two_nodes_do_not_share_an_address() -> None:
    more = '[[nodes]]\nname = "w1"\nroles = ["worker"]\naddress = "100.64.0.7"\n'
    found = only_problem(with_address("100.64.0.7", more))
    assert found[2:4] == ("nodes[2].address", '100.64.0.7 is also the address of node "hub1"')


def test_a_fleet_has_at_most_nodes_max_nodes() -> None:
    found = only_problem(with_fleet(FLEET.replace('name = "home"', 'name = "home"\nnodes_max = 1')))
    assert found[:4] == ("fleet.toml", 10, "nodes", "lists 2 nodes; nodes_max allows 1")


@pytest.mark.parametrize("hub", ["https://hub.example.test:9555", "https://100.64.0.1", "https://[fd00::1]:9555", ""])
def test_the_hub_is_an_https_address(hub: str) -> None:
    assert fleet_of(with_fleet(FLEET.replace('name = "home"', f'name = "home"\nhub = "{hub}"'))).settings.hub == hub


@pytest.mark.parametrize(
    "hub",
    ["http://hub", "hub.example.test", "https://", "https://a/b", "https://u:p@a", "file:///etc", "https://a:0", "-x"],
)
def test_a_hub_address_of_another_form_is_refused_s11(hub: str) -> None:
    found = only_problem(with_fleet(FLEET.replace('name = "home"', f'name = "home"\nhub = "{hub}"')))
    assert found[1:3] == (3, "fleet.hub")
    assert found[3].startswith("must be the address of the hub such as")


@pytest.mark.parametrize("name", ["..", "-rf", "--privileged", "UPPER", "n" * 41, "pаypal", "\u202egpj", "", "a\\n"])
def test_a_name_that_is_not_a_name_is_refused_and_shown_in_plain_ascii_d27(name: str) -> None:
    (line,) = lines_of(with_fleet(FLEET.replace('"hub1"', f'"{name}"')))
    assert line.startswith("fleet.toml:10: nodes[0].name: must be a name of at most 40 lower-case letters")
    assert line.isascii() and line.isprintable()


def test_a_misspelt_role_names_the_nearest_one() -> None:
    assert only_problem(with_fleet(FLEET.replace('"worker"', '"wrker"')))[2:] == (
        "nodes[0].roles[1]",
        'must be "builder", "edge", "hub", "provider" or "worker", not "wrker"',
        'did you mean "worker"?',
    )


def test_a_refused_node_is_not_unknown_as_well() -> None:
    files = with_fleet(FLEET.replace('roles = ["hub", "worker"]', "roles = []"))
    files["services/web.toml"] = b'node = "hub1"\n[[components]]\nname = "web"\nimage = "a"\n'
    assert only_problem(files)[2:4] == ("nodes[0].roles", "must have at least 1 entry, not 0")


def test_checks_after_a_refused_table_still_point_at_the_right_one() -> None:
    text = FLEET.replace('roles = ["hub", "worker"]', "roles = 7") + '[[nodes]]\nname = "x"\nroles = ["edge"]\n'
    found = problems_of(with_fleet(text + 'address = "x"\n'))
    assert [problem.key for problem in found] == ["nodes[0].roles", "nodes[2].address"]


def test_the_overlay_is_not_guessed_while_the_fleet_table_is_refused() -> None:
    files = with_address("10.0.0.1")
    files["fleet.toml"] = files["fleet.toml"].replace(b'"home"', b'"Home"\noverlay_cidr = "10.0.0.0/8"')
    assert only_problem(files)[2] == "fleet.name"


def test_a_fleet_file_without_the_fleet_and_operators_lacks_both() -> None:
    assert [problem.key for problem in problems_of(with_fleet("[trust]\napply = 1\n"))] == ["fleet", "operators"]


SECURITY_KEY = " ".join(Authenticator("dee").operator("root").key.split()[:2])
TOUCH = '[trust]\ndestroy_requires = "touch"\n'


@pytest.mark.parametrize(
    ("operators", "able", "grade"),
    [("", 0, "destroy"), (operator(key=SECURITY_KEY, grade="apply"), 0, "destroy"),
     (operator(key=SECURITY_KEY, grade="destroy"), 0, "root")],
)  # fmt: skip
def test_a_touch_that_would_lock_out_all_operators_is_refused(operators: str, able: int, grade: str) -> None:
    text = FLEET + operators + TOUCH
    found = problems_of(with_fleet(text))[0]
    assert (found.file, found.line, found.key) == ("fleet.toml", text.count("\n"), "trust.destroy_requires")
    assert found.what.startswith(f"leaves {able} operators who can sign for grade {grade}, and 1 must")
    assert "ssh-keygen -t ed25519-sk" in found.remedy


def test_a_touch_that_operators_can_give_is_accepted() -> None:
    text = FLEET + operator(key=SECURITY_KEY, grade="root") + TOUCH
    assert fleet_of(with_fleet(text)).thresholds.destroy_requires == "touch"


def test_the_touch_has_one_spelling() -> None:
    found = only_problem(with_fleet(FLEET + TOUCH.replace('"touch"', '"tuch"')))
    assert found[2] == "trust.destroy_requires" and "touch" in found[3] + found[4]


@pytest.mark.parametrize(
    ("text", "hub"),
    [
        ('[fleet]\nname = "home"\nhub = "https://hub.example:9555"\n', "https://hub.example:9555"),
        ('[fleet]\nname = "home"\n', ""),
        ("fleet = 3\n", ""),
        ("[fleet]\nhub = 3\n", ""),
        ('[fleet]\nna me = \n  hub = "https://hub.example:9555" # ours\n', "https://hub.example:9555"),
        ("[fleet]\nna me = \nhub = 'https://hub.example:9555'\n", "https://hub.example:9555"),
        ('[fleet]\nna me = \n# hub = "https://old.example"\n', ""),
    ],
)
def test_the_hub_is_found_whatever_else_is_wrong_in_the_directory_n30(text: str, hub: str) -> None:
    files = {**with_fleet(text), "services/bad.toml": b"name = \n", "surprise": b""}
    assert hub_of(MemoryFleetDirectory(files)) == hub


def test_a_directory_without_a_fleet_file_has_no_hub() -> None:
    with pytest.raises(Invalid, match=r"no fleet\.toml"):
        hub_of(MemoryFleetDirectory({"services/web.toml": b""}))
