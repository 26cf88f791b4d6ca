# ruff: noqa: F821, INP001 - lit provides config and lit_config
"""lit's configuration: -D llvm=PREFIX is the LLVM to test with, -D plugin=FILE the plugin that was built for it."""

import os

import lit.formats

config.name = "hugealign-plugin"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = {".ll", ".c", ".cpp", ".test"}
config.excludes = {"Inputs"}
config.test_source_root = os.path.dirname(__file__)

_llvm = lit_config.params["llvm"]
_plugin = lit_config.params["plugin"]
config.test_exec_root = lit_config.params["work"]
config.environment.update(PATH=f"{_llvm}/bin:{os.environ['PATH']}", LC_ALL="C.UTF-8")
config.environment.pop("HUGEALIGN_PROFILE", None)
config.substitutions += [
    ("%hot", f"opt -load-pass-plugin={_plugin} -passes=hugealign-hot-sections -S"),
    ("%clang", f"clang -fpass-plugin={_plugin}"),
    ("%plugin", _plugin),
]
if os.path.exists(f"{_llvm}/bin/ld.lld") and int(lit_config.params["major"]) >= 15:
    config.available_features.add("lld-loads-plugins")
if int(lit_config.params["major"]) >= 17:
    config.available_features.add("fat-lto")
