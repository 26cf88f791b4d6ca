// A compiler of LLVM's intermediate code for every processor that LLVM knows: `backends TRIPLE FILE`.
// With STOP_AT_END set it stops itself when its work is done, so that its mappings can be looked at.

#include <csignal>
#include <cstdlib>
#include <memory>
#include <string>

#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/IRReader/IRReader.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/IPO/PassManagerBuilder.h"

int main(int count, char **words) {
    llvm::InitializeAllTargetInfos();
    llvm::InitializeAllTargets();
    llvm::InitializeAllTargetMCs();
    llvm::InitializeAllAsmParsers();
    llvm::InitializeAllAsmPrinters();
    llvm::LLVMContext context;
    llvm::SMDiagnostic diagnostic;
    std::string error;
    auto module = count == 3 ? llvm::parseIRFile(words[2], diagnostic, context) : nullptr;
    const llvm::Target *target = module ? llvm::TargetRegistry::lookupTarget(words[1], error) : nullptr;
    if (!target) {
        llvm::errs() << "no such file or target: " << diagnostic.getMessage() << error << '\n';
        return 1;
    }
    std::unique_ptr<llvm::TargetMachine> machine(
        target->createTargetMachine(words[1], "", "", llvm::TargetOptions(), llvm::Reloc::PIC_));
    module->setTargetTriple(words[1]);
    module->setDataLayout(machine->createDataLayout());
    llvm::legacy::PassManager passes;
    llvm::PassManagerBuilder builder;
    builder.OptLevel = 2;
    builder.populateModulePassManager(passes);
    llvm::SmallVector<char, 0> object;
    llvm::raw_svector_ostream stream(object);
    if (machine->addPassesToEmitFile(passes, stream, nullptr, llvm::CGFT_ObjectFile))
        return 1;
    passes.run(*module);
    if (getenv("STOP_AT_END"))
        raise(SIGSTOP);
    return object.empty();
}
