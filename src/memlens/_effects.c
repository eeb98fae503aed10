/* When FREEs of several threads took effect, for memlens.allocators.paddle.rows: what tests/support/plain_effects.py does in the plainest way. */

#include "_columns.h"
#include "_ordered.h"

enum { ALLOC = 0, FREE = 1, RESERVE = 2, RELEASE = 3 };
enum { LOOKED_AT = 6, WAITING = 64, AT_ONCE = 1 << 14 }; /* rows between looks for an interrupt */
#define FARTHEST ((int64_t)1 << 62)

typedef struct {
    int64_t row, until, begin, stop;
} waiting;

typedef struct {
    pool nodes;
    tree blocks;           /* free ones, by where they begin and end; no two begin at one address */
    tree chunks, idle;     /* by where they begin: their numbers; those that are one free block by size and number */
    struct {
        int64_t start, size;
    } *chunk;              /* by number, in the order in which they were made */
    uint32_t made, room;
    waiting wait[WAITING + 1]; /* in the order of their rows */
    int waits;
    int64_t *unplaced;
    Py_ssize_t unplaced_count;
    int64_t newest;
    int fault;
} memory;

static void put(memory *m, tree *t, uint64_t a, uint64_t b, uint32_t value)
{
    if (m->fault || pool_grow(&m->nodes, NODES_OF_A_PUT))
        m->fault = 1;
    else
        tree_put(&m->nodes, t, a, b, value);
}

/* Where the free block ends that begins at an address, -1 for none. */
static int64_t end_of(const memory *m, int64_t start)
{
    if (start < 0)
        return -1;
    place p = tree_from(&m->nodes, &m->blocks, (uint64_t)start, 0);
    if (p.leaf == NONE)
        return -1;
    const entry *e = entry_at(&m->nodes, p);
    return e->a == (uint64_t)start ? (int64_t)e->b : -1;
}

/* The number of the chunk that begins at an address, NONE for none. */
static uint32_t chunk_at(const memory *m, int64_t start)
{
    place p = tree_from(&m->nodes, &m->chunks, (uint64_t)start, 0);
    if (start < 0 || p.leaf == NONE || entry_at(&m->nodes, p)->a != (uint64_t)start)
        return NONE;
    return value_at(&m->nodes, p);
}

static int64_t take_out(memory *m, int64_t start)
{
    int64_t end = end_of(m, start);
    uint32_t number = chunk_at(m, start);
    tree_pull(&m->nodes, &m->blocks, (uint64_t)start, (uint64_t)end);
    if (number != NONE)
        tree_pull(&m->nodes, &m->idle, (uint64_t)m->chunk[number].size, number);
    return end;
}

static void add(memory *m, int64_t start, int64_t end)
{
    if (end_of(m, start) >= 0)
        take_out(m, start);
    put(m, &m->blocks, (uint64_t)start, (uint64_t)end, 0);
    uint32_t number = chunk_at(m, start);
    if (number != NONE && m->chunk[number].size == end - start)
        put(m, &m->idle, (uint64_t)(end - start), number, number);
}

/* Where the free block begins that an address lies in, -1 for none. */
static int64_t containing(const memory *m, int64_t address)
{
    if (address < 0)
        return -1;
    place p = tree_before(&m->nodes, &m->blocks, tree_from(&m->nodes, &m->blocks, (uint64_t)address, UINT64_MAX));
    if (p.leaf == NONE)
        return -1;
    const entry *e = entry_at(&m->nodes, p);
    return (uint64_t)address < e->b ? (int64_t)e->a : -1;
}

static void insert(memory *m, int64_t start, int64_t end)
{
    if (end_of(m, end) >= 0 && chunk_at(m, end) == NONE)
        end = take_out(m, end);
    int64_t before = containing(m, start - 1);
    if (before >= 0 && chunk_at(m, start) == NONE) {
        take_out(m, before);
        start = before;
    }
    add(m, start, end);
}

static void drop_chunk(memory *m, uint32_t number)
{
    tree_pull(&m->nodes, &m->chunks, (uint64_t)m->chunk[number].start, 0);
    tree_pull(&m->nodes, &m->idle, (uint64_t)m->chunk[number].size, number);
}

static void add_chunk(memory *m, int64_t start, int64_t size)
{
    uint32_t old = chunk_at(m, start);
    if (old != NONE)
        drop_chunk(m, old);
    if (m->made == m->room) {
        uint32_t room = m->room ? 2 * m->room : 256;
        void *chunk = room > m->room ? realloc(m->chunk, (size_t)room * sizeof *m->chunk) : NULL;
        if (!chunk) {
            m->fault = 1;
            return;
        }
        m->chunk = chunk;
        m->room = room;
    }
    m->chunk[m->made].start = start;
    m->chunk[m->made].size = size;
    put(m, &m->chunks, (uint64_t)start, 0, m->made++);
    m->newest = start;
    add(m, start, start + size);
}

