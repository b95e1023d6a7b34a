"""The verbs of the noun «schedules», without the modules that run them."""

from holdfast.cli.noun import Noun, Verb

NOUN = Noun(
    "schedules",
    {
        "schedule list": Verb("schedules.schedule_list", "list schedules with their next and last runs"),
        "schedule run": Verb("schedules.schedule_run", "run a schedule now, by a signed order"),
        "schedule logs": Verb("schedules.schedule_logs", "show the last lines of the last run of a schedule"),
    },
)
