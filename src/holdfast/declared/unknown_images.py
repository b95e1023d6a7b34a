"""Images that their registry does not have, as mistakes of the directory: file, line and remedy."""

from collections.abc import Iterable

from holdfast.declared import toml_file
from holdfast.declared.flaw import Flaws
from holdfast.declared.problem import Problems
from holdfast.declared.services import path_of
from holdfast.declared.sources import SERVICE_BYTES_MAX
from holdfast.declared.words import printable
from holdfast.ports.fleet_directory import FleetDirectory

REMEDY = "correct the name or the tag, or push the image; to plan without asking registries: holdfast plan --offline"


def refusal(unknown: Iterable[tuple[str, str]], directory: FleetDirectory) -> Problems:
    """`unknown`: service and image."""
    flaws, contents = Flaws(), {}
    for name, image in unknown:
        file = path_of(name)
        contents[file] = directory.read(file, SERVICE_BYTES_MAX)
        components = toml_file.parse(contents[file]).get("components", ())
        for at in [at for at, one in enumerate(components) if one.get("image") == image] or [0]:
            what = f"the registry answers that it does not have {printable(image)}"
            flaws.add(file, ("components", at, "image"), what, REMEDY)
    return flaws.problems(contents)
