/* Who refers to whom in machine code and data, as scan.py describes.

   All bytes of the file are untrusted: reads stay within the pieces that are passed, writes within *room*, and sums wrap
   around.  scan.py ensures that *starts* and *places* ascend, and that indices are below the counts. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum kind { CALL, LEA, MOV, BRANCH, ADRP };

struct places {
    const uint64_t *addresses;
    uint64_t count;
};

static uint32_t word(const uint8_t *at) { return at[0] | at[1] << 8 | at[2] << 16 | (uint32_t)at[3] << 24; }

static uint64_t number(const uint8_t *at) { return word(at) | (uint64_t)word(at + 4) << 32; }

/* Return the last place at or before the address; 0 if there is none. */
static uint64_t before(struct places places, uint64_t address) {
    uint64_t low = 0, count = places.count;
    if (!count || address < places.addresses[0] || address > places.addresses[count - 1])
        return count && address > places.addresses[0] ? count - 1 : 0;
    while (count > 1) {
        uint64_t half = count / 2;
        low += places.addresses[low + half] <= address ? half : 0;
        count -= half;
    }
    return low;
}

/* Return the index of the place at the address, or the number of places. */
static uint64_t find(struct places places, uint64_t address) {
    uint64_t at = before(places, address);
    return at < places.count && places.addresses[at] == address ? at : places.count;
}

/* Return whether the instruction at *at*, with the address *site*, can be of the *kind*, and the address it takes. */
static inline __attribute__((always_inline)) int taken(enum kind kind, const uint8_t *at, size_t left,
                                                       uint64_t site, uint64_t *address) {
    switch (kind) {
    case CALL: /* E8 rel32 */
        if (left < 5 || at[0] != 0xe8)
            return 0;
        *address = site + 5 + (int32_t)word(at + 1);
        return 1;
    case LEA: /* LEA r64, [RIP + rel32] */
        if (left < 7 || (at[0] & ~4) != 0x48 || at[1] != 0x8d || (at[2] & 0xc7) != 5)
            return 0;
        *address = site + 7 + (int32_t)word(at + 3);
        return 1;
    case MOV: /* MOV r32, imm32; MOV [r64], imm32 without a displacement */
        if (left >= 5 && (at[0] & ~7) == 0xb8)
            *address = word(at + 1);
        else if (left >= 7 && at[0] == 0x48 && at[1] == 0xc7 && at[2] < 8 && at[2] != 4 && at[2] != 5)
            *address = word(at + 3);
        else
            return 0;
        return 1;
    case BRANCH: { /* BL */
        uint32_t distance = left < 4 ? 0 : word(at);
        if (distance >> 26 != 0x25)
            return 0;
        *address = site + (int32_t)(distance << 6) / 16;
        return 1;
    }
    case ADRP: { /* and the ADD behind it */
        uint32_t first = left < 8 ? 0 : word(at), second = left < 8 ? 0 : word(at + 4);
        if ((first & 0x9f000000) != 0x90000000 || second >> 22 != 0x244 || (first & 31) != (second >> 5 & 31))
            return 0;
        int64_t pages = (int32_t)((first >> 5 << 2 | (first >> 29 & 3)) << 11) / 2048;
        *address = (site & ~0xfffULL) + (uint64_t)pages * 4096 + (second >> 10 & 0xfff);
        return 1;
    }
    }
    return 0;
}

/* Do what `scan` does, for a *kind* that the compiler knows: without a choice for each byte it takes half the time. */
static inline __attribute__((always_inline)) uint64_t
scan_for(enum kind kind, const uint8_t *code, uint64_t size, uint64_t start, struct places owners,
         const uint64_t *sizes, struct places places, uint64_t *pairs, uint64_t room) {
    uint64_t made = 0, step = kind >= BRANCH ? 4 : 1;
    uint64_t owner = before(owners, start);
    for (uint64_t at = 0; at < size && made < room; at += step) {
        uint64_t address, site = start + at;
        if (!taken(kind, code + at, size - at, site, &address))
            continue;
        uint64_t place = find(places, address);
        if (place == places.count)
            continue;
        while (owner + 1 < owners.count && owners.addresses[owner + 1] <= site)
            owner++;
        if (site - owners.addresses[owner] < sizes[owner] && address != owners.addresses[owner])
            pairs[made++] = owner << 32 | place;
    }
    return made;
}

/* Write the pairs of a function, in the upper half, and a place whose address its code takes, in the lower.  Return how
   many.  No function is paired with its own start. */
__attribute__((visibility("default"))) uint64_t scan(uint32_t kind, const uint8_t *code, uint64_t size,
                                                     uint64_t start, const uint64_t *starts,
                                                     const uint64_t *sizes, uint64_t functions,
                                                     const uint64_t *addresses, uint64_t count,
                                                     uint64_t *pairs, uint64_t room) {
    struct places places = {addresses, count}, owners = {starts, functions};
    switch (kind) {
    case CALL:
        return scan_for(CALL, code, size, start, owners, sizes, places, pairs, room);
    case LEA:
        return scan_for(LEA, code, size, start, owners, sizes, places, pairs, room);
    case MOV:
        return scan_for(MOV, code, size, start, owners, sizes, places, pairs, room);
    case BRANCH:
        return scan_for(BRANCH, code, size, start, owners, sizes, places, pairs, room);
    case ADRP:
        return scan_for(ADRP, code, size, start, owners, sizes, places, pairs, room);
    }
    return 0;
}

