"""The source of the product, parsed once for every scan. Names of files stay in here."""

import ast
from functools import lru_cache
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"


@lru_cache(maxsize=1)
def trees() -> tuple[ast.Module, ...]:
    return tuple(ast.parse(path.read_text()) for path in sorted(SOURCE.rglob("*.py")))
