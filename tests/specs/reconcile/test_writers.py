"""Who may write into a volume: every container that mounts it, by everything that could change what it does."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.model.container import ContainerSpec, Mount, NeedUse, SecretUse
from holdfast.model.fleet import Health
from holdfast.reconcile.writers import HARMLESS, writer, writers_of
from tests.specs.reconcile.guests import part

DB = part("db", "1", volume="book")

# Another value of every field of a spec: a field that is missing here fails the test below.
CHANGED: dict[str, Any] = {
    "fleet": "e" * 64,
    "stop_s": 1,  # a program that is killed early may leave its data in disorder
    "service": "other",
    "component": "other",
    "epoch": 1,
    "image": "db:2",
    "digest": "sha256:" + "a" * 64,
    "command": ("rm", "-rf", "/data"),
    "env": (("MODE", "destroy"),),
    "secrets": (SecretUse("password", "d" * 64, env="PASSWORD"),),
    "mounts": (Mount("/srv/shop/book", "/elsewhere"),),
    "ports": (5432,),
    "network": "hf-shop",
    "cpu_millicores": 500,
    "memory_bytes": 1 << 20,
    "exposed": True,
    "user": "1000",
    "needs": (NeedUse("db", "/run/needs/db"),),
}


def test_every_field_of_a_spec_is_tried() -> None:
    assert {field.name for field in msgspec.structs.fields(ContainerSpec)} == set(CHANGED)


@pytest.mark.parametrize("field", sorted(CHANGED))
def test_a_changed_field_is_another_writer_unless_it_is_listed_as_harmless_x01(field: str) -> None:
    changed = writer(replace(DB.spec, **{field: CHANGED[field]}))
    assert (changed == writer(DB.spec)) == (field in HARMLESS)


def test_the_harmless_fields_are_limits_and_ports_only() -> None:
    assert set(HARMLESS) == {"cpu_millicores", "memory_bytes", "ports", "exposed"}


def test_hooks_schedules_and_health_commands_are_writers_x01() -> None:
    known = writers_of(DB)
    assert known == {writer(DB.spec)}
    wipes = ("sh", "-c", "rm -rf /data/*")
    for changed in (
        replace(DB, post_deploy=wipes),
        replace(DB, runs=(wipes,)),
        replace(DB, health=Health("exec", cmd=wipes)),
    ):
        assert writers_of(changed) > known
    assert writers_of(replace(DB, runs=(wipes, ("true",)))) > writers_of(replace(DB, runs=(wipes,)))
    assert writers_of(replace(DB, health=Health("exec", cmd=wipes))) != writers_of(replace(DB, runs=(wipes,)))


def test_a_pre_deploy_hook_and_a_probe_from_outside_are_not() -> None:
    assert writers_of(replace(DB, pre_deploy=("migrate",))) == writers_of(DB)
    assert writers_of(replace(DB, health=Health("http", path="/health", port=80))) == writers_of(DB)
    assert writers_of(replace(DB, replicas=3)) == writers_of(DB)


def test_a_component_without_volumes_writes_nowhere() -> None:
    assert writers_of(part("web", "1", post_deploy=("true",))) == frozenset()


def test_another_owner_of_a_volume_is_another_writer_n13() -> None:
    """So that a checkpoint is made before the owner of data changes."""
    (mount,) = DB.spec.mounts
    assert writer(replace(DB.spec, mounts=(replace(mount, owner="1000:1000"),))) != writer(DB.spec)
