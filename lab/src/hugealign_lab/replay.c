// SPDX-License-Identifier: Apache-2.0
/* Decodes the chunks of a trace (docs/explanation/trace.md) and runs them through models of instruction TLBs, under any
   number of layouts at once; it also counts calls.  lab/tests/reference.py does the same, slowly, and the tests compare.

   Once per chunk and layout, blocks are turned into the pages that they lie in, without repetitions.  For each choice
   of huge windows (a variant), pages are then turned into keys, one for each 4 KiB page or huge window.  The machines
   look those up.  A repeated key is a hit at the front of its set, which changes nothing. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
enum { EVENTS = 1 << 14, HISTORY = 1 << 16, NEVER = 0xFFFF };
/* The table of calls is kept sparse to end probing soon.  Branches inside functions are many more. */
enum { SLOTS = 1 << 22, BRANCH_SLOTS = 1 << 24, SPARSE = 4, PROBES = 256 };
/* Owners of blocks; functions have the numbers after these. */
enum { ELSEWHERE, NO_FUNCTION };
/* Marks of the blocks with which the part of a thread that counts begins and ends. */
enum { BEGINS = 1, ENDS = 2 };

/* One level of a TLB.  The nodes of a set form a ring, the head being the most recently used and the one before it the
   least.  Node numbers begin at 1. */
struct level {
    uint16_t *node_of; /* by key; 0 if it is absent */
    uint16_t *set_of;  /* by key; NEVER if nothing here can hold it */
    uint16_t *head;    /* by set */
    uint16_t *next, *previous;
    uint32_t *key; /* by node; UINT32_MAX if it is empty */
    uint32_t nodes, sets, keys;
};

struct machine {
    struct level first, second;
    uint64_t misses, walks;
    struct machine *other;
};

struct variant {
    uint32_t *key_of; /* by page */
    uint64_t *number; /* by key: the number of its page, which decides its set */
    uint8_t *huge;    /* by key */
    uint32_t pages, keys;
    struct machine *machines;
    struct variant *other;
};

struct layout {
    uint32_t *first, *last; /* the pages of each block */
    struct variant *variants;
    struct layout *other;
};

struct call {
    uint32_t from, to; /* blocks */
    uint64_t count;
};

struct replay {
    uint32_t blocks;
    uint16_t *instructions; /* by block */
    uint64_t *executions;   /* by block */
    uint64_t events, instruction_count;
    struct layout *layouts;
    uint32_t *owner; /* by block; NULL if no calls are counted */
    uint8_t *entry;  /* by block: whether a function begins with it */
    uint32_t *slots; /* numbers of calls, from 1 */
    uint32_t slot_count;
    int branches; /* whether branches inside functions are counted too */
    struct call *calls;
    uint32_t call_count, last; /* the last block that ran, 0 if it was elsewhere */
    uint64_t uncounted;
    uint8_t *marks; /* by block; NULL if all of each thread counts */
    enum { BEFORE, WITHIN, BEHIND } begin, where;
    uint32_t threads, ended; /* threads with something that counts; threads whose part ended */
    uint32_t context[3];
    uint32_t guess[HISTORY];
    uint32_t ids[EVENTS], pages[2 * EVENTS], keys[2 * EVENTS];
};

static void *copy(const void *from, size_t count, size_t size) {
    void *to = malloc(count * size + 1);
    if (to)
        memcpy(to, from, count * size);
    return to;
}

EXPORT struct replay *replay_new(uint32_t blocks, const uint16_t *instructions) {
    struct replay *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->blocks = blocks;
    r->instructions = copy(instructions, blocks, sizeof *instructions);
    r->executions = calloc(blocks, sizeof *r->executions);
    r->begin = WITHIN;
    return r->instructions && r->executions ? r : NULL;
}

/* Count calls, and with *branches* also each block that follows another of the same function.  An owner is ELSEWHERE
   (another file), NO_FUNCTION, or for a function a number above these. */
EXPORT int replay_count_calls(struct replay *r, const uint32_t *owner, const uint8_t *entry, int branches) {
    r->owner = copy(owner, r->blocks, sizeof *owner);
    r->entry = copy(entry, r->blocks, sizeof *entry);
    r->branches = branches;
    r->slot_count = branches ? BRANCH_SLOTS : SLOTS;
    r->slots = calloc(r->slot_count, sizeof *r->slots);
    r->calls = calloc(r->slot_count / SPARSE + 1, sizeof *r->calls);
    return r->owner && r->entry && r->slots && r->calls ? 0 : -1;
}

