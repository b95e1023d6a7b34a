"""Debian's SSH server for SFTP only, on a loopback port, with keys of its own. It ends with its test."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.adapters.backup_target.ssh_login import SshLogin

CONFIG = """\
ListenAddress 127.0.0.1
Port {port}
HostKey {folder}/server
AuthorizedKeysFile {folder}/client.pub
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
PermitRootLogin prohibit-password
Subsystem sftp internal-sftp
ForceCommand internal-sftp
"""
# In a mount namespace of its own: the server needs /run/sshd, which Debian's unit makes.
_BEGIN = 'mount -t tmpfs tmpfs /run && mkdir /run/sshd && exec /usr/sbin/sshd -D -e -f "$0"'


class Sftp:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("server", "client", "stranger"):
            words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
            subprocess.run(words, check=True, capture_output=True)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        (folder / "config").write_text(CONFIG.format(port=self.port, folder=folder))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def login(self) -> SshLogin:
        return self.login_with("client", "server")

    def login_with(self, key: str, server: str) -> SshLogin:
        public = (self.folder / f"{server}.pub").read_text().rpartition(" ")[0]
        return SshLogin((self.folder / key).read_bytes(), public)

    def location(self, name: str) -> str:
        return f"sftp://root@127.0.0.1:{self.port}/{self.folder}/{name}"

    def start(self) -> None:
        words = ["unshare", "--mount", "sh", "-c", _BEGIN, str(self.folder / "config")]
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(words, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        for _ in range(300):
            with socket.socket() as line:
                if line.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            assert self._process.poll() is None, (self.folder / "log").read_text()
            time.sleep(0.05)
        raise AssertionError((self.folder / "log").read_text())

    def kill(self) -> None:
        """With the processes of its connections."""
        if self._process is not None:
            for child in _children(self._process.pid):
                _end(child)
            self._process.kill()
            self._process.wait()
            self._process = None


def _children(pid: int) -> list[int]:
    try:
        found = [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
    return [each for one in found for each in (*_children(one), one)]


def _end(pid: int) -> None:
    try:
        os.kill(pid, 9)
    except ProcessLookupError:
        return


@contextmanager
def sftp(folder: Path) -> Iterator[Sftp]:
    folder.mkdir()
    made = Sftp(folder)
    made.start()
    try:
        yield made
    finally:
        made.kill()
