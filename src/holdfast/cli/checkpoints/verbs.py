"""The verbs of the noun «checkpoints», without the modules that run them."""

from holdfast.cli.noun import Noun, Verb

NOUN = Noun(
    "checkpoints",
    {
        "checkpoint list": Verb("checkpoints.checkpoint_list", "list the checkpoints that nodes have"),
        "checkpoint restore": Verb(
            "checkpoints.checkpoint_restore", "bring back the data of a checkpoint, and the version that wrote it"
        ),
        "checkpoint delete": Verb("checkpoints.checkpoint_delete", "delete one checkpoint, by a signed order"),
    },
)
