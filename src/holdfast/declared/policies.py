"""Read policy files and their bindings. Does not evaluate the rules."""

from collections.abc import Collection, Sequence

from holdfast.declared import spelling, toml_file
from holdfast.declared.flaw import Flaws
from holdfast.declared.layout import FLEET_FILE, is_hidden
from holdfast.declared.sources import FILE_BYTES_MAX, Sources
from holdfast.declared.words import printable, shown
from holdfast.model.fleet import Policy, PolicyBinding

DIRECTORY = "policies"
SUFFIX = ".cedar"


def read(sources: Sources, flaws: Flaws) -> dict[str, bytes | None]:
    """Every policy file by path; None for a file that exists and was refused."""
    entries = [entry for entry in sources.entries(DIRECTORY) if not is_hidden(entry.path)]
    entries = [entry for entry in entries if entry.path.endswith(SUFFIX) or entry.kind in ("directory", "symlink")]
    if not sources.fit(DIRECTORY, entries, FILE_BYTES_MAX):
        return {entry.path: None for entry in entries}
    found: dict[str, bytes | None] = {}
    for entry in entries:
        content = sources.read(entry, FILE_BYTES_MAX)
        found[entry.path] = content if content is not None and _is_text(entry.path, content, flaws) else None
    return found


def _is_text(path: str, content: bytes, flaws: Flaws) -> bool:
    try:
        toml_file.text(content)
    except toml_file.NotToml as trouble:
        flaws.add(path, (), trouble.message, trouble.remedy, trouble.line)
        return False
    return True


def bind(
    bindings: Sequence[PolicyBinding], files: dict[str, bytes | None], services: Collection[str], flaws: Flaws
) -> dict[str, Policy]:
    bound: dict[str, Policy] = {}
    for at, binding in enumerate(bindings):
        text = _text(at, binding.file, files, flaws)
        for index, target in enumerate(binding.applies_to):
            _check_target(("policies", at, "applies_to", index), target, services, flaws)
        # Sorted, so that the order of targets in the file makes no difference (I-22).
        bound[binding.name] = Policy(binding.name, text, tuple(sorted(set(binding.applies_to))))
    return bound


def check_unbound(bound_files: Collection[str], files: Collection[str], flaws: Flaws) -> None:
    for path in sorted(set(files) - set(bound_files)):
        if path.endswith(SUFFIX):
            flaws.add(path, (), "is bound to nothing", "bind it in [[policies]] of fleet.toml, or remove it")


def _text(at: int, file: str, files: dict[str, bytes | None], flaws: Flaws) -> bytes:
    where = ("policies", at, "file")
    directory, _, name = file.partition("/")
    if directory != DIRECTORY or "/" in name or not name.endswith(SUFFIX) or name.startswith("."):
        what = f"{shown(file)} is not a file in {DIRECTORY}/"
        flaws.add_checked(FLEET_FILE, where, what, f'write "{DIRECTORY}/NAME{SUFFIX}"; other directories are not read')
    elif file not in files:
        guess = spelling.question(file, files)
        flaws.add_checked(FLEET_FILE, where, f"{printable(file)} does not exist", guess or "create it")
    return files.get(file) or b""


def _check_target(where: tuple[str | int, ...], target: str, services: Collection[str], flaws: Flaws) -> None:
    kind, _, name = target.partition(".")
    if target == "fleet" or (kind == "service" and name in services):
        return
    if kind == "service" and name:
        guess = spelling.nearest(name, services)
        remedy = f'did you mean "service.{guess}"?' if guess else f"create services/{printable(name)}.toml"
        flaws.add_checked(FLEET_FILE, where, f"there is no service {shown(name)}", remedy)
    else:
        what = f'must be "fleet" or "service.NAME", not {shown(target)}'
        flaws.add_checked(FLEET_FILE, where, what, spelling.question(target, ("fleet",)))
