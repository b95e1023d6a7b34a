"""The verbs of the noun «volumes», without the modules that run them."""

from holdfast.cli.noun import Noun, Verb

NOUN = Noun(
    "volumes",
    {"volume adopt": Verb("volumes.volume_adopt", "attach an existing directory to the service that declares it")},
)
