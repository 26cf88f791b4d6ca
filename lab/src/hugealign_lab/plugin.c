// SPDX-License-Identifier: Apache-2.0
/* A plugin of QEMU's user-mode emulation that records which blocks of code run, in which order.

   Each thread appends the numbers of its blocks to a slot of memory that it shares with the recording process, and
   encodes a full slot into a chunk of the trace (docs/explanation/trace.md).  If a signal or an exec ends a process, its last
   blocks stay in the slot, where the recorder finds them.  The program sees none of this: no descriptor stays open,
   nothing is printed.

   Not all distributions package QEMU's header, so the parts in use are declared here, as in
   include/qemu/qemu-plugin.h of QEMU 7.2; the build defines API_VERSION. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- QEMU's ---- */

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
typedef struct {
    const char *target_name;
    struct {
        int min, cur;
    } version;
    _Bool system_emulation;
} qemu_info_t; /* a union for system emulation follows */
enum { QEMU_PLUGIN_CB_NO_REGS };

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t,
                                           void (*)(qemu_plugin_id_t, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *, void (*)(unsigned, void *), int, void *);
void qemu_plugin_register_vcpu_syscall_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, unsigned, int64_t,
                                                                     uint64_t, uint64_t, uint64_t, uint64_t,
                                                                     uint64_t, uint64_t, uint64_t, uint64_t));
void qemu_plugin_register_vcpu_syscall_ret_cb(qemu_plugin_id_t,
                                              void (*)(qemu_plugin_id_t, unsigned, int64_t, int64_t));
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, void *), void *);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *);
void *qemu_plugin_insn_haddr(const struct qemu_plugin_insn *);

#define EXPORT __attribute__((visibility("default")))
EXPORT int qemu_plugin_version = API_VERSION;

/* ---- shared with the recorder: lab/src/hugealign_lab/shared.py has the same layout ---- */

enum {
    EVENTS = 1 << 14, /* of a slot, and of a chunk at most */
    SLOTS = 1 << 11,
    BLOCKS = 1 << 23,
    FILES = 1 << 10,
    NAME = 1 << 12,
    HISTORY = 1 << 16, /* entries of the table that predicts the next block */
    LAST = 1,          /* flag of a stream's last chunk */
};
enum { CUT_LIMIT = 1, CUT_BLOCKS, CUT_FILES };

struct block {
    uint64_t address; /* an offset in the file; for file 0 a virtual address */
    uint32_t file;
    uint16_t size, instructions;
};

struct shared {
    _Atomic uint32_t closed;  /* stop writing */
    _Atomic uint32_t writers; /* threads that are writing now */
    _Atomic uint32_t cut;     /* why the recording ended early */
    _Atomic uint32_t error;   /* errno of a failed write */
    _Atomic uint32_t blocks, files, streams;
    _Atomic uint32_t execs; /* successful ones: what they run is not recorded */
    _Atomic uint32_t lost;  /* threads that found no slot */
    _Atomic uint64_t events, bytes;
    uint64_t limit;
    char chunks[NAME]; /* the path of the file that chunks are appended to */
    _Atomic uint32_t owner[SLOTS];
    struct {
        _Atomic uint32_t ready;
        char name[NAME - 4];
    } file[FILES];
    struct block block[BLOCKS];
    uint32_t slot[SLOTS][EVENTS];
};

static struct shared *shared;

/* ---- threads ---- */

struct chunk {
    uint32_t flags, stream, events, size;
    unsigned char bytes[EVENTS * 10];
};

struct stream {
    uint32_t *ids; /* the slot: zero after the last event */
    uint32_t count, slot;
    uint32_t last[3]; /* the preceding blocks, latest first */
    uint32_t guess[HISTORY];
    struct chunk chunk;
};

static __thread struct stream *mine;
static __thread _Bool barred; /* there is no slot for this thread, or the recording has ended */
static pthread_key_t at_thread_end;

