"""`holdfast completion SHELL`: completion scripts, generated from the verbs and their arguments."""

from argparse import SUPPRESS, Action, Namespace
from contextlib import suppress

from msgspec import Struct

from holdfast.cli import flags
from holdfast.cli.flags import Parser
from holdfast.cli.shell.names import KINDS, names
from holdfast.cli.tools import Toolbox
from holdfast.cli.verbs import VERBS, nouns
from holdfast.errors import HoldfastError, Invalid

DETAILS = """\
The scripts complete verbs, options, and the services, nodes, secrets and public hostnames that the fleet directory
declares (--fleet DIR, $HOLDFAST_FLEET, else the current directory). They ask `holdfast completion values KIND`, which
reads local files only.

examples:
  holdfast completion bash > /etc/bash_completion.d/holdfast
  holdfast completion zsh > "${fpath[1]}/_holdfast"
  holdfast completion fish > ~/.config/fish/completions/holdfast.fish
"""

# What an argument stands for, by its name in --help; where the name alone does not tell, by noun.
BY_METAVAR = {
    "SVC": "services",
    "SVC[/COMPONENT]": "services",
    "NODE": "nodes",
    "NODE|hub": "nodes",
    "HOSTNAME": "hostnames",
}
BY_NOUN = {
    ("node", "NAME"): "nodes",
    ("lab", "A"): "nodes",
    ("lab", "B"): "nodes",
    ("secret", "NAME"): "secrets",
}
MANY = 99


class Row(Struct, frozen=True):
    """What may follow a verb. `kind` is of its first `most` arguments, "" if they are not names of the fleet."""

    options: tuple[str, ...]
    choices: tuple[str, ...] = ()
    kind: str = ""
    most: int = 0
    valued: tuple[str, ...] = ()  # options with a value
    kinds: dict[str, str] = {}  # of the values of options


def declare(parser: Parser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "fish", "values"))
    parser.add_argument("kind", nargs="?", help=SUPPRESS)


def run(args: Namespace, box: Toolbox) -> int:
    if args.shell == "values":
        _say_names(args, box)
    else:
        table = {verb: row(verb) for verb in VERBS}
        box.terminal.say({"bash": bash, "zsh": zsh, "fish": fish}[args.shell](table))
    return 0


def _say_names(args: Namespace, box: Toolbox) -> None:
    """Silent about a directory that cannot be read: the line at which a shell completes must stay as it is."""
    if args.kind not in KINDS:
        raise Invalid(f"there are no values {args.kind!r}", remedy=f"one of: {', '.join(KINDS)}", code="usage")
    with suppress(HoldfastError, OSError):
        found = names(args.kind, box.files.fleet(args.fleet))
        if found:
            box.terminal.say("\n".join(found))


def row(verb: str) -> Row:
    actions = flags.loaded(verb, VERBS[verb])[0]._actions
    plain = [action for action in actions if not action.option_strings and action.help != SUPPRESS]
    named = [action for action in plain if _kind(verb, action)]
    valued = [action for action in actions if action.option_strings and action.nargs != 0]
    return Row(
        options=tuple(sorted(option for action in actions for option in action.option_strings)),
        choices=tuple(str(word) for action in plain for word in action.choices or ()),
        kind=_kind(verb, named[0]) if named else "",
        most=MANY if any(action.nargs == "*" for action in named) else len(named),
        valued=tuple(option for action in valued for option in action.option_strings),
        kinds={option: kind for action in valued if (kind := _kind(verb, action)) for option in action.option_strings},
    )


def _kind(verb: str, action: Action) -> str:
    metavar = str(action.metavar)
    return BY_METAVAR.get(metavar) or BY_NOUN.get((verb.partition(" ")[0], metavar), "")


def _seconds(noun: str) -> str:
    return " ".join(verb.partition(" ")[2] for verb in VERBS if verb.startswith(noun + " "))


