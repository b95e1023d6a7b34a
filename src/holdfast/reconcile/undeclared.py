"""Directories that an image declares as volumes and a service file does not answer for. Pure."""

from collections.abc import Sequence

from holdfast.model.container import Part


def undeclared(part: Part, declared: Sequence[str]) -> tuple[str, ...]:
    """Of the paths that the image declares (`VOLUME`), those that no volume and no `scratch` of the component covers.
    What a program writes there is lost with its container."""
    answered = [*(mount.target for mount in part.spec.mounts), *part.scratch]
    return tuple(sorted({path for path in declared if not any(_covers(one, path) for one in answered)}))


def _covers(outer: str, inner: str) -> bool:
    return (inner.rstrip("/") + "/").startswith(outer.rstrip("/") + "/")
