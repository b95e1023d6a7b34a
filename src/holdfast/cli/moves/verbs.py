"""The verbs of the noun «moves», without the modules that run them."""

from holdfast.cli.noun import Noun, Verb

NOUN = Noun("moves", {"migrate": Verb("moves.migrate", "move a service, with its data, to another node")})
