"""Suggest the nearest known spelling. Pure; loads difflib only when there is a mistake."""

from collections.abc import Iterable
from functools import lru_cache

from holdfast.declared.words import printable

WORD_CHARS_MAX = 64
MEANT = {"grpc": "h2c", "http2": "h2c", "h2": "h2c", "http": "http1", "tcp": "l4", "tls": "l4"}  # usual names elsewhere


def nearest(word: str, known: Iterable[str]) -> str:
    """The most similar known text, or "" when nothing is similar enough."""
    words = tuple(sorted(known))
    if MEANT.get(word.lower()) in words:
        return MEANT[word.lower()]
    return _nearest(word, words) if len(word) <= WORD_CHARS_MAX else ""


@lru_cache(maxsize=1024)
def _nearest(word: str, known: tuple[str, ...]) -> str:
    from difflib import get_close_matches

    folded = {other.lower().replace("-", "_"): other for other in known}
    found = get_close_matches(word.lower().replace("-", "_"), folded, n=1, cutoff=0.6)
    return folded[found[0]] if found else ""


def question(word: str, known: Iterable[str]) -> str:
    """`did you mean "image"?`, or ""."""
    guess = nearest(word, known)
    return f'did you mean "{printable(guess)}"?' if guess else ""
