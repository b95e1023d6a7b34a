"""Every source of randomness gives tokens of the asked length that do not repeat within a run."""

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.adapters.random_source.seeded import SeededRandom
from holdfast.adapters.random_source.system import SystemRandom
from holdfast.ports.random_source import RandomSource


@pytest.fixture(params=["system", "seeded"])
def random(request: pytest.FixtureRequest) -> RandomSource:
    return SystemRandom() if request.param == "system" else SeededRandom(7)


@pytest.mark.parametrize("size_bytes", [0, 1, 8, 32, 1000])
def test_a_token_has_the_length_that_was_asked_for(random: RandomSource, size_bytes: int) -> None:
    assert len(random.token(size_bytes)) == size_bytes


def test_a_thousand_tokens_are_a_thousand_different_ones(random: RandomSource) -> None:
    assert len({random.token(8) for _ in range(1000)}) == 1000


def test_a_negative_length_is_a_mistake(random: RandomSource) -> None:
    with pytest.raises(ValueError):
        random.token(-1)


def test_the_same_seed_repeats_a_run_and_another_seed_does_not() -> None:
    def run(seed: int | str) -> list[bytes]:
        random = SeededRandom(seed)
        return [random.token(8) for _ in range(5)]

    assert run(7) == run(7)
    assert run(7) != run(8)
    assert run(7) != run("7")


def test_a_longer_token_does_not_shift_those_after_it() -> None:
    short, long = SeededRandom(7), SeededRandom(7)
    short.token(1), long.token(100)
    assert short.token(8) == long.token(8)


def test_a_seeded_run_is_the_same_in_every_process() -> None:
    code = "from holdfast.adapters.random_source.seeded import SeededRandom; print(SeededRandom('a').token(8).hex())"
    env = {"PYTHONPATH": str(Path(__file__).parents[2] / "src"), "PYTHONHASHSEED": "random"}
    outputs = {
        subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=True, timeout=60).stdout
        for _ in range(2)
    }
    assert outputs == {SeededRandom("a").token(8).hex().encode() + b"\n"}
