"""The verbs of the noun «fleet», without the modules that run them."""

from holdfast.cli.noun import Noun, Verb

NOUN = Noun(
    "fleet",
    {
        "init": Verb("fleet.init", "create a fleet directory with an operator key, a node and a first service"),
        "validate": Verb("fleet.validate", "check a fleet directory; report mistakes with file, line and remedy"),
        "plan": Verb("fleet.plan", "show what an apply would change, why, and which grade must sign"),
        "apply": Verb("fleet.apply", "sign and commit the changes (or a saved plan)"),
        "sync": Verb("fleet.sync", "apply everything the directory declares (--dry-run = plan)"),
        "sign": Verb("fleet.sign", "add your signature to a saved plan or an order"),
        "rollback": Verb("fleet.rollback", "apply the content of an earlier revision as a new one"),
        "history": Verb("fleet.history", "list revisions: number, time, changes, signers"),
        "history show": Verb(
            "fleet.history_show", "show one revision: changes and signers; --raw for the signed bytes"
        ),
        "status": Verb("hub.status", "health of the fleet: what is wrong and what to do"),
    },
)
