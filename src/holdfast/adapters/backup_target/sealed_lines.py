"""Credentials of targets as they are sealed: lines NAME=VALUE, as env files have them."""


def read(content: bytes) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in content.decode("utf-8", "replace").splitlines():
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        if equals and not name.startswith("#"):
            found[name.strip()] = value.strip().strip("\"'")
    return found
