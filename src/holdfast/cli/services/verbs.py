"""The verbs of the noun «services», without the modules that run them."""

from holdfast.cli.noun import Noun, Verb

NOUN = Noun(
    "services",
    {
        "deploy": Verb("services.deploy", "apply one service only"),
        "undeploy": Verb("services.undeploy", "retire one service; its data stays on the node"),
        "ps": Verb("services.ps", "list the containers of every service as their nodes report them"),
        "retired": Verb("services.retired", "list the data of removed services, and the commands that purge it"),
        "retired restore": Verb("services.retired_restore", "bring purged data back, within 7 days of its purge"),
        "logs": Verb("logs.logs", "show the logs of a service from all its nodes; -f follows"),
        "restart": Verb("services.orders", "restart the containers of a service, by a signed order"),
        "stop": Verb("services.orders", "stop a service and hold it stopped, by a signed order"),
        "start": Verb("services.orders", "start a stopped service again, by a signed order"),
        "force-cleanup": Verb("services.orders", "remove all containers of a service in any state; data stays"),
        "purge": Verb("services.purge", "set the data of a removed service aside for 7 days, or destroy it now"),
    },
)
