"""Every verb with its module and one line about it, for --help, completion and dispatch."""

from typing import NamedTuple


class Verb(NamedTuple):
    module: str
    about: str


VERBS: dict[str, Verb] = {
    "init": Verb("init", "create a fleet directory with an operator key, a node and a first service"),
    "validate": Verb("validate", "check a fleet directory; report mistakes with file, line and remedy"),
    "plan": Verb("plan", "show what an apply would change, why, and which grade must sign"),
    "apply": Verb("apply", "sign and commit the changes (or a saved plan)"),
    "sync": Verb("sync", "apply everything the directory declares (--dry-run = plan)"),
    "deploy": Verb("deploy", "apply one service only"),
    "undeploy": Verb("undeploy", "retire one service; its data stays on the node"),
    "sign": Verb("sign", "add your signature to a saved plan or an order"),
    "rollback": Verb("rollback", "apply the content of an earlier revision as a new one"),
    "history": Verb("history", "list revisions: number, time, changes, signers"),
    "history show": Verb("history_show", "show one revision: changes and signers; --raw for the signed bytes"),
    "order sign": Verb("order_sign", "sign an order: one action, run once on one node"),
    "order submit": Verb("order_submit", "submit an order that has enough signatures to the hub"),
    "order list": Verb("order_list", "list orders with their states and results"),
    "node list": Verb("node_list", "list nodes with their status and the age of their signed reports"),
    "node show": Verb("node_show", "show one node: accepted revision, parked changes and findings"),
    "node invite": Verb("node_invite", "print a signed one-time join token for a machine"),
    "node revoke": Verb("node_revoke", "refuse a node's key at once"),
    "node drain": Verb("node_drain", "move services off a node and place no new ones there, before maintenance"),
    "ps": Verb("ps", "list the containers of every service as their nodes report them"),
    "retired": Verb("retired", "list the data of removed services, and the commands that purge it"),
    "logs": Verb("logs", "show the logs of a service from all its nodes; -f follows"),
    "restart": Verb("restart", "restart the containers of a service, by a signed order"),
    "stop": Verb("stop", "stop a service and hold it stopped, by a signed order"),
    "start": Verb("start", "start a stopped service again, by a signed order"),
    "force-cleanup": Verb("force_cleanup", "remove all containers of a service in any state; data stays"),
    "purge": Verb("purge", "destroy the data of a removed service: asks, and needs grade destroy"),
    "audit": Verb("audit", "show who did what; --verify checks that the log is unchanged"),
    "status": Verb("status", "health of the fleet: what is wrong and what to do"),
    "edge list": Verb("edge_list", "list public hostnames with edge, status and certificate expiry"),
    "edge status": Verb(
        "edge_status", "check public hostnames: certificate, backend, handshake, DNS; exit 1 if one is broken"
    ),
    "ca bundle": Verb("ca_bundle", "print the nodes' issuing certificates that the applied revision pins, as PEM"),
    "secret set": Verb("secret_set", "seal a new secret for the services that use it"),
    "secret list": Verb("secret_list", "list secrets: who can open each, which services use it"),
    "secret rotate": Verb("secret_rotate", "seal a new value, or the same one to the present nodes (--keep)"),
    "token create": Verb("token_create", "create a read-only token for curl and browsers"),
    "token list": Verb("token_list", "list tokens: creator and expiry"),
    "token revoke": Verb("token_revoke", "revoke a token at once"),
    "hub init": Verb("hub_init", "create an empty ledger pinned to one fleet"),
    "hub run": Verb("hub_run", "serve the applied revision over HTTP"),
    "hub check": Verb("hub_check", "verify a ledger offline: chain, signatures, contents"),
    "import ledger": Verb("import_ledger", "rebuild a lost ledger from the signed revisions that nodes hold"),
    "lab up": Verb("lab_up", "start a real fleet on this machine: namespaces, network, registry, hub and agents"),
    "lab down": Verb("lab_down", "remove the lab completely"),
    "lab status": Verb("lab_status", "show the lab's nodes: addresses, processes, directories"),
    "lab env": Verb("lab_env", "print the variables that make every command use the lab"),
    "lab exec": Verb("lab_exec", "run a command inside a node of the lab"),
    "lab curl": Verb("lab_curl", "fetch a URL as a client outside the lab's fleet"),
    "lab cut": Verb("lab_cut", "cut the network of a node, or between two nodes"),
    "lab heal": Verb("lab_heal", "end every cut"),
    "lab kill": Verb("lab_kill", "kill a node as a power cut does, or only its agent or the hub"),
    "lab start": Verb("lab_start", "start a killed node or hub again"),
    "lab image": Verb("lab_image", "put your own image into the lab's registry"),
    "lab fast": Verb("lab_fast", "detect silent nodes of the lab within seconds"),
    "agent join": Verb("agent_join", "make this machine a node, with a token from `node invite`"),
    "agent run": Verb("agent_run", "run the agent in the foreground"),
    "agent check": Verb("agent_check", "verify the agent's state directory: chain, journal, audit log, file modes"),
    "agent journal": Verb("agent_journal", "list the operations of this agent with their steps"),
    "completion": Verb("completion", "print a completion script for bash, zsh or fish"),
}


# Named by the contract, built by later steps: refused with the code not_built.
LATER = frozenset(
    """
    exec run backup restore drill migrate need
    grant query graph build image ui doctor
    """.split()  # noqa: SIM905 (a list of words reads best as words)
)


# The same for second words of nouns that are built in part.
LATER_PAIRS = frozenset(
    ("agent trust", "agent upgrade", "hub backup", "hub restore", "import compose"),
)


# Other spellings of a verb.
ALIASES = {"force_cleanup": "force-cleanup"}


def nouns() -> set[str]:
    """First words that may be followed by a second one."""
    return {name.partition(" ")[0] for name in VERBS if " " in name}
