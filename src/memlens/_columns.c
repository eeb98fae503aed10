/* Column helpers of memlens: loops over whole columns that NumPy has no words for.

   Everything works on buffers that Python owns, without the interpreter lock; scratch memory is freed before a call
   returns.  columns.py is the face, with a reference implementation of each function in Python.  */

#include "_columns.h"
#include "_sources.h"

/* --- a hash table from 64-bit keys to rows --------------------------------------------------------------------------- */

typedef struct {
    uint64_t *slots; /* a row, and above it as much of the hash of its key as there is room for */
    const uint64_t *keys; /* the key of each row */
    size_t mask, used;
    uint64_t seed; /* so that no log can be made up whose keys all fall on one slot */
    int bits; /* of a row */
} table;

#define EMPTY UINT64_MAX

static int table_open(table *t, const uint64_t *keys, size_t rows, uint64_t seed)
{
    t->keys = keys;
    t->mask = 1023;
    t->used = 0;
    t->seed = seed;
    for (t->bits = 29; rows >> t->bits; t->bits++)
        ;
    t->slots = malloc((t->mask + 1) * sizeof *t->slots);
    if (t->slots)
        memset(t->slots, 0xff, (t->mask + 1) * sizeof *t->slots);
    return t->slots ? 0 : -1;
}

static inline uint64_t hash(const table *t, uint64_t key)
{
    uint64_t word = (key ^ t->seed) * UINT64_C(0x9E3779B97F4A7C15);
    word ^= word >> 32;
    word *= UINT64_C(0xBF58476D1CE4E5B9);
    return word >> t->bits;
}

/* The row in a slot, -1 where it is empty. */
static inline int64_t row_in(const table *t, size_t at)
{
    return t->slots[at] == EMPTY ? -1 : (int64_t)(t->slots[at] & ((UINT64_C(1) << t->bits) - 1));
}

/* The slot of a key, or the empty one where it would go: at least a quarter of the slots is empty. */
static inline size_t find(const table *t, uint64_t key)
{
    const uint64_t wanted = hash(t, key);
    size_t at = (size_t)wanted & t->mask;
    while (t->slots[at] != EMPTY && (t->slots[at] >> t->bits != wanted || t->keys[row_in(t, at)] != key))
        at = (at + 1) & t->mask;
    return at;
}