/* Forget the waiting FREEs whose blocks begin between two addresses. */
static void settle(memory *m, int64_t start, int64_t end)
{
    int kept = 0;
    for (int i = 0; i < m->waits; i++)
        if (m->wait[i].begin < start || m->wait[i].begin >= end)
            m->wait[kept++] = m->wait[i];
    m->waits = kept;
}

static void undo(memory *m, const waiting *w)
{
    int64_t block = containing(m, w->begin);
    if (block < 0)
        return;
    int64_t end = take_out(m, block);
    if (block < w->begin)
        add(m, block, w->begin);
    if (w->stop < end)
        add(m, w->stop, end);
}

static int fits(const memory *m, int64_t start, int64_t end, int64_t size, int first, int grown)
{
    if (end < 0 || end_of(m, start) != end)
        return 0;
    for (int i = first; i < m->waits; i++) {
        const int64_t near[] = {m->wait[i].begin - 1, m->wait[i].begin, m->wait[i].stop};
        for (int k = 0; k < 3; k++) {
            int64_t block = containing(m, near[k]);
            if (block < 0 || block == start)
                continue;
            int64_t bytes = end_of(m, block) - block;
            if (bytes >= size && (grown || bytes < end - start || (bytes == end - start && block < start)))
                return 0;
        }
    }
    return 1;
}

/* The waiting FREEs that must be undone, as indices in `chosen`; how many. */
static int early(memory *m, int64_t start, int64_t end, int64_t size, int grown, int *chosen)
{
    int first = m->waits > LOOKED_AT ? m->waits - LOOKED_AT : 0, count = m->waits - first;
    for (int many = 0; many <= count; many++) {
        int at[LOOKED_AT];
        for (int i = 0; i < many; i++)
            at[i] = i;
        for (;;) { /* combinations in the order of their indices, the newest FREE first */
            for (int i = 0; i < many; i++) {
                chosen[i] = m->waits - 1 - at[i];
                undo(m, m->wait + chosen[i]);
            }
            if (m->fault || fits(m, start, end, size, first, grown))
                return many;
            for (int i = 0; i < many; i++)
                if (containing(m, m->wait[chosen[i]].begin) < 0)
                    insert(m, m->wait[chosen[i]].begin, m->wait[chosen[i]].stop);
            int last = many - 1;
            while (last >= 0 && at[last] == count - many + last)
                last--;
            if (last < 0)
                break;
            at[last]++;
            for (int i = last + 1; i < many; i++)
                at[i] = at[i - 1] + 1;
        }
    }
    return 0;
}

static void allocate(memory *m, int64_t row, int64_t address, int64_t size, int64_t whole, int64_t *found)
{
    int64_t start = whole ? address + size - whole : m->newest, end = address + size;
    if (start >= 0 && whole && containing(m, address) < 0)
        for (Py_ssize_t i = 0; i < m->unplaced_count; i++)
            if (m->unplaced[i] == whole) {
                memmove(m->unplaced + i, m->unplaced + i + 1, (size_t)(--m->unplaced_count - i) * sizeof *m->unplaced);
                add_chunk(m, start, whole);
                break;
            }
    int chosen[LOOKED_AT], count = early(m, start, whole ? start + whole : end_of(m, start), size, !whole, chosen);
    int64_t block = containing(m, address);
    if (block >= 0 && end <= end_of(m, block)) {
        int64_t rest = take_out(m, block);
        if (block < address)
            add(m, block, address);
        if (end < rest)
            add(m, end, rest);
    }
    for (int i = 0; i < count; i++) {
        found[m->wait[chosen[i]].row] = row;
        insert(m, m->wait[chosen[i]].begin, m->wait[chosen[i]].stop);
    }
    settle(m, address, end);
}

/* The oldest idle chunk of a size is given back. */
static void give_back(memory *m, int64_t size)
{
    place p = tree_from(&m->nodes, &m->idle, (uint64_t)size, 0);
    if (p.leaf == NONE || entry_at(&m->nodes, p)->a != (uint64_t)size)
        return;
    uint32_t number = value_at(&m->nodes, p);
    int64_t start = m->chunk[number].start;
    take_out(m, start);
    drop_chunk(m, number);
    settle(m, start, start + size);
}

