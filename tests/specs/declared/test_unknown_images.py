"""An image that its registry does not have is a mistake of one line (N31)."""

from holdfast.adapters.fleet_directory.memory import MemoryFleetDirectory
from holdfast.declared.unknown_images import refusal

WEB = b"""
[[components]]
name = "front"
image = "reg.test/a:1"
[[components]]
name = "back"
image = "reg.test/b:9"
"""


def test_the_line_of_the_component_is_named_n31() -> None:
    directory = MemoryFleetDirectory({"services/web.toml": WEB, "services/api.toml": WEB})
    found = refusal([("web", "reg.test/b:9"), ("api", "reg.test/a:1")], directory).problems
    assert [(one.file, one.line, one.key) for one in found] == [
        ("services/api.toml", 4, "components[0].image"),
        ("services/web.toml", 7, "components[1].image"),
    ]
