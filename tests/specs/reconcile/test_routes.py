"""Routes follow the healthy containers of what serves (T-12, T-32, T-34, M-03, M-115, I-22)."""

from msgspec.structs import replace

from holdfast.model.container import Published
from holdfast.model.fleet import Route
from holdfast.ports.proxy import Backend, ProxyRoute
from holdfast.reconcile import routes
from holdfast.reconcile.here import Seen
from tests.specs.reconcile.guests import down, guest, here, part, seen

HTTP = Route("http", 8080, hostname="shop.example.com", public=True)
ADMIN = Route("admin", 9090, mode="l4")
WEB = part(replicas=2, routes=(HTTP, ADMIN))
SHOP = guest(WEB, part("job", routes=()))


def at(one: Seen, *ports: tuple[int, int]) -> Seen:
    published = tuple(Published(inside, "10.0.0.1", outside) for inside, outside in ports)
    return replace(one, container=replace(one.container, ports=published))


A = at(seen(WEB, "a"), (8080, 20001), (9090, 20002))
B = at(seen(WEB, "b", replica=1), (8080, 20003), (9090, 20000))


def test_each_route_has_the_published_ports_of_its_healthy_containers_sorted() -> None:
    names = ("web.shop.holdfast.internal",)
    assert routes.routes(SHOP, here(B, A)) == (
        ProxyRoute(
            "shop",
            "web",
            "admin",
            "l4",
            names,
            False,
            (Backend("10.0.0.1", 20000), Backend("10.0.0.1", 20002)),
            listener=8443,
        ),
        ProxyRoute(
            "shop",
            "web",
            "http",
            "l7",
            names,
            False,
            (Backend("10.0.0.1", 20001), Backend("10.0.0.1", 20003)),
            aliases=("shop.example.com",),
        ),
    )


def test_a_route_has_the_headers_that_it_has_passed_x10() -> None:
    web = part(routes=(replace(HTTP, pass_headers=("remote-user",)),))
    assert [route.pass_headers for route in routes.routes(guest(web), here())] == [("remote-user",)]


def test_backends_are_sorted_however_many_there_are() -> None:
    """I-22"""
    many = part(replicas=9)
    picture = here(*(at(seen(many, str(n), replica=n), (8080, 29000 - n), (9090, n + 1)) for n in range(9)))
    (route,) = routes.routes(guest(many), picture)
    assert [backend.port for backend in route.backends] == list(range(28992, 29001))


def outside(*containers: Seen, routed: tuple[str, ...] = ()) -> list[int]:
    found = routes.routes(SHOP, here(*containers, routed=routed))
    return [backend.port for backend in found[1].backends]


def test_one_that_is_ill_gets_nothing_while_another_is_well() -> None:
    ill = replace(B, health="unhealthy")
    assert outside(A, ill) == [20001]
    assert outside(A, ill, routed=("a", "b")) == [20001]
    assert outside(A, down(WEB, "b", replica=1)) == [20001]
    assert outside(A, replace(B, health="starting")) == [20001]
    assert outside(A, replace(B, health="starting"), routed=("b",)) == [20001, 20003], "an agent that started anew"
    back_soon = seen(WEB, "b", "starting", replica=1, running=False)
    assert outside(A, back_soon, routed=("a", "b")) == [20001], "not while it has no process"
    assert outside(replace(A, health="unhealthy"), ill) == [20001, 20003], "a route to nobody helps nobody"


def test_a_route_says_whether_a_container_of_it_answers_n17() -> None:
    def answers(*containers: Seen, tried: tuple[str, ...] = ()) -> bool:
        return routes.routes(SHOP, replace(here(*containers), tried=frozenset(tried)))[1].answers

    ill, ended = replace(B, health="unhealthy"), replace(B, health="failed")
    assert answers(A, B) and answers(A, ill)
    assert not answers(replace(A, health="unhealthy"), ill)
    assert answers(ended), "it starts at once: a short crash need not rewrite the proxy"
    assert not answers(ended, tried=("b",)), "it is not started now"
    assert answers(replace(A, health="unhealthy"), ended), "one of them is about to"
    assert answers(replace(B, health="starting"))


def test_only_what_serves_is_routed_to() -> None:
    newcomer = at(seen(part(version="2", routes=(HTTP,)), "n"), (8080, 20009))
    assert outside(A, newcomer) == [20001]


def test_a_node_without_a_proxy_and_a_service_that_is_off_or_gone_have_no_routes() -> None:
    """T-32, T-34, C-30"""
    picture = here(A, B)
    assert routes.routes(SHOP, picture, "internal") == routes.routes(SHOP, picture) != ()
    assert routes.routes(SHOP, picture, "none") == ()
    assert routes.routes(SHOP, replace(picture, held=True)) == ()
    assert routes.routes(replace(SHOP, active=False), picture) == ()
    assert routes.routes(None, picture) == ()


def test_the_same_routes_have_the_same_digest_in_any_order() -> None:
    """T-12"""
    found = routes.routes(SHOP, here(A, B))
    assert routes.digest(found) == routes.digest(found[::-1])
    assert routes.digest(found) != routes.digest(found[1:])
    assert routes.ordered(found[::-1]) == found