/* Count only a part of each thread: from a block that BEGINS it, or from its start if *whole*, to one that ENDS it,
   which does not count. */
EXPORT int replay_part(struct replay *r, const uint8_t *marks, int whole) {
    r->marks = copy(marks, r->blocks, sizeof *marks);
    r->begin = whole ? WITHIN : BEFORE;
    return r->marks ? 0 : -1;
}

EXPORT struct layout *layout_new(struct replay *r, const uint32_t *first, const uint32_t *last) {
    struct layout *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    l->first = copy(first, r->blocks, sizeof *first);
    l->last = copy(last, r->blocks, sizeof *last);
    l->other = r->layouts;
    r->layouts = l;
    return l->first && l->last ? l : NULL;
}

EXPORT struct variant *variant_new(struct layout *l, uint32_t pages, const uint32_t *key_of, uint32_t keys,
                                   const uint64_t *number, const uint8_t *huge) {
    struct variant *v = calloc(1, sizeof *v);
    if (!v)
        return NULL;
    v->pages = pages;
    v->keys = keys;
    v->key_of = copy(key_of, pages, sizeof *key_of);
    v->number = copy(number, keys, sizeof *number);
    v->huge = copy(huge, keys, sizeof *huge);
    v->other = l->variants;
    l->variants = v;
    return v->key_of && v->number && v->huge ? v : NULL;
}

static void level_reset(struct level *v, const uint32_t *ways, const uint32_t *sets) {
    memset(v->node_of, 0, v->keys * sizeof *v->node_of);
    uint32_t node = 1, set = 0;
    for (int kind = 0; kind < 2; kind++) {
        for (uint32_t i = 0; i < sets[kind]; i++, set++) {
            v->head[set] = (uint16_t)node;
            for (uint32_t way = 0; way < ways[kind]; way++, node++) {
                v->key[node] = UINT32_MAX;
                v->next[node] = (uint16_t)(way + 1 < ways[kind] ? node + 1 : v->head[set]);
                v->previous[node] = (uint16_t)(way ? node - 1 : node + ways[kind] - 1);
            }
        }
    }
}

/* The shape of a level: sets and ways for 4 KiB pages, then for huge ones; no sets for the latter, and *shared*, if the
   same entries hold both. */
static int level_make(struct level *v, const struct variant *of, const uint32_t shape[5]) {
    uint32_t sets[2] = {shape[0], shape[2]}, ways[2] = {shape[1], shape[3]}, shared = shape[4];
    v->keys = of->keys;
    v->sets = sets[0] + sets[1];
    v->nodes = sets[0] * ways[0] + sets[1] * ways[1] + 1;
    v->node_of = malloc(v->keys * sizeof *v->node_of + 1);
    v->set_of = malloc(v->keys * sizeof *v->set_of + 1);
    v->head = malloc(v->sets * sizeof *v->head + 1);
    v->next = malloc(v->nodes * sizeof *v->next);
    v->previous = malloc(v->nodes * sizeof *v->previous);
    v->key = malloc(v->nodes * sizeof *v->key);
    if (!v->node_of || !v->set_of || !v->head || !v->next || !v->previous || !v->key)
        return -1;
    for (uint32_t key = 0; key < v->keys; key++) {
        int kind = of->huge[key] && !shared;
        uint32_t set = sets[kind] ? (uint32_t)(of->number[key] % sets[kind]) + (kind ? sets[0] : 0) : NEVER;
        v->set_of[key] = (uint16_t)set;
    }
    level_reset(v, ways, sets);
    return 0;
}

/* The *shapes* of both levels. */
EXPORT struct machine *machine_new(struct variant *v, const uint32_t shapes[2][5]) {
    struct machine *m = calloc(1, sizeof *m);
    if (!m || level_make(&m->first, v, shapes[0]) || level_make(&m->second, v, shapes[1]))
        return NULL;
    m->other = v->machines;
    return v->machines = m;
}

EXPORT uint64_t machine_misses(const struct machine *m) { return m->misses; }
EXPORT uint64_t machine_walks(const struct machine *m) { return m->walks; }
EXPORT uint64_t replay_events(const struct replay *r) { return r->events; }
EXPORT uint64_t replay_instructions(const struct replay *r) { return r->instruction_count; }
EXPORT const uint64_t *replay_executions(const struct replay *r) { return r->executions; }
EXPORT const struct call *replay_calls(const struct replay *r) { return r->calls + 1; }
EXPORT uint32_t replay_call_count(const struct replay *r) { return r->call_count; }
EXPORT uint64_t replay_uncounted(const struct replay *r) { return r->uncounted; }
EXPORT uint32_t replay_threads(const struct replay *r) { return r->threads; }
EXPORT uint32_t replay_ended(const struct replay *r) { return r->ended; }