static struct stream *begin(void) {
    if (barred)
        return NULL;
    uint32_t number = atomic_fetch_add(&shared->streams, 1) + 1;
    struct stream *s = calloc(1, sizeof *s);
    for (uint32_t i = 0; s && i < SLOTS; i++) {
        uint32_t none = 0, at = (number + i) % SLOTS;
        if (atomic_load(&shared->owner[at]) ||
            !atomic_compare_exchange_strong(&shared->owner[at], &none, number))
            continue;
        s->slot = at;
        s->ids = shared->slot[at];
        s->chunk.stream = number;
        pthread_setspecific(at_thread_end, s);
        return mine = s;
    }
    free(s);
    atomic_fetch_add(&shared->lost, 1);
    barred = 1;
    return NULL;
}

static unsigned char *put(unsigned char *out, uint32_t value) {
    for (; value >= 0x80; value >>= 7)
        *out++ = (unsigned char)(value | 0x80);
    *out++ = (unsigned char)value;
    return out;
}

/* Three blocks predict the next one.  Right guesses are counted; a wrong one is written as that count and the distance
   from the preceding block. */
static void encode(struct stream *s) {
    unsigned char *out = s->chunk.bytes;
    uint32_t a = s->last[0], b = s->last[1], c = s->last[2], right = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        uint32_t id = s->ids[i];
        uint32_t *guess = &s->guess[((a * 0x9E3779B1u) ^ (b * 0x85EBCA77u) ^ (c * 0xC2B2AE3Du)) >> 16];
        if (*guess == id) {
            right++;
        } else {
            int32_t step = (int32_t)(id - a);
            out = put(put(out, right), (uint32_t)step << 1 ^ (uint32_t)(step >> 31));
            *guess = id;
            right = 0;
        }
        c = b;
        b = a;
        a = id;
    }
    out = put(out, right);
    s->last[0] = a;
    s->last[1] = b;
    s->last[2] = c;
    s->chunk.events = s->count;
    s->chunk.size = (uint32_t)(out - s->chunk.bytes);
}

/* The file is opened each time: the program may close any descriptor, and use its number for a file of its own. */
static _Bool append(const struct chunk *chunk) {
    size_t size = offsetof(struct chunk, bytes) + chunk->size;
    if (atomic_fetch_add(&shared->bytes, size) + size > shared->limit) {
        atomic_store(&shared->cut, CUT_LIMIT);
        atomic_store(&shared->closed, 1);
        return 0;
    }
    int fd = open(shared->chunks, O_WRONLY | O_APPEND | O_CLOEXEC);
    ssize_t written = fd < 0 ? -1 : write(fd, chunk, size);
    if (written != (ssize_t)size) {
        atomic_store(&shared->error, (uint32_t)(written < 0 ? errno : ENOSPC));
        atomic_store(&shared->closed, 1);
    }
    if (fd >= 0)
        close(fd);
    return written == (ssize_t)size;
}

/* Write the contents of the slot.  Returns whether the recording goes on; if not, the slot stays as it is. */
static _Bool flush(struct stream *s, uint32_t flags) {
    atomic_fetch_add(&shared->writers, 1); /* the recorder sets closed, then waits for writers */
    _Bool open = !atomic_load(&shared->closed);
    if (open) {
        encode(s);
        s->chunk.flags = flags;
        open = append(&s->chunk);
    }
    if (open) {
        atomic_fetch_add(&shared->events, s->count);
        memset(s->ids, 0, s->count * sizeof *s->ids);
        s->count = 0;
    }
    atomic_fetch_sub(&shared->writers, 1);
    return open;
}

static void leave(struct stream *s) {
    pthread_setspecific(at_thread_end, NULL);
    mine = NULL;
    free(s);
}

static void end(void *stream) {
    struct stream *s = stream;
    if (flush(s, LAST))
        atomic_store(&shared->owner[s->slot], 0);
    leave(s);
}

static void add(struct stream *s, uint32_t id) {
    s->ids[s->count++] = id;
    if (s->count == EVENTS && !flush(s, 0)) {
        barred = 1;
        leave(s);
    }
}

