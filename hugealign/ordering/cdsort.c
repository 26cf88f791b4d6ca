// SPDX-License-Identifier: Apache-2.0
/* The merging of chains that chains.py defines, with the same floating-point operations in the same order, so the
   result is the same to the last function; tests/commands/test_cdsort.py compares.

   compiled.py ensures that indices are below the count, that no arc goes from a function to itself, that *counts* add
   up, that sums of sizes and offsets fit into 63 bits, and that sums of weights are far from the limit of a double.
   All memory is allocated at the start, in proportion to functions and arcs. */

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

/* With intermediate results more precise than a double, the order would differ from Python's. */
_Static_assert(FLT_EVAL_METHOD == 0, "needs arithmetic in plain doubles");

#define DISTANCE_POWER 0.25
#define FREQUENCY_SCALE 0.25
#define EPSILON 1e-8
enum { ENTRIES = 16, ENTRY_SIZE = 2048, MAX_NODES = 128 };
#define NONE UINT32_MAX

/* A function: its place in its chain, and the function behind it. */
struct node {
    int64_t address;
    uint32_t chain, next;
};

/* A chain is numbered after the function that it began with. */
struct chain {
    int64_t size;
    double samples, cost;
    uint32_t nodes, last, version;
    uint32_t half; /* the first of its halves */
    uint32_t seen; /* the half by which `join` last reached it */
};

struct arc {
    int64_t offset;
    double weight;
    uint32_t caller, callee, next;
};

/* An edge is all arcs between two chains, in both directions.  Their order matters: floating-point sums depend on it.
   Edge e has the halves 2e and 2e+1, each in the list of the chain at its end. */
struct edge {
    uint32_t first, last; /* arcs */
};

struct half {
    uint32_t chain, next, previous;
};

/* A possible merge; it is valid if neither chain has changed since. */
struct merge {
    double gain;
    uint32_t first, second, versions[2];
};

struct sorter {
    struct node *nodes;
    struct chain *chains;
    struct arc *arcs;
    struct edge *edges;
    struct half *halves;
    struct merge *heap;
    size_t merges, room;
    double total, far;
};

static double misses(const struct sorter *s, double samples, int64_t size) {
    double density = samples / (double)size * ENTRY_SIZE;
    return density >= s->total ? 0.0 : samples * pow(1.0 - density / s->total, ENTRIES);
}

static int current(const struct sorter *s, const struct merge *m) {
    return s->chains[m->first].version == m->versions[0] && s->chains[m->second].version == m->versions[1];
}

static int before(const struct merge *a, const struct merge *b) {
    if (a->gain != b->gain)
        return a->gain > b->gain;
    return a->first != b->first ? a->first < b->first : a->second < b->second;
}

/* Put a merge into the vacant place *at* of the heap, or below it. */
static void sift(struct sorter *s, size_t at, struct merge m) {
    for (size_t below; (below = 2 * at + 1) < s->merges; at = below) {
        below += below + 1 < s->merges && before(&s->heap[below + 1], &s->heap[below]);
        if (!before(&s->heap[below], &m))
            break;
        s->heap[at] = s->heap[below];
    }
    s->heap[at] = m;
}

/* Drop outdated merges.  At most one is left for each edge, which frees half the heap. */
static void sweep(struct sorter *s) {
    size_t kept = 0;
    for (size_t i = 0; i < s->merges; i++)
        if (current(s, &s->heap[i]))
            s->heap[kept++] = s->heap[i];
    s->merges = kept;
    for (size_t i = kept / 2; i-- > 0;)
        sift(s, i, s->heap[i]);
}

static void push(struct sorter *s, struct merge m) {
    if (s->merges == s->room)
        sweep(s);
    size_t at = s->merges++;
    for (; at && before(&m, &s->heap[(at - 1) / 2]); at = (at - 1) / 2)
        s->heap[at] = s->heap[(at - 1) / 2];
    s->heap[at] = m;
}

static double nearness(const struct sorter *s, int64_t distance) {
    return pow(distance ? fabs((double)distance) : 0.1, -DISTANCE_POWER) - s->far;
}

/* Push onto the heap the better way to join the two chains of an edge, if there is a gain. */
static void consider(struct sorter *s, uint32_t half) {
    uint32_t one = s->halves[half].chain, two = s->halves[half ^ 1].chain;
    if (one > two)
        one = two, two = s->halves[half].chain;
    const struct chain *a = &s->chains[one], *b = &s->chains[two];
    if (a->nodes + b->nodes > MAX_NODES)
        return;
    double first = 0.0, second = 0.0;
    for (uint32_t i = s->edges[half / 2].first; i != NONE; i = s->arcs[i].next) {
        const struct arc *arc = &s->arcs[i];
        int forth = s->nodes[arc->caller].chain == one;
        int64_t distance = s->nodes[arc->caller].address + arc->offset - s->nodes[arc->callee].address;
        first += arc->weight * nearness(s, forth ? distance - a->size : distance + a->size);
        second += arc->weight * nearness(s, forth ? distance + b->size : distance - b->size);
    }
    double saved =
        FREQUENCY_SCALE * (a->cost + b->cost - misses(s, a->samples + b->samples, a->size + b->size));
    double least = (double)(a->size < b->size ? a->size : b->size);
    first = (first + saved) / least;
    second = (second + saved) / least;
    if (first <= EPSILON && second <= EPSILON)
        return;
    if (second > first + EPSILON)
        push(s, (struct merge){second, two, one, {b->version, a->version}});
    else
        push(s, (struct merge){first, one, two, {a->version, b->version}});
}

