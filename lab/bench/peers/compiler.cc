// A C and C++ compiler out of Debian's libclang archives: the arguments are those of `clang -cc1`.
// With STOP_AT_END set it stops itself when its work is done, so that its mappings can be looked at.

#include <csignal>
#include <cstdlib>
#include <memory>

#include "clang/Basic/Diagnostic.h"
#include "clang/Frontend/CompilerInstance.h"
#include "clang/Frontend/CompilerInvocation.h"
#include "clang/Frontend/TextDiagnosticBuffer.h"
#include "clang/FrontendTool/Utils.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/TargetSelect.h"

int main(int count, char **words) {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    llvm::InitializeNativeTargetAsmParser();
    auto compiler = std::make_unique<clang::CompilerInstance>();
    clang::TextDiagnosticBuffer early;
    clang::DiagnosticsEngine diagnostics(new clang::DiagnosticIDs, new clang::DiagnosticOptions, &early,
                                         false);
    bool good = clang::CompilerInvocation::CreateFromArgs(
        compiler->getInvocation(), llvm::ArrayRef(words + 1, words + count), diagnostics);
    compiler->createDiagnostics();
    early.FlushDiagnostics(compiler->getDiagnostics());
    good = good && clang::ExecuteCompilerInvocation(compiler.get());
    if (getenv("STOP_AT_END"))
        raise(SIGSTOP);
    return !good;
}
