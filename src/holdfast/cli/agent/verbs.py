"""The verbs of the noun «agent», without the modules that run them."""

from holdfast.cli.noun import Noun, Verb

NOUN = Noun(
    "agent",
    {
        "agent join": Verb("agent.agent_join", "make this machine a node, with a token from `node invite`"),
        "agent run": Verb("agent.agent_run", "run the agent in the foreground"),
        "agent check": Verb(
            "agent.agent_check", "verify the agent's state directory: chain, journal, audit log, file modes"
        ),
        "agent journal": Verb("agent.agent_journal", "list the operations of this agent with their steps"),
    },
)
