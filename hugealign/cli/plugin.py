"""``hugealign plugin``: the LLVM pass plugin that gives hot functions sections of their own."""

import argparse
import sys

EPILOG = """\
examples:
  hugealign plugin build --cc clang-19
  make CC="hugealign --profile=$PWD/server.order clang-19"    # uses it by itself

by hand:
  HUGEALIGN_PROFILE=$PWD/server.order clang-19 -O2 \\
      -fpass-plugin=$(hugealign plugin path --cc clang-19) -c server.c
  ld.lld-19 --load-pass-plugin=$(hugealign plugin path --cc ld.lld-19) ...

Each LLVM needs a plugin of its own, for exactly its version.  They are kept in
~/.cache/hugealign/lld-plugin (or in XDG_CACHE_HOME).  "hugealign clang" uses a
plugin only with the very clang that it was built for, so build it again after
an upgrade.  HUGEALIGN_PLUGIN=0 turns it off.
"""
STATUS = {
    0: "done",
    3: "there is no plugin for this compiler, or it could not be built",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the actions."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    build = actions.add_parser("build", help="build the plugin unless it exists, and print its path")
    path = actions.add_parser("path", help="print the plugin's path, for $(...)")
    actions.add_parser("list", help="print all LLVMs found, and their plugins")
    which = build.add_mutually_exclusive_group()
    which.add_argument("--all", action="store_true", help="build it for every LLVM whose headers are installed")
    for options in (which, path):
        options.add_argument(
            "--cc", default="clang", metavar="TOOL", help="the clang or ld.lld that it is for (default: clang)"
        )


def run(args: argparse.Namespace) -> int:
    """Run the action and return the exit status."""
    if args.action == "list":
        return _list()
    if args.action == "path":
        return _path(args.cc)
    return _build(args)


def _build(args: argparse.Namespace) -> int:
    from hugealign.io.units import printable
    from hugealign.wrapper import plugin_builds as building

    if args.all:
        chosen = [llvm for llvm in building.installations() if llvm.cmake]
        if not chosen:
            raise building.PluginError("no headers of an LLVM are installed (Debian: apt install llvm-19-dev)")
    else:
        chosen = [building.of_tool(args.cc)]
    for llvm in chosen:
        if sys.stderr.isatty():
            print(f"hugealign: the plugin for LLVM {llvm.version} ...", file=sys.stderr)
        print(printable(building.build(llvm)))
    return 0


def _path(tool: str) -> int:
    import os
    import shlex

    from hugealign.io.units import printable
    from hugealign.wrapper import plugin_builds as building

    llvm = building.of_tool(tool)
    path = llvm.plugin()
    if not os.path.exists(path):
        mend = f"run: hugealign plugin build --cc {shlex.quote(printable(tool))}"
        raise building.PluginError(f"the plugin for LLVM {llvm.version} is not built; {mend}")
    print(path)
    return 0


def _list() -> int:
    import os
    import shlex

    from hugealign.io.units import printable
    from hugealign.wrapper import plugin_builds as building
    from hugealign.wrapper import plugin_list as listed

    used = {entry.plugin for entry in listed.read() if entry.current()}
    found = building.installations()
    if not found:
        raise building.PluginError("no LLVM found (Debian: apt install clang-19 llvm-19-dev)")
    for llvm in found:
        path = llvm.plugin()
        if os.path.exists(path):
            clang = os.path.join(llvm.prefix, "bin", "clang")
            state = printable(path)
            if path not in used and os.path.exists(clang):
                state = f"out of date; run: hugealign plugin build --cc {shlex.quote(printable(clang))}"
        elif llvm.cmake:
            state = "not built"
        else:
            state = f"no headers: apt install {llvm.package}"
        print(f"{llvm.version:<8} {printable(llvm.prefix)}  {state}")
    return 0
