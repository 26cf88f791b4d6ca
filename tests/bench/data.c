/* A plugin of QEMU's user-mode emulation that runs what a program fetches, loads and stores through models of TLBs,
   while it runs: instruction and data TLBs, and the second level, which serves both where the processor has it so.

   tests/bench/data.py writes the models and the ranges of files that may lie on huge pages, and reads the counts.  Each
   model runs several times, with other ranges huge.  Only the first thread counts.  An access to the page of the access
   before it is a hit at the front of its set, and is left out.

   Distributions do not all package QEMU's header, so what is used of it is declared here, as in
   include/qemu/qemu-plugin.h of QEMU 7.2; API_VERSION is given by the build. */

#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
typedef struct {
    const char *target_name;
    struct {
        int min, cur;
    } version;
    _Bool system_emulation;
} qemu_info_t;
enum { QEMU_PLUGIN_CB_NO_REGS };
enum { QEMU_PLUGIN_MEM_RW = 3 };

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t,
                                           void (*)(qemu_plugin_id_t, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *, void (*)(unsigned, void *), int, void *);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *,
                                      void (*)(unsigned, uint32_t, uint64_t, void *), int, int, void *);
void qemu_plugin_register_vcpu_syscall_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, unsigned, int64_t,
                                                                     uint64_t, uint64_t, uint64_t, uint64_t,
                                                                     uint64_t, uint64_t, uint64_t, uint64_t));
void qemu_plugin_register_vcpu_syscall_ret_cb(qemu_plugin_id_t,
                                              void (*)(qemu_plugin_id_t, unsigned, int64_t, int64_t));
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, void *), void *);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
void *qemu_plugin_insn_haddr(const struct qemu_plugin_insn *);

#define EXPORT __attribute__((visibility("default")))
EXPORT int qemu_plugin_version = API_VERSION;

enum { MODELS = 16, FILES = 256, RANGES = 1024, PAGES = 1 << 20, WINDOW = 21, PAGE = 12 };
enum { CODE, DATA, SIDES };
enum { TEXT = 1, RODATA = 2 };

struct table {
    unsigned sets, ways;
    uint64_t *tag; /* of each set the most recently used first; 0 is empty */
};

/* Of each level and side a table for small pages and one for huge ones, which may be the same. */
struct machine {
    struct table *first[SIDES][2], *second[SIDES][2];
    unsigned huge; /* which classes of pages are */
    uint64_t misses[SIDES], walks[SIDES];
};

struct file {
    char path[4096];
    uint64_t start, end; /* offsets of the segment */
    unsigned class;
};

struct range {
    uint64_t start, end, offset; /* guest addresses, and what of the file begins there */
    unsigned file;               /* the first of this path */
};

struct page {
    uint64_t number, window;
    unsigned class;
};

static struct machine machines[MODELS];
static unsigned machine_count, file_count, range_count;
static struct file files[FILES];
static struct range ranges[RANGES];
static struct page pages[PAGES];
static uint64_t base, last[SIDES] = {~0ull, ~0ull}, instructions, accesses[SIDES];
static _Bool known, stale = 1;
static char out[4096];

static _Bool lookup(struct table *t, uint64_t number, uint64_t tag) {
    uint64_t *set = t->tag + (number % t->sets) * t->ways;
    unsigned at = 0;
    while (at < t->ways && set[at] != tag)
        at++;
    _Bool hit = at < t->ways;
    memmove(set + 1, set, (hit ? at : t->ways - 1) * sizeof *set);
    set[0] = tag;
    return hit;
}

static void look_at_maps(void) {
    FILE *maps = fopen("/proc/self/maps", "re");
    char *line = NULL;
    size_t room = 0;
    range_count = 0;
    while (maps && getline(&line, &room, maps) > 0) {
        unsigned long long start, end, offset;
        int name = 0;
        char protection[5];
        if (sscanf(line, "%llx-%llx %4s %llx %*s %*s %n", &start, &end, protection, &offset, &name) < 4 ||
            !name)
            continue;
        line[strcspn(line, "\n")] = 0;
        /* QEMU maps guests' code only readable, so that segments that adjoin are one line.  What is writable is data. */
        for (unsigned i = 0; i < file_count && !strchr(protection, 'w'); i++)
            if (!strcmp(line + name, files[i].path) && range_count < RANGES) {
                ranges[range_count++] = (struct range){start - base, end - base, offset, i};
                break;
            }
    }
    free(line);
    if (maps)
        fclose(maps);
    memset(pages, 0, sizeof pages);
    stale = 0;
}

static const struct page *page_of(uint64_t number) {
    if (stale)
        look_at_maps();
    struct page *p = &pages[number % PAGES];
    if (p->number == number + 1)
        return p;
    *p = (struct page){number + 1, 0, 0};
    for (unsigned i = 0; i < range_count; i++) {
        uint64_t at = number << PAGE;
        if (at < ranges[i].start || at >= ranges[i].end)
            continue;
        uint64_t offset = ranges[i].offset + at - ranges[i].start;
        const char *path = files[ranges[i].file].path;
        for (unsigned f = ranges[i].file; f < file_count && !strcmp(files[f].path, path); f++)
            if (files[f].start <= offset && offset < files[f].end) {
                p->class = files[f].class;
                /* As the link lays it out: a segment begins on a window, and fills its last one. */
                p->window = (uint64_t)f * 1031 + ((offset - files[f].start) >> WINDOW);
            }
    }
    return p;
}

