"""Random trees of everything that an archive holds, and random changes of them, for tests of updates."""

import os
import random
import shutil
import stat
import struct
from collections.abc import Callable

LONG = 1_200_000  # more than 16 parts of 64 KiB
PAGE = 4096
SMALL_MAX = 20_000


class RandomTree:
    """Below `top`. Every step is one of all that programs do to their files."""

    def __init__(self, top: str, seed: int) -> None:
        self._top, self.chance = os.fsencode(top), random.Random(seed)
        self._number = 0
        self._steps: tuple[Callable[[], None], ...] = (
            self.make_file, self.make_file, self.make_sparse, self.make_long, self.make_directory, self.make_directory,
            self.make_symlink, self.make_link, self.make_link, self.write_within, self.write_within, self.append,
            self.shorten, self.dress, self.dress, self.dress_directory, self.mark, self.remove, self.remove_directory,
            self.change_kind, self.change_kind, self.part_link, self.join_links, self.move, self.change_silently,
            self.punch,
        )  # fmt: skip

    def steps(self, count: int) -> None:
        for _ in range(count):
            self.chance.choice(self._steps)()

    # ---- making

    def make_file(self) -> None:
        path = self._name()
        with open(path, "xb") as file:
            file.write(self.chance.randbytes(self.chance.choice((0, 1, 700, self.chance.randrange(SMALL_MAX)))))
        self._dress(path)

    def make_long(self) -> None:
        if sum(os.lstat(path).st_size > SMALL_MAX for path in self.files()) < 4:
            with open(self._name(), "xb") as file:
                file.write(self.chance.randbytes(LONG + self.chance.randrange(200_000)))

    def make_sparse(self) -> None:
        with open(self._name(), "xb") as file:
            file.truncate(self.chance.choice((50_000, LONG, 3 * LONG)))
            for _ in range(self.chance.randrange(3)):
                file.seek(PAGE * self.chance.randrange(12))
                file.write(self.chance.randbytes(self.chance.randrange(3 * PAGE)))

    def make_directory(self) -> None:
        path = self._name()
        os.mkdir(path)
        self._dress(path)
        if self.chance.random() < 0.2:  # what is made in it gets this group, or these rights
            os.chown(path, -1, 77)
            os.chmod(path, 0o2775)
        if self.chance.random() < 0.2:
            os.setxattr(path, "system.posix_acl_default", access_list(1234))

    def make_symlink(self) -> None:
        os.symlink(self.chance.choice((b"..", b"/etc/passwd", b"nothing", *self.files()[:3])), self._name())

    def make_link(self) -> None:
        if files := self.files():
            os.link(self.chance.choice(files), self._name())

    # ---- changing

    def write_within(self) -> None:
        if files := self.files():
            path = self.chance.choice(files)
            with open(path, "r+b") as file:
                for _ in range(self.chance.randrange(1, 4)):
                    file.seek(PAGE * self.chance.randrange(max(1, os.path.getsize(path) // PAGE)))
                    file.write(self.chance.randbytes(self.chance.choice((1, PAGE))))

    def append(self) -> None:
        if files := self.files():
            with open(self.chance.choice(files), "ab") as file:
                file.write(self.chance.randbytes(self.chance.choice((1, 5000, 90_000))))

    def shorten(self) -> None:
        if files := self.files():
            path = self.chance.choice(files)
            os.truncate(path, self.chance.randrange(os.path.getsize(path) + 1))

    def punch(self) -> None:
        """A hole where there was data."""
        if files := [path for path in self.files() if os.path.getsize(path) >= LONG]:
            path = self.chance.choice(files)
            at = PAGE * self.chance.randrange(LONG // PAGE)
            with open(path, "r+b") as file:
                rest = file.read()
                file.truncate(at)
                file.truncate(len(rest))
                file.seek(at + 40 * PAGE)
                file.write(rest[at + 40 * PAGE :])

    def change_silently(self) -> None:
        """Length and time stay."""
        if files := [path for path in self.files() if os.path.getsize(path)]:
            path = self.chance.choice(files)
            about = os.stat(path)
            with open(path, "r+b") as file:
                file.write(self.chance.randbytes(1))
            os.utime(path, ns=(about.st_mtime_ns, about.st_mtime_ns))

    def dress(self) -> None:
        if files := self.files():
            self._dress(self.chance.choice(files))

    def dress_directory(self) -> None:
        self._dress(self.chance.choice(self.directories()))

    def mark(self) -> None:
        path = self.chance.choice((*self.files(), *self.directories()))
        for name in os.listxattr(path):
            os.removexattr(path, name)
        if self.chance.random() < 0.6:
            os.setxattr(path, f"user.mark{self.chance.randrange(3)}", self.chance.randbytes(10))
        if self.chance.random() < 0.2:
            os.setxattr(path, "system.posix_acl_access", access_list(4321))

    def remove(self) -> None:
        if paths := self._others():
            os.unlink(self.chance.choice(paths))

    def remove_directory(self) -> None:
        if (inner := self.directories()[1:]) and self.chance.random() < 0.4:
            shutil.rmtree(self.chance.choice(inner))

    def change_kind(self) -> None:
        """A name becomes a directory, a file or a symlink."""
        paths = [*self._others(), *(path for path in self.directories()[1:] if self.chance.random() < 0.3)]
        if not paths:
            return
        path = self.chance.choice(paths)
        if stat.S_ISDIR(os.lstat(path).st_mode):
            shutil.rmtree(path)
        else:
            os.unlink(path)
        kind = self.chance.randrange(3)
        if kind == 0:
            os.mkdir(path)
            with open(os.path.join(path, b"inner"), "xb") as file:
                file.write(b"inner")
        elif kind == 1:
            os.symlink(b"elsewhere", path)
        else:
            with open(path, "xb") as file:
                file.write(self.chance.randbytes(self.chance.randrange(SMALL_MAX)))

    def part_link(self) -> None:
        """One of several names gets a file of its own, with the same content."""
        if files := [path for path in self.files() if os.stat(path).st_nlink > 1]:
            path = self.chance.choice(files)
            with open(path, "rb") as file:
                content = file.read()
            os.unlink(path)
            with open(path, "xb") as file:
                file.write(content)

    def join_links(self) -> None:
        if len(files := self.files()) > 1:
            first, second = self.chance.sample(files, 2)
            os.unlink(second)
            os.link(first, second)

    def move(self) -> None:
        if paths := [*self._others(), *self.directories()[1:]]:
            path, to = self.chance.choice(paths), self._name()
            if not to.startswith(path + b"/"):
                os.rename(path, to)

    # ---- what there is

    def directories(self) -> list[bytes]:
        return sorted(folder for folder, _, _ in os.walk(self._top))

    def files(self) -> list[bytes]:
        return [path for path in self._others() if stat.S_ISREG(os.lstat(path).st_mode)]

    def _others(self) -> list[bytes]:
        """Files and symlinks, also those to directories."""
        found = []
        for folder, folders, names in os.walk(self._top):
            found += [os.path.join(folder, name) for name in names]
            found += [path for name in folders if os.path.islink(path := os.path.join(folder, name))]
        return sorted(found)

    def _name(self) -> bytes:
        self._number += 1
        odd = self.chance.choice((b"", b"", b" ", b"\xff\xfe", b"\\", b'"', b"\n", "é".encode(), b"n" * 120))
        return os.path.join(self.chance.choice(self.directories()), b"%d%s" % (self._number, odd))

    def _dress(self, path: bytes) -> None:
        os.chown(path, self.chance.choice((0, 1000)), self.chance.choice((0, 1000)))
        os.chmod(path, self.chance.choice((0o644, 0o600, 0o4755, 0o2711, 0o777, 0)) | 0o700 * os.path.isdir(path))
        if self.chance.random() < 0.5:
            os.utime(path, ns=(1, self.chance.randrange(1 << 60)))


def access_list(user: int) -> bytes:
    """Owner, one more user, group, mask, others."""
    rows = ((1, 7, 0xFFFFFFFF), (2, 6, user), (4, 5, 0xFFFFFFFF), (16, 7, 0xFFFFFFFF), (32, 4, 0xFFFFFFFF))
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *row) for row in rows)
