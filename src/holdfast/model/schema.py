"""The forms of declared values, with words for people, and the base of every declared table."""

from typing import Annotated

from msgspec import Meta, Struct

from holdfast.model import duration
from holdfast.model.ids import NAME_PATTERN


def form(pattern: str, words: str, max_length: int | None = None) -> Meta:
    """`$` alone would let a trailing newline through; the description is shown to people with a wrong value."""
    return Meta(pattern=pattern + r"(?!\n)", description=words, max_length=max_length)


NameText = Annotated[
    str,
    form(NAME_PATTERN, "a name of at most 40 lower-case letters, digits and dashes that starts with a letter"),
]
Duration = Annotated[str, form(duration.PATTERN, 'a duration such as "90s", "5m", "24h" or "7d"')]
Port = Annotated[int, Meta(ge=1, le=65535)]
Text = Annotated[str, Meta(max_length=4096)]
Hostname = Annotated[
    str,
    form(
        r"^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$",
        'a lower-case hostname such as "www.example.com"',
        253,
    ),
]
HeaderName = Annotated[
    str, form(r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$", 'a header in lower case such as "remote-user"', 40)
]
HubUrl = Annotated[
    str,
    form(
        r"^(https://(\[[0-9a-f:.]+\]|[a-z0-9]([a-z0-9.-]*[a-z0-9])?)(:[1-9][0-9]{0,4})?)?$",
        'the address of the hub such as "https://hub.example.com:9555"',
        300,
    ),
]
WebhookUrl = Annotated[
    str,
    form(
        r"^https://(\[[0-9a-f:.]+\]|[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?)(:[1-9][0-9]{0,4})?(/[!-~]*)?$",
        'an https:// address such as "https://chat.example.com/hooks/abc"',
        2048,
    ),
]
AcmeUrl = Annotated[
    str,
    form(
        r"^https://(\[[0-9a-f:.]+\]|[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?)(:[1-9][0-9]{0,4})?(/[!-~]*)?$",
        'the directory of an ACME authority such as "https://acme.example.com/directory"',
        2048,
    ),
]
AlertCode = Annotated[str, form(r"^[a-z][a-z0-9_]{0,39}$", 'the code of an alert such as "node_silent"')]
QuietText = Annotated[
    str,
    form(r"^([01][0-9]|2[0-3]):[0-5][0-9]-([01][0-9]|2[0-3]):[0-5][0-9]$", 'two times of day such as "22:00-07:00"'),
]
AppriseUrl = Annotated[
    str,
    form(r"^[A-Za-z][A-Za-z0-9+.-]{0,39}://[!-~]+$", 'an Apprise URL such as "ntfys://ntfy.example.com/fleet"', 2048),
]
AbsolutePath = Annotated[str, form(r"^/[^\x00-\x1f]*$", 'an absolute path such as "/data"', 1024)]
ImageRef = Annotated[
    str,
    form(
        r"^[a-z0-9]+([._:/-]+[a-z0-9]+)*(:[A-Za-z0-9_][A-Za-z0-9._-]{0,127})?(@sha256:[0-9a-f]{64})?$",
        'an image such as "registry.example.com/team/web:1.2", or with "@sha256:…" at its end',
        512,
    ),
]
EnvName = Annotated[
    str,
    form(
        r"^[A-Za-z_][A-Za-z0-9_]{0,127}$", "a name of letters, digits and underscores that does not start with a digit"
    ),
]
Protect = Annotated[
    str,
    form(
        r"^(backup|none|own:[a-z][a-z0-9-]{0,39})$",
        '"backup" (the whole volume is backed up), "own:NAME" (it is to be stored on the [[storage]] target NAME; not '
        'built yet) or "none" (it may be lost)',
    ),
]
HostVolume = Annotated[
    str,
    form(r"^/[^:\x00-\x1f]*:/[^:\x00-\x1f]*$", 'HOST:CONTAINER, two absolute paths such as "/srv/web:/data"', 2049),
]
SecretFile = Annotated[
    str,
    form(r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$", 'the name of a file below /run/secrets such as "tls.pem"'),
]
User = Annotated[
    str,
    form(
        r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,31}(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,31})?$",
        'USER or USER:GROUP, each a number or a name of the image, such as "1000:1000" or "grafana"',
    ),
]
Owner = Annotated[
    str,
    form(
        r"^(0|[1-9][0-9]{0,8}):(0|[1-9][0-9]{0,8})$",
        'the numbers of a user and of a group such as "1000:1000"',
    ),
]
Cpu = Annotated[str, form(r"^[0-9]{1,4}(\.[0-9]{1,3})?$", "a number of processors such as 2 or 0.5")]
Memory = Annotated[str, form(r"^[1-9][0-9]{0,9}(Ki|Mi|Gi)?B?$", 'an amount of memory such as "512Mi" or "2Gi"')]
Recipient = Annotated[str, form(r"^age1[0-9a-z]{10,90}$", 'an age recipient such as "age1qqp…"')]
OnChange = Annotated[
    str,
    form(
        r"^(restart|nothing|signal:[A-Z][A-Z0-9]{1,9})$",
        '"restart", "nothing" or "signal:NAME" such as "signal:HUP"',
    ),
]
Method = Annotated[
    str, form(r"^(grpc|cli|full|postgres|exec: .+)?$", '"postgres", "exec: COMMAND", "grpc", "cli" or "full"', 4096)
]


class Table(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Unknown keys are errors; omitted keys stay out of the canonical bytes."""
