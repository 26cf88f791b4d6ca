#include "order_file.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace llvm;

namespace hugealign {
namespace {

constexpr uint64_t Limit = 256 << 20;
constexpr size_t NumberDigits = 30;

bool isNumber(StringRef Text) {
    return !Text.empty() && Text.size() <= NumberDigits &&
           Text.find_first_not_of("0123456789") == StringRef::npos;
}

/// `\xNN` is a byte, `\t` and `\n` are themselves; before any other character the backslash is dropped.
std::string unescape(StringRef Text) {
    std::string Plain;
    for (size_t I = 0; I < Text.size(); ++I) {
        if (Text[I] != '\\' || I + 1 == Text.size()) {
            Plain += Text[I];
            continue;
        }
        const char C = Text[++I];
        const StringRef Hex = Text.substr(I + 1, 2);
        if (C == 'x' && Hex.size() == 2 && Hex.find_first_not_of("0123456789abcdef") == StringRef::npos) {
            Plain += static_cast<char>(hexDigitValue(Hex[0]) << 4 | hexDigitValue(Hex[1]));
            I += 2;
        } else {
            Plain += C == 't' ? '\t' : C == 'n' ? '\n' : C;
        }
    }
    return Plain;
}

/// Whether one path ends in the other: compilers write the path that they were given, or only its last part.
bool sameFile(StringRef One, StringRef Other) {
    if (One.size() < Other.size())
        std::swap(One, Other);
    return One.consume_back(Other) && (One.empty() || One.back() == '/' || Other.empty());
}

} // namespace

StringRef withoutThinLtoSuffix(StringRef Name) {
    const auto [Stem, Hash] = Name.rsplit(".llvm.");
    return isNumber(Hash) ? Stem : Name;
}

OrderFile::OrderFile(StringRef Path) {
    sys::fs::file_status Status;
    if (const std::error_code Code = sys::fs::status(Path, Status)) {
        Error = Code.message();
        return;
    }
    if (!sys::fs::is_regular_file(Status) || Status.getSize() > Limit) { // a device or a pipe might never end
        Error = "not a file of at most 256 MiB";
        return;
    }
    // Volatile: read, not mapped, so a file that shrinks meanwhile causes no SIGBUS.
    auto Buffer =
        MemoryBuffer::getFile(Path, /*IsText=*/false, /*RequiresNullTerminator=*/false, /*IsVolatile=*/true);
    if (!Buffer)
        Error = Buffer.getError().message();
    else if (!parse((*Buffer)->getBuffer()))
        Hot.clear();
}

bool OrderFile::contains(StringRef Name, StringRef Source) const {
    const auto Found = Hot.find(withoutThinLtoSuffix(Name));
    return Found != Hot.end() &&
           any_of(Found->second, [&](const std::string &File) { return sameFile(Source, File); });
}

bool OrderFile::contains(StringRef Name) const { return Hot.count(withoutThinLtoSuffix(Name)) != 0; }

bool OrderFile::parse(StringRef Text) {
    StringRef Line;
    std::tie(Line, Text) = Text.split('\n');
    if (Line.rtrim() != "# hugealign.order/1") {
        Error = "is not an order file: the first line is not `# hugealign.order/1`";
        return false;
    }
    for (size_t Number = 2; !Text.empty(); ++Number) {
        std::tie(Line, Text) = Text.split('\n');
        if (Line.take_front(1) != "#" && !Line.trim().empty() && !parseSymbol(Line)) {
            Error = ("line " + Twine(Number) + ": not a symbol of an order file").str();
            return false;
        }
    }
    return true;
}

bool OrderFile::parseSymbol(StringRef Line) {
    auto [Name, Rest] = Line.split('\t');
    StringRef Kind = "hot", File, Samples = "0";
    while (!Rest.empty()) {
        StringRef Field;
        std::tie(Field, Rest) = Rest.split('\t');
        const auto [Key, Value] = Field.split('=');
        (Key == "kind" ? Kind : Key == "file" ? File : Key == "samples" ? Samples : Field) = Value;
    }
    if ((Kind != "hot" && Kind != "cold" && Kind != "fill") || !isNumber(Samples) || Name.trim().empty())
        return false;
    if (Name.consume_front("@")) // a function without a name, by its address: nothing that a compiler knows
        return !Name.empty() && Name.size() <= 16 &&
               Name.find_first_not_of("0123456789abcdef") == StringRef::npos;
    if (Kind == "hot")
        Hot[withoutThinLtoSuffix(unescape(Name))].push_back(unescape(File));
    return true;
}

} // namespace hugealign
