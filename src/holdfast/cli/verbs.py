"""Every verb, the module that knows it, and one line about it. The list behind --help, completion and dispatch."""

from typing import NamedTuple


class Verb(NamedTuple):
    module: str
    about: str


VERBS: dict[str, Verb] = {
    "init": Verb("init", "make a fleet directory with an operator key, a node and a first service"),
    "validate": Verb("validate", "check a fleet directory; every mistake with file, line and remedy"),
    "plan": Verb("plan", "show what an apply would change, why, and who must sign"),
    "apply": Verb("apply", "sign and commit the changes (or a saved plan)"),
    "sync": Verb("sync", "apply everything the directory declares (--dry-run = plan)"),
    "deploy": Verb("deploy", "apply one service and leave the rest as it is"),
    "undeploy": Verb("undeploy", "retire one service; its data stays on the node"),
    "sign": Verb("sign", "add your signature to a saved plan or an order"),
    "rollback": Verb("rollback", "apply the content of an earlier revision as a new one"),
    "history": Verb("history", "list revisions: number, time, changes, signers"),
    "history show": Verb("history_show", "one revision: what changed, who signed; --raw for the signed bytes"),
    "order sign": Verb("order_sign", "sign an order: something to be done once, on one node"),
    "order submit": Verb("order_submit", "hand in a signed order; it goes when enough operators have signed"),
    "order list": Verb("order_list", "orders and what became of them"),
    "node list": Verb("node_list", "every node, how it is, and whose word that is"),
    "node show": Verb("node_show", "one node: what it accepted, parked and found wrong"),
    "node invite": Verb("node_invite", "a signed one-time invitation for a machine"),
    "node revoke": Verb("node_revoke", "shut a node's key out at once"),
    "node drain": Verb("node_drain", "move away what can move and take nothing new, before maintenance"),
    "ps": Verb("ps", "containers of every service: where they are, what their node says of them"),
    "retired": Verb("retired", "data of services that are not applied any more, and how to purge it"),
    "logs": Verb("logs", "what the containers of a service write, of all its nodes; -f goes on"),
    "restart": Verb("restart", "restart the containers of a service, by a signed order"),
    "stop": Verb("stop", "stop a service and hold it stopped, by a signed order"),
    "start": Verb("start", "let a stopped service run again, by a signed order"),
    "force-cleanup": Verb("force_cleanup", "remove the containers of a service whatever their state; data stays"),
    "purge": Verb("purge", "destroy the data of a service that is gone: asks, and needs grade destroy"),
    "audit": Verb("audit", "who did what; --verify checks that nobody changed the log"),
    "status": Verb("status", "what the hub serves, what is quarantined, and what to do about it"),
    "edge list": Verb("edge_list", "every public hostname, its edge, how it is and when its certificate expires"),
    "edge status": Verb(
        "edge_status", "public hostnames: certificate, backend, handshake, DNS; exit 1 if one is broken"
    ),
    "ca bundle": Verb("ca_bundle", "the nodes' issuing certificates that the applied revision pins, as PEM"),
    "secret set": Verb("secret_set", "seal a new secret for the services that name it"),
    "secret list": Verb("secret_list", "every secret: who can open it, who uses it"),
    "secret rotate": Verb("secret_rotate", "a new value, or the same one sealed to today's nodes (--keep)"),
    "token create": Verb("token_create", "make a token that reads, for curl and browsers"),
    "token list": Verb("token_list", "which tokens there are, who made them, until when they hold"),
    "token revoke": Verb("token_revoke", "end a token at once"),
    "hub init": Verb("hub_init", "make an empty ledger pinned to one fleet"),
    "hub run": Verb("hub_run", "serve the applied revision over HTTP"),
    "hub check": Verb("hub_check", "verify a ledger offline: chain, signatures, contents"),
    "import ledger": Verb("import_ledger", "rebuild a lost ledger from signed revisions that nodes still hold"),
    "lab up": Verb("lab_up", "a real fleet on this machine: namespaces, network, registry, hub and agents"),
    "lab down": Verb("lab_down", "take the lab away and leave nothing behind"),
    "lab status": Verb("lab_status", "the lab's nodes: addresses, processes, directories"),
    "lab env": Verb("lab_env", "print the variables that make every command speak to the lab"),
    "lab exec": Verb("lab_exec", "run a command inside a node of the lab"),
    "lab curl": Verb("lab_curl", "fetch a URL as a client outside the lab's fleet"),
    "lab cut": Verb("lab_cut", "cut a node's wires, or those between two nodes"),
    "lab heal": Verb("lab_heal", "mend every cut"),
    "lab kill": Verb("lab_kill", "cut the power of a node, or end its agent or the hub"),
    "lab start": Verb("lab_start", "bring back what was killed"),
    "lab image": Verb("lab_image", "put an image of your own into the lab's registry"),
    "lab fast": Verb("lab_fast", "let the lab notice silence within seconds"),
    "agent join": Verb("agent_join", "make this machine a node, with the token of `node invite`"),
    "agent run": Verb("agent_run", "run the agent in the foreground"),
    "agent check": Verb("agent_check", "verify what this agent remembers: chain, journal, audit, modes"),
    "agent journal": Verb("agent_journal", "what this agent did and does, step by step"),
    "completion": Verb("completion", "print a completion script for bash, zsh or fish"),
}


# Named by the contract, built by later steps: refused with a sentence that says so.
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
