"""Every golden file is compared by some test: none is left behind, none is missing."""

import re
from pathlib import Path

from tests.golden.fleets import STAGES
from tests.golden.stored import FILES, is_writing

HERE = Path(__file__).parent


def test_every_file_has_its_test() -> None:
    sources = [path.read_text() for path in HERE.glob("test_*.py")]
    named = {name for source in sources for name in re.findall(r'stored\.check\(f?"([^"]+)"', source)}
    wanted = {name.format(fleet=fleet) for name in named for fleet in STAGES}
    found = {str(path.relative_to(FILES)) for path in FILES.rglob("*") if path.is_file()}
    assert found - wanted == set()
    assert is_writing() or found == wanted
