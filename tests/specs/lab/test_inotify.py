"""A lab of many nodes is refused before its proxies would end at their start."""

import ctypes
import os
from pathlib import Path

import pytest

from holdfast.errors import Invalid
from holdfast.lab import inotify


def limited(monkeypatch: pytest.MonkeyPatch, folder: Path, used: int, limit: int) -> None:
    path = folder / "limit"
    path.write_text(f"{limit}\n")
    monkeypatch.setattr(inotify, "LIMIT", str(path))
    monkeypatch.setattr(inotify, "_used", lambda: iter([used, 1]))


@pytest.mark.parametrize(("used", "nodes", "fits"), [(0, 13, True), (2, 13, True), (3, 13, False), (0, 14, False)])
def test_nine_instances_for_each_node_must_be_left(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, used: int, nodes: int, fits: bool
) -> None:
    limited(monkeypatch, tmp_path, used, 128)
    if fits:
        inotify.check(nodes)
        return
    with pytest.raises(Invalid, match=f"need {9 * nodes} inotify instances; of 128 .* {127 - used} are left") as found:
        inotify.check(nodes)
    assert found.value.remedy == "sysctl -w fs.inotify.max_user_instances=1024"


def test_the_remedy_is_enough_for_a_very_large_lab(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    limited(monkeypatch, tmp_path, 0, 1024)
    with pytest.raises(Invalid) as found:
        inotify.check(200)
    limited(monkeypatch, tmp_path, 0, int(found.value.remedy.rpartition("=")[2]))
    inotify.check(200)


def test_instances_of_this_user_are_counted() -> None:
    other, instance = os.open("/proc/self", os.O_RDONLY), ctypes.CDLL(None).inotify_init1(os.O_CLOEXEC)
    try:
        assert [inotify._is_inotify(f"/proc/self/fd/{handle}") for handle in (other, instance)] == [False, True]
        assert sum(inotify._used()) >= 1
    finally:
        os.close(other)
        os.close(instance)
