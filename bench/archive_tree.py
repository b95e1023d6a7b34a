"""A tree of files for the bench of archives: many small ones, large ones that compress and that do not, a database.

The content is random but seeded, so that every run has the same bytes.
"""

import os
import random
import sqlite3
from dataclasses import dataclass


@dataclass(frozen=True)
class Size:
    small_files: int
    small_bytes: int  # each, on average
    text_bytes: int  # large files that compress
    noise_bytes: int  # large files that do not
    database_bytes: int


FULL = Size(20_000, 8 << 10, 360 << 20, 300 << 20, 200 << 20)
QUICK = Size(5_000, 8 << 10, 90 << 20, 75 << 20, 50 << 20)
SMALLEST = Size(50, 4 << 10, 20 << 20, 1 << 20, 1 << 20)
_LARGE = 90 << 20
_TEXT = 24 << 20


def make(top: str, size: Size) -> None:
    chance = random.Random(15)
    text = _text(chance, min(_TEXT, size.text_bytes))
    _small(top, size, chance, text)
    _large(os.path.join(top, "large"), size, chance, text)
    _database(os.path.join(top, "app.db"), size.database_bytes, chance)
    os.sync()


def _text(chance: random.Random, size: int) -> bytes:
    words = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(2, 10))) for _ in range(4000)]
    lines = []
    length = 0
    while length < size:
        line = (
            f"{chance.randint(10**9, 2 * 10**9)} {' '.join(chance.choices(words, k=9))} id={chance.getrandbits(48):x}\n"
        )
        lines.append(line)
        length += len(line)
    return "".join(lines).encode()[:size]


def _small(top: str, size: Size, chance: random.Random, text: bytes) -> None:
    for number in range(size.small_files):
        folder = os.path.join(top, "small", f"{number % 97:02}", f"{number % 11:02}")
        os.makedirs(folder, exist_ok=True)
        at, length = chance.randrange(len(text) - 4 * size.small_bytes), int(chance.expovariate(1 / size.small_bytes))
        with open(os.path.join(folder, f"file-{number:06}.txt"), "wb") as file:
            file.write(text[at : at + min(length, 4 * size.small_bytes)])


def _large(top: str, size: Size, chance: random.Random, text: bytes) -> None:
    os.makedirs(top)
    for kind, whole in (("text", size.text_bytes), ("noise", size.noise_bytes)):
        for number, begin in enumerate(range(0, whole, _LARGE)):
            with open(os.path.join(top, f"{kind}-{number}"), "wb") as file:
                left = min(_LARGE, whole - begin)
                while left:
                    piece = text[chance.randrange(len(text)) :] if kind == "text" else chance.randbytes(1 << 20)
                    left -= file.write(piece[:left])


def _database(path: str, size: int, chance: random.Random) -> None:
    """In WAL mode, with a part of it still in the log. Kept open by no program."""
    database = sqlite3.connect(path)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA wal_autocheckpoint=1000")
    database.execute("CREATE TABLE facts (id INTEGER PRIMARY KEY, name TEXT, content BLOB)")
    rows = size // 1100
    for begin in range(0, rows, 5000):
        some = range(begin, min(begin + 5000, rows))
        database.executemany(
            "INSERT INTO facts VALUES (?, ?, ?)", ((n, f"name {n} " * 20, chance.randbytes(700)) for n in some)
        )
        database.commit()
    database.close()


def change(top: str, share: float, seed: int) -> None:
    """So much of the bytes: small files are written again, large ones and the database in place."""
    chance = random.Random(seed)
    for folder, _, names in os.walk(os.path.join(top, "small")):
        for name in sorted(names):
            if chance.random() < share:
                with open(os.path.join(folder, name), "ab") as file:
                    file.write(b"changed\n")
    for name in sorted(os.listdir(os.path.join(top, "large"))):
        path = os.path.join(top, "large", name)
        with open(path, "r+b") as file:
            file.seek(chance.randrange(max(1, os.path.getsize(path) // 2)))
            file.write(chance.randbytes(int(os.path.getsize(path) * share)))
    database = sqlite3.connect(os.path.join(top, "app.db"))
    rows = database.execute("SELECT max(id) FROM facts").fetchone()[0]
    begin = chance.randrange(max(1, int(rows * (1 - share))))
    database.execute(
        "UPDATE facts SET content = ? WHERE id BETWEEN ? AND ?", (chance.randbytes(700), begin, begin + rows * share)
    )
    database.commit()
    database.close()
    os.sync()
