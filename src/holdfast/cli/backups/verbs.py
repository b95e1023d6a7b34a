"""The verbs of the noun «backups», without the modules that run them."""

from holdfast.cli.noun import Noun, Verb

NOUN = Noun(
    "backups",
    {
        "backup": Verb("backups.backup", "back a service up now, by a signed order"),
        "backup list": Verb("backups.backup_list", "list backups, and which services have none"),
        "backup show": Verb("backups.backup_show", "show one backup: what its node signed for"),
        "backup verify": Verb("backups.backup_verify", "read every stored byte of a backup and compare it"),
        "backup export": Verb("backups.backup_export", "write a backup as one plain tar.zst"),
        "restore": Verb("backups.restore", "bring a backup back, in the place of the data or beside it"),
        "drill": Verb("backups.drill", "prove a backup by restoring it beside the service"),
    },
)
