"""`holdfast completion SHELL`: completion scripts, generated from the verbs and their arguments."""

from argparse import SUPPRESS, Action, Namespace
from collections.abc import Mapping
from contextlib import suppress

from msgspec import Struct

from holdfast.cli import flags
from holdfast.cli.flags import Parser
from holdfast.cli.shell.names import KINDS, names
from holdfast.cli.text import block
from holdfast.cli.tools import Toolbox
from holdfast.cli.verbs import VERBS, nouns
from holdfast.errors import HoldfastError, Invalid
from holdfast.model.order import ACTIONS

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
FILES = {"FILE", "DIR", "FILE|DIR"}
MANY = 99
HIDDEN = "values"  # asked by the scripts, not by people


class Row(Struct, frozen=True):
    """What may follow a verb. `kind` is of its first `most` arguments, "" if they are not names of the fleet."""

    options: tuple[str, ...]
    choices: tuple[str, ...] = ()
    kind: str = ""
    most: int = 0
    has_files: bool = False
    valued: tuple[str, ...] = ()  # options with a value
    kinds: dict[str, str] = {}  # of the values of options
    values: dict[str, tuple[str, ...]] = {}  # of options with a fixed set of them


Table = Mapping[str, Row]


def declare(parser: Parser) -> None:
    shells = ("bash", "zsh", "fish", HIDDEN)
    parser.add_argument("shell", choices=shells, metavar="shell", help="bash, zsh or fish")
    parser.add_argument("kind", nargs="?", help=SUPPRESS)


def run(args: Namespace, box: Toolbox) -> int:
    if args.shell == HIDDEN:
        _say_names(args, box)
    else:
        table = {verb: row(verb) for verb in VERBS}
        box.terminal.say_raw({"bash": bash, "zsh": zsh, "fish": fish}[args.shell](table))
    return 0


def _say_names(args: Namespace, box: Toolbox) -> None:
    """Silent about a directory that cannot be read: the line at which a shell completes must stay as it is."""
    if args.kind not in KINDS:
        raise Invalid(f"there are no values {args.kind!r}", remedy=f"one of: {', '.join(KINDS)}", code="usage")
    with suppress(HoldfastError, OSError):
        found = names(args.kind, box.files.fleet(args.fleet))
        if found:
            box.terminal.say(block(found))


def row(verb: str) -> Row:
    actions = flags.loaded(verb, VERBS[verb])[0]._actions
    plain = [action for action in actions if not action.option_strings and action.help != SUPPRESS]
    named = [action for action in plain if _kind(verb, action)]
    valued = [action for action in actions if action.option_strings and action.nargs != 0]
    hub = ["hub" for action in plain if str(action.metavar).endswith("|hub")]
    choices = [str(word) for action in plain for word in action.choices or () if word != HIDDEN]
    return Row(
        options=tuple(sorted(option for action in actions for option in action.option_strings)),
        choices=(*choices, *hub),
        kind=_kind(verb, named[0]) if named else "",
        most=MANY if any(action.nargs == "*" for action in named) else len(named),
        has_files=any(str(action.metavar) in FILES for action in plain),
        valued=tuple(option for action in valued for option in action.option_strings),
        kinds={option: kind for action in valued if (kind := _kind(verb, action)) for option in action.option_strings},
        values={option: words for action in valued if (words := _words(action)) for option in action.option_strings},
    )


def _kind(verb: str, action: Action) -> str:
    metavar = str(action.metavar)
    return BY_METAVAR.get(metavar) or BY_NOUN.get((verb.partition(" ")[0], metavar), "")


def _words(action: Action) -> tuple[str, ...]:
    if action.metavar == "ACTION":  # it has no choices: a wrong one gets the nearest by name
        return tuple(name for name, rule in ACTIONS.items() if rule.built)
    return tuple(map(str, action.choices or ()))


def _firsts() -> list[str]:
    return list(dict.fromkeys(verb.partition(" ")[0] for verb in VERBS))


def _seconds(noun: str) -> str:
    return " ".join(verb.partition(" ")[2] for verb in VERBS if verb.startswith(noun + " "))


def _valued(table: Table) -> list[str]:
    return sorted({option for one in table.values() for option in one.valued})


def _common(table: Table) -> list[str]:
    """The flags of every command, which may stand before the verb."""
    return sorted(set.intersection(*(set(one.options) for one in table.values())))


