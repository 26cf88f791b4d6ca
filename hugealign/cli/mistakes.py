"""What an unknown option was meant to be.  Loaded only then."""

from hugealign.io.units import nearest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

#: Options of other tools, by command, empty for all commands.  Each line says what to type here.
_MEANT = {
    ("", "--version"): "hugealign --version prints it",
    ("", "-V"): "hugealign --version prints it",
    ("status", "--dry-run"): "without --undo, status only lists",
    ("top", "-n"): "--once prints the table once",
    ("top", "-b"): "--once prints the table once",
    ("verify", "--fix"): "hugealign fix FILE -o OUT changes a copy",
}
#: Options of other tools, and our option with that meaning, if a command has it.
_ALIKE = {"--format": "--json", "--output-format": "--json", "-n": "--dry-run"}


def no_option(command: str, rest: "Sequence[str]", options: "Collection[str]") -> str:
    """Return the message about the words *rest*, which *command* with these *options* does not take."""
    word = next((word for word in rest if word.startswith("-")), "")
    if not word:
        return f"{rest[0]}: one word too many; hugealign {command} --help says more"
    name = word.partition("=")[0] if word.startswith("--") else word[:2]
    return f"no option {name}; {_meant(command, name, options)}"


def _meant(command: str, name: str, options: "Collection[str]") -> str:
    for key in ((command, name), ("", name)):
        if key in _MEANT:
            return _MEANT[key]
    long = sorted(option for option in options if option.startswith("--"))
    stem = name.lstrip("-")
    if name.startswith("--"):
        near = [option for option in long if stem in option.split("-")] or [nearest(name, long)]
    else:
        near = [option for option in long if option[2:].startswith(stem)]
    if _ALIKE.get(name) in options:
        near = [_ALIKE[name]]
    if len(near) == 1 and near[0]:
        return f"did you mean {near[0]}?"
    return f"hugealign {command} --help lists them"
