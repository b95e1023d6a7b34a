"""The keys of the ledger store, in one list."""

PIN = "meta/pin"
RULES = "meta/rules"
GENERATION = "meta/generation"  # of a hub that was restored
SUPERSEDED = "meta/superseded"  # the generation of a newer hub: this one serves no more
HEAD = "head"
REVISIONS = "revision/"
RECOVERIES = "recovery/"
OBSERVATIONS = "observation/"

FORMAT = 1


def revision(number: int) -> str:
    return f"{REVISIONS}{number:012d}"


def recovery(name: str) -> str:
    return RECOVERIES + name


def observation(node: str) -> str:
    return OBSERVATIONS + node


# ---- the fleet as the hub observes it: can be rebuilt, never part of a revision

ENROLMENTS = "enrolment/"
INVITES = "invite/"
REVOCATIONS = "revocation/"
REPORTS = "report/"
HEALTH = "health/"
ORDERS = "order/"
ALARMS = "alarm/"
STANDBY = "standby/"
TOLD = "told/"
TOLD_FINDINGS = "told-finding/"
TOLD_DISKS = "told-disk/"
CONVERGED = "converged/"
CONVERGED_SERVICES = "converged-service/"
NODE_AUDIT = "node-audit/"
NODE_AUDIT_KEYS = "node-audit-key/"
FORMER_AUDIT = "former-audit/"


def enrolment(node: str) -> str:
    return ENROLMENTS + node


def invite(digest: str) -> str:
    return INVITES + digest


def revocation(fingerprint: str) -> str:
    return REVOCATIONS + fingerprint


def report(node: str) -> str:
    return REPORTS + node


def health(node: str) -> str:
    return HEALTH + node


def orders_of(node: str) -> str:
    return f"{ORDERS}{node}/"


def order(node: str, id: str) -> str:
    return orders_of(node) + id


def alarm(id: str) -> str:
    return ALARMS + id


def standby(address: str) -> str:
    """The standby of a service whose node is silent."""
    return STANDBY + address


def told(node: str, service: str) -> str:
    """Which trouble of that service on that node people were notified of."""
    return f"{TOLD}{node}/{service}"


def converged(number: int) -> str:
    return f"{CONVERGED}{number:012d}"


def converged_service(name: str) -> str:
    return CONVERGED_SERVICES + name


def node_audit_of(node: str) -> str:
    return f"{NODE_AUDIT}{node}/"


def node_audit(node: str, number: int) -> str:
    return f"{node_audit_of(node)}{number:015d}"


def node_audit_key(node: str) -> str:
    """The public line of the machine whose log was copied."""
    return NODE_AUDIT_KEYS + node


def former_audit_of(node: str, fingerprint: str) -> str:
    """Lines of a machine that was this node before, by its key."""
    return f"{FORMER_AUDIT}{node}/{fingerprint}/"


# ---- credentials the hub keeps, hashed

TOKENS = "token/"


def token(token_id: str) -> str:
    return TOKENS + token_id


# ---- salvage of a lost ledger: what nodes sent, until `import ledger` rebuilds from it

REBUILT = "meta/rebuilt"
SALVAGED_LINKS = "salvage/link/"
SALVAGED_MANIFESTS = "salvage/manifest/"
SALVAGED_GENERATION = "salvage/generation"


def salvaged_link(number: int) -> str:
    return f"{SALVAGED_LINKS}{number:012d}"


def salvaged_manifest(node: str) -> str:
    return SALVAGED_MANIFESTS + node
