"""A service and its entry become exact containers (T-14, M-40, M-42, C-12; design.md §4)."""

from typing import Any

import pytest

from holdfast.model import canonical
from holdfast.model.container import ContainerSpec, Guest, Mount, SecretUse, spec_digest
from holdfast.model.fleet import (
    Component,
    Health,
    Hooks,
    Resources,
    Route,
    SecretRef,
    Service,
    Volume,
)
from holdfast.model.revision import Entry
from holdfast.reconcile import wanted

FLEET = "abcdef0123456789" * 4
ENTRY = Entry("0" * 64, epoch=3, images={"hello:2": "sha256:" + "1" * 64}, secrets={"key": "2" * 64, "tls": "3" * 64})


def guest(*components: Component, **more: Any) -> Guest:
    return wanted.guest("service.shop", ENTRY, Service(components, **more), FLEET, "/data", "d1")


def spec(**more: Any) -> ContainerSpec:
    return guest(Component("web", more.pop("image", "hello:2"), **more)).parts[0].spec


def test_a_guest_carries_its_name_deployment_epoch_and_whether_it_is_on() -> None:
    one = guest(Component("web", "hello:2"), active=False)
    assert (one.service, one.deployment, one.epoch, one.active) == ("shop", "d1", 3, False)
    assert wanted.guest("shop", ENTRY, Service((Component("web", "hello:2"),)), FLEET, "/data", "d1").service == "shop"


def test_the_image_runs_by_the_digest_that_was_resolved_or_written() -> None:
    assert spec().reference == "hello@sha256:" + "1" * 64
    pinned = "hello:3@sha256:" + "4" * 64
    assert (spec(image=pinned).digest, spec(image=pinned).reference) == ("sha256:" + "4" * 64, pinned)
    assert (spec(image="other:1").digest, spec(image="other:1").reference) == ("", "other:1")


def test_the_environment_is_sorted_and_says_who_it_is_whatever_the_file_claims() -> None:
    assert spec(env={"Z": "1", "HOLDFAST_EPOCH": "99", "A": "2"}).env == (
        ("A", "2"),
        ("HOLDFAST_COMPONENT", "web"),
        ("HOLDFAST_EPOCH", "3"),
        ("HOLDFAST_SERVICE", "shop"),
        ("Z", "1"),
    )


def test_ports_are_those_of_the_routes_and_of_the_health_check_each_once() -> None:
    routes = (Route("b", 9000), Route("a", 80), Route("c", 80))
    assert spec(routes=routes).ports == (80, 9000)
    assert spec(routes=routes, health=Health("http", port=81)).ports == (80, 81, 9000)
    assert spec(routes=routes, health=Health("http", port=80)).ports == (80, 9000)
    assert spec(health=Health("exec", cmd=("true",))).ports == ()


@pytest.mark.parametrize(
    ("volume", "source"),
    [
        (Volume("files", "/in", "none"), "/data/shop/files"),
        ("/srv/shop/files:/in", "/data/shop/files"),
        ("/srv:/in", "/data"),
        ("/srvx/files:/in", "/srvx/files"),
        ("/etc/ssl:/in", "/etc/ssl"),
    ],
)
def test_volumes_lie_below_the_data_directory_and_other_host_paths_are_as_written(
    volume: Volume | str, source: str
) -> None:
    assert spec(volumes=(volume,)).mounts == (Mount(source, "/in"),)


def test_secrets_are_files_named_like_them_unless_said_otherwise_and_a_rotated_one_is_another_spec() -> None:
    uses = spec(secrets=("tls", SecretRef("key", env="KEY"), SecretRef("tls", file="a.pem"))).secrets
    assert uses == (
        SecretUse("key", "2" * 64, env="KEY"),
        SecretUse("tls", "3" * 64, file="a.pem"),
        SecretUse("tls", "3" * 64, file="tls"),
    )
    both = spec(secrets=(SecretRef("key", env="KEY", file="key.txt"),)).secrets
    assert both == (SecretUse("key", "2" * 64, file="key.txt", env="KEY"),)
    assert spec(secrets=("gone",)).secrets == (SecretUse("gone", "", file="gone"),)


