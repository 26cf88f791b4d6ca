#include "hot_sections.h"

#include "order_file.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallPtrSet.h"
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

/// Before ThinLTO's link, stands for the section of a local function.
constexpr char Mark[] = "hugealign-section";

/// The order file, read once per process; null without one.  The first module gets the warning if it is malformed.
const OrderFile *order(LLVMContext &Context) {
    const char *Path = std::getenv("HUGEALIGN_PROFILE");
    if (!Path || !*Path)
        return nullptr;
    static const OrderFile Order(Path);
    static std::atomic_flag Warned = ATOMIC_FLAG_INIT;
    if (!Order.error().empty() && !Warned.test_and_set())
        Context.diagnose(BadOrderFile(
            ("hugealign: " + Twine(Path) + ": " + Order.error() + "; no section was changed").str()));
    return &Order;
}

/// The name, of those of F, by which the order knows it; empty if it does not.
StringRef hotName(const OrderFile &Order, const Function &F, ArrayRef<StringRef> Aliases) {
    const StringRef Source = F.getParent()->getSourceFileName();
    if (Order.contains(F.getName(), Source))
        return F.getName();
    for (const StringRef Alias : Aliases)
        if (Order.contains(Alias, Source))
            return Alias;
    return "";
}

/// Whether M is being compiled for ThinLTO.  The pipelines for it and for an object call the same extension points.
bool isForThinLink(const Module &M) {
    // clang sets the first for every kind of LTO before its passes run, and the second to 0 for full LTO.
    return M.getModuleFlag("EnableSplitLTOUnit") && !M.getModuleFlag("ThinLTO");
}

} // namespace

PreservedAnalyses HotSections::run(Module &M, ModuleAnalysisManager &) {
    if (!Triple(M.getTargetTriple()).isOSBinFormatELF())
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
    for (Function &F : M) {
        // A naked function may fall through into the next one.  A body that is only there to be inlined has no section.
        if (F.isDeclarationForLinker() || F.hasSection() || F.hasFnAttribute(Attribute::Naked) ||
            Resolvers.count(&F))
            continue;
        std::string Section = F.getFnAttribute(Mark).getValueAsString().str();
        if (Section.empty() && Order)
            if (const StringRef Name = hotName(*Order, F, Aliases.lookup(&F)); !Name.empty())
                Section = (".text.hot." + withoutThinLtoSuffix(Name)).str();
        if (Section.empty())
            continue;
        // ThinLTO imports nothing that refers to a local function with a section (isNonRenamableLocal,
        // lib/Analysis/ModuleSummaryAnalysis.cpp): such a function gets its section in the link; and in a fat
        // object's machine code, whose pipeline runs on what the one for the link has marked.
        if (ForThinLink && F.hasLocalLinkage() && !F.hasFnAttribute(Mark))
            F.addFnAttr(Mark, Section);
        else
            F.setSection(Section);
    }
    return PreservedAnalyses::all(); // no analysis depends on sections
}

} // namespace hugealign
