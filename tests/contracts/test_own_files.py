"""The files of a node itself that are backed up: those on the list, and never what proves a machine (M-34)."""

import os
from pathlib import Path

import pytest

from holdfast.adapters.own_files.directory import TAKEN, StateFiles

WANTED = {
    "identity.json": b"which node of which fleet",
    "routes/shop.example.com": b"certificate and key",
    "routes/web.svc.lab.test": b"another",
    "acme/acme-account.key": b"account",
    "proxy/bootstrap.json": b"{}",
    "proxy/clusters/all.json": b"clusters",
    "proxy/listeners/all.json": b"listeners",
    "proxy/requests/public.json": b"requests",
    "proxy/openers/public.json": b"openers",
}
CANARY = b"never in a backup of a node"
NEVER = (
    "node.key", "agent.db", "agent.db-wal", "agent.db-shm", "nonces.db", "nonces.db-wal", "audit.jsonl", "audit.head",
    "issuer.key", "issuer.crt", "serving.key", "serving.crt", "lock", "config.toml", "x.pem", "routes.db",
    "routes/.half", "routes/half.new", "proxy/secrets/shop.json", "proxy/run.json", "proxy/access.log",
    "proxy/before/all.json", "backups/web/g1/manifest", "mounts/allowed.json", "routes/inside/deep",
)  # fmt: skip


@pytest.fixture
def state(tmp_path: Path) -> Path:
    top = tmp_path / "agent"
    for name, content in {**WANTED, **dict.fromkeys(NEVER, CANARY)}.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_bytes(content)
    return top


def files(top: Path) -> dict[str, bytes]:
    return {str(path.relative_to(top)): path.read_bytes() for path in sorted(top.rglob("*")) if path.is_file()}


def test_what_is_on_the_list_is_copied_and_nothing_else(state: Path) -> None:
    own = StateFiles(str(state), str(state / "new" / "own"))
    os.utime(state / "identity.json", (1, 1_700_000_000))
    copies = Path(own.gather())
    assert files(copies) == WANTED
    assert all(CANARY not in content for content in files(copies).values())
    made = sorted({copies.parent, copies, *(path.parent for path in copies.rglob("*"))})
    assert {path.stat().st_mode & 0o777 for path in made} == {0o700}, "no other user can read them, nor those above"
    assert (copies / "identity.json").stat().st_mtime == 1_700_000_000
    (state / "routes" / "shop.example.com").unlink()
    assert "routes/shop.example.com" not in files(Path(own.gather())), "what an earlier run left is gone"
    own.clear()
    own.clear()
    assert not copies.exists()


def test_a_link_out_of_the_directory_is_not_followed(state: Path, tmp_path: Path) -> None:
    """A file, and a directory on the list."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "all.json").write_bytes(CANARY)
    (state / "routes" / "linked.example.com").symlink_to(state / "node.key")
    (state / "proxy" / "clusters" / "all.json").unlink()
    (state / "proxy" / "clusters").rmdir()
    (state / "proxy" / "clusters").symlink_to(tmp_path / "elsewhere")
    found = files(Path(StateFiles(str(state), str(tmp_path / "own")).gather()))
    assert found.keys() == WANTED.keys() - {"proxy/clusters/all.json"}


def test_a_node_without_certificates_of_routes_has_nothing_to_back_up(state: Path, tmp_path: Path) -> None:
    own = StateFiles(str(state), str(tmp_path / "own"))
    assert own.has_any()
    for path in (state / "routes").iterdir():
        if path.is_file() and path.name[0] != ".":
            path.unlink()
    (state / "routes" / "inside" / "deep").unlink()
    (state / "routes" / "inside").rmdir()
    assert not own.has_any() and not StateFiles(str(tmp_path / "nowhere"), str(tmp_path / "own")).has_any()
    assert not any(name in ("", ".", "node.key", "agent.db", "nonces.db", "backups") for name in TAKEN)
