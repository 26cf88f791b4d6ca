// SPDX-License-Identifier: Apache-2.0
// The pass: gives each hot function an ELF section of its own, `.text.hot.NAME`, and its namesakes in other files
// `.text.other.NAME`; it leaves all other functions as they are.
#ifndef HUGEALIGN_HOT_SECTIONS_H
#define HUGEALIGN_HOT_SECTIONS_H

#include "llvm/IR/PassManager.h"

namespace hugealign {

class HotSections : public llvm::PassInfoMixin<HotSections> {
  public:
    /// Compile: the pipeline is that of a compilation, not that of a link.
    explicit HotSections(bool Compile) : Compile(Compile) {}
    llvm::PreservedAnalyses run(llvm::Module &M, llvm::ModuleAnalysisManager &);
    /// Also run at -O0 and with -opt-bisect-limit.
    static bool isRequired() { return true; }

  private:
    bool Compile;
};

} // namespace hugealign

#endif
