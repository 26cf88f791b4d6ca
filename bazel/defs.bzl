# SPDX-License-Identifier: Apache-2.0
"""Rules: a dependency that makes hugealign link a program, and a test that its text is in whole windows."""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

def _file(files, end):
    return [file for file in files if file.path.endswith(end)][0]

def _text_impl(ctx):
    files = ctx.files._files + ctx.files.order
    if "clang" not in find_cpp_toolchain(ctx).compiler_executable:
        words = [_file(files, "/bazel/collect2.sh").path] + ["--order=" + file.path for file in ctx.files.order]
        if "," in "".join(words):
            fail("a comma in %s: gcc's -wrapper would split it" % words)
        flags = ["-wrapper", ",".join(words)]
    else:
        # clang has no -wrapper.  The first -B counts, and with -fuse-ld=/PATH clang does not search.
        if ctx.files.order:
            fail("an order needs gcc; with clang give --action_env=HUGEALIGN_PROFILE=/PATH")
        flags = ["-B" + _file(files, "/hugealign/libexec/ld").dirname + "/"]
    return [CcInfo(linking_context = cc_common.create_linking_context(
        linker_inputs = depset([cc_common.create_linker_input(
            owner = ctx.label,
            user_link_flags = depset(flags),
            additional_inputs = depset(files),
        )]),
    ))]

hugealign_text = rule(
    implementation = _text_impl,
    attrs = {
        "order": attr.label(allow_single_file = True, doc = "An order of `hugealign order`: hot functions first."),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
        "_files": attr.label(default = "//:files"),
    },
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
    incompatible_use_toolchain_transition = True,
    doc = "Has what depends on it linked by hugealign.  It adds no code.",
)

def _verify_test_impl(ctx):
    script = ctx.actions.declare_file(ctx.label.name)
    files = ctx.files._files
    binary = ctx.executable.binary
    words = [_file(files, "/bin/hugealign").short_path, "verify", "--quiet"] + ctx.attr.options + ["--", binary.short_path]
    quoted = ["'" + word.replace("'", "'\\''") + "'" for word in words]  # no word is code
    ctx.actions.write(script, "#!/bin/sh\nexec " + " ".join(quoted) + "\n", is_executable = True)
    return [DefaultInfo(executable = script, runfiles = ctx.runfiles(files = files + [binary]))]

hugealign_verify_test = rule(
    implementation = _verify_test_impl,
    attrs = {
        "binary": attr.label(mandatory = True, executable = True, cfg = "target", doc = "What is checked."),
        "options": attr.string_list(doc = "Further options of `hugealign verify`, such as --fail-on=warning."),
        "_files": attr.label(default = "//:files"),
    },
    test = True,
    doc = "Passes if the text of `binary` is in whole windows.",
)
