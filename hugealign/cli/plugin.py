"""``hugealign plugin``: the LLVM pass plugin that gives hot functions sections of their own."""

import argparse
import sys

EPILOG = """\
examples:
  hugealign plugin build clang-19
  make CC="hugealign --profile=$PWD/server.order clang-19"    # uses it

by hand:
  HUGEALIGN_PROFILE=$PWD/server.order clang-19 -O2 \\
      -fpass-plugin=$(hugealign plugin path clang-19) -c server.c
  ld.lld-19 --load-pass-plugin=$(hugealign plugin path ld.lld-19) ...

Each version of LLVM needs its own plugin.  Plugins are in
~/.cache/hugealign/lld-plugin (or below XDG_CACHE_HOME).  "hugealign clang" uses a
plugin only with the clang that it was built for: build it again after an
upgrade.  HUGEALIGN_PLUGIN=0 disables it.
"""
STATUS = {
    0: "done",
    3: "this compiler has no plugin, or it could not be built",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the actions."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    build = actions.add_parser("build", help="build the plugin unless it exists, and print its path")
    path = actions.add_parser("path", help="print the path of the plugin, for use in $(...)")
    actions.add_parser("list", help="list the installed LLVMs and their plugins")
    which = "the clang or ld.lld that the plugin is for (default: clang)"
    build.add_argument("tools", nargs="*", metavar="TOOL", default=["clang"], help=f"{which}; may be repeated")
    path.add_argument("tool", nargs="?", metavar="TOOL", default="clang", help=which)


def run(args: argparse.Namespace) -> int:
    """Run the action and return the exit status."""
    if args.action == "list":
        return _list()
    if args.action == "path":
        return _path(args.tool)
    return _build(args.tools)


def _build(tools: list[str]) -> int:
    from hugealign.io.units import printable
    from hugealign.wrapper import plugin_builds as building

    for llvm in [building.of_tool(tool) for tool in tools]:
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
        remedy = f"run: hugealign plugin build {shlex.quote(printable(tool))}"
        raise building.PluginError(f"the plugin for LLVM {llvm.version} is not built; {remedy}")
    print(path)
    return 0


def _list() -> int:
    import os
    import shlex

    from hugealign.io.units import printable
    from hugealign.wrapper import plugin_builds as building
    from hugealign.wrapper import plugin_list as listed

    used = {entry.plugin for entry in listed.read() if entry.current()}
    installations = building.installations()
    if not installations:
        raise building.PluginError("no LLVM found (Debian: apt install clang-19 llvm-19-dev)")
    for llvm in installations:
        path = llvm.plugin()
        if os.path.exists(path):
            clang = os.path.join(llvm.prefix, "bin", "clang")
            state = printable(path)
            if path not in used and os.path.exists(clang):
                state = f"out of date; run: hugealign plugin build {shlex.quote(printable(clang))}"
        elif llvm.cmake:
            state = "not built"
        else:
            state = f"no headers: apt install {llvm.package}"
        print(f"{llvm.version:<8} {printable(llvm.prefix)}  {state}")
    return 0
