// Link-time optimisation of a library with exported classes, TLS and exceptions.
//# Library: LIBRARY
//# Variants: pie+lto pie+lto+gc no-pie+lto
//# Output: thrown 5
struct Error {
    int code;
};
struct Worker {
    virtual ~Worker();
    virtual void work(int code);
};
#ifdef LIBRARY
static thread_local int calls;
Worker::~Worker() {}
void Worker::work(int code) {
    calls++;
    throw Error{code + calls};
}
#else
#include <cstdio>
int main() {
    Worker *worker = new Worker;
    try {
        worker->work(4);
    } catch (const Error &error) {
        std::printf("thrown %d\n", error.code);
    }
    delete worker;
}
#endif
