"""The verbs of the noun «hub», without the modules that run them."""

from holdfast.cli.noun import Noun, Verb

NOUN = Noun(
    "hub",
    {
        "hub init": Verb("hub.hub_init", "create an empty ledger pinned to one fleet"),
        "hub run": Verb("hub.hub_run", "serve the applied revision over HTTP"),
        "hub backup": Verb("hub.hub_backup", "make one sealed file of a hub's state"),
        "hub restore": Verb("hub.hub_restore", "make a hub of such a file; its nodes follow it without joining again"),
        "hub fetch": Verb("hub.hub_fetch", "get such a file from a storage target, without a hub"),
        "hub check": Verb("hub.hub_check", "verify a ledger offline: chain, signatures, contents"),
        "import ledger": Verb("hub.import_ledger", "rebuild a lost ledger from the signed revisions that nodes hold"),
        "import backups": Verb("hub.import_backups", "fill the backup store of a restored hub from a storage target"),
        "token create": Verb("hub.tokens", "create a read-only token for curl and browsers"),
        "token list": Verb("hub.tokens", "list tokens: creator and expiry"),
        "token revoke": Verb("hub.tokens", "revoke a token at once"),
        "audit": Verb("hub.audit", "show who did what; --verify checks that the log is unchanged"),
    },
)
