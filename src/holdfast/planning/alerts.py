"""Alert targets without their secrets: plans are printed, pasted and logged. Pure."""

from typing import Any

from holdfast.model import canonical
from holdfast.model.applied import plain


def masked(content: bytes) -> Any:
    """A webhook keeps its host, an Apprise URL only its scheme (many have a token in place of the host).

    Six digits of the digest distinguish URLs.
    """
    document = plain(content)
    for key in ("webhook", "apprise"):
        if isinstance(document.get(key), str):
            document[key] = _masked(document[key], keep_host=key == "webhook")
    return document


def _masked(url: str, keep_host: bool) -> str:
    scheme, _, rest = url.partition("://")
    host = rest.partition("/")[0] + "/" if keep_host else ""
    return f"{scheme}://{host}… ({canonical.digest(url.encode())[:6]})"
