"""The message of a revision: one line that says why it was applied.

It is kept beside the revision and not signed: releases before it refuse a header with an unknown field.
"""

from holdfast.errors import Invalid

CHARS_MAX = 200


def check(text: str) -> str:
    if len(text) > CHARS_MAX:
        raise _unfit(f"it has {len(text)} characters, and at most {CHARS_MAX} are allowed")
    if not text.isprintable():
        raise _unfit("it contains a line break, a control character or a character that changes the text direction")
    return text


def _unfit(why: str) -> Invalid:
    return Invalid(
        f"this message cannot be recorded: {why}",
        remedy=f"give one line of at most {CHARS_MAX} printable characters, such as -m 'raise the upload limit'",
    )