# ---- bash, and zsh with its functions for scripts of bash

_BASH = r"""_holdfast() {
  local cur="${COMP_WORDS[COMP_CWORD]}" line="${COMP_LINE#*"${COMP_WORDS[0]}"}" word="" before="" last=-1 at=1
  local first="" second="" third="" verb="" value="" ended="" fleet="" count=0 prefix=""
  local words="" options="" kind="" most=0 files=""
  local -a all
  # bash makes words of ":" and "=": put --hub=https://hub:9555 together again
  while [ "$at" -le "$COMP_CWORD" ]; do
    word="${COMP_WORDS[at]}" before="${COMP_WORDS[at - 1]}"
    case "$line" in [[:blank:]]*) before=" " ;; esac
    line="${line#*"$word"}"
    if [ "$last" -ge 0 ] && [ "$before" != " " ]; then
      case "$before|$word" in
        *[:=]\|*|*\|[:=]*) all[last]="${all[last]}$word" ;;
        *) last=$((last + 1)) all[last]="$word" ;;
      esac
    else
      last=$((last + 1)) all[last]="$word"
    fi
    at=$((at + 1))
  done
  at=0
  while [ "$at" -lt "$last" ]; do
    word="${all[at]}"
    at=$((at + 1))
    if [ -n "$value" ]; then
      if [ "$value" = --fleet ]; then fleet="$word"; fi
      value=""
      continue
    fi
    case "$word" in
      --) ended=1 ;;
      --fleet=*) fleet="${word#*=}" ;;
      @VALUED@) value="$word" ;;
      -*) ;;
      *)
        if [ -z "$first" ]; then first="$word"
        elif [ -z "$second" ]; then second="$word"
        elif [ -z "$third" ]; then third="$word"
        fi
        count=$((count + 1)) ;;
    esac
  done
  COMPREPLY=()
  if [ -n "$ended" ]; then return; fi
  case "$first $second" in
    @PAIRS@) verb="$first $second" count=$((count - 2)) ;;
    *) verb="$first" count=$((count - 1)) ;;
  esac
  case "$verb" in
    "") words="@FIRSTS@" options="@COMMON@ --version" ;;
@CASES@
  esac
  if [ "$count" -gt 0 ]; then words=""; fi
  if [ "$first" = help ]; then
    first="$second" second="$third"
    if [ -z "$first" ]; then words="@FIRSTS@"; fi
  fi
  if [ -z "$second" ]; then case "$first" in
@SECONDS@
  esac; fi
  case "${all[last]}" in
    --*=*)
      value="${all[last]%%=*}"
      case "$cur" in
        --*=*) prefix="$value=" cur="${cur#*=}" ;;
        =) cur="" ;;
      esac ;;
  esac
  if [ -n "$value" ]; then
    words="" kind="" count=0 most=1 files=1
    case "$verb $value" in
@VALUES@
    esac
  fi
  case "$cur" in -*) words="$options" kind="" ;; esac
  if [ "$count" -ge "$most" ]; then kind=""; fi
  if [ -n "$kind" ]; then
    fleet="${fleet//[\\\"\']/}"
    fleet="${fleet/#\~/$HOME}"
    words="$words $("${COMP_WORDS[0]}" completion values $kind ${fleet:+--fleet "$fleet"} 2>/dev/null </dev/null)"
    if type compopt >/dev/null 2>&1; then compopt +o default 2>/dev/null; fi  # no file has one of these names
  elif [ -z "$words$files" ]; then
    words="$options"
  fi
  COMPREPLY=($(compgen ${prefix:+-P "$prefix"} -W "$words" -- "$cur"))
}
complete -o default -F _holdfast holdfast"""


def bash(table: Table) -> str:
    parts = {
        "VALUED": "|".join(_valued(table)),
        "PAIRS": "|".join(f'"{verb}"' for verb in table if " " in verb),
        "FIRSTS": " ".join(_firsts()),
        "COMMON": " ".join(_common(table)),
        "CASES": "\n".join(_bash_case(verb, one) for verb, one in table.items()),
        "SECONDS": "\n".join(f'    {noun}) words="{_seconds(noun)} $words" ;;' for noun in sorted(nouns())),
        "VALUES": "\n".join(line for verb, one in table.items() for line in _bash_values(verb, one)),
    }
    text = _BASH
    for name, part in parts.items():
        text = text.replace(f"@{name}@", part)
    return text


