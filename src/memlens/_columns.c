/* Column helpers of memlens: loops over whole columns that NumPy has no words for.

   Everything works on buffers that Python owns, without the interpreter lock; scratch memory is freed before a call
   returns.  columns.py is the face, with a reference implementation of each function in Python.  */

#include "_columns.h"

/* --- a hash table from 64-bit keys to rows --------------------------------------------------------------------------- */

typedef struct {
    uint64_t *slots; /* a row, and above it as much of the hash of its key as there is room for */
    const uint64_t *keys; /* the key of each row */
    size_t mask, used;
    uint64_t seed; /* so that no log can be made up whose keys all fall on one slot */
    int bits; /* of a row */
} table;

#define EMPTY UINT64_MAX

/* Give a table so many empty slots, a power of two; -1 where memory does not suffice. */
static int table_room(table *t, size_t slots) {
    if (slots > SIZE_MAX / 2 / sizeof *t->slots || slots > UINT64_MAX >> t->bits || !(t->slots = malloc(slots * sizeof *t->slots)))
        return -1;
    memset(t->slots, 0xff, slots * sizeof *t->slots);
    t->mask = slots - 1;
    return 0;
}

static int table_open(table *t, const uint64_t *keys, size_t rows, uint64_t seed) {
    *t = (table){.keys = keys, .seed = seed, .bits = 29};
    while (rows >> t->bits)
        t->bits++;
    return table_room(t, 1024);
}

static inline uint64_t hash(const table *t, uint64_t key) {
    uint64_t word = (key ^ t->seed) * UINT64_C(0x9E3779B97F4A7C15);
    word ^= word >> 32;
    word *= UINT64_C(0xBF58476D1CE4E5B9);
    return word >> t->bits;
}

/* The row in a slot, -1 where it is empty. */
static inline int64_t row_in(const table *t, size_t at) {
    return t->slots[at] == EMPTY ? -1 : (int64_t)(t->slots[at] & ((UINT64_C(1) << t->bits) - 1));
}

/* The slot of a key, or the empty one where it would go: at least a quarter of the slots is empty. */
static inline size_t find(const table *t, uint64_t key) {
    const uint64_t wanted = hash(t, key);
    size_t at = (size_t)wanted & t->mask;
    while (t->slots[at] != EMPTY && (t->slots[at] >> t->bits != wanted || t->keys[row_in(t, at)] != key))
        at = (at + 1) & t->mask;
    return at;
}

static int grow(table *t) {
    uint64_t *old = t->slots;
    const size_t slots = t->mask + 1;
    if (table_room(t, 2 * slots)) {
        t->slots = old;
        return -1;
    }
    for (size_t i = 0; i < slots; i++) {
        size_t at = (size_t)(old[i] >> t->bits) & t->mask;
        if (old[i] == EMPTY)
            continue;
        while (t->slots[at] != EMPTY)
            at = (at + 1) & t->mask;
        t->slots[at] = old[i];
    }
    free(old);
    return 0;
}

/* Put a row into the slot that was found for its key. */
static inline int put(table *t, size_t at, int64_t row) {
    int added = t->slots[at] == EMPTY;
    t->slots[at] = hash(t, t->keys[row]) << t->bits | (uint64_t)row;
    t->used += added;
    return added && t->used > t->mask - t->mask / 4 ? grow(t) : 0;
}

/* Empty a slot, and move up what was pushed past it. */
static inline void drop(table *t, size_t hole) {
    for (size_t at = hole;;) {
        at = (at + 1) & t->mask;
        if (t->slots[at] == EMPTY)
            break;
        if (((at - (size_t)(t->slots[at] >> t->bits)) & t->mask) >= ((at - hole) & t->mask)) {
            t->slots[hole] = t->slots[at];
            hole = at;
        }
    }
    t->slots[hole] = EMPTY;
    t->used--;
}

/* --- the latest row of each key ------------------------------------------------------------------------------------- */

enum { NOTHING, SET, USE, TAKE }; /* what a row does with its key */
enum { ALLOC, FREE };             /* kinds of events, which set and take */

static inline void store(void *column, int wide, int64_t at, int64_t value) {
    if (wide)
        ((int64_t *)column)[at] = value;
    else
        ((int32_t *)column)[at] = (int32_t)value;
}

/* For rows that use or take a key the row before them that set it last, -1 for none.  With a column of rows that set what was set
   already, these are events, and what was taken gets the row that took it. */
static const char *all_latest(const column *c) {
    const Py_ssize_t rows = c[0].items;
    const int wide = c[2].view.itemsize == 8, events = c[3].items > 0;
    if (c[1].items != rows || c[2].items != rows || (events && c[3].items != rows) || c[4].items != 1 || (!wide && rows > INT32_MAX))
        return "columns of one length, that indices can count";
    const uint64_t *key = c[0].view.buf;
    const int8_t *role = c[1].view.buf;
    void *found = c[2].view.buf;
    uint8_t *doubled = c[3].view.buf;
    table set;
    int failed = table_open(&set, key, (size_t)rows, *(const uint64_t *)c[4].view.buf);
    for (Py_ssize_t row = 0; !failed && row < rows; row++) {
        const int does = !events ? role[row] : role[row] == ALLOC ? SET : role[row] == FREE ? TAKE : NOTHING;
        store(found, wide, row, -1);
        if (events)
            doubled[row] = 0;
        if (does < SET || does > TAKE)
            continue;
        const size_t at = find(&set, key[row]);
        const int64_t latest = row_in(&set, at);
        if (does == SET) {
            if (events)
                doubled[row] = latest >= 0;
            failed = put(&set, at, row);
        } else if (latest >= 0) {
            store(found, wide, row, latest);
            if (events)
                store(found, wide, latest, row);
            if (does == TAKE)
                drop(&set, at);
        }
    }
    free(set.slots);
    return failed ? OUT_OF_MEMORY : NULL;
}

static const wanted of_latest[] = {{"key", 8, 0}, {"role", 1, 0}, {"found", 0, 1}, {"doubled", 1, 1}, {"seed", 8, 0}};
static FUNCTION(latest, of_latest, all_latest)

/* --- the module ------------------------------------------------------------------------------------------------------ */

static PyMethodDef methods[] = {
    {"latest", memlens_latest, METH_VARARGS, NULL},
    {"align", memlens_align, METH_VARARGS, NULL},
    {"chain", memlens_chain, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
MODULE(_columns, "memlens._columns")
