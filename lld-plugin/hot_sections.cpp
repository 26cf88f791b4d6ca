// SPDX-License-Identifier: Apache-2.0
#include "hot_sections.h"

#include "order_file.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#if __has_include("llvm/TargetParser/Triple.h")
#include "llvm/TargetParser/Triple.h" // since LLVM 16
#else
#include "llvm/ADT/Triple.h"
#endif

#include <atomic>
#include <cstdlib>

using namespace llvm;

namespace hugealign {
namespace {

class BadOrderFile : public DiagnosticInfo {
  public:
    explicit BadOrderFile(std::string Message)
        : DiagnosticInfo(getNextAvailablePluginDiagnosticKind(), DS_Warning), Message(std::move(Message)) {}
    void print(DiagnosticPrinter &Printer) const override { Printer << Message; }

  private:
    std::string Message;
};

/// Before ThinLTO's link, this attribute stands for the section of a local function.
constexpr char Mark[] = "hugealign-section";

/// The order file, read once per process; null without a good one.  The first module gets the warning if it is malformed.
const OrderFile *order(LLVMContext &Context) {
    const char *Path = std::getenv("HUGEALIGN_PROFILE");
    if (!Path || !*Path)
        return nullptr;
    static const OrderFile Order(Path);
    static std::atomic_flag Warned = ATOMIC_FLAG_INIT;
    if (!Order.error().empty() && !Warned.test_and_set()) {
        std::string Message;
        raw_string_ostream Stream(Message);
        Stream << "hugealign: ";
        printEscapedString(Path, Stream); // whatever it would do to a terminal
        Stream << ": " << Order.error() << "; no section was changed";
        Context.diagnose(BadOrderFile(Stream.str()));
    }
    return Order.error().empty() ? &Order : nullptr;
}

/// Whether M is part of any link-time optimisation: clang sets this flag before its passes run.
bool isForLto(const Module &M) { return M.getModuleFlag("EnableSplitLTOUnit"); }

/// The section for F; empty if F keeps its own.  An alias is as good as F's own name.
std::string sectionFor(const OrderFile &Order, const Function &F, ArrayRef<StringRef> Aliases) {
    const StringRef Source = F.getParent()->getSourceFileName();
    SmallVector<StringRef, 4> Names(1, F.getName());
    Names.append(Aliases.begin(), Aliases.end());
    for (const StringRef Name : Names)
        if (Order.contains(Name, Source))
            return (".text.hot." + withoutThinLtoSuffix(Name)).str();
    // A namesake of a hot function, from another source file: lld's symbol order knows no files, and would move all the
    // code around it.  No order requests a section of that name.  Linkers' code generators make sections themselves.
    if (!isForLto(*F.getParent()))
        for (const StringRef Name : Names)
            if (Order.contains(Name))
                return (".text.other." + Name).str();
    return "";
}

/// Whether M is being compiled for ThinLTO.  The pipelines for it and for an object call the same extension points.
/// clang sets the second flag to 0 for full LTO.
bool isForThinLink(const Module &M) { return isForLto(M) && !M.getModuleFlag("ThinLTO"); }

/// Whether sections on M's target matter only for layout.  For BPF they say what a function is for.
bool isSupported(const Module &M) {
    const Triple Target(M.getTargetTriple());
    return Target.isOSBinFormatELF() && Target.getArch() != Triple::bpfel &&
           Target.getArch() != Triple::bpfeb;
}

} // namespace

PreservedAnalyses HotSections::run(Module &M, ModuleAnalysisManager &) {
    if (!isSupported(M))
        return PreservedAnalyses::all();
    const OrderFile *Order = order(M.getContext());
    DenseMap<const Function *, SmallVector<StringRef, 1>> Aliases;
    for (const GlobalAlias &Alias : M.aliases())
        if (const auto *F = dyn_cast_or_null<Function>(Alias.getAliaseeObject()))
            Aliases[F].push_back(Alias.getName());
    // A resolver runs before relocation is complete, and only then.
    SmallPtrSet<const Function *, 4> Resolvers;
    for (const GlobalIFunc &IFunc : M.ifuncs())
        Resolvers.insert(IFunc.getResolverFunction());

    const bool ForThinLink = Compile && isForThinLink(M);
    // The lld of LLVM 14 loads no plugin; a mark would be useless, and change the names of local functions.
    if (ForThinLink && LLVM_VERSION_MAJOR < 15)
        return PreservedAnalyses::all();
    for (Function &F : M) {
        // A naked function may fall through into the next one.  A body that exists only for inlining has no section.
        if (F.isDeclarationForLinker() || F.hasSection() || F.hasFnAttribute(Attribute::Naked) ||
            Resolvers.count(&F))
            continue;
        std::string Section = F.getFnAttribute(Mark).getValueAsString().str();
        if (Section.empty() && Order)
            Section = sectionFor(*Order, F, Aliases.lookup(&F));
        if (Section.empty())
            continue;
        // ThinLTO imports nothing that refers to a local function with a section (isNonRenamableLocal,
        // lib/Analysis/ModuleSummaryAnalysis.cpp): such a function gets its section in the link; and in a fat
        // object's machine code, whose pipeline runs on what the link's pipeline has marked.
        if (ForThinLink && F.hasLocalLinkage() && !F.hasFnAttribute(Mark))
            F.addFnAttr(Mark, Section);
        else
            F.setSection(Section);
    }
    return PreservedAnalyses::all(); // no analysis depends on sections
}

} // namespace hugealign
