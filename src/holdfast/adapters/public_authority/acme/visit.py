"""One session with an ACME server, step by step, by the `acme` library. Synchronous; a step is 1-2 requests."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import requests
from acme import challenges, client, messages
from acme.errors import ConflictError
from cryptography import x509 as lib
from cryptography.hazmat.primitives import hashes, serialization
from josepy.jwa import ES256
from josepy.jwk import JWKEC
from msgspec import Struct
from requests.adapters import HTTPAdapter

from holdfast import __version__
from holdfast.adapters.certificates import issuer as issuing
from holdfast.adapters.certificates import x509
from holdfast.adapters.public_authority.acme import acme_errors
from holdfast.model.fleet import Acme

ANSWER_BYTES_MAX = 256 * 1024
LOOKS_MAX = 4  # failed validation attempts before an order is given up
_TOKEN = re.compile(r"[A-Za-z0-9_-]{1,256}\Z")


class Request(Struct, frozen=True):
    tokens: Mapping[str, str]  # to be served on port 80; empty if the authority still has valid authorizations
    private: bytes

    def __repr__(self) -> str:
        return f"Request({len(self.tokens)} tokens)"


class _Answers(HTTPAdapter):
    """Bounds the size of answers, and keeps what the library drops: the status and Retry-After."""

    status = 0
    retry_after_s = 0.0

    def send(self, *given: Any, **named: Any) -> requests.Response:
        named["stream"] = True
        response = super().send(*given, **named)
        content = response.raw.read(ANSWER_BYTES_MAX + 1, decode_content=True)
        if len(content) > ANSWER_BYTES_MAX:
            raise requests.exceptions.ContentDecodingError(f"its answer exceeds {ANSWER_BYTES_MAX:,} bytes")
        response._content = content
        self.status = response.status_code
        self.retry_after_s = _seconds(response.headers.get("Retry-After", ""))
        return response


class _NoPlain(HTTPAdapter):
    """The authority supplies every URL after the first: refuse any without TLS."""

    def send(self, *given: Any, **named: Any) -> requests.Response:
        raise requests.exceptions.InvalidSchema("it refers to a URL without TLS")


def _seconds(text: str) -> float:
    return float(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0.0


class Visit:
    def __init__(self, settings: Acme, account: bytes, believed: str, request_s: float) -> None:
        self.where = settings.directory
        self.answers = _Answers()
        self._looks_left = LOOKS_MAX
        self._key = JWKEC(key=serialization.load_pem_private_key(account, None))
        self._net = client.ClientNetwork(
            self._key,
            alg=ES256,
            verify_ssl=believed or True,  # type: ignore[arg-type]  # passed to requests, which accepts a path
            user_agent=f"holdfast/{__version__}",
            timeout=request_s,  # type: ignore[arg-type]
        )
        self._net.session.mount("https://", self.answers)
        self._net.session.mount("http://", _NoPlain())
        self._begin(settings)

    @property
    def asked_s(self) -> float:
        """The delay that the authority requested (Retry-After)."""
        return self.answers.retry_after_s

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Converts any exception of the library into our error, with the authority's own message."""
        try:
            yield
        except Exception as trouble:
            raise acme_errors.told(trouble, self.where, self.answers.status, self.answers.retry_after_s) from None

    def close(self) -> None:
        self._net.session.close()

    def _begin(self, settings: Acme) -> None:
        with self._told():
            self._client = client.ClientV2(client.ClientV2.get_directory(self.where, self._net), self._net)
            contact = tuple(text if ":" in text else f"mailto:{text}" for text in settings.contact)
            wanted = messages.NewRegistration.from_data(contact=contact, terms_of_service_agreed=True)
            self._net.account = self._registered(wanted)

    def _registered(self, wanted: messages.NewRegistration) -> messages.RegistrationResource:
        """For an existing account the server returns its URL, which is all that is needed."""
        try:
            return self._client.new_account(wanted)
        except ConflictError as known:
            return messages.RegistrationResource(body=messages.Registration(), uri=known.location)

    def order(self, names: tuple[str, ...]) -> Request:
        with self._told():
            private = issuing.make_key()
            request = (
                lib.CertificateSigningRequestBuilder()
                .subject_name(lib.Name([]))
                .add_extension(lib.SubjectAlternativeName([lib.DNSName(name) for name in names]), critical=False)
                .sign(private, hashes.SHA256())
            )
            self._order = self._client.new_order(request.public_bytes(serialization.Encoding.PEM))
            self._pending = [self._challenge(one, names) for one in self._order.authorizations if not _valid(one)]
            tokens = {one.chall.encode("token"): one.chall.key_authorization(self._key) for one in self._pending}
            return Request(tokens, x509.pkcs8(private))

    def _challenge(self, asked: messages.AuthorizationResource, names: tuple[str, ...]) -> messages.ChallengeBody:
        if asked.body.identifier.value not in names:
            raise acme_errors.nonsense(
                self.where, f"it asks about {asked.body.identifier.value}, which was not ordered"
            )
        for one in asked.body.challenges:
            if isinstance(one.chall, challenges.HTTP01):
                if _TOKEN.match(one.chall.encode("token")) is None:
                    raise acme_errors.nonsense(self.where, "its challenge token is malformed")
                return one
        raise acme_errors.refused(self.where, f"it does not offer HTTP-01 for {asked.body.identifier.value}")

    def ready(self) -> None:
        """Tell the authority that the challenges can be fetched now."""
        with self._told():
            for one in self._pending:
                self._client.answer_challenge(one, one.chall.response(self._key))

    def proven(self) -> bool:
        with self._told():
            seen = [self._client.poll(asked)[0] for asked in self._order.authorizations]
            for one in seen:
                self._check(one)
            if any(_why(one) for one in seen if not _valid(one)):
                self._looks_left -= 1
                self.ready()  # some authorities check once, report the failure, and wait for another request
            return all(_valid(one) for one in seen)

    def _check(self, seen: messages.AuthorizationResource) -> None:
        under_way = seen.body.status in (messages.STATUS_PENDING, messages.STATUS_PROCESSING)
        if _valid(seen) or (under_way and (self._looks_left > 0 or not _why(seen))):
            return
        raise acme_errors.refused(self.where, f"{seen.body.identifier.value}: {_why(seen) or 'it gave no reason'}")

    def finalized(self) -> bool:
        """Finalize the order once it is ready, then poll until there is a certificate."""
        with self._told():
            body = self._order.body
            if body.status in (messages.STATUS_PENDING, messages.STATUS_PROCESSING):
                body = messages.Order.from_json(self._post_as_get(self._order.uri).json())
            if body.status == messages.STATUS_READY:
                body = self._client.begin_finalization(self._order.update(body=body)).body
            self._order = self._order.update(body=body)
            if body.status == messages.STATUS_INVALID:
                raise acme_errors.refused(self.where, acme_errors.of(body.error) if body.error else "it gave no reason")
            return body.status == messages.STATUS_VALID and body.certificate is not None

    def chain(self) -> bytes:
        with self._told():
            return self._post_as_get(self._order.body.certificate or "").content

    def _post_as_get(self, url: str) -> requests.Response:
        return self._net.post(url, None, new_nonce_url=self._client.directory["newNonce"])


def _valid(asked: messages.AuthorizationResource) -> bool:
    return bool(asked.body.status == messages.STATUS_VALID)


def _why(seen: messages.AuthorizationResource) -> str:
    return "; ".join(acme_errors.of(one.error) for one in seen.body.challenges if one.error is not None)