static void access_page(unsigned side, uint64_t address) {
    uint64_t number = address >> PAGE;
    if (number == last[side])
        return;
    last[side] = number;
    accesses[side]++;
    const struct page *p = page_of(number);
    for (unsigned i = 0; i < machine_count; i++) {
        struct machine *m = &machines[i];
        unsigned huge = (p->class & m->huge) != 0;
        uint64_t of = huge ? p->window : number, tag = of << 2 | huge << 1 | 1;
        if (lookup(m->first[side][huge], of, tag))
            continue;
        m->misses[side]++;
        m->walks[side] += !lookup(m->second[side][huge], of, tag);
    }
}

static void executed(unsigned vcpu, void *packed) {
    if (vcpu)
        return;
    uint64_t value = (uint64_t)(uintptr_t)packed;
    instructions += value & 0xFFF;
    access_page(CODE, value >> 12 << PAGE);
}

static void touched(unsigned vcpu, uint32_t info, uint64_t address, void *unused) {
    (void)info, (void)unused;
    if (!vcpu)
        access_page(DATA, address);
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb) {
    (void)id;
    size_t count = qemu_plugin_tb_n_insns(tb);
    uint64_t address = qemu_plugin_tb_vaddr(tb);
    if (!known) {
        base = (uint64_t)(uintptr_t)qemu_plugin_insn_haddr(qemu_plugin_tb_get_insn(tb, 0)) - address;
        known = 1;
    }
    for (size_t i = 0; i < count; i++)
        qemu_plugin_register_vcpu_mem_cb(qemu_plugin_tb_get_insn(tb, i), touched, QEMU_PLUGIN_CB_NO_REGS,
                                         QEMU_PLUGIN_MEM_RW, NULL);
    uint64_t packed = address >> PAGE << 12 | (count < 0xFFF ? count : 0xFFF);
    qemu_plugin_register_vcpu_tb_exec_cb(tb, executed, QEMU_PLUGIN_CB_NO_REGS, (void *)(uintptr_t)packed);
}

static void returned(qemu_plugin_id_t id, unsigned vcpu, int64_t call, int64_t result) {
    (void)id, (void)vcpu, (void)result;
    if (call == 3) /* close: what was opened has been mapped by now */
        stale = 1;
}

static void called(qemu_plugin_id_t id, unsigned vcpu, int64_t call, uint64_t a, uint64_t b, uint64_t c,
                   uint64_t d, uint64_t e, uint64_t f, uint64_t g, uint64_t h) {
    (void)id, (void)vcpu, (void)call, (void)a, (void)b, (void)c, (void)d, (void)e, (void)f, (void)g, (void)h;
}

static void exiting(qemu_plugin_id_t id, void *unused) {
    (void)id, (void)unused;
    FILE *file = fopen(out, "we");
    if (!file)
        return;
    fprintf(file, "%llu %llu %llu\n", (unsigned long long)instructions, (unsigned long long)accesses[CODE],
            (unsigned long long)accesses[DATA]);
    for (unsigned i = 0; i < machine_count; i++)
        fprintf(file, "%llu %llu %llu %llu\n", (unsigned long long)machines[i].misses[CODE],
                (unsigned long long)machines[i].misses[DATA], (unsigned long long)machines[i].walks[CODE],
                (unsigned long long)machines[i].walks[DATA]);
    fclose(file);
}

static struct table *table(unsigned entries, unsigned ways) {
    struct table *t = calloc(1, sizeof *t);
    if (!t || !ways || entries % ways)
        return NULL;
    *t = (struct table){entries / ways, ways, calloc(entries, sizeof(uint64_t))};
    return t->tag ? t : NULL;
}

/* Lines of the configuration:  out PATH,  file START END CLASS PATH,  machine HUGE and eight pairs ENTRIES WAYS: first
   level of code small and huge, of data small and huge, second level of code small and huge, of data small and huge.
   A pair 0 N is the table number N of the pairs before it. */
static _Bool configure(const char *path) {
    FILE *file = fopen(path, "re");
    char line[8192];
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        unsigned long long start, end;
        unsigned class;
        int at = 0;
        if (!strncmp(line, "out ", 4)) {
            snprintf(out, sizeof out, "%s", line + 4);
        } else if (sscanf(line, "file %llu %llu %u %n", &start, &end, &class, &at) == 3 &&
                   file_count < FILES) {
            struct file *f = &files[file_count++];
            f->start = start;
            f->end = end;
            f->class = class;
            snprintf(f->path, sizeof f->path, "%s", line + at);
        } else if (sscanf(line, "machine %u%n", &class, &at) == 1 && machine_count < MODELS) {
            struct machine *m = &machines[machine_count++];
            struct table *made[8], **slot[8] = {&m->first[CODE][0],  &m->first[CODE][1],  &m->first[DATA][0],
                                                &m->first[DATA][1],  &m->second[CODE][0], &m->second[CODE][1],
                                                &m->second[DATA][0], &m->second[DATA][1]};
            m->huge = class;
            for (int i = 0; i < 8; i++) {
                unsigned entries, ways;
                int used = 0;
                if (sscanf(line + at, "%u %u%n", &entries, &ways, &used) != 2)
                    return 0;
                at += used;
                made[i] = entries ? table(entries, ways) : ways < (unsigned)i ? made[ways] : NULL;
                if (!made[i])
                    return 0;
                *slot[i] = made[i];
            }
        }
    }
    if (file)
        fclose(file);
    return file && out[0] && machine_count;
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv) {
    if (argc != 1 || strncmp(argv[0], "config=", 7) || info->system_emulation ||
        strcmp(info->target_name, "x86_64") || !configure(argv[0] + 7))
        return 1;
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_vcpu_syscall_cb(id, called);
    qemu_plugin_register_vcpu_syscall_ret_cb(id, returned);
    qemu_plugin_register_atexit_cb(id, exiting, NULL);
    return 0;
}
