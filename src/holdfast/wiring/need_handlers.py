"""Choose what makes the credentials of a type."""

from collections.abc import Callable

from holdfast.ports.need_handler import NeedHandler
from holdfast.ports.random_source import RandomSource


def handler_of(random: RandomSource) -> Callable[[str], NeedHandler]:
    """A type that is not built in is made by a program of the provider's operator."""
    from holdfast.adapters.need_handler.postgres import PostgresHandler
    from holdfast.adapters.need_handler.program import ProgramHandler

    built_in: dict[str, NeedHandler] = {"postgres": PostgresHandler(random)}
    program = ProgramHandler()
    return lambda type: built_in.get(type, program)
