"""The verbs of the nouns «need» and «grant», without the modules that run them."""

from holdfast.cli.noun import Noun, Verb

NOUN = Noun(
    "needs",
    {
        "need list": Verb("needs.need_list", "list what services need, and what they wait for"),
        "grant list": Verb("needs.grant_list", "list credentials that nodes gave, and when they go"),
        "grant revoke": Verb("needs.grant_revoke", "end the login of a need now, by a signed order"),
    },
)
