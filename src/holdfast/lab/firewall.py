"""nft rules that cut nodes from each other: frames are dropped on the bridge, in both directions. Pure."""

from collections.abc import Mapping, Sequence

Cut = tuple[str, str]  # two nodes; an empty second name means all others


def rules(table: str, cuts: Sequence[Cut], links: Mapping[str, str]) -> str:
    """Replaces the whole table in one transaction; without cuts there is no table."""
    gone = f"add table bridge {table}\ndelete table bridge {table}\n"
    if not cuts:
        return gone
    chains = [_chain(hook, cuts, links) for hook in ("input", "forward", "output")]
    return gone + f"table bridge {table} {{\n" + "".join(chains) + "}\n"


def _chain(hook: str, cuts: Sequence[Cut], links: Mapping[str, str]) -> str:
    drops = [drop for cut in cuts for drop in _drops(hook, cut, links)]
    body = "".join(f"    {drop} drop\n" for drop in drops)
    return f"  chain {hook} {{\n    type filter hook {hook} priority -200; policy accept;\n{body}  }}\n"


def _drops(hook: str, cut: Cut, links: Mapping[str, str]) -> list[str]:
    one = links[cut[0]]
    if cut[1]:
        other = links[cut[1]]
        pairs = [(one, other), (other, one)]
        return [f'iifname "{a}" oifname "{b}"' for a, b in pairs] if hook == "forward" else []
    return ([f'iifname "{one}"'] if hook != "output" else []) + ([f'oifname "{one}"'] if hook != "input" else [])


def added(cuts: Sequence[Cut], one: str, other: str) -> tuple[Cut, ...]:
    """A pair is one cut, in either order."""
    cut = (one, "") if not other else (min(one, other), max(one, other))
    return tuple(dict.fromkeys([*cuts, cut]))