@pytest.mark.parametrize(
    ("resources", "millicores", "size"),
    [
        (Resources(), 0, 0),
        (Resources(cpu="2"), 2000, 0),
        (Resources(cpu="0.5", memory="512Mi"), 500, 512 << 20),
        (Resources(cpu="1.001", memory="2GiB"), 1001, 2 << 30),
        (Resources(cpu="1.255", memory="1024"), 1255, 1024),
        (Resources(memory="64KiB"), 0, 64 << 10),
        (Resources(memory="100B"), 0, 100),
    ],
)
def test_resources_are_numbers(resources: Resources, millicores: int, size: int) -> None:
    made = spec(resources=resources)
    assert (made.cpu_millicores, made.memory_bytes) == (millicores, size)
    assert (spec().cpu_millicores, spec().memory_bytes) == (0, 0)


def test_the_time_to_end_is_in_whole_seconds_n46() -> None:
    """The spec without it is the same as before it existed: no container is made anew."""
    assert [spec(stop_timeout=text).stop_s for text in ("1ms", "1s", "1500ms", "4m")] == [1, 1, 2, 240]
    assert spec(stop_timeout="10s") == spec() and b"stop_s" not in canonical.encode(spec())


def test_components_of_one_service_share_a_network_and_a_single_one_needs_none() -> None:
    assert spec().network == ""
    two = guest(Component("web", "hello:2"), Component("db", "hello:2"))
    assert {part.spec.network for part in two.parts} == {"hf-abcdef-shop"}
    assert [part.spec.component for part in two.parts] == ["web", "db"], "in the order of the file"


def test_what_has_data_or_says_so_is_replaced_in_place() -> None:
    volume = Volume("data", "/d", "none")
    answers = [
        guest(Component("web", "hello:2", **more)).parts[0].recreate
        for more in ({}, {"update": "rolling"}, {"update": "recreate"}, {"volumes": (volume,)}, {"volumes": ("/a:/b",)})
    ]
    assert answers == [False, False, True, True, True]


def test_how_it_is_looked_after_is_beside_the_spec_and_does_not_change_the_container() -> None:
    health, hooks, route = Health("tcp", port=80), Hooks(("before",), ("after",)), Route("a", 80)
    plain = guest(Component("web", "hello:2", cmd=("run",), routes=(route,))).parts[0]
    more = Component("web", "hello:2", cmd=("run",), routes=(route,), replicas=3, health=health, hooks=hooks)
    cared = guest(more).parts[0]
    assert cared.digest == plain.digest == spec_digest(plain.spec) and plain.spec.command == ("run",)
    assert (cared.replicas, cared.health, cared.pre_deploy, cared.post_deploy, cared.routes) == (
        3,
        health,
        ("before",),
        ("after",),
        (route,),
    )


def test_the_order_in_which_a_file_lists_things_is_no_difference() -> None:
    """I-22"""
    a, b = Volume("a", "/a", "none"), Volume("b", "/b", "none")
    one = spec(env={"A": "1", "B": "2"}, volumes=(a, b), routes=(Route("x", 1), Route("y", 2)), secrets=("key", "tls"))
    two = spec(env={"B": "2", "A": "1"}, volumes=(b, a), routes=(Route("y", 2), Route("x", 1)), secrets=("tls", "key"))
    assert spec_digest(one) == spec_digest(two)


@pytest.mark.parametrize(
    "change",
    [{"cmd": ("x",)}, {"env": {"A": "1"}}, {"image": "hello:1"}, {"routes": (Route("a", 1),)}, {"secrets": ("key",)},
     {"volumes": ("/a:/b",)}, {"resources": Resources(cpu="1")}],
)  # fmt: skip
def test_anything_a_container_is_made_of_is_another_spec(change: dict[str, Any]) -> None:
    assert spec_digest(spec(**change)) != spec_digest(spec())


def test_a_volume_is_off_if_every_component_that_has_it_says_so() -> None:
    auto, off, other = (
        Volume("data", "/d", "none"),
        Volume("data", "/d", "none", checkpoint="off"),
        "/srv/shop/etc:/etc",
    )
    alone = guest(Component("web", "hello:2", volumes=(off, other)))
    assert alone.parts[0].off == ("/data/shop/data",)
    both = guest(Component("web", "hello:2", volumes=(off,)), Component("db", "hello:2", volumes=(auto,)))
    assert [part.off for part in both.parts] == [(), ()]
    assert alone.parts[0].spec == guest(Component("web", "hello:2", volumes=(auto, other))).parts[0].spec
