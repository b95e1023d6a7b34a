"""Which key signs: the given file, else one of ssh-agent that is known, else ~/.ssh/id_ed25519."""

from argparse import Namespace
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.cli import key_search
from holdfast.errors import Failed, Invalid
from holdfast.model import ssh_key
from tests.fleets.build import ALICE_SIGNER

ALICE = ALICE_SIGNER.public_key
HARDWARE = replace(ALICE, type="sk-ssh-ed25519@openssh.com")


class Keys:
    usual = "~/usual"

    def __init__(self, *files: str, in_agent: bool = False, agent_fails: bool = False, half: Any = ALICE) -> None:
        self.files, self.in_agent, self.agent_fails, self.half = files, in_agent, agent_fails, half
        self.warned: list[str] = []
        self.warn = self.warned.append

    def exists(self, path: str) -> bool:
        return path in self.files

    def public_half(self, path: str) -> Any:
        return self.half

    def file(self, path: str) -> Any:
        return f"file {path}"

    def security_key(self, path: str) -> Any:
        return f"hardware {path}"

    def agent(self, known: Callable[[bytes], bool]) -> Any:
        if self.agent_fails:
            raise Failed("it hangs", remedy="restart it")
        return Namespace(public_key=ALICE) if self.in_agent and known(ALICE.blob) else None


@pytest.mark.parametrize(
    ("given", "keys", "found"),
    [
        ("k", Keys("k", in_agent=True), "file k"),
        ("k", Keys("k.pub", half=HARDWARE), "hardware k"),
        ("k", Keys("k.pub"), "file k"),  # the file itself explains what is missing
        (None, Keys("~/usual"), "file ~/usual"),
        (None, Keys("~/usual", agent_fails=True), "file ~/usual"),
        ("k", Keys("k.pub", in_agent=True), Namespace(public_key=ALICE)),
        (None, Keys("~/usual", in_agent=True), Namespace(public_key=ALICE)),
    ],
)
def test_the_first_key_that_is_there_signs(given: str | None, keys: Keys, found: object) -> None:
    assert key_search.signer(given, lambda blob: blob == ALICE.blob, keys) == found
    assert bool(keys.warned) == keys.agent_fails


def test_a_key_of_the_agent_that_is_unknown_does_not_sign() -> None:
    with pytest.raises(Invalid) as refused:
        key_search.signer(None, lambda blob: False, Keys(in_agent=True))
    assert refused.value.code == "no_key"


def test_the_public_line_is_of_the_key_that_would_sign() -> None:
    line = ssh_key.line(ALICE)
    assert key_search.public_line(None, Keys(in_agent=True)) == line
    assert key_search.public_line("k", Keys("k.pub")) == line
    assert key_search.public_line("k", Keys(in_agent=True)) is None
