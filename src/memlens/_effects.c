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
    int64_t start, size;
} chunk;

typedef struct {
    pool nodes, made;      /* nodes of trees; chunks, by number, in the order in which they were made */
    tree blocks;           /* free ones, by where they begin and end; no two begin at one address */
    tree chunks, idle;     /* by where they begin: their numbers; those that are one free block by size and number */
    waiting wait[WAITING + 1]; /* in the order of their rows */
    int waits;
    int64_t *unplaced;
    Py_ssize_t unplaced_count;
    int64_t newest;
    int fault;
} memory;

static inline chunk *chunk_of(const memory *m, uint32_t number) { return (chunk *)m->made.items + number; }

static void put(memory *m, tree *t, uint64_t a, uint64_t b, uint32_t value) {
    if (m->fault || pool_grow(&m->nodes, NODES_OF_A_PUT))
        m->fault = 1;
    else
        tree_put(&m->nodes, t, a, b, value);
}

/* Where the free block ends that begins at an address, -1 for none. */
static int64_t end_of(const memory *m, int64_t start) {
    const entry *e = entry_from(&m->nodes, &m->blocks, (uint64_t)start, 0);
    return start >= 0 && e->a == (uint64_t)start ? (int64_t)e->b : -1;
}

/* The number of the chunk that begins at an address, NONE for none. */
static uint32_t chunk_at(const memory *m, int64_t start) {
    const entry *e = entry_from(&m->nodes, &m->chunks, (uint64_t)start, 0);
    return start >= 0 && e->a == (uint64_t)start ? e->value : NONE;
}

static int64_t take_out(memory *m, int64_t start) {
    int64_t end = end_of(m, start);
    uint32_t number = chunk_at(m, start);
    tree_pull(&m->nodes, &m->blocks, (uint64_t)start, (uint64_t)end);
    if (number != NONE)
        tree_pull(&m->nodes, &m->idle, (uint64_t)chunk_of(m, number)->size, number);
    return end;
}

static void add(memory *m, int64_t start, int64_t end) {
    if (end_of(m, start) >= 0)
        take_out(m, start);
    put(m, &m->blocks, (uint64_t)start, (uint64_t)end, 0);
    uint32_t number = chunk_at(m, start);
    if (number != NONE && chunk_of(m, number)->size == end - start)
        put(m, &m->idle, (uint64_t)(end - start), number, number);
}

/* Where the free block begins that an address lies in, -1 for none. */
static int64_t containing(const memory *m, int64_t address) {
    const entry *e = entry_before(&m->nodes, &m->blocks, (uint64_t)address, UINT64_MAX);
    return address >= 0 && (uint64_t)address < e->b ? (int64_t)e->a : -1;
}

static void insert(memory *m, int64_t start, int64_t end) {
    if (end_of(m, end) >= 0 && chunk_at(m, end) == NONE)
        end = take_out(m, end);
    int64_t before = containing(m, start - 1);
    if (before >= 0 && chunk_at(m, start) == NONE) {
        take_out(m, before);
        start = before;
    }
    add(m, start, end);
}

static void drop_chunk(memory *m, uint32_t number) {
    tree_pull(&m->nodes, &m->chunks, (uint64_t)chunk_of(m, number)->start, 0);
    tree_pull(&m->nodes, &m->idle, (uint64_t)chunk_of(m, number)->size, number);
}

static void add_chunk(memory *m, int64_t start, int64_t size) {
    uint32_t old = chunk_at(m, start);
    if (old != NONE)
        drop_chunk(m, old);
    if (pool_grow(&m->made, 1)) {
        m->fault = 1;
        return;
    }
    const uint32_t number = pool_take(&m->made);
    *chunk_of(m, number) = (chunk){start, size};
    put(m, &m->chunks, (uint64_t)start, 0, number);
    m->newest = start;
    add(m, start, start + size);
}