static void attach(struct sorter *s, uint32_t half, uint32_t chain) {
    uint32_t next = s->chains[chain].half;
    s->halves[half] = (struct half){chain, next, NONE};
    if (next != NONE)
        s->halves[next].previous = half;
    s->chains[chain].half = half;
}

static void detach(struct sorter *s, uint32_t half) {
    struct half *h = &s->halves[half];
    if (h->next != NONE)
        s->halves[h->next].previous = h->previous;
    *(h->previous != NONE ? &s->halves[h->previous].next : &s->chains[h->chain].half) = h->next;
    h->chain = NONE;
}

/* Append a chain to another. */
static void join(struct sorter *s, uint32_t first, uint32_t second) {
    struct chain *to = &s->chains[first], *from = &s->chains[second];
    for (uint32_t node = second; node != NONE; node = s->nodes[node].next) {
        s->nodes[node].address += to->size;
        s->nodes[node].chain = first;
    }
    s->nodes[to->last].next = second;
    to->last = from->last;
    to->nodes += from->nodes;
    to->size += from->size;
    to->samples += from->samples;
    to->cost = misses(s, to->samples, to->size);
    to->version++;
    from->version++;
    from->size = 0;
    for (uint32_t half = to->half; half != NONE; half = s->halves[half].next)
        s->chains[s->halves[half ^ 1].chain].seen = half;
    for (uint32_t half = from->half, next; half != NONE; half = next) {
        uint32_t other = s->halves[half ^ 1].chain, seen = s->chains[other].seen;
        next = s->halves[half].next;
        if (other == first) {
            detach(s, half ^ 1);
        } else if (seen != NONE && s->halves[seen].chain == first && s->halves[seen ^ 1].chain == other) {
            s->arcs[s->edges[seen / 2].last].next = s->edges[half / 2].first;
            s->edges[seen / 2].last = s->edges[half / 2].last;
            detach(s, half ^ 1);
        } else {
            attach(s, half, first);
        }
    }
    for (uint32_t half = to->half; half != NONE; half = s->halves[half].next)
        consider(s, half);
}

/* Merge functions into chains.  The arcs come edge by edge; *counts* has their number for each edge.  Returns in
   *sizes* and *samples* those of the chains by their first function, 0 bytes for a function that is not first; in
   *next* the function behind each, UINT32_MAX if there is none.  The result is -1 if memory runs out. */
__attribute__((visibility("default"))) int
cdsort_merge(uint32_t functions, int64_t *sizes, double *samples, uint32_t *next, uint32_t edges,
             const uint32_t *counts, uint32_t arcs, const uint32_t *callers, const uint32_t *callees,
             const int64_t *offsets, const double *weights, double total, double far) {
    struct sorter s = {.room = 2 * (size_t)edges + 1, .total = total, .far = far};
    s.nodes = calloc((size_t)functions + 1, sizeof *s.nodes);
    s.chains = calloc((size_t)functions + 1, sizeof *s.chains);
    s.arcs = calloc((size_t)arcs + 1, sizeof *s.arcs);
    s.edges = calloc((size_t)edges + 1, sizeof *s.edges);
    s.halves = calloc(2 * (size_t)edges + 1, sizeof *s.halves);
    s.heap = calloc(s.room, sizeof *s.heap);
    int made = s.nodes && s.chains && s.arcs && s.edges && s.halves && s.heap;
    if (made) {
        for (uint32_t i = 0; i < functions; i++) {
            double cost = misses(&s, samples[i], sizes[i]);
            s.nodes[i] = (struct node){0, i, NONE};
            s.chains[i] = (struct chain){sizes[i], samples[i], cost, 1, i, 0, NONE, NONE};
        }
        for (uint32_t edge = 0, i = 0, stop; edge < edges; edge++) {
            s.edges[edge] = (struct edge){i, i + counts[edge] - 1};
            attach(&s, 2 * edge, callers[i]);
            attach(&s, 2 * edge + 1, callees[i]);
            for (stop = i + counts[edge]; i < stop; i++)
                s.arcs[i] =
                    (struct arc){offsets[i], weights[i], callers[i], callees[i], i + 1 < stop ? i + 1 : NONE};
        }
        for (uint32_t edge = 0; edge < edges; edge++)
            consider(&s, 2 * edge);
        while (s.merges) {
            struct merge best = s.heap[0];
            if (--s.merges)
                sift(&s, 0, s.heap[s.merges]);
            if (current(&s, &best))
                join(&s, best.first, best.second);
        }
        for (uint32_t i = 0; i < functions; i++) {
            sizes[i] = s.chains[i].size;
            samples[i] = s.chains[i].samples;
            next[i] = s.nodes[i].next;
        }
    }
    free(s.nodes), free(s.chains), free(s.arcs), free(s.edges), free(s.halves), free(s.heap);
    return made ? 0 : -1;
}
