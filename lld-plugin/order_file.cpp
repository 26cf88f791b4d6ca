// SPDX-License-Identifier: Apache-2.0
#include "order_file.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace llvm;

namespace hugealign {
namespace {

// docs/reference/order-file.md has the grammar; tests/orders has files that every reader has to take or to refuse.
constexpr uint64_t Limit = 256 << 20;
constexpr size_t MostLines = 1 << 21;
constexpr size_t WindowDigits = 8, SampleDigits = 30, AddressDigits = 16, ThinLtoDigits = 30;
constexpr char Letters[] = "abcdefghijklmnopqrstuvwxyz";
constexpr char HeaderKey[] = "abcdefghijklmnopqrstuvwxyz0123456789-";

bool isOnly(StringRef Text, StringRef Characters, size_t Longest) {
    return !Text.empty() && Text.size() <= Longest && Text.find_first_not_of(Characters) == StringRef::npos;
}

bool isNumber(StringRef Text, size_t Digits) { return isOnly(Text, "0123456789", Digits); }

/// The text without its escapes, `\\`, `\t`, `\n` and `\xNN`; nothing if there is any other.
bool unescape(StringRef Text, std::string &Plain) {
    Plain.clear();
    for (size_t I = 0; I < Text.size(); ++I) {
        if (Text[I] != '\\') {
            Plain += Text[I];
            continue;
        }
        const StringRef Code = Text.substr(++I, 1), Hex = Text.substr(I + 1, 2);
        if (Code == "x" && Hex.size() == 2 && isOnly(Hex, "0123456789abcdef", 2)) {
            Plain += static_cast<char>(hexDigitValue(Hex[0]) << 4 | hexDigitValue(Hex[1]));
            I += 2;
        } else if (Code == "t" || Code == "n" || Code == "\\") {
            Plain += Code == "t" ? '\t' : Code == "n" ? '\n' : '\\';
        } else {
            return false;
        }
    }
    return true;
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
    return isNumber(Hash, ThinLtoDigits) ? Stem : Name;
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
    if (Line != "# hugealign.order/1") {
        Error = "is not an order file: the first line is not `# hugealign.order/1`";
        return false;
    }
    for (size_t Number = 2; !Text.empty(); ++Number) {
        std::tie(Line, Text) = Text.split('\n');
        if (!parseLine(Line)) {
            Error = ("line " + Twine(Number) + ": not a line of an order file").str();
            return false;
        }
    }
    return true;
}

bool OrderFile::parseLine(StringRef Line) {
    if (Line.find_first_of(StringRef("\0\r", 2)) != StringRef::npos)
        return false;
    if (Line.empty())
        return true;
    if (!Line.consume_front("#"))
        return ++Lines <= MostLines && parseSymbol(Line);
    if (Line.consume_front(" window: "))
        return isNumber(Line, WindowDigits);
    const auto [Key, Value] = Line.split(": ");
    if (Lines || !Line.contains(": ") || Key.size() < 2 || Key[0] != ' ' || Key[1] < 'a' || Key[1] > 'z' ||
        !isOnly(Key.drop_front(), HeaderKey, Key.size()))
        return true; // a comment
    std::string Plain;
    return unescape(Value, Plain) && (Key != " windows" || isNumber(Value, WindowDigits));
}

bool OrderFile::parseSymbol(StringRef Line) {
    const auto [Name, Rest] = Line.split('\t');
    SmallVector<StringRef, 4> Fields;
    Rest.split(Fields, '\t', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
    StringSet<> Keys;
    StringRef Kind = "hot", Of;
    std::string Plain, File;
    for (const StringRef Field : Fields) {
        const auto [Key, Value] = Field.split('=');
        if (!Field.contains('=') || !isOnly(Key, Letters, Key.size()) || !Keys.insert(Key).second)
            return false;
        if (Key == "of") {
            Of = Value;
            continue;
        }
        if (!unescape(Value, Plain) || (Key == "samples" && !isNumber(Value, SampleDigits)) ||
            (Key == "kind" && Value != "hot" && Value != "cold" && Value != "fill"))
            return false;
        if (Key == "kind")
            Kind = Value;
        if (Key == "file")
            File = Plain;
    }
    if (Name.empty() || Name.front() == ' ' || Name.back() == ' ' || !unescape(Name, Plain))
        return false;
    const bool Nameless = Name.front() == '@'; // a function by its address: nothing that a compiler knows
    if (Nameless && !isOnly(Name.drop_front(), "0123456789abcdef", AddressDigits))
        return false;
    if (Keys.count("of")) { // another name of the function before
        if (Keys.size() > 1 || Of != Owner || Nameless || Owner.empty() || Owner.front() == '@')
            return false;
    } else {
        Owner = Name;
        OwnerIsHot = Kind == "hot";
    }
    if (OwnerIsHot && !Nameless)
        Hot[withoutThinLtoSuffix(Plain)].push_back(File);
    return true;
}

} // namespace hugealign
