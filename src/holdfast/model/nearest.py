"""The nearest known name for one that does not exist. Pure."""

from collections.abc import Iterable


def hint(word: str, known: Iterable[str], form: str = "{}") -> str:
    """`did you mean web? `, to begin a remedy with; "" if no name is near. Labels that both names have at their
    beginning or end make nothing near: service.notes is not service.hello, and a.example.com not z.example.com."""
    from difflib import get_close_matches  # only after a mistake (ADR 0003)

    for name in get_close_matches(word, list(known), n=20):
        own, other = _apart(word.split("."), name.split("."))
        if not own or not other or get_close_matches(".".join(own), [".".join(other)]):
            return f"did you mean {form.format(name)}? "
    return ""


def _apart(word: list[str], name: list[str]) -> tuple[list[str], list[str]]:
    """The labels of both between those that are alike."""
    while word and name and word[0] == name[0]:
        word, name = word[1:], name[1:]
    while word and name and word[-1] == name[-1]:
        word, name = word[:-1], name[:-1]
    return word, name
