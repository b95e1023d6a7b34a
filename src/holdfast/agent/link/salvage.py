"""Send accepted revisions to a hub that lost its ledger, or its newest revisions: chain, manifest, contents.

Called when a check-in is answered with `salvage_wanted`. All of it was the hub's before, and the hub proves every piece
by operators' signatures, so nothing is given away and nothing is taken on trust.
"""

from collections.abc import Awaitable, Callable

from holdfast.model.salvage import LINKS_MAX, PART_BYTES, SalvageAnswer, SalvagePart
from holdfast.ports.acceptance import Acceptance

Send = Callable[[SalvagePart], Awaitable[SalvageAnswer]]
ROUNDS_MAX = 10_000


async def hand_over(node: str, acceptance: Acceptance, send: Send) -> bool:
    """True when the hub has all that this node can give it for now; False when it lacks what comes before our chain.

    Safe to repeat: the hub says each time what it still wants.
    """
    accepted = acceptance.newest()
    if accepted is None:
        return True
    answer = await send(SalvagePart(accepted.fleet, node))
    for _ in range(ROUNDS_MAX):
        if not answer.wanted:
            return True
        part = _next(node, acceptance, answer)
        if part is None:
            return answer.head.number >= accepted.head.number
        before, answer = answer, await send(part)
        if answer == before:
            return False  # nothing of it was of use: another node knows a newer revision, or what came before ours
    return False


def _next(node: str, acceptance: Acceptance, answer: SalvageAnswer) -> SalvagePart | None:
    accepted = acceptance.newest()
    assert accepted is not None, "asked only after something was accepted"
    first = answer.head.number + 1
    links = tuple(acceptance.links(first, first + LINKS_MAX - 1))
    if links and links[0].header.number == first:
        return SalvagePart(accepted.fleet, node, links=links)
    if answer.manifest_wanted:  # also one of an older revision: it may not have changed since
        return SalvagePart(accepted.fleet, node, manifest=accepted.manifest)
    blobs: dict[str, bytes] = {}
    for digest in answer.missing:
        content = acceptance.blob(digest)
        if content is None:
            continue
        if blobs and sum(map(len, blobs.values())) + len(content) > PART_BYTES:
            break
        blobs[digest] = content
    return SalvagePart(accepted.fleet, node, blobs=blobs) if blobs else None
