"""The verbs of the noun «secrets», without the modules that run them."""

from holdfast.cli.noun import Noun, Verb

NOUN = Noun(
    "secrets",
    {
        "secret set": Verb("secrets.secret_set", "seal a new secret for the services that use it"),
        "secret list": Verb("secrets.secret_list", "list secrets: who can open each, which services use it"),
        "secret get": Verb("secrets.secret_get", "write the value of a secret, opened with your age identity"),
        "secret rotate": Verb(
            "secrets.secret_rotate", "seal a new value, or the same one to the present nodes (--keep)"
        ),
    },
)
