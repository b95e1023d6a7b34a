"""A remedy corrects the name that was typed, and makes nothing new (N35)."""

from collections.abc import Iterator

import pytest

from tests.fleets.pasting import Seat, seat

ROWS = {
    "deploy wbe": (2, "did you mean service.web?"),
    "plan --explain wbe": (2, "did you mean service.web?"),
    "apply --key ~/.ssh/id_ed25519.pub": (3, "give the private half: --key ~/.ssh/id_ed25519"),
    "plan --fleet ~/.ssh": (2, "give your fleet directory with --fleet DIR; to create a new fleet here: "),
    "lab stop": (2, 'did you mean "lab start"?'),
    "help nod": (2, "did you mean `holdfast node`?"),
}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seat]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("seat"))
        yield seat(tmp_path_factory.mktemp("of") / "my home")


@pytest.mark.parametrize(("words", "row"), ROWS.items(), ids=ROWS)
def test_a_name_that_is_nearly_right_is_corrected_n35(words: str, row: tuple[int, str], here: Seat) -> None:
    code, said = row
    done = here.run(f"holdfast {words}")
    assert done.code == code, done
    assert any(said in here.plain(remedy) for remedy in done.remedies), done


def test_counts_have_their_plural_n42(here: Seat) -> None:
    assert "1 service, 2 nodes, 1 operator." in here.run("holdfast validate").out