/* Return whether the level holds a key; afterwards it does, if it can. */
static inline int touch(struct level *v, uint32_t key) {
    uint32_t set = v->set_of[key], node = v->node_of[key];
    if (set == NEVER)
        return 0;
    uint16_t *head = &v->head[set];
    if (node) {
        if (*head == node)
            return 1;
        uint16_t before = v->previous[node], after = v->next[node], last = v->previous[*head];
        if (last != node) {
            v->next[before] = after;
            v->previous[after] = before;
            v->next[last] = v->previous[*head] = (uint16_t)node;
            v->previous[node] = last;
            v->next[node] = *head;
        }
        *head = (uint16_t)node;
        return 1;
    }
    node = v->previous[*head];
    if (v->key[node] != UINT32_MAX)
        v->node_of[v->key[node]] = 0;
    v->key[node] = key;
    v->node_of[key] = *head = (uint16_t)node;
    return 0;
}

static void look_up(struct machine *m, const uint32_t *keys, size_t count) {
    uint64_t misses = 0, walks = 0;
    for (size_t i = 0; i < count; i++) {
        if (touch(&m->first, keys[i]))
            continue;
        misses++;
        walks += !touch(&m->second, keys[i]);
    }
    m->misses += misses;
    m->walks += walks;
}

static void run(struct replay *r, const uint32_t *ids, size_t count) {
    for (struct layout *l = r->layouts; l; l = l->other) {
        size_t pages = 0;
        uint32_t page = UINT32_MAX;
        for (size_t i = 0; i < count; i++) {
            uint32_t first = l->first[ids[i]], last = l->last[ids[i]];
            r->pages[pages] = first;
            pages += first != page;
            r->pages[pages] = last;
            pages += last != first;
            page = last;
        }
        for (struct variant *v = l->variants; v; v = v->other) {
            size_t keys = 0;
            uint32_t key = UINT32_MAX;
            for (size_t i = 0; i < pages; i++) {
                uint32_t next = v->key_of[r->pages[i]];
                r->keys[keys] = next;
                keys += next != key;
                key = next;
            }
            for (struct machine *m = v->machines; m; m = m->other)
                look_up(m, r->keys, keys);
        }
    }
}

/* Return the entry of the table for a call, a new one if there is room, or NULL. */
static struct call *call_of(struct replay *r, uint32_t from, uint32_t to) {
    uint64_t hash = (from * 0x9E3779B97F4A7C15u) ^ (to * 0xC2B2AE3D27D4EB4Fu);
    for (uint32_t at = (uint32_t)(hash >> 32), end = at + PROBES; at != end; at++) {
        uint32_t *slot = &r->slots[at % r->slot_count];
        if (!*slot) {
            if (r->call_count == r->slot_count / SPARSE)
                return NULL;
            *slot = ++r->call_count;
            r->calls[*slot] = (struct call){from, to, 0};
        }
        struct call *found = &r->calls[*slot];
        if (found->from == from && found->to == to)
            return found;
    }
    return NULL;
}

/* A call is a block of one function, then the first block of another.  Between them may be code of the same file that
   belongs to no function (the PLT); code of another file ends it.  A branch is two blocks of one function. */
static void count_calls(struct replay *r, const uint32_t *ids, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint32_t id = ids[i], owner = r->owner[id];
        if (owner == NO_FUNCTION)
            continue;
        if (r->last && (r->owner[r->last] == owner ? r->branches : r->entry[id])) {
            struct call *call = call_of(r, r->last, id);
            if (call)
                call->count++;
            else
                r->uncounted++;
        }
        r->last = owner == ELSEWHERE ? 0 : id;
    }
}

static void forget(struct level *v) {
    /* The order of empty entries does not matter: emptying them is enough. */
    memset(v->node_of, 0, v->keys * sizeof *v->node_of);
    memset(v->key, 0xFF, v->nodes * sizeof *v->key);
}

/* A new thread: another processor, with empty TLBs. */
EXPORT void replay_stream(struct replay *r) {
    memset(r->context, 0, sizeof r->context);
    memset(r->guess, 0, sizeof r->guess);
    r->last = 0;
    r->where = r->begin;
    r->threads += r->where == WITHIN;
    for (struct layout *l = r->layouts; l; l = l->other)
        for (struct variant *v = l->variants; v; v = v->other)
            for (struct machine *m = v->machines; m; m = m->other)
                forget(&m->first), forget(&m->second);
}

