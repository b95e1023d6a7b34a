"""The verbs of the noun «nodes», without the modules that run them."""

from holdfast.cli.noun import Noun, Verb

NOUN = Noun(
    "nodes",
    {
        "node list": Verb("nodes.node_list", "list nodes with their status and the age of their signed reports"),
        "node show": Verb("nodes.node_show", "show one node: accepted revision, parked changes and findings"),
        "node invite": Verb("nodes.node_invite", "print a signed one-time join token for a machine"),
        "node revoke": Verb("nodes.node_revoke", "refuse a node's key at once"),
        "node drain": Verb(
            "nodes.node_drain", "move services off a node and place no new ones there, before maintenance"
        ),
    },
)
