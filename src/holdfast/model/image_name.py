"""The short name of an image: without registry, and without digest if it has a tag. Pure."""

from collections.abc import Iterable


def short(image: str) -> str:
    name, _, digest = image.partition("@sha256:")
    last = name.rpartition("/")[2]
    return last if ":" in last or not digest else f"{last}@{digest[:12]}"


def shorts(images: Iterable[str]) -> str:
    """Each once."""
    return ", ".join(dict.fromkeys(short(image) for image in images))