static void executed(unsigned vcpu, void *block) {
    (void)vcpu;
    struct stream *s = mine;
    if (s || (s = begin()))
        add(s, (uint32_t)(uintptr_t)block);
}

/* ---- blocks ---- */

struct range {
    uintptr_t start, end;
    uint64_t offset;
    uint32_t file;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct range ranges[64];
static unsigned range_count;
static _Atomic uint32_t generation; /* of the mappings */
static uint32_t range_generation;
static uint32_t *table, table_size, table_used; /* numbers of this process's blocks, by hash */

static void stop(uint32_t reason) {
    atomic_store(&shared->cut, reason);
    atomic_store(&shared->closed, 1);
}

static uint32_t file_number(const char *name) {
    uint32_t count = atomic_load(&shared->files);
    if (count > FILES)
        count = FILES;
    for (uint32_t i = 1; i < count; i++)
        if (atomic_load(&shared->file[i].ready) && !strcmp(shared->file[i].name, name))
            return i;
    uint32_t number = atomic_fetch_add(&shared->files, 1);
    if (number >= FILES) {
        stop(CUT_FILES);
        return 0;
    }
    snprintf(shared->file[number].name, sizeof shared->file[number].name, "%s", name);
    atomic_store(&shared->file[number].ready, 1);
    return number;
}

/* Return the mapping at an address of the host; memory without a file has number 0. */
static struct range mapped(uintptr_t at) {
    uint32_t now = atomic_load(&generation);
    if (range_generation != now)
        range_count = 0;
    range_generation = now;
    for (unsigned i = 0; i < range_count; i++)
        if (ranges[i].start <= at && at < ranges[i].end)
            return ranges[i];
    struct range found = {at, at + 1, 0, 0};
    FILE *maps = fopen("/proc/self/maps", "re");
    char *line = NULL;
    size_t room = 0;
    while (maps && getline(&line, &room, maps) > 0) {
        unsigned long long start, end, offset;
        int name = 0;
        if (sscanf(line, "%llx-%llx %*s %llx %*s %*s %n", &start, &end, &offset, &name) < 3)
            continue;
        if (start > at || at >= end)
            continue;
        line[strcspn(line, "\n")] = 0;
        uint32_t file = 0;
        if (name && line[name] == '/')
            file = file_number(line + name);
        found = (struct range){(uintptr_t)start, (uintptr_t)end, offset, file};
        ranges[range_count < 64 ? range_count++ : at / 4096 % 64] = found;
        break;
    }
    free(line);
    if (maps)
        fclose(maps);
    return found;
}

static uint32_t hash(const struct block *b) {
    uint64_t h = (b->address ^ (uint64_t)b->file << 48 ^ (uint64_t)b->size << 32) * 0x9E3779B97F4A7C15u;
    return (uint32_t)(h >> 32);
}

static void grow(void) {
    uint32_t old_size = table_size, *old = table;
    uint32_t *larger = calloc(old_size ? 2 * (size_t)old_size : 1 << 12, sizeof *table);
    if (!larger)
        return;
    table = larger;
    table_size = old_size ? 2 * old_size : 1 << 12;
    for (uint32_t i = 0; i < old_size; i++) {
        if (!old[i])
            continue;
        uint32_t at = hash(&shared->block[old[i]]) & (table_size - 1);
        while (table[at])
            at = (at + 1) & (table_size - 1);
        table[at] = old[i];
    }
    free(old);
}

/* Return the number of a block, 0 if there is no room for more.  Processes share the numbers, but each has its own
   table: after a fork, the same block may get two numbers. */
static uint32_t number_of(const struct block *b) {
    if (table_used >= table_size / 2)
        grow();
    if (table_used + 1 >= table_size)
        return 0;
    uint32_t at = hash(b) & (table_size - 1);
    for (; table[at]; at = (at + 1) & (table_size - 1))
        if (!memcmp(&shared->block[table[at]], b, sizeof *b))
            return table[at];
    uint32_t number = atomic_fetch_add(&shared->blocks, 1);
    if (number >= BLOCKS) {
        stop(CUT_BLOCKS);
        return 0;
    }
    shared->block[number] = *b;
    table[at] = number;
    table_used++;
    return number;
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb) {
    (void)id;
    if (atomic_load(&shared->closed))
        return;
    size_t instructions = qemu_plugin_tb_n_insns(tb), size = 0;
    for (size_t i = 0; i < instructions; i++)
        size += qemu_plugin_insn_size(qemu_plugin_tb_get_insn(tb, i));
    if (!size)
        return;
    if (size > 4096)
        size = 4096; /* QEMU ends a block on the page after its first; a few bytes can lie beyond */
    uintptr_t host = (uintptr_t)qemu_plugin_insn_haddr(qemu_plugin_tb_get_insn(tb, 0));
    pthread_mutex_lock(&lock);
    struct range range = mapped(host);
    struct block block = {
        .address = range.file ? range.offset + (host - range.start) : qemu_plugin_tb_vaddr(tb),
        .file = range.file,
        .size = (uint16_t)size,
        .instructions = (uint16_t)instructions,
    };
    uint32_t number = number_of(&block);
    pthread_mutex_unlock(&lock);
    if (number)
        qemu_plugin_register_vcpu_tb_exec_cb(tb, executed, QEMU_PLUGIN_CB_NO_REGS, (void *)(uintptr_t)number);
}

/* ---- processes ---- */

/* By processor, as in the kernel's unistd.h. */
static const struct calls {
    const char *target;
    int64_t execve, execveat, mmap, munmap, mremap;
} CALLS[] = {{"x86_64", 59, 322, 9, 11, 25}, {"aarch64", 221, 281, 222, 215, 216}}, *calls;

static void called(qemu_plugin_id_t id, unsigned vcpu, int64_t call, uint64_t a, uint64_t b, uint64_t c,
                   uint64_t d, uint64_t e, uint64_t f, uint64_t g, uint64_t h) {
    (void)id, (void)vcpu, (void)a, (void)b, (void)c, (void)d, (void)e, (void)f, (void)g, (void)h;
    if (call != calls->execve && call != calls->execveat)
        return;
    atomic_fetch_add(&shared->execs, 1);
    if (mine)
        end(mine);
}

static void returned(qemu_plugin_id_t id, unsigned vcpu, int64_t call, int64_t result) {
    (void)id, (void)vcpu, (void)result;
    if (call == calls->execve || call == calls->execveat)
        atomic_fetch_sub(&shared->execs, 1); /* it failed */
    if (call == calls->mmap || call == calls->munmap || call == calls->mremap)
        atomic_fetch_add(&generation, 1);
}

static void exiting(qemu_plugin_id_t id, void *unused) {
    (void)id, (void)unused;
    if (mine)
        end(mine);
}

/* The child has a copy of the parent's memory; the parent writes what is in it. */
static void forked(void) {
    pthread_mutex_init(&lock, NULL);
    pthread_setspecific(at_thread_end, NULL);
    mine = NULL;
    barred = 0;
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv) {
    for (size_t i = 0; i < sizeof CALLS / sizeof *CALLS; i++)
        if (!strcmp(info->target_name, CALLS[i].target))
            calls = &CALLS[i];
    if (argc != 1 || strncmp(argv[0], "shared=", 7) || info->system_emulation || !calls)
        return 1;
    int fd = open(argv[0] + 7, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return 1;
    void *at = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (at == MAP_FAILED)
        return 1;
    shared = at;
    if (pthread_key_create(&at_thread_end, end) || pthread_atfork(NULL, NULL, forked))
        return 1;
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_vcpu_syscall_cb(id, called);
    qemu_plugin_register_vcpu_syscall_ret_cb(id, returned);
    qemu_plugin_register_atexit_cb(id, exiting, NULL);
    return 0;
}
