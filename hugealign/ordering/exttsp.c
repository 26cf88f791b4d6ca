// SPDX-License-Identifier: Apache-2.0
/* The order of a function's blocks that exttsp.py defines, for many functions at once, with the same result to the last
   block; tests/commands/test_exttsp.py compares.

   All arithmetic is in integers.  exttsp.py ensures that indices are below the number of blocks of their function,
   that no jump goes from a block to itself, that sizes add up to less than 2**32, and weights and counts to less than
   2**40; a score then stays within 63 bits. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { FALL = 51200, FORWARD = 1024, FORWARD_STEP = 5, BACKWARD = 640, BACKWARD_STEP = 8 };
enum { MAX_CHAIN = 512, MAX_SPLIT = 128, DENSITY_RATIO = 100 };
#define NONE UINT32_MAX

struct jump {
    uint32_t from, to;
    int64_t weight;
};

struct chain {
    uint32_t *nodes, count; /* no nodes: merged into another */
    int64_t size, runs, score;
};

/* The best way to merge two chains: X1 of *x* up to *split*, X2 behind it, and *y*. */
enum way { CONCATENATED, BETWEEN, BEHIND_Y, TURNED };
struct merge {
    uint32_t a, b, x, y, split;
    enum way way;
    int64_t gain;
};

struct function {
    uint32_t blocks, jumps;
    const int64_t *sizes, *counts;
    struct jump *jump; /* sorted by where they come from */
    uint32_t *out,
        *in;        /* by block: the first of its jumps, and of its places in *back*; one more for the end */
    uint32_t *back; /* the jumps, sorted by where they go */
    uint32_t *chain_of, *seen, *forced, *sequence;
    int64_t *address;
    struct chain *chains;
    struct merge *merges;
    uint32_t merge_count, round;
};

static int64_t worth(const struct function *f, const struct jump *jump) {
    int64_t gap = f->address[jump->to] - f->address[jump->from] - f->sizes[jump->from];
    if (!gap)
        return FALL * jump->weight;
    if (gap > 0)
        return gap < FORWARD ? FORWARD_STEP * (FORWARD - gap) * jump->weight : 0;
    return -gap < BACKWARD ? BACKWARD_STEP * (BACKWARD + gap) * jump->weight : 0;
}

/* Return the score of the *count* nodes of the sequence: the worth of all jumps among them. */
static int64_t score(struct function *f, uint32_t count, uint32_t one, uint32_t other) {
    int64_t at = 0, sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        f->address[f->sequence[i]] = at;
        at += f->sizes[f->sequence[i]];
    }
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t j = f->out[f->sequence[i]]; j < f->out[f->sequence[i] + 1]; j++) {
            uint32_t chain = f->chain_of[f->jump[j].to];
            if (chain == one || chain == other)
                sum += worth(f, &f->jump[j]);
        }
    return sum;
}

static uint32_t put(uint32_t *to, const uint32_t *nodes, uint32_t count) {
    memcpy(to, nodes, count * sizeof *nodes);
    return count;
}

static uint32_t arrange(struct function *f, const struct merge *m) {
    const struct chain *x = &f->chains[m->x], *y = &f->chains[m->y];
    const uint32_t *x2 = x->nodes + m->split;
    uint32_t rest = x->count - m->split, *to = f->sequence, at = 0;
    switch (m->way) {
    case CONCATENATED:
        at = put(to, x->nodes, x->count);
        return at + put(to + at, y->nodes, y->count);
    case BETWEEN:
        at = put(to, x->nodes, m->split);
        at += put(to + at, y->nodes, y->count);
        return at + put(to + at, x2, rest);
    case BEHIND_Y:
        at = put(to, y->nodes, y->count);
        at += put(to + at, x2, rest);
        return at + put(to + at, x->nodes, m->split);
    default:
        at = put(to, x2, rest);
        at += put(to + at, x->nodes, m->split);
        return at + put(to + at, y->nodes, y->count);
    }
}

/* Take a way to merge if it is better than the best so far.  The entry comes first. */
static void attempt(struct function *f, struct merge *best, struct merge m) {
    uint32_t count = arrange(f, &m);
    for (uint32_t i = 1; i < count; i++)
        if (!f->sequence[i])
            return;
    m.gain = score(f, count, m.x, m.y) - f->chains[m.x].score - f->chains[m.y].score;
    if (m.gain > best->gain)
        *best = m;
}

static int touches(const struct function *f, uint32_t node, uint32_t chain) {
    for (uint32_t j = f->out[node]; j < f->out[node + 1]; j++)
        if (f->chain_of[f->jump[j].to] == chain)
            return 1;
    for (uint32_t i = f->in[node]; i < f->in[node + 1]; i++)
        if (f->chain_of[f->jump[f->back[i]].from] == chain)
            return 1;
    return 0;
}

