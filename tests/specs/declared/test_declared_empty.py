"""Files of the first version keep working (M-40, M-42)."""

from tests.specs.declared.declared_fleets import FLEET, fleet_of

SERVICE = 'node = ""\ntier = ""\n[[components]]\nname = "web"\nimage = "reg.test/x:1"\n'


def test_an_empty_node_and_an_empty_tier_mean_choose_for_me_m_42() -> None:
    service = fleet_of({"fleet.toml": FLEET.encode(), "services/old.toml": SERVICE.encode()}).services["old"]
    assert (service.tier, bool(service.node)) == ("worker", False)
