"""Call the holdfast command line as a user would."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.errors import Failed
from holdfast.lab.place import Place

HOLDFAST = (sys.executable, "-P", "-m", "holdfast")  # -P: never import from the caller's directory
CALL_S_MAX = 60.0


def environment(place: Place) -> dict[str, str]:
    """The caller's environment without the caller's own fleet, keys and state."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    kept.pop("SSH_AUTH_SOCK", None)
    own = {"HOLDFAST_STATE": place.memory, "HOLDFAST_IDENTITY": identity(place)}
    return {**kept, **own, "USER": "operator", "NO_COLOR": "1"}


def identity(place: Place) -> str:
    """The operator's age identity, which opens secrets."""
    return os.path.join(place.memory, "config", "holdfast", "identity.age")


def call(words: Sequence[str], env: Mapping[str, str], *, inside: Sequence[str] = (), given: str = "") -> str:
    """The output; raises its message and remedy if it fails. `inside` is a command prefix that enters a node."""
    try:
        done = subprocess.run(
            [*inside, *HOLDFAST, *words],
            env=env,
            input=given,
            capture_output=True,
            text=True,
            timeout=CALL_S_MAX,
        )
    except subprocess.TimeoutExpired:
        raise Failed(
            f"holdfast {words[0]} did not end within {CALL_S_MAX:.0f} s",
            remedy="read the logs in the lab's directory; then: holdfast lab down; holdfast lab up",
            code="timed_out",
        ) from None
    if done.returncode != 0:
        raise _failure(words, done.stderr, done.returncode)
    return done.stdout


def ask(words: Sequence[str], env: Mapping[str, str], *, inside: Sequence[str] = ()) -> Any:
    return json.loads(call([*words, "--json"], env, inside=inside))


def _failure(words: Sequence[str], said: str, code: int) -> Failed:
    verb = " ".join(word for word in words[:2] if not word.startswith("-"))
    last = said.strip().splitlines()[-1:] or ["{}"]
    try:
        trouble = json.loads(last[0])
        return Failed(f"holdfast {verb}: {trouble['message']}", remedy=trouble["remedy"], code=trouble["code"])
    except (ValueError, KeyError, TypeError):
        text = " | ".join(said.strip().splitlines()[-4:])[:1000]
        return Failed(
            f"holdfast {verb} ended with exit code {code}: {text or 'no output'}",
            remedy="read the logs in the lab's directory; then: holdfast lab down; holdfast lab up",
        )