/* Forget the waiting FREEs whose blocks begin between two addresses. */
static void settle(memory *m, int64_t start, int64_t end) {
    int kept = 0;
    for (int i = 0; i < m->waits; i++)
        if (m->wait[i].begin < start || m->wait[i].begin >= end)
            m->wait[kept++] = m->wait[i];
    m->waits = kept;
}

static void undo(memory *m, const waiting *w) {
    int64_t block = containing(m, w->begin);
    if (block < 0)
        return;
    int64_t end = take_out(m, block);
    if (block < w->begin)
        add(m, block, w->begin);
    if (w->stop < end)
        add(m, w->stop, end);
}

static int fits(const memory *m, int64_t start, int64_t end, int64_t size, int first, int grown) {
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
static int early(memory *m, int64_t start, int64_t end, int64_t size, int grown, int *chosen) {
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

static void allocate(memory *m, int64_t row, int64_t address, int64_t size, int64_t whole, int64_t *found) {
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
static void give_back(memory *m, int64_t size) {
    const entry *e = entry_from(&m->nodes, &m->idle, (uint64_t)size, 0);
    if (e->a != (uint64_t)size)
        return;
    const uint32_t number = e->value;
    int64_t start = chunk_of(m, number)->start;
    take_out(m, start);
    drop_chunk(m, number);
    settle(m, start, start + size);
}

static const wanted of_effects[] = {{"kind", 1, 0}, {"size", 8, 0}, {"addr", 8, 0}, {"free", 8, 0}, {"until", 8, 0},
                                    {"late", 1, 0}, {"emptying", 8, 0}, {"preallocated", 8, 1}, {"found", 8, 1}};
enum { IN_ADVANCE = 7, FOUND, COLUMNS };

/* Whether an interrupt has come in. */
static int interrupted(void) {
    const PyGILState_STATE state = PyGILState_Ensure();
    const int stopped = PyErr_CheckSignals();
    PyGILState_Release(state);
    return stopped;
}

/* Work through the rows: columns of one length, but for the sizes of chunks made in advance. */
static void work(memory *m, const column *c) {
    const int8_t *kind = c[0].view.buf, *late = c[5].view.buf;
    const int64_t *size = c[1].view.buf, *whole = c[3].view.buf, *until = c[4].view.buf, *emptying = c[6].view.buf, rows = c[0].items;
    const uint64_t *addr = c[2].view.buf;
    int64_t *found = c[FOUND].view.buf;
    for (int64_t row = 0; row < rows && !m->fault && (row % AT_ONCE || !interrupted()); row++) {
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

static const char *effects(const column *c) {
    const int64_t *size = c[1].view.buf, *whole = c[3].view.buf, *unplaced = c[IN_ADVANCE].view.buf;
    for (int i = 0; i < COLUMNS; i++)
        if (i != IN_ADVANCE && c[i].items != c[0].items)
            return "columns of one length";
    for (Py_ssize_t i = 0; i < c[0].items; i++)
        if (size[i] < 0 || size[i] >= FARTHEST || whole[i] <= -FARTHEST || whole[i] >= FARTHEST)
            return "sizes from 0 to below 2**62";
    for (Py_ssize_t i = 0; i < c[IN_ADVANCE].items; i++)
        if (unplaced[i] < 0 || unplaced[i] >= FARTHEST)
            return "sizes of chunks from 0 to below 2**62";
    memory *m = calloc(1, sizeof *m);
    if (!m)
        return OUT_OF_MEMORY;
    pool_open(&m->nodes, sizeof(node));
    pool_open(&m->made, sizeof(chunk));
    m->newest = -1;
    m->unplaced = c[IN_ADVANCE].view.buf;
    m->unplaced_count = c[IN_ADVANCE].items;
    work(m, c);
    const int fault = m->fault;
    pool_close(&m->nodes);
    pool_close(&m->made);
    free(m);
    return fault ? OUT_OF_MEMORY : NULL;
}

FUNCTION(effects, of_effects, effects)
