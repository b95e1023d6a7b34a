"""The containers of a drill (H-60): what the service has, on restored data, and no way out."""

import pytest
from msgspec.structs import replace

from holdfast.model.container import ContainerSpec, Mount, Part
from holdfast.ports.runtime import Closed
from holdfast.reconcile import closed
from holdfast.reconcile.drill_copy import (
    CPU_MILLICORES,
    MEMORY_BYTES,
    STOP_S,
    Staged,
    addresses,
    copies,
    outside,
    service_of,
    staged,
)
from tests.specs.reconcile.guests import FLEET, guest, part

TOKEN, TOP = "0badcafe", "/srv/.drills/shop-0badcafe"


def with_spec(of: Part, **changed: object) -> Part:
    return replace(of, spec=replace(of.spec, **changed))


def test_a_copy_has_everything_of_its_component_but_its_place() -> None:
    env, mounts = (("A", "1"),), (Mount("/srv/shop/files", "/data", owner="1:2"), Mount("/srv/shop", "/all", True))
    web = with_spec(
        part("web", network="shop"), command=("run",), env=env, user="7", mounts=mounts, ports=(80,), exposed=True
    )
    (copy,) = copies(guest(web), TOKEN, "/srv", TOP)
    assert copy.part == web and copy.places == ("files", "")
    assert copy.spec.mounts == (Mount(f"{TOP}/files", "/data"), Mount(TOP, "/all", True))
    assert (copy.spec.ports, copy.spec.exposed, copy.spec.stop_s) == ((), False, STOP_S)
    assert copy.spec.network == f"hf-ffffff-shop_drill-{TOKEN}" != web.spec.network
    assert copy.name == f"hf-ffffff-shop_drill-web-{TOKEN}"
    kept = ("fleet", "service", "component", "epoch", "image", "digest", "command", "env", "secrets", "user", "needs")
    assert all(getattr(copy.spec, name) == getattr(web.spec, name) for name in kept)
    changed = {"mounts", "ports", "network", "cpu_millicores", "memory_bytes", "exposed", "stop_s"}
    assert {*kept, *changed} == set(ContainerSpec.__struct_fields__), "a new field needs a decision here"


def test_replicas_are_one_copy_and_limits_are_those_declared_or_bounded() -> None:
    small = with_spec(part("small", replicas=3), cpu_millicores=250, memory_bytes=1 << 20)
    first, second = copies(guest(small, part("web")), TOKEN, "/srv", TOP)
    assert (first.spec.cpu_millicores, first.spec.memory_bytes) == (250, 1 << 20)
    assert (second.spec.cpu_millicores, second.spec.memory_bytes) == (CPU_MILLICORES, MEMORY_BYTES)


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("/srv/shop", None),
        ("/srv/shop/files", None),
        ("/srv/shop-2", "/srv/shop-2"),
        ("/srv/other/files", "/srv/other/files"),
        ("/etc/localtime", "/etc/localtime"),
        ("/srv", "/srv"),
    ],
)
def test_a_path_that_is_not_the_services_own_data_is_found_also_in_a_later_component(
    source: str, found: str | None
) -> None:
    reads = with_spec(part("reads"), mounts=(Mount(source, "/x", True),))
    assert outside(guest(part("web", volume="files"), reads), "/srv") == found


def test_everything_that_is_made_is_named_and_names_lead_back_to_the_service() -> None:
    shop = guest(part("web"), part("db", volume="base"))
    every = copies(shop, TOKEN, "/srv", TOP)
    names = tuple(f"hf-ffffff-shop_drill-{one}" for one in (f"web-{TOKEN}", f"db-{TOKEN}", f"db-{TOKEN}-image"))
    assert staged(shop, TOKEN, every) == Staged("shop", f"shop-{TOKEN}", f"hf-ffffff-shop_drill-{TOKEN}", names)
    assert {service_of(name) for name in names} == {"shop"} and FLEET.startswith("ffffff")


def test_each_component_has_an_address_and_knows_all_by_name() -> None:
    every = copies(guest(part("web"), part("db")), TOKEN, "/srv", TOP)
    hosts = (("web", "10.89.3.2"), ("db", "10.89.3.3"))
    assert addresses("10.89.3.0/24", every) == {
        every[0].name: Closed("10.89.3.2", hosts),
        every[1].name: Closed("10.89.3.3", hosts),
    }
    assert closed.places("10.89.3.0/24", ["db"]) == (Closed("10.89.3.2", (("db", "10.89.3.2"),)),)
