"""Handshakes by asyncio and OpenSSL. Sends no application byte to anybody who did not prove himself, and none but one
small question then; never waits longer than it was told."""

import asyncio
import ssl
from contextlib import suppress
from functools import lru_cache

from holdfast.ports.handshake import Asked, Shown

_ALPN = ("h2", "http/1.1")
_ASKING = ("http/1.1",)
_LOOK_S = 2.0  # the most that a second look, without verification, may take


class TlsHandshake:
    async def shown(
        self, address: str, port: int, name: str, authorities: bytes, at_most_s: float, asked: Asked | None = None
    ) -> Shown:
        """If the peer does not prove itself, it is dialled once more without verification: only to see its leaf."""
        until_s = asyncio.get_running_loop().time() + at_most_s
        try:
            context = _verifying(authorities, _ASKING if asked else _ALPN)
        except (ssl.SSLError, ValueError) as trouble:
            return Shown(trouble=f"the authorities to believe cannot be read: {trouble}")
        shown = await _dialled(context, address, port, name, at_most_s, asked)
        left_s = until_s - asyncio.get_running_loop().time()
        if shown.refused and left_s > 0:
            seen = await _dialled(_looking(), address, port, name, min(left_s, _LOOK_S))
            return Shown(leaf=seen.shown.leaf, trouble=shown.shown.trouble)
        return shown.shown


class _Outcome:
    def __init__(self, shown: Shown, refused: bool = False) -> None:
        self.shown = shown
        self.refused = refused  # by us: it answered, and proved nothing


async def _dialled(
    context: ssl.SSLContext, address: str, port: int, name: str, at_most_s: float, asked: Asked | None = None
) -> _Outcome:
    where = f"{address}:{port}"
    writer: asyncio.StreamWriter | None = None
    try:
        async with asyncio.timeout(max(at_most_s, 0)):
            reader, writer = await asyncio.open_connection(
                address, port, ssl=context, server_hostname=name, ssl_handshake_timeout=max(at_most_s, 0.001)
            )
            proof = writer.get_extra_info("ssl_object")
            leaf = proof.getpeercert(binary_form=True) or b""
            if asked is not None and not await _has_route(reader, writer, asked):
                return _Outcome(Shown(leaf, f"{where} proves to be {name}, but has no route for {asked.host} yet"))
        return _Outcome(Shown(leaf, "", proof.selected_alpn_protocol() or ""))
    except ssl.SSLCertVerificationError as trouble:
        why = trouble.verify_message or str(trouble)
        return _Outcome(Shown(trouble=f"{where} does not prove to be {name}: {why}"), refused=True)
    except ssl.SSLError as trouble:
        return _Outcome(Shown(trouble=f"the TLS handshake with {where} for {name} failed: {_reason(trouble)}"))
    except TimeoutError:
        return _Outcome(Shown(trouble=f"{where} did not finish a TLS handshake for {name} within {at_most_s:g}s"))
    except ConnectionRefusedError:
        return _Outcome(Shown(trouble=f"nobody listens on {where}"))
    except ConnectionError:
        return _Outcome(Shown(trouble=f"{where} closed the connection during the TLS handshake for {name}"))
    except (OSError, ValueError) as trouble:
        return _Outcome(Shown(trouble=f"{where} cannot be reached: {getattr(trouble, 'strerror', '') or trouble}"))
    finally:
        if writer is not None:
            with suppress(Exception):
                writer.transport.abort()  # no farewell to wait for: nothing was said


async def _has_route(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: Asked) -> bool:
    writer.write(f"GET {asked.path} HTTP/1.1\r\nHost: {asked.host}\r\nConnection: close\r\n\r\n".encode("ascii"))
    status = await reader.readline()
    return status.startswith(b"HTTP/1.1 204")


def _reason(trouble: ssl.SSLError) -> str:
    return (trouble.reason or "it was cut off").lower().replace("_", " ")


@lru_cache(maxsize=256)  # an edge looks at its backends every few seconds, and reading authorities costs the most
def _verifying(authorities: bytes, protocols: tuple[str, ...]) -> ssl.SSLContext:
    context = _begun(protocols)
    # A node's issuer is believed by itself, also where it is no root: whatever was handed over here is the anchor.
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    if authorities:
        context.load_verify_locations(cadata=authorities.decode("ascii"))
    else:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    return context


@lru_cache(maxsize=1)
def _looking() -> ssl.SSLContext:
    context = _begun(_ALPN)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _begun(protocols: tuple[str, ...]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # asks for a certificate and for the name in it
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(list(protocols))
    return context
