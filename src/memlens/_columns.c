/* Column helpers of memlens: loops over whole columns that NumPy has no words for.

   Everything works on buffers that Python owns, without the interpreter lock; scratch memory is freed before a call
   returns.  columns.py is the face, with a reference implementation of each function in Python.  */

#include "_columns.h"
#include "_sources.h"

/* --- a hash table from 64-bit keys to rows --------------------------------------------------------------------------- */

typedef struct {
    uint64_t key;
    int64_t row; /* -1: empty */
} slot;

typedef struct {
    slot *slots;
    size_t mask, used;
    uint64_t seed; /* so that no log can be made up whose keys all fall on one slot */
} table;

static int table_open(table *t, uint64_t seed)
{
    t->mask = 1023;
    t->used = 0;
    t->seed = seed;
    t->slots = malloc((t->mask + 1) * sizeof(slot));
    if (t->slots)
        memset(t->slots, 0xff, (t->mask + 1) * sizeof(slot));
    return t->slots ? 0 : -1;
}

static inline size_t home(const table *t, uint64_t key)
{
    uint64_t word = (key ^ t->seed) * UINT64_C(0x9E3779B97F4A7C15);
    word ^= word >> 32;
    word *= UINT64_C(0xBF58476D1CE4E5B9);
    return (size_t)(word >> 29) & t->mask;
}

/* The slot of a key, or the empty one where it would go: at least half of the slots are empty. */
static inline slot *find(const table *t, uint64_t key)
{
    size_t at = home(t, key);
    while (t->slots[at].row >= 0 && t->slots[at].key != key)
        at = (at + 1) & t->mask;
    return t->slots + at;
}

static int grow(table *t)
{
    slot *old = t->slots;
    size_t slots = t->mask + 1;
    if (slots > SIZE_MAX / 2 / sizeof(slot))
        return -1;
    t->slots = malloc(2 * slots * sizeof(slot));
    if (!t->slots) {
        t->slots = old;
        return -1;
    }
    memset(t->slots, 0xff, 2 * slots * sizeof(slot));
    t->mask = 2 * slots - 1;
    for (size_t i = 0; i < slots; i++)
        if (old[i].row >= 0)
            *find(t, old[i].key) = old[i];
    free(old);
    return 0;
}

/* Set the row of a key whose slot was found. */
static inline int put(table *t, slot *s, uint64_t key, int64_t row)
{
    int added = s->row < 0;
    s->key = key;
    s->row = row;
    t->used += added;
    return added && 2 * t->used > t->mask ? grow(t) : 0;
}

/* Empty a slot, and move up what was pushed past it. */
static inline void drop(table *t, slot *s)
{
    size_t hole = (size_t)(s - t->slots), at = hole;
    for (;;) {
        at = (at + 1) & t->mask;
        if (t->slots[at].row < 0)
            break;
        if (((at - home(t, t->slots[at].key)) & t->mask) >= ((at - hole) & t->mask)) {
            t->slots[hole] = t->slots[at];
            hole = at;
        }
    }
    t->slots[hole].row = -1;
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
    failed = table_open(&live, seed);
    for (Py_ssize_t event = 0; !failed && event < events; event++) {
        store(partner, wide, event, -1);
        doubled[event] = 0;
        if (kind[event] == 0) { /* ALLOC */
            slot *s = find(&live, addr[event]);
            doubled[event] = s->row >= 0;
            failed = put(&live, s, addr[event], event);
        } else if (kind[event] == 1) { /* FREE */
            slot *s = find(&live, addr[event]);
            if (s->row >= 0) {
                store(partner, wide, event, s->row);
                store(partner, wide, s->row, event);
                drop(&live, s);
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
    failed = table_open(&set, seed);
    for (Py_ssize_t row = 0; !failed && row < rows; row++) {
        found[row] = -1;
        if (role[row] < 1 || role[row] > 3)
            continue;
        slot *s = find(&set, key[row]);
        if (role[row] == 1) {
            failed = put(&set, s, key[row], row);
        } else {
            found[row] = s->row;
            if (role[row] == 3 && s->row >= 0)
                drop(&set, s);
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
