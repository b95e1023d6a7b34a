"""Encode a report so that a hub takes it: a longer one would be refused, and with it the whole check-in. Pure.

Names and messages of foreign containers go into it. So sections are shortened in stages, and a finding says so.
"""

from collections.abc import Sequence
from typing import get_args

import msgspec

from holdfast.agent.keeper import Section, Stage
from holdfast.model.checkin import REPORT_BYTES_MAX

STAGES: tuple[Stage, ...] = get_args(Stage)

_encode = msgspec.json.Encoder().encode


def fitted(sections: Sequence[Section]) -> bytes:
    content = joined(sections)
    for stage in STAGES:
        if len(content) <= REPORT_BYTES_MAX:
            break
        sections = [section.shorter(stage) for section in sections]
        content = joined(sections)
    return content


def joined(sections: Sequence[Section]) -> bytes:
    """One JSON object with the fields of all sections, in their order."""
    fields = (_encode(section)[1:-1] for section in sections)
    return b"{" + b",".join(one for one in fields if one) + b"}"
