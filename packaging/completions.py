"""``make share``: the completions of share/, from the command line's own parsers, by shtab.

What is not in a parser is said here: which arguments are files, and the commands that list processes and programs.
A completion starts no Python: rules and processors are in it.  ``--check`` says which files are stale.
"""

import argparse
import sys

import generated
import shtab

sys.path.append(generated.ROOT)

from hugealign import cli
from hugealign.diagnosis.catalogue import codes, rules
from hugealign.system import processors as table

PLACES = {
    "bash": "share/bash-completion/completions/hugealign",
    "zsh": "share/zsh/site-functions/_hugealign",
    "fish": "share/fish/vendor_completions.d/hugealign.fish",
}
FILES = "FILE PROFILE TRACE ORDER EXE OUT BINARY OLD WHAT".split()
WRAPPING = ("build", "ps", "run")
DIRECTORIES = ("DIR", "PATH")
PROCESSES = {
    "bash": "_hugealign_processes",
    "zsh": "_hugealign_processes",
    "fish": "(__fish_complete_proc)",
}
PROGRAMS = {"bash": "_hugealign_programs", "zsh": "_command_names -e", "fish": "(__fish_complete_command)"}
PREAMBLES = {
    "bash": """\
_hugealign_processes() {
    # Not by `compgen -W`, to which the words are shell code: any user gives a process its name.
    local pid name word
    while read -r pid name; do
        [[ $name != *[!A-Za-z0-9._+@:/-]* ]] || name=
        for word in $pid $name; do [[ $word != "$1"* ]] || printf '%s\\n' "$word"; done
    done < <(ps -Ao pid=,comm= 2>/dev/null)
}
_hugealign_programs() {
    compgen -c -- "$1"
}
""",
    "zsh": """\
_hugealign_processes() {
    local -a found
    found=(${(f)"$(ps -Ao pid=,comm= 2>/dev/null | sed 's/^ *//; s/ /:/')"})
    _describe process found
    found=(${(fu)"$(ps -Ao comm= 2>/dev/null)"})
    compadd -a found
}
""",
}
#: Behind a compiler, or behind the command of `run` and the like, its own completion counts (bash-completion has it).
_BASH_END = """
_hugealign() {{
  local at=1 word=${{COMP_WORDS[1]}}
  case " {commands} " in
    *" $word "*)
      case $word in {wrapping}) ;; *) at=$COMP_CWORD ;; esac
      while ((at < COMP_CWORD)) && [[ ${{COMP_WORDS[at]}} != -- ]]; do ((at += 1)); done
      ((at += 1))
      ;;
  esac
  if ((at < COMP_CWORD)) && [[ $word != -* ]] && declare -F _command_offset >/dev/null; then
    _command_offset "$at"
  else
    _shtab_hugealign
    [[ ${{COMPREPLY[0]-}} != *= ]] || compopt -o nospace 2>/dev/null || : # bash>=4
  fi
}}

complete -o bashdefault -F _hugealign hugealign
"""


def whole() -> argparse.ArgumentParser:
    """Return one parser with every command's options."""
    made = argparse.ArgumentParser(prog="hugealign")
    made.add_argument("-V", "--version", action="version", version="")
    # The launcher's own, in front of a compiler: it takes no value in a word of its own.
    made.add_argument("--page-size=", metavar="SIZE", help="the huge page size of this link")
    made.add_argument("--profile=", metavar="FILE", help="an order (hugealign order) for this link")
    commands = made.add_subparsers(dest="command", metavar="COMMAND")
    for name in cli.COMMANDS:
        commands.add_parser(name, parents=[cli.command_parser(name)], add_help=False, help=cli.COMMANDS[name])
    return made


def describe(parser: argparse.ArgumentParser, name: str = "") -> None:
    """Say of each argument of *parser*, the command *name*, what completes it."""
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way to them
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for command, sub in action.choices.items():
                describe(sub, f"{name} {command}".strip())
        elif action.nargs == argparse.REMAINDER:
            action.complete = PROGRAMS  # type: ignore[attr-defined]
        elif action.dest == "targets":
            action.complete = PROCESSES  # type: ignore[attr-defined]
        elif action.dest in ("code", "select", "ignore"):
            action.choices = codes() if action.dest == "code" else rules()
        elif action.dest == "cpu":
            action.choices = list(table.names())
        elif action.dest == "topic":
            action.choices = list(cli.COMMANDS)
        elif action.nargs != 0 and action.metavar in FILES:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
        elif action.nargs != 0 and action.metavar in DIRECTORIES:
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]


def completions() -> dict[str, str]:
    """Return the completion of each shell by its path."""
    parser = whole()
    describe(parser)
    texts = {place: shtab.complete(parser, shell, preamble=PREAMBLES.get(shell, "")) for shell, place in PLACES.items()}
    end = _BASH_END.format(commands=" ".join(cli.COMMANDS), wrapping="|".join(WRAPPING))
    texts[PLACES["bash"]] = texts[PLACES["bash"]].rpartition("\ncomplete ")[0] + end
    return texts


if __name__ == "__main__":
    generated.write(completions(), "share")
