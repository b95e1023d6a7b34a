"""Load or build a user's images with podman inside the hub's node, and push them to the lab's registry."""

import os
import re
from collections.abc import Mapping

from holdfast.errors import Invalid
from holdfast.lab import command, node
from holdfast.lab.blueprint import Blueprint

BUILD_S_MAX = 600.0


def load(blueprint: Blueprint, init: int, env: Mapping[str, str], file: str) -> tuple[str, ...]:
    if not os.path.isfile(file):
        raise Invalid(f"there is no file {file}", remedy="create one: podman save -o FILE IMAGE")
    said = _podman(init, env, ["load", "--input", os.path.abspath(file)])
    names = re.findall(r"(?m)^Loaded image(?:\(s\))?: (.+)$", said)
    found = [name.strip() for line in names for name in line.split(",")]
    return tuple(_push(blueprint, init, env, name, _short(name)) for name in found)


def build(blueprint: Blueprint, init: int, env: Mapping[str, str], folder: str, name: str | None) -> tuple[str, ...]:
    if not any(os.path.isfile(os.path.join(folder, kind)) for kind in ("Containerfile", "Dockerfile")):
        raise Invalid(
            f"{folder} has no Containerfile", remedy="write one; its first line can be FROM $REGISTRY/hello:1"
        )
    wanted = name or f"{os.path.basename(os.path.abspath(folder))}:latest"
    tag = f"localhost/{wanted}"
    words = ["build", "--quiet", "--tls-verify=false", "--build-arg", f"REGISTRY={blueprint.registry}", "--tag", tag]
    _podman(init, env, [*words, os.path.abspath(folder)])
    return (_push(blueprint, init, env, tag, wanted),)


def _push(blueprint: Blueprint, init: int, env: Mapping[str, str], image: str, name: str) -> str:
    target = f"{blueprint.registry}/{name}"
    _podman(init, env, ["push", "--quiet", "--tls-verify=false", image, f"docker://{target}"])
    return target


def _short(image: str) -> str:
    """localhost/team/app:1 → team/app:1: the first part is a registry if it looks like a host."""
    first, slash, rest = image.partition("/")
    return rest if slash and (first == "localhost" or "." in first or ":" in first) else image


def _podman(init: int, env: Mapping[str, str], words: list[str]) -> str:
    """Uses a separate image store, so that these images do not appear on the node."""
    own = ["--root", "/var/lib/containers/workshop", "--runroot", "/run/workshop"]
    return command.run(
        [*node.entering(init), "podman", *own, *words],
        env=env,
        timeout_s=BUILD_S_MAX,
        remedy="read podman's message, correct the file, and repeat the command",
    )