/* If the address at *place* is the start of a function, write both; return how many are written. */
static uint64_t noted(struct places functions, uint64_t address, uint64_t place, uint64_t made,
                      uint64_t *places, uint32_t *indices) {
    uint64_t index = find(functions, address);
    places[made] = place;
    indices[made] = index;
    return made + (index < functions.count);
}

/* Note the pointers among the words of data that begins at *address*. */
__attribute__((visibility("default"))) uint64_t in_place(const uint8_t *data, uint64_t size, uint64_t address,
                                                         const uint64_t *starts, uint64_t functions,
                                                         uint64_t *places, uint32_t *indices, uint64_t room) {
    uint64_t made = 0;
    for (uint64_t at = 0; at + 8 <= size && made < room; at += 8)
        made =
            noted((struct places){starts, functions}, number(data + at), address + at, made, places, indices);
    return made;
}

/* Note the pointers that relocations (Elf64_Rela) store, of the two types that store an address; *symbols* are
   Elf64_Sym. */
__attribute__((visibility("default"))) uint64_t
relocated(const uint8_t *entries, uint64_t size, uint32_t relative, uint32_t of_symbol,
          const uint8_t *symbols, uint64_t length, const uint64_t *starts, uint64_t functions,
          uint64_t *places, uint32_t *indices, uint64_t room) {
    uint64_t made = 0;
    for (uint64_t at = 0; at + 24 <= size && made < room; at += 24) {
        uint32_t type = word(entries + at + 8), symbol = word(entries + at + 12);
        uint64_t base = 0;
        if (type == of_symbol && symbol < length / 24)
            base = number(symbols + 24 * (uint64_t)symbol + 8);
        else if (type != relative)
            continue;
        uint64_t address = base + number(entries + at + 16);
        made =
            noted((struct places){starts, functions}, address, number(entries + at), made, places, indices);
    }
    return made;
}

static int ascending(const void *first, const void *second) {
    uint64_t a = *(const uint64_t *)first, b = *(const uint64_t *)second;
    return (a > b) - (a < b);
}

/* Sort numbers, drop duplicates, and return how many are left. */
__attribute__((visibility("default"))) uint64_t arrange(uint64_t *numbers, uint64_t count) {
    qsort(numbers, count, sizeof *numbers, ascending);
    uint64_t kept = 0;
    for (uint64_t at = 0; at < count; at++)
        if (!kept || numbers[kept - 1] != numbers[at])
            numbers[kept++] = numbers[at];
    return kept;
}

/* Write the pairs of each function, the upper half of sorted *pairs*, with all functions in its table, which begins at
   the lower half, the place of a pointer.  The table ends where the next pointer does not follow at once, or after
   *members*.  Return how many pairs were written. */
__attribute__((visibility("default"))) uint64_t members(const uint64_t *pairs, uint64_t count,
                                                        const uint64_t *places, const uint32_t *indices,
                                                        uint64_t pointers, uint64_t most, uint64_t *written,
                                                        uint64_t room) {
    uint64_t made = 0;
    for (uint64_t at = 0; at < count; at++) {
        uint64_t user = pairs[at] >> 32, first = pairs[at] & UINT32_MAX;
        for (uint64_t next = first; next < pointers && next - first < most && made < room; next++) {
            if (places[next] != places[first] + 8 * (next - first))
                break;
            if (indices[next] != user)
                written[made++] = user << 32 | indices[next];
        }
    }
    return made;
}

/* Write to *forth* where the pairs of each function begin among *others*, and their lower halves there; and to *back*
   the same for the reversed pairs.  *pairs* are sorted; the tables of beginnings have a word more than there are
   functions, and are zero. */
__attribute__((visibility("default"))) void tabulate(const uint64_t *pairs, uint64_t count,
                                                     uint64_t functions, uint64_t *forth, uint32_t *others,
                                                     uint64_t *back, uint32_t *turned) {
    for (uint64_t at = 0; at < count; at++) {
        forth[(pairs[at] >> 32) + 1]++;
        back[(pairs[at] & UINT32_MAX) + 1]++;
        others[at] = pairs[at];
    }
    for (uint64_t at = 0; at < functions; at++) {
        forth[at + 1] += forth[at];
        back[at + 1] += back[at];
    }
    for (uint64_t at = 0; at < count; at++)
        turned[back[pairs[at] & UINT32_MAX]++] = pairs[at] >> 32;
    memmove(back + 1, back,
            functions * sizeof *back); /* each had become the end of its own, the next one's start */
    back[0] = 0;
}
