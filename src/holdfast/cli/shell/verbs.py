"""The verbs of the noun «shell», without the modules that run them."""

from holdfast.cli.noun import Noun, Verb

NOUN = Noun(
    "shell",
    {
        "help": Verb("shell.help", "list the commands, or explain one"),
        "version": Verb("shell.version", "print the version of this program"),
        "completion": Verb("shell.completion", "print a completion script for bash, zsh or fish"),
    },
)
