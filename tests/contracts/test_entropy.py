"""Every source of randomness gives tokens of the asked length that do not repeat within a run."""

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.adapters.entropy.seeded import SeededEntropy
from holdfast.adapters.entropy.system import SystemEntropy
from holdfast.ports.entropy import Entropy


@pytest.fixture(params=["system", "seeded"])
def entropy(request: pytest.FixtureRequest) -> Entropy:
    return SystemEntropy() if request.param == "system" else SeededEntropy(7)


@pytest.mark.parametrize("size_bytes", [0, 1, 8, 32, 1000])
def test_a_token_has_the_length_that_was_asked_for(entropy: Entropy, size_bytes: int) -> None:
    assert len(entropy.token(size_bytes)) == size_bytes


def test_a_thousand_tokens_are_a_thousand_different_ones(entropy: Entropy) -> None:
    assert len({entropy.token(8) for _ in range(1000)}) == 1000


def test_a_negative_length_is_a_mistake(entropy: Entropy) -> None:
    with pytest.raises(ValueError):
        entropy.token(-1)


def test_the_same_seed_repeats_a_run_and_another_seed_does_not() -> None:
    def run(seed: int | str) -> list[bytes]:
        entropy = SeededEntropy(seed)
        return [entropy.token(8) for _ in range(5)]

    assert run(7) == run(7)
    assert run(7) != run(8)
    assert run(7) != run("7")


def test_a_longer_token_does_not_shift_those_after_it() -> None:
    short, long = SeededEntropy(7), SeededEntropy(7)
    short.token(1), long.token(100)
    assert short.token(8) == long.token(8)


def test_a_seeded_run_is_the_same_in_every_process() -> None:
    code = "from holdfast.adapters.entropy.seeded import SeededEntropy; print(SeededEntropy('a').token(8).hex())"
    env = {"PYTHONPATH": str(Path(__file__).parents[2] / "src"), "PYTHONHASHSEED": "random"}
    outputs = {
        subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=True, timeout=60).stdout
        for _ in range(2)
    }
    assert outputs == {SeededEntropy("a").token(8).hex().encode() + b"\n"}
