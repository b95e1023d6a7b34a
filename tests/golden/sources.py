"""The source of the product, parsed once for every scan. Names of files stay in here."""

import ast
from functools import lru_cache
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"


@lru_cache(maxsize=1)
def modules() -> dict[str, ast.Module]:
    """By the name that an import uses."""
    paths = sorted(SOURCE.rglob("*.py"))
    return {".".join(path.relative_to(SOURCE).with_suffix("").parts): ast.parse(path.read_text()) for path in paths}


def trees() -> tuple[ast.Module, ...]:
    return tuple(modules().values())
