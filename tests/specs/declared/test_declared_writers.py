"""Two writers never share a volume, and data does not fail over (design §4, §5)."""

import pytest

from holdfast.declared.problem import Problems
from tests.specs.declared.declared_fleets import FLEET, fleet_of

COMPONENT = '[[components]]\nname = "web"\nimage = "reg.test/x:1"\n'
VOLUME = '[[components.volumes]]\nname = "data"\npath = "/data"\nprotect = "backup"\n'


@pytest.mark.parametrize(
    ("head", "keys", "key"),
    [
        ("", "replicas = 3\n", "components[0].replicas"),
        ("", 'update = "rolling"\n', "components[0].update"),
        ('failover = ["hub1"]\n', "", "failover"),
    ],
)
def test_what_would_give_a_volume_two_writers_is_refused_with_its_line(head: str, keys: str, key: str) -> None:
    def files(volume: str) -> dict[str, bytes]:
        return {"fleet.toml": FLEET.encode(), "services/web.toml": (head + COMPONENT + keys + volume).encode()}

    assert fleet_of(files("")).services["web"], "without data all of it is fine"
    with pytest.raises(Problems) as refused:
        fleet_of(files(VOLUME))
    assert [problem.key for problem in refused.value.problems] == [key]
    assert refused.value.problems[0].line > 0 and refused.value.problems[0].remedy