static int alike(const struct chain *a, const struct chain *b) {
    __int128 first = (__int128)a->runs * b->size, second = (__int128)b->runs * a->size;
    return first <= DENSITY_RATIO * second && second <= DENSITY_RATIO * first;
}

/* Note the best way to merge two chains, if there is a gain. */
static void consider(struct function *f, uint32_t a, uint32_t b) {
    struct merge best = {.a = a, .b = b};
    if (f->chains[a].count + f->chains[b].count > MAX_CHAIN || !alike(&f->chains[a], &f->chains[b]))
        return;
    for (int turn = 0; turn < 2; turn++) {
        uint32_t x = turn ? b : a, y = turn ? a : b, count = f->chains[x].count;
        attempt(f, &best,
                (struct merge){.a = a, .b = b, .x = x, .y = y, .split = count, .way = CONCATENATED});
        for (uint32_t k = 1; k < count && count <= MAX_SPLIT; k++) {
            const uint32_t *nodes = f->chains[x].nodes;
            if (f->forced[nodes[k - 1]] == nodes[k] ||
                (!touches(f, nodes[k - 1], y) && !touches(f, nodes[k], y)))
                continue;
            for (enum way way = BETWEEN; way <= TURNED; way++)
                attempt(f, &best, (struct merge){.a = a, .b = b, .x = x, .y = y, .split = k, .way = way});
        }
    }
    if (best.gain > 0)
        f->merges[f->merge_count++] = best;
}

static int unite(struct function *f, const struct merge *m) {
    struct chain *a = &f->chains[m->a], *b = &f->chains[m->b];
    uint32_t count = arrange(f, m);
    uint32_t *nodes = malloc(count * sizeof *nodes);
    if (!nodes)
        return -1;
    put(nodes, f->sequence, count);
    a->score += b->score + m->gain;
    a->size += b->size;
    a->runs += b->runs;
    free(a->nodes), free(b->nodes);
    *a = (struct chain){nodes, count, a->size, a->runs, a->score};
    *b = (struct chain){0};
    for (uint32_t i = 0; i < count; i++)
        f->chain_of[nodes[i]] = m->a;
    return 0;
}

static void meet(struct function *f, uint32_t one, uint32_t other) {
    if (other == one || f->seen[other] == f->round)
        return;
    f->seen[other] = f->round;
    consider(f, one < other ? one : other, one < other ? other : one);
}

/* Consider all chains that jumps of this one lead to or come from. */
static void neighbours(struct function *f, uint32_t chain) {
    f->round++;
    for (uint32_t i = 0; i < f->chains[chain].count; i++) {
        uint32_t node = f->chains[chain].nodes[i];
        for (uint32_t j = f->out[node]; j < f->out[node + 1]; j++)
            meet(f, chain, f->chain_of[f->jump[j].to]);
        for (uint32_t at = f->in[node]; at < f->in[node + 1]; at++)
            meet(f, chain, f->chain_of[f->jump[f->back[at]].from]);
    }
}

/* Begin with chains of blocks that always follow each other: each the only successor of its only predecessor. */
static int begin(struct function *f) {
    uint32_t n = f->blocks;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t to = f->out[i + 1] - f->out[i] == 1 ? f->jump[f->out[i]].to : 0;
        f->forced[i] = to && f->in[to + 1] - f->in[to] == 1 ? to : NONE;
        f->chain_of[i] = NONE;
    }
    for (int pass = 0; pass < 2; pass++) /* the second pass takes what is left: rings */
        for (uint32_t i = 0; i < n; i++) {
            uint32_t only = f->in[i + 1] - f->in[i] == 1 ? f->jump[f->back[f->in[i]]].from : NONE;
            if (f->chain_of[i] != NONE || (!pass && only != NONE && f->forced[only] == i))
                continue;
            struct chain *c = &f->chains[i];
            uint32_t count = 0;
            for (uint32_t node = i; node != NONE && f->chain_of[node] == NONE; node = f->forced[node]) {
                f->chain_of[node] = i;
                f->sequence[count++] = node;
                c->size += f->sizes[node] > 0 ? f->sizes[node] : 1; /* makes densities comparable */
                c->runs += f->counts[node];
            }
            if (!(c->nodes = malloc(count * sizeof *c->nodes)))
                return -1;
            c->count = put(c->nodes, f->sequence, count);
            c->score = score(f, count, i, i);
        }
    return 0;
}

