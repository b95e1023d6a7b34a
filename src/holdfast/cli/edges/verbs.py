"""The verbs of the noun «traffic», without the modules that run them."""

from holdfast.cli.noun import Noun, Verb

NOUN = Noun(
    "traffic",
    {
        "edge list": Verb("edges.edge_list", "list public hostnames with edge, status and certificate expiry"),
        "edge status": Verb(
            "edges.edge_status", "check public hostnames: certificate, backend, handshake, DNS; exit 1 if one is broken"
        ),
        "ca bundle": Verb(
            "nodes.ca_bundle", "print the nodes' issuing certificates that the applied revision pins, as PEM"
        ),
    },
)
