// SPDX-License-Identifier: Apache-2.0
// The functions that an order file ("hugealign.order/1", hugealign/orderfile.py) calls hot.
#ifndef HUGEALIGN_ORDER_FILE_H
#define HUGEALIGN_ORDER_FILE_H

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"

#include <string>

namespace hugealign {

class OrderFile {
  public:
    /// Read the file at Path, at most 256 MiB of it.  On failure error() says why, and nothing is hot.
    explicit OrderFile(llvm::StringRef Path);

    /// Why the file cannot be used; empty if it can.
    llvm::StringRef error() const { return Error; }

    /// Whether the function Name, mangled, of the source file Source is hot.
    bool contains(llvm::StringRef Name, llvm::StringRef Source) const;

    /// Whether a function of that name is hot in some source file.
    bool contains(llvm::StringRef Name) const;

  private:
    bool parse(llvm::StringRef Text);
    bool parseLine(llvm::StringRef Line);
    bool parseSymbol(llvm::StringRef Line);

    std::string Error;
    size_t Lines = 0;      ///< of functions, while parsing
    llvm::StringRef Owner; ///< the function of the line before, as written, while parsing
    bool OwnerIsHot = false;
    /// Name, without ThinLTO's suffix -> the source files whose function is meant; an empty one means any.
    llvm::StringMap<llvm::SmallVector<std::string, 1>> Hot;
};

/// Name without the suffix that ThinLTO gives to a local symbol that another module needs: it changes with the source.
llvm::StringRef withoutThinLtoSuffix(llvm::StringRef Name);

} // namespace hugealign

#endif
