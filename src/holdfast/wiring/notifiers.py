"""Choose the notifier of an alert target, for a hub and for an agent. No policy."""

from msgspec import UNSET

from holdfast.model.fleet import AlertTarget
from holdfast.ports.notifier import Notifier


def notifier_of(allowed: tuple[str, ...], target: AlertTarget, overlay: str) -> Notifier:
    """`allowed`: networks of the flag --alert-network of the process that sends."""
    from holdfast.adapters.notifier.targets import DEFAULT_OVERLAY, Targets

    targets = Targets(overlay or DEFAULT_OVERLAY, allowed)
    if target.webhook is not UNSET:
        from holdfast.adapters.notifier.webhook import WebhookNotifier

        return WebhookNotifier(target.name, target.webhook, targets)
    from holdfast.adapters.notifier.apprise import AppriseNotifier

    return AppriseNotifier(target.name, target.apprise or "", targets)
