// Exit status 0 only if exceptions, TLS, IFUNC, constructors, COMDAT, weak symbols and threads all work.
#include <cstdio>
#include <pthread.h>
#include <stdexcept>
#include <string>
#include <vector>

extern "C" unsigned big_sum(void); // bulk.s: calls every function there

static int constructed;
__attribute__((constructor)) static void construct() { constructed = 7; }

thread_local int tls_initialised = 40;
thread_local int tls_zero;

extern "C" {
static int resolved_one() { return 11; }
typedef int (*resolved_type)();
resolved_type resolve(void) { return resolved_one; } // not static: clang would mangle it
int resolved(void) __attribute__((ifunc("resolve")));
__attribute__((weak)) int absent(void);
__attribute__((weak)) int overridden(void) { return 5; }
}

template <typename T> struct Comdat {
    static T value() {
        static T v = T(3);
        return v;
    }
};

static void thrower(int n) {
    std::string s("abc");
    if (n == 0)
        throw std::runtime_error(s + "d");
    thrower(n - 1);
}

static void *thread(void *) {
    tls_zero += 2;
    tls_initialised += tls_zero;
    return reinterpret_cast<void *>(static_cast<long>(tls_initialised));
}

int main() {
    int failed = 0;
    auto expect = [&](bool ok, const char *what) {
        if (!ok) {
            std::printf("failed: %s\n", what);
            failed = 1;
        }
    };
    expect(constructed == 7, "constructor");
    std::string caught;
    try {
        thrower(20);
    } catch (const std::exception &e) {
        caught = e.what();
    }
    expect(caught == "abcd", "exception");
    pthread_t t;
    void *result = nullptr;
    expect(pthread_create(&t, nullptr, thread, nullptr) == 0, "pthread_create");
    pthread_join(t, &result);
    expect(reinterpret_cast<long>(result) == 42 && tls_initialised == 40 && tls_zero == 0, "TLS");
    expect(resolved() == 11, "IFUNC");
    expect(!absent && overridden() == 5, "weak");
    expect(Comdat<int>::value() == 3 && Comdat<long>::value() == 3, "COMDAT");
    std::vector<int> v(1000, 2);
    expect(v.size() == 1000, "vector");
    expect(big_sum() == 3000u * 2999u / 2u, "every function of the bulk");
    return failed;
}
