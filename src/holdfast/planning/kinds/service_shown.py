"""What a plan shows of a change of a service. Pure."""

from collections.abc import Iterator

from msgspec import UNSET

from holdfast.model.applied import plain
from holdfast.model.need import Want
from holdfast.model.plan import FieldChange
from holdfast.model.revision import Entry
from holdfast.model.route import PublicRoute
from holdfast.planning.fields import differences
from holdfast.planning.kinds.kind import Step


def fields(step: Step) -> Iterator[FieldChange]:
    before, after = step.before, step.after
    if before is None or after is None:
        return
    if step.is_other_content:
        yield from differences(plain(step.content_before()), plain(step.content_after()))
    if before.names != after.names:
        yield FieldChange("names", list(before.names), list(after.names))
    for hostname in sorted(before.public.keys() | after.public.keys()):
        was_route, is_route = before.public.get(hostname), after.public.get(hostname)
        if was_route != is_route:
            yield FieldChange(f"public {hostname}", _route(was_route), _route(is_route))
    if before.node != after.node:
        yield FieldChange("placement", before.node or None, after.node or None)
    if before.epoch != after.epoch:
        yield FieldChange("epoch", before.epoch, after.epoch)
    if before.move != after.move and after.move is not UNSET:
        yield FieldChange("data", None, after.move.origin)
    for reference in sorted(before.images.keys() | after.images.keys()):
        was_digest, is_digest = before.images.get(reference), after.images.get(reference)
        if was_digest != is_digest:
            yield FieldChange(f"image {reference}", was_digest, is_digest)
    for name in sorted(before.wants.keys() | after.wants.keys()):
        had, has = before.wants.get(name), after.wants.get(name)
        if had != has:
            yield FieldChange(f"need {name}", _want(had), _want(has))
    for name in sorted(before.secrets.keys() | after.secrets.keys()):
        was_sealed, is_sealed = before.secrets.get(name), after.secrets.get(name)
        if was_sealed != is_sealed:
            yield FieldChange(f"secret {name}", was_sealed and was_sealed[:12], is_sealed and is_sealed[:12])


def _route(route: PublicRoute | None) -> str | None:
    if route is None:
        return None
    return f"{route.edge or 'no edge'} → {route.backend}:{route.listener} ({route.mode})"


def _want(want: Want | None) -> str | None:
    """With the facts: a provider that changes them changes what its consumers use."""
    if want is None:
        return None
    facts = ", ".join(f"{key} {fact}" for key, fact in sorted(want.facts.items()))
    return f"{want.type} of {want.provider} ({facts})"


def why(before: Entry | None, after: Entry) -> str:
    """What becomes public, moves between edges or is no longer public; and who meets its needs."""
    return "; ".join((*_reached(before, after), *_met(before, after)))


def _met(before: Entry | None, after: Entry) -> Iterator[str]:
    had = before.wants if before is not None else {}
    for name in sorted(had.keys() | after.wants.keys()):
        was, now = had.get(name), after.wants.get(name)
        if now is None:
            yield f"its need {name} ends"
        elif was is None:
            yield f"its need {name} is met by {now.provider} ({now.type})"
        elif (was.provider, was.type) != (now.provider, now.type):
            yield f"its need {name} is met by {now.provider} ({now.type}) in place of {was.provider} ({was.type})"


def _reached(before: Entry | None, after: Entry) -> list[str]:
    was = before.public if before is not None else {}
    words = []
    for hostname in sorted(was.keys() | after.public.keys()):
        old, new = was.get(hostname), after.public.get(hostname)
        if new is None:
            words.append(f"{hostname} is no longer public")
        elif old is None:
            words.append(f"{hostname} becomes public on {new.edge or 'no edge yet'}")
        elif old.edge != new.edge:
            words.append(f"{hostname} moves from {old.edge or 'no edge'} to {new.edge or 'no edge'}")
    return words
