"""Which Apprise URLs an alert target may have: closed lists of services and options (X04). Pure.

Apprise has 180 services and many options that read local files, choose the HTTP method or set headers. Here are the
ones that only carry a message. docs/adr/0031 has the reasons.
"""

from collections.abc import Mapping

# scheme → the module of Apprise's plugin, and its class
SCHEMES: Mapping[str, tuple[str, str]] = {
    "discord": ("discord", "NotifyDiscord"),
    "gotify": ("gotify", "NotifyGotify"),
    "gotifys": ("gotify", "NotifyGotify"),
    "json": ("custom_json", "NotifyJSON"),
    "jsons": ("custom_json", "NotifyJSON"),
    "mailto": ("email.base", "NotifyEmail"),
    "mailtos": ("email.base", "NotifyEmail"),
    "matrix": ("matrix.base", "NotifyMatrix"),
    "matrixs": ("matrix.base", "NotifyMatrix"),
    "mmost": ("mattermost", "NotifyMattermost"),
    "mmosts": ("mattermost", "NotifyMattermost"),
    "ntfy": ("ntfy", "NotifyNtfy"),
    "ntfys": ("ntfy", "NotifyNtfy"),
    "opsgenie": ("opsgenie", "NotifyOpsgenie"),
    "pagerduty": ("pagerduty", "NotifyPagerDuty"),
    "pover": ("pushover", "NotifyPushover"),
    "rocket": ("rocketchat", "NotifyRocketChat"),
    "rockets": ("rocketchat", "NotifyRocketChat"),
    "signal": ("signal_api", "NotifySignalAPI"),
    "signals": ("signal_api", "NotifySignalAPI"),
    "slack": ("slack", "NotifySlack"),
    "tgram": ("telegram", "NotifyTelegram"),
    "workflows": ("workflows", "NotifyWorkflows"),
    "zulip": ("zulip", "NotifyZulip"),
}
_OPTIONS = """
api-version auth bcc cc channel channels format from id mode name overflow pass priority region reply severity sig
silent smtp sound tags team thread to token topic user xtags
"""
OPTIONS = frozenset(_OPTIONS.split())


def scheme_of(url: str) -> str:
    return url.partition("://")[0].lower()


def complaint(url: str) -> str | None:
    """Why no alert is sent to this URL, or None. The text does not repeat the URL: it may have a secret."""
    scheme = scheme_of(url)
    if scheme not in SCHEMES:
        return f'has the scheme "{scheme[:40]}", which is not one of: {", ".join(SCHEMES)}'
    _, mark, query = url.partition("?")
    if "?" in query:
        return "has a second question mark"
    for pair in query.replace(";", "&").split("&") if mark else ():
        key = pair.partition("=")[0].lower()  # one that is percent-encoded is in no list
        if key and key not in OPTIONS:
            return f'has the option "{key[:40]}", which is not one of: {", ".join(sorted(OPTIONS))}'
    return None
