"""`holdfast completion SHELL`: completion scripts, generated from the verbs and their flags."""

from argparse import Namespace
from importlib import import_module
from typing import Any

from holdfast.cli import flags
from holdfast.cli.flags import Parser
from holdfast.cli.tools import Toolbox
from holdfast.cli.verbs import VERBS

DETAILS = """\
examples:
  holdfast completion bash > /etc/bash_completion.d/holdfast
  holdfast completion zsh > "${fpath[1]}/_holdfast"
  holdfast completion fish > ~/.config/fish/completions/holdfast.fish
"""


def declare(parser: Parser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))


def run(args: Namespace, box: Toolbox) -> int:
    table = {verb: sorted(_options(verb)) for verb in VERBS}
    box.terminal.say({"bash": bash, "zsh": zsh, "fish": fish}[args.shell](table))
    return 0


def _options(verb: str) -> list[str]:
    module: Any = import_module("holdfast.cli." + VERBS[verb].module)
    parser = flags.parser_for(verb, VERBS[verb].about, module.DETAILS)
    module.declare(parser)
    own = [str(word) for action in parser._actions if not action.option_strings for word in action.choices or ()]
    return own + [option for action in parser._actions for option in action.option_strings]


def bash(table: dict[str, list[str]]) -> str:
    cases = "\n".join(f'    "{verb}") words="{" ".join(options)}" ;;' for verb, options in table.items())
    firsts = " ".join(dict.fromkeys(verb.partition(" ")[0] for verb in table))
    seconds = "\n".join(
        f'    {noun}) words="{" ".join(v.partition(" ")[2] for v in table if v.startswith(noun + " "))} $words" ;;'
        for noun in dict.fromkeys(v.partition(" ")[0] for v in table if " " in v)
    )
    return f"""\
_holdfast() {{
  local cur="${{COMP_WORDS[COMP_CWORD]}}" verb="" word words="" value=""
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    if [ -n "$value" ]; then value=""; continue; fi
    case "$word" in --fleet|--hub|--key) value=1 ;; -*) ;; *) verb="${{verb:+$verb }}$word" ;; esac
  done
  case "$verb" in
    "") words="{firsts} --help --version" ;;
{cases}
  esac
  case "$verb" in
{seconds}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
  [ ${{#COMPREPLY[@]}} -eq 0 ] && COMPREPLY=($(compgen -f -- "$cur"))
}}
complete -F _holdfast holdfast"""


def zsh(table: dict[str, list[str]]) -> str:
    return "#compdef holdfast\nautoload -U +X bashcompinit && bashcompinit\n" + bash(table)


def fish(table: dict[str, list[str]]) -> str:
    lines = ["complete -c holdfast -f"]
    for verb, options in table.items():
        first, _, second = verb.partition(" ")
        seen = f"__fish_seen_subcommand_from {first}"
        if second:
            lines.append(f"complete -c holdfast -n '{seen}' -a {second} -d '{VERBS[verb].about.replace(chr(39), '')}'")
        else:
            about = VERBS[verb].about.replace(chr(39), "")
            lines.append(f"complete -c holdfast -n __fish_use_subcommand -a {first} -d '{about}'")
        lines += [f"complete -c holdfast -n '{seen}' -l {o[2:]}" for o in options if o.startswith("--")]
        last = f"__fish_seen_subcommand_from {second or first}"
        lines += [f"complete -c holdfast -n '{seen}; and {last}' -a {o}" for o in options if not o.startswith("-")]
    return "\n".join(lines)
