"""Directories that an image declares as volumes and a service file does not answer for. Pure."""

import posixpath
import re
from collections.abc import Sequence

from holdfast.model.container import Part

_PLAIN = re.compile(r"/[^\x00-\x1f]{0,1023}")  # what a service file takes as a path


def undeclared(part: Part, declared: Sequence[str]) -> tuple[str, ...]:
    """Of the paths that the image declares (`VOLUME`), those that no volume and no `scratch` of the component covers.
    What a program writes there is lost with its container."""
    answered = [*(mount.target for mount in part.spec.mounts), *part.scratch]
    paths = {_nameable(path) for path in declared}
    return tuple(sorted(path for path in paths if not any(_covers(one, path) for one in answered)))


def _nameable(path: str) -> str:
    """As a service file can name it, so that there is an answer: an image may declare any text. Of a path that no file
    can name it is the directory above."""
    clean = posixpath.normpath("/" + path.lstrip("/"))
    found = _PLAIN.match(clean)
    plain = found[0] if found is not None else "/"
    return clean if plain == clean else plain.rpartition("/")[0] or "/"


def _covers(outer: str, inner: str) -> bool:
    return (inner.rstrip("/") + "/").startswith(outer.rstrip("/") + "/")
