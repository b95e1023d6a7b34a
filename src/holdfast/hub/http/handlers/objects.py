"""The routes of a store of sealed objects; backups and moves have one each."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from holdfast.hub.http.operation import Operation
from holdfast.hub.http.route import REFUSED, Parameter, Route, Word
from holdfast.model.backup_key import KEY_FORM, OBJECT_BYTES_MAX, PREFIX_FORM
from holdfast.ports.backup_target import TargetState
from holdfast.wire import codec
from holdfast.wire.backup_messages import (
    PAGE_OBJECTS,
    ObjectDeleted,
    ObjectsPage,
    ObjectTaken,
    PresentAnswer,
    PresentRequest,
)

if TYPE_CHECKING:
    from holdfast.hub.http.request import Request
    from holdfast.ports.backup_target import StoredObject

KEY = Word("key", KEY_FORM)
PREFIX = Word("prefix", PREFIX_FORM)
AFTER = Word("after", KEY_FORM)
FIRST = Parameter("first", 0, OBJECT_BYTES_MAX, 0)
LIMIT = Parameter("limit", 1, PAGE_OBJECTS, PAGE_OBJECTS)
READ_REFUSALS = (400, 404, 409)
WRITE_REFUSALS = (*REFUSED, 404)

Run = Callable[[Any, Any], bytes]


class Words(Struct, frozen=True):
    """How the summaries name the store and what it holds."""

    store: str
    object: str
    deletable: str


class Permissions(Struct, frozen=True):
    write: Operation
    read: Operation
    delete: Operation


class Runs(Struct, frozen=True):
    """Methods of the handler; `check_put` is called before the body is read."""

    check_put: Callable[[Any, Any], None]
    put: Run
    get: Run
    delete: Run
    present: Run
    listed: Run
    room: Run


def page(found: Sequence[StoredObject], request: Request) -> bytes:
    """Of objects sorted by key: those after the last one that the caller has."""
    first, limit = bisect_right(found, request.query["after"], key=lambda one: one.key), request.query["limit"]
    return codec.write(ObjectsPage(tuple(found[first : first + limit]), first + limit < len(found)))


def routes(at: str, handler: type, words: Words, permissions: Permissions, runs: Runs) -> tuple[Route, ...]:
    return (
        Route(
            "PUT",
            at,
            permissions.write,
            f"Store an {words.object}; answers when it is durable",
            handler,
            runs.put,
            ObjectTaken,
            bytes,
            query=(KEY,),
            cost="object",
            body_bytes_max=OBJECT_BYTES_MAX,
            refusals=WRITE_REFUSALS,
            check=runs.check_put,
        ),
        Route(
            "GET",
            at,
            permissions.read,
            f"At most 4 MiB of an {words.object}, from byte `first` on",
            handler,
            runs.get,
            None,
            query=(KEY, FIRST),
            cost="object",
            refusals=READ_REFUSALS,
        ),
        Route(
            "DELETE",
            at,
            permissions.delete,
            f"Delete an {words.deletable}",
            handler,
            runs.delete,
            ObjectDeleted,
            query=(KEY,),
            cost="object",
            refusals=READ_REFUSALS,
        ),
        Route(
            "POST",
            f"{at}/present",
            permissions.read,
            f"Which of these keys have an {words.object}",
            handler,
            runs.present,
            PresentAnswer,
            PresentRequest,
            cost="object",
            refusals=WRITE_REFUSALS,
        ),
        Route(
            "GET",
            f"{at}/list",
            permissions.read,
            f"Each {words.object} whose key begins so, sorted by key",
            handler,
            runs.listed,
            ObjectsPage,
            query=(PREFIX, AFTER, LIMIT),
            cost="object",
            refusals=READ_REFUSALS,
        ),
        Route(
            "GET",
            f"{at}/room",
            permissions.read,
            f"Whether the {words.store} takes objects, and how many bytes of them",
            handler,
            runs.room,
            TargetState,
            refusals=(409,),
        ),
    )
