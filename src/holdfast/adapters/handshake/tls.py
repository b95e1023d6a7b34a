"""TLS handshakes with asyncio and OpenSSL, each within a time limit.

Sends application data only to a verified server, and then only one small request.
"""

import asyncio
import ssl
from contextlib import suppress
from functools import lru_cache

from holdfast.ports.handshake import IDLE, Asked, Shown

_ALPN = ("h2", "http/1.1")
_ASKING = ("http/1.1",)
_LOOK_S = 2.0  # time limit of a second handshake without verification


class TlsHandshake:
    async def shown(
        self, address: str, port: int, name: str, authorities: bytes, at_most_s: float, asked: Asked | None = None
    ) -> Shown:
        """If verification fails, connect once more without it, only to read the leaf certificate."""
        until_s = asyncio.get_running_loop().time() + at_most_s
        try:
            context = _verifying(authorities, _ASKING if asked else _ALPN)
        except (ssl.SSLError, ValueError) as trouble:
            return Shown(trouble=f"the trusted authorities cannot be read: {trouble}")
        shown = await _dialled(context, address, port, name, at_most_s, asked)
        left_s = until_s - asyncio.get_running_loop().time()
        if shown.refused and left_s > 0:
            seen = await _dialled(_looking(), address, port, name, min(left_s, _LOOK_S))
            return Shown(leaf=seen.shown.leaf, trouble=shown.shown.trouble)
        return shown.shown


class _Outcome:
    def __init__(self, shown: Shown, refused: bool = False) -> None:
        self.shown = shown
        self.refused = refused  # the server answered, and its certificate failed verification


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
            if asked is not None and (status := await _asked(reader, writer, asked)) != b"204":
                is_idle = status == b"%d" % IDLE
                has = "no container that answers" if is_idle else "no route for it yet"
                return _Outcome(
                    Shown(leaf, f"{where} is verified as {name}; {asked.host} has {has} there", is_idle=is_idle)
                )
        return _Outcome(Shown(leaf, "", proof.selected_alpn_protocol() or ""))
    except ssl.SSLCertVerificationError as trouble:
        why = trouble.verify_message or str(trouble)
        return _Outcome(Shown(trouble=f"{where} has no valid certificate for {name}: {why}"), refused=True)
    except ssl.SSLError as trouble:
        return _Outcome(Shown(trouble=f"the TLS handshake with {where} for {name} failed: {_reason(trouble)}"))
    except TimeoutError:
        return _Outcome(Shown(trouble=f"{where} did not finish the TLS handshake for {name} within {at_most_s:g}s"))
    except ConnectionRefusedError:
        return _Outcome(Shown(trouble=f"connection refused: nothing listens on {where}"))
    except ConnectionError:
        return _Outcome(
            Shown(trouble=f"{where} does not serve {name} yet: it closed the connection during the TLS handshake")
        )
    except (OSError, ValueError) as trouble:
        return _Outcome(Shown(trouble=f"cannot reach {where}: {getattr(trouble, 'strerror', '') or trouble}"))
    finally:
        if writer is not None:
            with suppress(Exception):
                writer.transport.abort()  # a clean TLS shutdown would wait for the peer


async def _asked(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: Asked) -> bytes:
    """The status of the answer."""
    writer.write(f"GET {asked.path} HTTP/1.1\r\nHost: {asked.host}\r\nConnection: close\r\n\r\n".encode("ascii"))
    version, _, rest = (await reader.readline()).partition(b" ")
    return rest[:3] if version == b"HTTP/1.1" else b""


def _reason(trouble: ssl.SSLError) -> str:
    return (trouble.reason or "connection cut").lower().replace("_", " ")


@lru_cache(maxsize=256)  # an edge checks its backends every few seconds, and parsing authorities costs the most
def _verifying(authorities: bytes, protocols: tuple[str, ...]) -> ssl.SSLContext:
    context = _begun(protocols)
    # A node's issuer is trusted even if it is not a root: the given certificates are the trust anchors.
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
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # verifies the certificate and its hostname
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(list(protocols))
    return context