static const uint8_t *take(const uint8_t *at, const uint8_t *end, uint32_t *value) {
    uint64_t sum = 0;
    for (int shift = 0; at < end && shift <= 28; shift += 7) {
        uint8_t byte = *at++;
        sum |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            *value = (uint32_t)sum;
            return sum > UINT32_MAX ? NULL : at;
        }
    }
    return NULL;
}

static int decode(struct replay *r, const uint8_t *at, size_t size, uint32_t events) {
    const uint8_t *end = at + size;
    uint32_t a = r->context[0], b = r->context[1], c = r->context[2], count = 0;
    for (;;) {
        uint32_t right, step;
        uint32_t *guess;
        if (!(at = take(at, end, &right)) || right > events - count)
            return -1;
        for (uint32_t stop = count + right; count < stop;) {
            uint32_t id = r->guess[((a * 0x9E3779B1u) ^ (b * 0x85EBCA77u) ^ (c * 0xC2B2AE3Du)) >> 16];
            if (!id)
                return -1;
            r->ids[count++] = id;
            c = b;
            b = a;
            a = id;
        }
        if (count == events)
            break;
        guess = &r->guess[((a * 0x9E3779B1u) ^ (b * 0x85EBCA77u) ^ (c * 0xC2B2AE3Du)) >> 16];
        if (!(at = take(at, end, &step)))
            return -1;
        c = b;
        b = a;
        a += step >> 1 ^ -(step & 1);
        if (!a || a >= r->blocks)
            return -1;
        *guess = r->ids[count++] = a;
    }
    r->context[0] = a;
    r->context[1] = b;
    r->context[2] = c;
    return at == end ? 0 : -1;
}

/* Return how many of the blocks count; *from* becomes the first of them. */
static size_t part(struct replay *r, size_t count, size_t *from) {
    size_t at = 0;
    *from = 0;
    if (!r->marks)
        return count;
    if (r->where == BEFORE) {
        while (at < count && !(r->marks[r->ids[at]] & BEGINS))
            at++;
        if (at == count)
            return 0;
        *from = at++;
        r->where = WITHIN;
        r->threads++;
    }
    if (r->where == BEHIND)
        return 0;
    while (at < count && !(r->marks[r->ids[at]] & ENDS))
        at++;
    if (at < count) {
        r->where = BEHIND;
        r->ended++;
    }
    return at - *from;
}

/* Return 0, or -1 if the chunk is damaged. */
EXPORT int replay_chunk(struct replay *r, const uint8_t *bytes, size_t size, uint32_t events, int raw) {
    if (events > EVENTS)
        return -1;
    if (raw) {
        if (size != (size_t)events * 4)
            return -1;
        memcpy(r->ids, bytes, size);
        for (uint32_t i = 0; i < events; i++)
            if (!r->ids[i] || r->ids[i] >= r->blocks)
                return -1;
    } else if (decode(r, bytes, size, events)) {
        return -1;
    }
    size_t from, count = part(r, events, &from);
    uint32_t *ids = r->ids + from;
    uint64_t instructions = 0;
    for (size_t i = 0; i < count; i++) {
        instructions += r->instructions[ids[i]];
        r->executions[ids[i]]++;
    }
    r->events += count;
    r->instruction_count += instructions;
    if (r->owner)
        count_calls(r, ids, count);
    run(r, ids, count);
    return 0;
}

static void level_free(struct level *v) {
    free(v->node_of), free(v->set_of), free(v->head), free(v->next), free(v->previous), free(v->key);
}

EXPORT void replay_free(struct replay *r) {
    for (struct layout *l = r->layouts, *next_layout; l; l = next_layout) {
        for (struct variant *v = l->variants, *next_variant; v; v = next_variant) {
            for (struct machine *m = v->machines, *next; m; m = next) {
                level_free(&m->first), level_free(&m->second);
                next = m->other;
                free(m);
            }
            free(v->key_of), free(v->number), free(v->huge);
            next_variant = v->other;
            free(v);
        }
        free(l->first), free(l->last);
        next_layout = l->other;
        free(l);
    }
    free(r->owner), free(r->entry), free(r->slots), free(r->calls), free(r->marks);
    free(r->instructions), free(r->executions), free(r);
}