/* Work through the rows from one on up to another.  Columns are as long as there are rows, but for the sizes of chunks made in advance. */
static void work(memory *m, Py_ssize_t begin, Py_ssize_t end, Py_ssize_t rows, const int8_t *kind, const int64_t *size,
                 const uint64_t *addr, const int64_t *whole, const int64_t *until, const int8_t *late, const int64_t *emptying,
                 int64_t *found)
{
    for (int64_t row = begin; row < end && !m->fault; row++) {
        int kept = 0;
        for (int i = 0; i < m->waits; i++)
            if (m->wait[i].until > row)
                m->wait[kept++] = m->wait[i];
        m->waits = kept;
        int64_t from = emptying[row];
        if (from >= 0 && from < rows && addr[from] < (uint64_t)FARTHEST)
            insert(m, (int64_t)addr[from], (int64_t)addr[from] + size[from]);
        if (addr[row] >= (uint64_t)FARTHEST)
            continue;
        int64_t address = (int64_t)addr[row];
        if (kind[row] == ALLOC)
            allocate(m, row, address, size[row], whole[row], found);
        else if (kind[row] == RESERVE)
            add_chunk(m, address, size[row]);
        else if (kind[row] == RELEASE)
            give_back(m, size[row]);
        else if (found[row] == row) {
            insert(m, address, address + size[row]);
            if (late[row]) {
                m->wait[m->waits++] = (waiting){row, until[row], address, address + size[row]};
                if (m->waits > WAITING)
                    memmove(m->wait, m->wait + 1, (size_t)--m->waits * sizeof *m->wait);
            }
        }
    }
}

PyObject *memlens_effects(PyObject *module, PyObject *args)
{
    static const struct {
        Py_ssize_t width;
        const char *name;
    } given[] = {{1, "kind"}, {8, "size"}, {8, "addr"}, {8, "free"}, {8, "until"}, {1, "late"}, {8, "emptying"}, {8, "preallocated"}, {8, "found"}};
    enum { COLUMNS = sizeof given / sizeof *given, ROWS = COLUMNS - 2 };
    column c[COLUMNS] = {{{0}, 0}};
    PyObject *result = NULL;
    (void)module;
    if (PyTuple_Size(args) != COLUMNS)
        return PyErr_Format(PyExc_TypeError, "effects: all columns are needed");
    for (int i = 0; i < COLUMNS; i++)
        if (take(PyTuple_GetItem(args, i), c + i, given[i].width, i >= ROWS, given[i].name))
            goto done;
    for (int i = 0; i < COLUMNS; i++)
        if (i != ROWS && c[i].items != c[0].items) {
            PyErr_Format(PyExc_ValueError, "effects: %s is not as long as kind", given[i].name);
            goto done;
        }
    const int64_t *size = c[1].view.buf, *whole = c[3].view.buf, *unplaced = c[ROWS].view.buf;
    int fits = !shared(c, COLUMNS, ROWS);
    for (Py_ssize_t i = 0; fits && i < c[0].items; i++)
        fits = size[i] >= 0 && size[i] < FARTHEST && whole[i] > -FARTHEST && whole[i] < FARTHEST;
    for (Py_ssize_t i = 0; fits && i < c[ROWS].items; i++)
        fits = unplaced[i] >= 0 && unplaced[i] < FARTHEST;
    if (!fits) {
        PyErr_SetString(PyExc_ValueError, "effects: sizes from 0 to below 2**62 are needed, in columns that lie apart");
        goto done;
    }
    memory *m = calloc(1, sizeof *m);
    if (!m) {
        PyErr_NoMemory();
        goto done;
    }
    pool_open(&m->nodes, sizeof(node));
    m->newest = -1;
    m->unplaced = c[ROWS].view.buf;
    m->unplaced_count = c[ROWS].items;
    int stopped = 0;
    for (Py_ssize_t rows = c[0].items, row = 0; row < rows && !m->fault && !stopped; row += AT_ONCE) {
        Py_BEGIN_ALLOW_THREADS
        work(m, row, rows - row < AT_ONCE ? rows : row + AT_ONCE, rows, c[0].view.buf, c[1].view.buf, c[2].view.buf,
             c[3].view.buf, c[4].view.buf, c[5].view.buf, c[6].view.buf, c[ROWS + 1].view.buf);
        Py_END_ALLOW_THREADS
        stopped = PyErr_CheckSignals();
    }
    if (m->fault)
        PyErr_NoMemory();
    else if (!stopped)
        result = Py_NewRef(Py_None);
    pool_close(&m->nodes);
    free(m->chunk);
    free(m);
done:
    release(c, COLUMNS);
    return result;
}
