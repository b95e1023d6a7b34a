"""Containers have the names, labels and specs they had: another one would restart every service of every fleet."""

from tests.golden import stored
from tests.golden.live import story


def test_names_labels_and_images() -> None:
    rows = {
        one.name: {"image": one.image, "labels": one.labels, "ports": sorted(port.inside for port in one.ports)}
        for one in sorted(story().containers, key=lambda one: one.name)
    }
    stored.check("containers/containers.json", stored.pretty(rows))


def test_specs() -> None:
    """Canonical bytes; their digest is the label that says if a container is the one that is wanted."""
    sheet = stored.Sheet()
    for name, spec in sorted(story().specs.items()):
        sheet.add(name, spec)
    stored.check("containers/specs.txt", sheet.text())
