// SPDX-License-Identifier: Apache-2.0
// Where the pass runs: at the end of a compilation, of a ThinLTO backend and of the full LTO link.
#include "hot_sections.h"

#include "llvm/Config/llvm-config.h"
#include "llvm/Passes/PassBuilder.h"
#if __has_include("llvm/Plugins/PassPlugin.h")
#include "llvm/Plugins/PassPlugin.h" // since LLVM 22
#else
#include "llvm/Passes/PassPlugin.h"
#endif

#include <dlfcn.h>

#include <cstdio>
#include <memory>

using namespace llvm;
using hugealign::HotSections;

static void registerPasses(PassBuilder &PB) {
    // Only a compilation has a pipeline start; a ThinLTO backend shares only the extension point at the end.
    auto Compile = std::make_shared<bool>(false);
    PB.registerPipelineStartEPCallback([Compile](ModulePassManager &, auto) { *Compile = true; });
    // LLVM 20 and newer pass the phase too.
    PB.registerOptimizerLastEPCallback(
        [Compile](ModulePassManager &MPM, auto...) { MPM.addPass(HotSections(*Compile)); });
#if LLVM_VERSION_MAJOR >= 15
    PB.registerFullLinkTimeOptimizationLastEPCallback(
        [](ModulePassManager &MPM, auto) { MPM.addPass(HotSections(false)); });
#endif
    // For `opt -passes=hugealign-hot-sections`.
    PB.registerPipelineParsingCallback(
        [](StringRef Name, ModulePassManager &MPM, ArrayRef<PassBuilder::PipelineElement>) {
            if (Name != "hugealign-hot-sections")
                return false;
            MPM.addPass(HotSections(false));
            return true;
        });
}

/// The major version of the LLVM that loads us; 0 if it cannot say, as before LLVM 16.
static unsigned hostVersion() {
    unsigned Major = 0;
    using GetVersion = void(unsigned *, unsigned *, unsigned *);
    if (void *Found = dlsym(RTLD_DEFAULT, "LLVMGetVersion"))
        reinterpret_cast<GetVersion *>(Found)(&Major, nullptr, nullptr);
    return Major;
}

extern "C" LLVM_ATTRIBUTE_WEAK PassPluginLibraryInfo llvmGetPassPluginInfo() {
    const unsigned Host = hostVersion();
    if (Host == 0 || Host == LLVM_VERSION_MAJOR)
        return {LLVM_PLUGIN_API_VERSION, "hugealign", LLVM_VERSION_STRING, registerPasses};
    // LLVM checks only the version of the interface, which has not changed in years, and would crash in our code.
    std::fprintf(stderr,
                 "hugealign: error: this plugin is for LLVM %d, not for LLVM %u; the right one: hugealign "
                 "plugin list\n",
                 LLVM_VERSION_MAJOR, Host);
    return {0, "hugealign", LLVM_VERSION_STRING, nullptr};
}
