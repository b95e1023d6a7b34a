"""TLS between the two ends of a stream, as bytes in and bytes out. Touches no socket; both sides must prove themselves.

The node shows a certificate of its pinned issuer, the caller the one certificate that the signed order names. ALPN
keeps a listener of the same node, which has the same certificate, from being taken for the other end.
"""

import ssl

from holdfast.adapters.tls.client import issued_context
from holdfast.adapters.tls.server import from_memory, server_context
from holdfast.model.certificate import Issued
from holdfast.model.stream import PROTOCOL
from holdfast.ports.stream_link import CallerKey, Pinned, StreamCut, StreamForged

PIECE_BYTES = 16 * 1024  # a TLS record


class Inner:
    """One end. `feed` what came, `step` or `opened` it, send what is in `outgoing`."""

    def __init__(self, context: ssl.SSLContext, whose: str, server_side: bool, name: str | None = None) -> None:
        self._whose = whose  # the other end, for people
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_side=server_side, server_hostname=name)

    def feed(self, content: bytes) -> None:
        if content:
            self._in.write(content)
        else:
            self._in.write_eof()

    def outgoing(self) -> bytes:
        return self._out.read()

    def shaken(self) -> bool:
        """One step of the handshake; False while more has to come from the other end."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
            raise cut(self._whose) from None
        except ssl.SSLError as trouble:
            raise _forged(self._whose, _reason(trouble)) from None
        if self._tls.selected_alpn_protocol() != PROTOCOL:
            raise _forged(self._whose, "it does not offer the protocol of log streams")
        return True

    def shown(self) -> bytes:
        return self._tls.getpeercert(binary_form=True) or b""

    def opened(self) -> bytes | None:
        """What the other end said; None while more has to come, b"" once it said goodbye."""
        try:
            return self._tls.read(PIECE_BYTES)
        except ssl.SSLWantReadError:
            return None
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
            return b""
        except ssl.SSLError as trouble:
            raise _forged(self._whose, _reason(trouble)) from None

    def seal(self, content: bytes) -> None:
        view = memoryview(content)
        try:
            while view:
                view = view[self._tls.write(view) :]
        except ssl.SSLError:  # after the other end has left
            raise cut(self._whose) from None

    def goodbye(self) -> None:
        try:
            self._tls.unwrap()
        except ssl.SSLError:  # the other end need not answer
            return


def node_end(shown: Issued, caller: bytes) -> Inner:
    """The node's end: a caller without the key of exactly this certificate gets nothing."""
    context = server_context(shown.chain, shown.private)
    context.verify_mode = ssl.CERT_REQUIRED
    context.set_alpn_protocols([PROTOCOL])
    try:
        context.load_verify_locations(cadata=caller)
    except (ssl.SSLError, ValueError) as trouble:
        raise _forged("the caller", f"the order names no certificate: {trouble}") from None
    return Inner(context, "the caller", server_side=True)


def caller_end(key: CallerKey, node: Pinned) -> Inner:
    context = issued_context(node.issuer)
    context.set_alpn_protocols([PROTOCOL])
    from_memory(key.private + key.chain, context.load_cert_chain)
    return Inner(context, node.node, server_side=False, name=node.name)


def check_caller(inner: Inner, caller: bytes) -> None:
    if inner.shown() != caller:
        raise _forged("the caller", "its certificate is not the one that the order names")


def _reason(trouble: ssl.SSLError) -> str:
    said = getattr(trouble, "verify_message", "") or (trouble.reason or str(trouble)).replace("_", " ").lower()
    return str(said)


def _forged(whose: str, why: str) -> StreamForged:
    return StreamForged(
        f"{whose} is not proven to be at the other end of the stream: {why}; its lines are not shown",
        remedy="repeat the command; if it fails again, check the machine of the hub: it may change what it relays",
    )


def cut(whose: str) -> StreamCut:
    return StreamCut(
        f"the stream to {whose} was cut: the hub, {whose} or the line between them is gone",
        remedy="repeat the command; `holdfast node list` shows who is there",
    )