static int grow(table *t)
{
    uint64_t *old = t->slots;
    size_t slots = t->mask + 1;
    if (slots > SIZE_MAX / 2 / sizeof *old || slots > UINT64_MAX >> t->bits)
        return -1;
    t->slots = malloc(2 * slots * sizeof *old);
    if (!t->slots) {
        t->slots = old;
        return -1;
    }
    memset(t->slots, 0xff, 2 * slots * sizeof *old);
    t->mask = 2 * slots - 1;
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
static inline int put(table *t, size_t at, int64_t row)
{
    int added = t->slots[at] == EMPTY;
    t->slots[at] = hash(t, t->keys[row]) << t->bits | (uint64_t)row;
    t->used += added;
    return added && t->used > t->mask - t->mask / 4 ? grow(t) : 0;
}

/* Empty a slot, and move up what was pushed past it. */
static inline void drop(table *t, size_t hole)
{
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

/* --- pair ------------------------------------------------------------------------------------------------------------ */

static inline void store(void *column, int wide, int64_t at, int64_t value)
{
    if (wide)
        ((int64_t *)column)[at] = value;
    else
        ((int32_t *)column)[at] = (int32_t)value;
}

static PyObject *pair(PyObject *module, PyObject *args)
{
    PyObject *objects[4];
    unsigned long long seed;
    column c[4] = {{{0}, 0}};
    table live;
    int wide;
    (void)module;
    if (!PyArg_ParseTuple(args, "OOOOpK:pair", &objects[0], &objects[1], &objects[2], &objects[3], &wide, &seed))
        return NULL;
    if (take(objects[0], c, 1, 0, "kind") || take(objects[1], c + 1, 8, 0, "addr") ||
        take(objects[2], c + 2, wide ? 8 : 4, 1, "partner") || take(objects[3], c + 3, 1, 1, "doubled")) {
        release(c, 4);
        return NULL;
    }
    Py_ssize_t events = c[0].items;
    if (c[1].items != events || c[2].items != events || c[3].items != events || shared(c, 4, 2) || (!wide && events > INT32_MAX)) {
        release(c, 4);
        PyErr_SetString(PyExc_ValueError, "pair: columns of one length, that indices can count, are needed");
        return NULL;
    }
    const int8_t *kind = c[0].view.buf;
    const uint64_t *addr = c[1].view.buf;
    void *partner = c[2].view.buf;
    uint8_t *doubled = c[3].view.buf;
    int failed;
    Py_BEGIN_ALLOW_THREADS
    failed = table_open(&live, addr, (size_t)events, seed);
    for (Py_ssize_t event = 0; !failed && event < events; event++) {
        store(partner, wide, event, -1);
        doubled[event] = 0;
        if (kind[event] == 0) { /* ALLOC */
            size_t at = find(&live, addr[event]);
            doubled[event] = row_in(&live, at) >= 0;
            failed = put(&live, at, event);
        } else if (kind[event] == 1) { /* FREE */
            size_t at = find(&live, addr[event]);
            int64_t row = row_in(&live, at);
            if (row >= 0) {
                store(partner, wide, event, row);
                store(partner, wide, row, event);
                drop(&live, at);
            }
        }
    }
    free(live.slots);
    Py_END_ALLOW_THREADS
    release(c, 4);
    return failed ? PyErr_NoMemory() : Py_NewRef(Py_None);
}

/* --- last_by_key ----------------------------------------------------------------------------------------------------- */

static PyObject *last_by_key(PyObject *module, PyObject *args)
{
    PyObject *objects[3];
    unsigned long long seed;
    column c[3] = {{{0}, 0}};
    table set;
    (void)module;
    if (!PyArg_ParseTuple(args, "OOOK:last_by_key", &objects[0], &objects[1], &objects[2], &seed))
        return NULL;
    if (take(objects[0], c, 8, 0, "key") || take(objects[1], c + 1, 1, 0, "role") ||
        take(objects[2], c + 2, 8, 1, "found")) {
        release(c, 3);
        return NULL;
    }
    Py_ssize_t rows = c[0].items;
    if (c[1].items != rows || c[2].items != rows || shared(c, 3, 2)) {
        release(c, 3);
        PyErr_SetString(PyExc_ValueError, "last_by_key: columns of one length are needed");
        return NULL;
    }
    const uint64_t *key = c[0].view.buf;
    const int8_t *role = c[1].view.buf;
    int64_t *found = c[2].view.buf;
    int failed;
    Py_BEGIN_ALLOW_THREADS
    failed = table_open(&set, key, (size_t)rows, seed);
    for (Py_ssize_t row = 0; !failed && row < rows; row++) {
        found[row] = -1;
        if (role[row] < 1 || role[row] > 3)
            continue;
        size_t at = find(&set, key[row]);
        if (role[row] == 1) {
            failed = put(&set, at, row);
        } else {
            found[row] = row_in(&set, at);
            if (role[row] == 3 && found[row] >= 0)
                drop(&set, at);
        }
    }
    free(set.slots);
    Py_END_ALLOW_THREADS
    release(c, 3);
    return failed ? PyErr_NoMemory() : Py_NewRef(Py_None);
}

/* --- the module ------------------------------------------------------------------------------------------------------ */

static PyMethodDef methods[] = {
    {"pair", pair, METH_VARARGS, NULL},
    {"last_by_key", last_by_key, METH_VARARGS, NULL},
    {"align", memlens_align, METH_VARARGS, NULL},
    {"chain", memlens_chain, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot module_slots[] = {{0, NULL}};

static PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "memlens._columns",
    .m_doc = MEMLENS_SOURCES,
    .m_methods = methods,
    .m_slots = module_slots,
};

PyMODINIT_FUNC PyInit__columns(void)
{
    return PyModuleDef_Init(&definition);
}
