"""Tell the URL of a hub from a ledger directory."""

import os

from holdfast.errors import Invalid

UNSERVED = "This is a ledger in a directory: no hub tells nodes of it, and whether anything runs is not known."


def is_url(target: str) -> bool:
    """A hub is reached by URL, a ledger is a directory; anything else is an error at once."""
    if target.startswith(("http://", "https://")):
        return True
    if "://" in target or os.path.isfile(target):
        raise Invalid(
            f"{target} is neither a hub's URL nor a ledger directory",
            remedy="write --hub https://HOST:9555 or --hub DIRECTORY",
        )
    return False


def running(target: str, use: str) -> str:
    """The URL of a running hub; `use` says what it is needed for, as in «tokens belong to»."""
    if not is_url(target):
        raise Invalid(
            f"{target} is a ledger directory; {use} a running hub",
            remedy="name it: --hub https://HOST:9555; to make one: holdfast hub init --help",
            code="no_hub",
        )
    return target