def bash(table: dict[str, Row]) -> str:
    firsts = " ".join(dict.fromkeys(verb.partition(" ")[0] for verb in table))
    pairs = "|".join(f'"{verb}"' for verb in table if " " in verb)
    valued = "|".join(sorted({option for one in table.values() for option in one.valued}))
    cases = "\n".join(
        f'    "{verb}") words="{" ".join(one.choices)}" options="{" ".join(one.options)}" '
        f"kind={one.kind or chr(39) * 2} most={one.most} ;;"
        for verb, one in table.items()
    )
    seconds = "\n".join(f'    {noun}) words="{_seconds(noun)} $words" ;;' for noun in sorted(nouns()))
    values = "\n".join(
        f'    "{verb} {option}") kind={kind} ;;' for verb, one in table.items() for option, kind in one.kinds.items()
    )
    return f"""\
_holdfast() {{
  local cur="${{COMP_WORDS[COMP_CWORD]}}" first="" second="" verb="" word="" value="" fleet="" count=0
  local words="" options="" kind="" most=0
  for word in "${{COMP_WORDS[@]:1:$((COMP_CWORD - 1))}}"; do
    if [ "$word" = "=" ]; then continue; fi
    if [ -n "$value" ]; then
      if [ "$value" = --fleet ]; then fleet="$word"; fi
      value=""
      continue
    fi
    case "$word" in
      --fleet=*) fleet="${{word#*=}}" ;;
      {valued}) value="$word" ;;
      -*) ;;
      *)
        if [ -z "$first" ]; then first="$word"; elif [ -z "$second" ]; then second="$word"; fi
        count=$((count + 1)) ;;
    esac
  done
  case "$first $second" in
    {pairs}) verb="$first $second" count=$((count - 2)) ;;
    *) verb="$first" count=$((count - 1)) ;;
  esac
  case "$verb" in
    "") words="{firsts}" options="--help --version" ;;
    help) words="{firsts}" ;;
{cases}
  esac
  if [ -z "$second" ]; then case "$first" in
{seconds}
  esac; fi
  if [ "$cur" = "=" ]; then cur=""; fi
  if [ -n "$value" ]; then
    words="" options="" kind="" count=0 most=1
    case "$verb $value" in
{values}
    esac
  fi
  case "$cur" in -*) words="$options" kind="" ;; esac
  if [ "$count" -ge "$most" ]; then kind=""; fi
  if [ -n "$kind" ]; then
    fleet="${{fleet/#\\~/$HOME}}"
    words="$words $("${{COMP_WORDS[0]}}" completion values $kind ${{fleet:+--fleet "$fleet"}} 2>/dev/null </dev/null)"
  elif [ -z "$words" ]; then
    words="$options"
  fi
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
  if [ ${{#COMPREPLY[@]}} -eq 0 ]; then COMPREPLY=($(compgen -f -- "$cur")); fi
}}
complete -F _holdfast holdfast"""


def zsh(table: dict[str, Row]) -> str:
    return "#compdef holdfast\nautoload -U +X bashcompinit && bashcompinit\n" + bash(table)


_FISH = """\
complete -c holdfast -f
function __holdfast_values
    set -l words (commandline -opc)
    set -l fleet
    if set -l at (contains -i -- --fleet $words)
        set fleet --fleet $words[(math $at + 1)]
    end
    holdfast completion values $argv[1] $fleet 2>/dev/null
end"""


def fish(table: dict[str, Row]) -> str:
    lines = [_FISH]
    for verb, one in table.items():
        first, _, second = verb.partition(" ")
        about = VERBS[verb].about.replace("'", "")
        seen = f"__fish_seen_subcommand_from {first}"
        begun = f"{seen}; and not __fish_seen_subcommand_from {_seconds(first)}" if second else "__fish_use_subcommand"
        lines.append(f"complete -c holdfast -n '{begun}' -a {second or first} -d '{about}'")
        inside = f"{seen}; and __fish_seen_subcommand_from {second}" if second else seen
        for option in (option for option in one.options if option.startswith("-")):
            kind = one.kinds.get(option)
            values = f" -x -a '(__holdfast_values {kind})'" if kind else " -r -F" if option in one.valued else ""
            letter = f"-l {option[2:]}" if option.startswith("--") else f"-s {option[1:]}"
            lines.append(f"complete -c holdfast -n '{inside}' {letter}{values}")
        lines += [f"complete -c holdfast -n '{inside}' -a {choice}" for choice in one.choices]
        if one.kind:
            lines.append(f"complete -c holdfast -n '{inside}' -a '(__holdfast_values {one.kind})'")
    return "\n".join(lines)