static int merge(struct function *f) {
    if (begin(f))
        return -1;
    for (uint32_t i = 0; i < f->blocks; i++) {
        f->round++;
        for (uint32_t k = 0; k < f->chains[i].count; k++) {
            uint32_t node = f->chains[i].nodes[k];
            for (uint32_t j = f->out[node]; j < f->out[node + 1]; j++)
                if (f->chain_of[f->jump[j].to] > i)
                    meet(f, i, f->chain_of[f->jump[j].to]);
            for (uint32_t at = f->in[node]; at < f->in[node + 1]; at++)
                if (f->chain_of[f->jump[f->back[at]].from] > i)
                    meet(f, i, f->chain_of[f->jump[f->back[at]].from]);
        }
    }
    while (f->merge_count) {
        struct merge *best = f->merges, taken;
        for (struct merge *m = f->merges + 1; m < f->merges + f->merge_count; m++)
            if (m->gain > best->gain ||
                (m->gain == best->gain && (m->a < best->a || (m->a == best->a && m->b < best->b))))
                best = m;
        taken = *best;
        if (unite(f, &taken))
            return -1;
        uint32_t kept = 0;
        for (uint32_t i = 0; i < f->merge_count; i++) {
            const struct merge *m = &f->merges[i];
            if (m->a != taken.a && m->b != taken.a && m->a != taken.b && m->b != taken.b)
                f->merges[kept++] = *m;
        }
        f->merge_count = kept;
        neighbours(f, taken.a);
    }
    return 0;
}

static int compare(const void *one, const void *other) {
    const struct chain *a = *(const struct chain *const *)one, *b = *(const struct chain *const *)other;
    int first = a->nodes[0] == 0, second = b->nodes[0] == 0;
    if (first || second)
        return second - first;
    __int128 left = (__int128)a->runs * b->size, right = (__int128)b->runs * a->size;
    if (left != right)
        return left > right ? -1 : 1;
    return a->nodes[0] < b->nodes[0] ? -1 : 1;
}

/* Write the order of one function's blocks; return -1 if memory runs out. */
static int order(uint32_t blocks, const int64_t *sizes, const int64_t *counts, uint32_t jumps,
                 const uint32_t *from, const uint32_t *to, const int64_t *weights, uint32_t *found) {
    struct function f = {.blocks = blocks, .jumps = jumps, .sizes = sizes, .counts = counts};
    size_t n = (size_t)blocks + 1, m = (size_t)jumps + 1;
    f.jump = calloc(m, sizeof *f.jump);
    f.back = calloc(m, sizeof *f.back);
    f.out = calloc(n + 1, sizeof *f.out);
    f.in = calloc(n + 1, sizeof *f.in);
    f.chain_of = calloc(n, sizeof *f.chain_of);
    f.seen = calloc(n, sizeof *f.seen);
    f.forced = calloc(n, sizeof *f.forced);
    f.sequence = calloc(n, sizeof *f.sequence);
    f.address = calloc(n, sizeof *f.address);
    f.chains = calloc(n, sizeof *f.chains);
    f.merges = calloc(m, sizeof *f.merges);
    struct chain **sorted = calloc(n, sizeof *sorted);
    int failed = !(f.jump && f.back && f.out && f.in && f.chain_of && f.seen && f.forced && f.sequence &&
                   f.address && f.chains && f.merges && sorted);
    if (!failed) {
        /* the jumps come sorted by where they come from */
        for (uint32_t j = 0; j < jumps; j++) {
            f.jump[j] = (struct jump){from[j], to[j], weights[j]};
            f.out[from[j] + 1]++;
            f.in[to[j] + 1]++;
        }
        for (uint32_t i = 0; i < blocks; i++) {
            f.out[i + 1] += f.out[i];
            f.in[i + 1] += f.in[i];
            f.sequence[i] = f.in[i];
        }
        for (uint32_t j = 0; j < jumps; j++)
            f.back[f.sequence[to[j]]++] = j;
        failed = merge(&f);
    }
    if (!failed) {
        uint32_t count = 0, at = 0;
        for (uint32_t i = 0; i < blocks; i++)
            if (f.chains[i].count)
                sorted[count++] = &f.chains[i];
        qsort(sorted, count, sizeof *sorted, compare);
        for (uint32_t i = 0; i < count; i++)
            at += put(found + at, sorted[i]->nodes, sorted[i]->count);
    }
    for (uint32_t i = 0; f.chains && i < blocks; i++)
        free(f.chains[i].nodes);
    free(f.jump), free(f.back), free(f.out), free(f.in), free(f.chain_of), free(f.seen), free(f.forced);
    free(f.sequence), free(f.address), free(f.chains), free(f.merges), free(sorted);
    return failed ? -1 : 0;
}

/* Order the blocks of many functions, which follow one another in all arrays; *blocks* and *jumps* have their numbers
   for each function.  Returns the blocks of each, in order, in *found*.  The result is -1 if memory runs out. */
__attribute__((visibility("default"))) int exttsp_orders(uint32_t functions, const uint32_t *blocks,
                                                         const uint32_t *jumps, const int64_t *sizes,
                                                         const int64_t *counts, const uint32_t *from,
                                                         const uint32_t *to, const int64_t *weights,
                                                         uint32_t *found) {
    size_t block = 0, jump = 0;
    for (uint32_t i = 0; i < functions; i++) {
        if (order(blocks[i], sizes + block, counts + block, jumps[i], from + jump, to + jump, weights + jump,
                  found + block))
            return -1;
        block += blocks[i];
        jump += jumps[i];
    }
    return 0;
}