def _bash_case(verb: str, one: Row) -> str:
    words = f'words="{" ".join(one.choices)}" ' if one.choices else ""
    kind = f"kind={one.kind} most={one.most} " if one.kind else ""
    files = "files=1 " if one.has_files else ""
    return f'    "{verb}") {words}{kind}{files}options="{" ".join(one.options)}" ;;'


def _bash_values(verb: str, one: Row) -> list[str]:
    named = [f'    "{verb} {option}") kind={kind} ;;' for option, kind in one.kinds.items()]
    return named + [f'    "{verb} {option}") words="{" ".join(words)}" ;;' for option, words in one.values.items()]


def zsh(table: Table) -> str:
    """The last line completes also at the first Tab, which loads this file."""
    return f"""\
#compdef holdfast
autoload -U +X bashcompinit && bashcompinit
{bash(table)}
if [[ ${{zsh_eval_context[-1]}} == loadautofunc ]]; then _bash_complete -o default -F _holdfast; fi"""


# ---- fish

_FISH = r"""complete -c holdfast -f
function __holdfast_plain --description 'The words that are neither options nor their values'
    set -l skips 0
    for word in (commandline -opc)[2..-1]
        if test $skips = 1
            set skips 0
            continue
        end
        switch $word
            case --
                return
            case @VALUED@
                set skips 1
            case '-*'
            case '*'
                echo $word
        end
    end
end
function __holdfast_begins --description 'Whether exactly these words are there'
    set -l plain (__holdfast_plain)
    test "$plain" = "$argv"
end
function __holdfast_takes --description 'Whether the verb is there, with fewer than that many arguments'
    set -l plain (__holdfast_plain)
    set -l verb $argv[2..-1]
    set -l own (count $verb)
    test (count $plain) -ge $own -a (count $plain) -lt (math $own + $argv[1]); and test "$plain[1..$own]" = "$verb"
end
function __holdfast_values
    set -l words (commandline -opc)
    set -l fleet
    if set -l at (contains -i -- --fleet $words)
        set fleet $words[(math $at + 1)]
    else if set -l given (string replace -f -r -- '^--fleet=' '' $words)
        set fleet $given[-1]
    end
    if set -q fleet[1]
        set fleet --fleet (string replace -r '^~(?=/|$)' "$HOME" -- $fleet)
    end
    holdfast completion values $argv[1] $fleet 2>/dev/null
end"""


def fish(table: Table) -> str:
    lines = [_FISH.replace("@VALUED@", " ".join(_valued(table)))]
    about = {first: f"{first} …" for first in _firsts()} | {verb: VERBS[verb].about for verb in table}
    for first in _firsts():
        lines.append(_fish("__holdfast_begins", f"-a {first}", about[first]))
        lines.append(_fish("__holdfast_begins help", f"-a {first}", about[first]))
    any_row = next(iter(table.values()))
    lines += [_fish_option("__holdfast_begins", option, any_row) for option in (*_common(table), "--version")]
    for verb, one in table.items():
        first, _, second = verb.partition(" ")
        if second:
            lines.append(_fish(f"__holdfast_begins {first}", f"-a {second}", about[verb]))
            lines.append(_fish(f"__holdfast_begins help {first}", f"-a {second}", about[verb]))
        lines += [_fish_option(f"__holdfast_takes {MANY} {verb}", option, one) for option in one.options]
        lines += [_fish(f"__holdfast_takes 1 {verb}", f"-a {choice}") for choice in one.choices]
        if one.kind:
            lines.append(_fish(f"__holdfast_takes {one.most} {verb}", f"-a '(__holdfast_values {one.kind})'"))
        if one.has_files:
            lines.append(_fish(f"__holdfast_takes {MANY} {verb}", "-F"))
    return "\n".join(lines)


def _fish(when: str, what: str, about: str = "") -> str:
    said = " -d '{}'".format(about.replace("'", "\\'")) if about else ""
    return f"complete -c holdfast -n '{when}' {what}{said}"


def _fish_option(when: str, option: str, one: Row) -> str:
    kind = one.kinds.get(option)
    fixed = f"(__holdfast_values {kind})" if kind else " ".join(one.values.get(option, ()))
    values = f" -x -a '{fixed}'" if fixed else " -r -F" if option in one.valued else ""
    letter = f"-l {option[2:]}" if option.startswith("--") else f"-s {option[1:]}"
    return _fish(when, letter + values)
