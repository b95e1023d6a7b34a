"""Envoy removes the headers by which a client could pretend to be a proxy in front (X10). Pure.

The same headers go on both hops. A route with `pass_headers` has a list of its own instead of the common one.
"""

import re
from collections.abc import Collection, Iterator
from functools import lru_cache
from itertools import product

from holdfast.adapters.proxy.envoy.names import CACHED, INTERNAL, extension, kind_of, typed
from holdfast.model.client_headers import NAMES, OWN, OWN_PREFIXES, PREFIXES
from holdfast.ports.proxy import ProxyRoute

COMMON, ROUTES_OWN = "cleaning", "cleaning-of-the-route"  # names of the two filters
MUTATION = "extensions.filters.http.header_mutation.v3.HeaderMutation"

Mutation = dict[str, object]


def filters(kind: str) -> list[dict[str, object]]:
    return [extension(COMMON, MUTATION, mutations=_removal(kind, ())), extension(ROUTES_OWN, MUTATION)]


def of(route: ProxyRoute) -> dict[str, object]:
    """Fields of the route's virtual host; none if the common list holds for it."""
    if not route.pass_headers:
        return {}
    off = typed("config.route.v3.FilterConfig", disabled=True)
    own = typed(f"{MUTATION}PerRoute", mutations=_removal(kind_of(route), route.pass_headers))
    return {"typed_per_filter_config": {COMMON: off, ROUTES_OWN: own}}


@lru_cache(CACHED)
def _removal(kind: str, passed: tuple[str, ...]) -> dict[str, object]:
    removed: list[Mutation] = [
        {"remove": spelled} for name in (*OWN, *NAMES) if name not in passed for spelled in _spellings(kind, name)
    ]
    for prefix in (*OWN_PREFIXES, *PREFIXES):
        rests = [name[len(prefix) :] for name in passed if name.startswith(prefix)]
        removed += _except(prefix, rests) if rests else [_matching(prefix=one) for one in _spellings(kind, prefix)]
    return {"request_mutations": removed}


def _spellings(kind: str, name: str) -> list[str]:
    """A CGI reads `Remote_User` as `Remote-User`. Public listeners drop every header with an underscore."""
    if kind != INTERNAL:
        return [name]
    return ["".join(parts) for parts in product(*("-_" if letter == "-" else letter for letter in name))]


def _except(prefix: str, kept: Collection[str]) -> Iterator[Mutation]:
    """Every name with this prefix but these rests. Envoy's regular expressions have no lookahead, so there is one for
    each beginning of a kept name: it ends there, or goes on with another letter."""
    for begun in sorted({rest[:length] for rest in kept for length in range(len(rest) + 1)}):
        letters = {rest[len(begun)] for rest in kept if rest.startswith(begun) and rest != begun}
        other = f"[^{''.join(_written(letter, '') for letter in sorted(letters))}].*" if letters else ".+"
        text = "".join(_written(letter, "[]") for letter in prefix + begun)
        yield _matching(safe_regex={"regex": text + (other if begun in kept else f"({other})?")})


def _written(letter: str, around: str) -> str:
    return (around[:1] + "_-" + around[1:]) if letter == "-" else re.escape(letter)


def _matching(**matcher: object) -> Mutation:
    return {"remove_on_match": {"key_matcher": matcher}}
