// An exception that is not C++'s, raised through the unwinder: catch (...) sees it, and it is deleted.
//# Variants: pie+O2 static
//# Output: caught foreign deleted
#include <cstdio>
#include <cstring>
#include <unwind.h>
static void cleanup(_Unwind_Reason_Code, _Unwind_Exception *) { std::puts("deleted"); }
int main() {
    static _Unwind_Exception exception;
    std::memcpy(&exception.exception_class, "HUGETEST", 8);
    exception.exception_cleanup = cleanup;
    try {
        _Unwind_RaiseException(&exception);
        std::puts("nobody catches");
    } catch (...) {
        std::printf("caught foreign ");
    }
}
