"""The path of the operator's age identity: one per person, for all fleets."""

import os
from collections.abc import Mapping


def identity_path(environ: Mapping[str, str]) -> str:
    """Not beside the SSH key, which may have no file. A lab sets HOLDFAST_IDENTITY for its own operator."""
    if named := environ.get("HOLDFAST_IDENTITY"):
        return named
    home = environ.get("XDG_CONFIG_HOME") or os.path.join(environ.get("HOME", "/root"), ".config")
    return os.path.join(home, "holdfast", "identity.age")
