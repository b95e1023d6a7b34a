"""Where a person's age identity lies: one per person, for whatever fleets seal to them."""

import os
from collections.abc import Mapping


def identity_path(environ: Mapping[str, str]) -> str:
    """Not beside the SSH key, which may have no file. A lab names its own, for its operator is nobody at home."""
    if named := environ.get("HOLDFAST_IDENTITY"):
        return named
    home = environ.get("XDG_CONFIG_HOME") or os.path.join(environ.get("HOME", "/root"), ".config")
    return os.path.join(home, "holdfast", "identity.age")
