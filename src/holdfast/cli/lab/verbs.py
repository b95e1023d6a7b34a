"""The verbs of the noun «lab», without the modules that run them."""

from holdfast.cli.noun import Noun, Verb

NOUN = Noun(
    "lab",
    {
        "lab up": Verb("lab.lab", "start a real fleet on this machine: namespaces, network, registry, hub and agents"),
        "lab down": Verb("lab.lab", "remove the lab completely"),
        "lab status": Verb("lab.lab", "show the lab's nodes: addresses, processes, directories"),
        "lab env": Verb("lab.lab", "print the variables that make every command use the lab"),
        "lab exec": Verb("lab.lab", "run a command inside a node of the lab"),
        "lab curl": Verb("lab.lab", "fetch a URL as a client outside the lab's fleet"),
        "lab cut": Verb("lab.faults", "cut the network of a node, or between two nodes"),
        "lab heal": Verb("lab.faults", "end every cut"),
        "lab kill": Verb("lab.faults", "kill a node as a power cut does, or only its agent or the hub"),
        "lab start": Verb("lab.faults", "start a killed node or hub again"),
        "lab image": Verb("lab.lab", "put your own image into the lab's registry"),
        "lab fast": Verb("lab.faults", "detect silent nodes of the lab within seconds"),
    },
)
