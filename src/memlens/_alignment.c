/* Alignment tables filled, and seeds chained: the hot loops of the diff; see _columns.c and columns.py. */

#include "_columns.h"

/* --- alignment tables ------------------------------------------------------------------------------------------------ */

/* best[j] is the most that the rows so far can save with the first j columns; it never falls with j.  A row changes it
   only from a column of its own key on, and only as far as the columns there have less, so what a row takes is the
   columns of its key and the cells that rise.  For the way back two bits are kept of each cell: whether it rose in this
   row, and whether it is the first one that the pair of row and column j - 1 raised.  */

enum { ROW_KEY, ROW_HELD, ROW_WEIGHT, ROW_MARKS, ROW_STARTS, COLUMN_KEY, COLUMN_HELD, COLUMN_MARKS, COLUMN_STARTS,
       WORTH, SCALE, FIRST, LAST, BEFORE, PARTNER, SAVED, ALIGN_COLUMNS };

static const struct {
    const char *name;
    int width, writable;
} align_columns[ALIGN_COLUMNS] = {
    {"row_key", 4, 0},    {"row_held", 1, 0},    {"row_weight", 8, 0},   {"row_marks", 8, 0},     {"row_starts", 8, 0},
    {"column_key", 4, 0}, {"column_held", 1, 0}, {"column_marks", 8, 0}, {"column_starts", 8, 0}, {"worth", 8, 0},
    {"scale", 8, 0},      {"first", 8, 0},       {"last", 8, 0},         {"before", 8, 0},        {"partner", 8, 1},
    {"saved", 8, 1},
};

/* One table: its rows and columns, and what it is filled into. */
typedef struct {
    Py_ssize_t height, width;
    const int32_t *row_key, *column_key;
    const uint8_t *row_held, *column_held;
    const int64_t *row_weight, *worth, *first, *last, *before;
    const uint64_t *row_marks, *column_marks;
    int64_t scale;
    int64_t *best;       /* width + 1 */
    uint32_t *first_place, *stop, *places; /* columns by key, rising, 2 * column + held; of each key where its columns begin and end there */
    size_t *offset;      /* where each row's bits begin, in words, height + 1; NULL: no way back */
    uint64_t *raised, *begun;
} grid;

/* Sums and products wrap like NumPy's: in C they must not overflow. */
static inline int64_t plus(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static inline int64_t minus(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

static inline int64_t times(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a * (uint64_t)b);
}

/* Set the bits from `from` up to, not including, `to`. */
static inline void set_bits(uint64_t *words, size_t from, size_t to)
{
    if (from == to)
        return;
    uint64_t first = ~UINT64_C(0) << (from & 63), last = ~UINT64_C(0) >> (63 - ((to - 1) & 63));
    size_t word = from >> 6, last_word = (to - 1) >> 6;
    for (; word < last_word; word++, first = ~UINT64_C(0))
        words[word] |= first;
    words[word] |= first & last;
}

/* Which of the four marks are equal, a bit each. */
static inline unsigned equal_marks(uint64_t one, uint64_t two)
{
    const uint64_t low = UINT64_C(0x7fff7fff7fff7fff);
    uint64_t differing = one ^ two, equal = ~(((differing & low) + low) | differing | low) >> 15;
    return (unsigned)(equal | equal >> 15 | equal >> 30 | equal >> 45) & 15;
}

/* Raise the cells from *at to `until` that have less than a value; whether it would raise the next one, too. */
static inline int raise_cells(int64_t *best, Py_ssize_t *at, Py_ssize_t until, int64_t value, uint64_t *raised, Py_ssize_t lo)
{
    Py_ssize_t from = *at, to = from;
    for (; to + 3 <= until && best[to + 3] < value; to += 4)
        best[to] = best[to + 1] = best[to + 2] = best[to + 3] = value;
    while (to <= until && best[to] < value)
        best[to++] = value;
    if (raised)
        set_bits(raised, (size_t)(from - lo), (size_t)(to - lo));
    *at = to;
    return to > until;
}

static void fill(grid *g)
{
    int64_t *best = g->best, marks[16], most = 0;
    for (int equal = 0; equal < 16; equal++) {
        marks[equal] = 0;
        for (int mark = 0; mark < 4; mark++)
            if (equal >> mark & 1)
                marks[equal] = plus(marks[equal], g->worth[4 + mark]);
        most = marks[equal] > most ? marks[equal] : most;
    }
    Py_ssize_t filled = g->last ? (Py_ssize_t)g->last[0] : g->width; /* columns that `best` is known for */
    for (Py_ssize_t j = 0; j <= g->width; j++)
        best[j] = g->before ? g->before[j] : 0;
    for (Py_ssize_t row = 0; row < g->height; row++) {
        Py_ssize_t lo = g->first ? (Py_ssize_t)g->first[row + 1] : 0, hi = g->last ? (Py_ssize_t)g->last[row + 1] : g->width;
        for (; filled < hi; filled++)
            best[filled + 1] = best[filled];
        uint32_t *first = g->first_place + g->row_key[row];
        const uint32_t *place = g->places + *first, *stop = g->places + g->stop[g->row_key[row]];
        while (place < stop && (Py_ssize_t)(*place >> 1) + 1 < lo) /* left behind for good, for the band only moves on */
            place++;
        *first = (uint32_t)(place - g->places);
        int64_t unit = times(g->row_weight[row], g->scale ? g->scale : 1);
        const int64_t *worth = g->worth + (g->row_held[row] ? 2 : 0);
        const int64_t saves[2] = {times(unit, worth[0]), times(unit, worth[1])};
        uint64_t *raised = g->offset ? g->raised + g->offset[row] : NULL, *begun = g->offset ? g->begun + g->offset[row] : NULL;
        int running = 0;
        int64_t run = 0;     /* what the latest pair saves, as long as it raises cells */
        Py_ssize_t at = lo;  /* the next cell that it may raise */
        for (; place < stop && (Py_ssize_t)(*place >> 1) < hi; place++) {
            Py_ssize_t j = *place >> 1;
            int64_t over_left = best[j];
            if (running)
                running = raise_cells(best, &at, j, run, raised, lo);
            int64_t value = plus(over_left, saves[*place & 1]);
            if (g->scale) {
                if (plus(value, most) <= best[j + 1])
                    continue; /* whatever its marks are */
                value = plus(value, marks[equal_marks(g->row_marks[row], g->column_marks[j])]);
            }
            if (value > best[j + 1] && !(running && value <= run)) {
                running = 1;
                run = value;
                at = j + 1;
                if (begun)
                    begun[(at - lo) >> 6] |= UINT64_C(1) << ((at - lo) & 63);
            }
        }
        if (running)
            raise_cells(best, &at, hi, run, raised, lo);
    }
}

/* From the last cell to the first: for each row the column that it pairs with, -1 for none. */
static void walk_back(const grid *g, int64_t *partner)
{
    Py_ssize_t at = g->width;
    for (Py_ssize_t row = g->height - 1; row >= 0; row--) {
        Py_ssize_t lo = g->first ? (Py_ssize_t)g->first[row + 1] : 0, hi = g->last ? (Py_ssize_t)g->last[row + 1] : g->width;
        partner[row] = -1;
        at = at < hi ? at : hi;
        if (at < lo)
            continue;
        size_t cell = (size_t)(at - lo), word = cell >> 6;
        if (!(g->raised[g->offset[row] + word] >> (cell & 63) & 1))
            continue;
        /* The pair that raised a cell is the last one at or before it: between the two nothing changes. */
        const uint64_t *begun = g->begun + g->offset[row];
        uint64_t bits = begun[word] & (~UINT64_C(0) >> (63 - (cell & 63)));
        while (!bits && word)
            bits = begun[--word];
        if (!bits)
            continue; /* cannot be: some pair raised the cell */
        int top = 63;
        while (!(bits >> top & 1))
            top--;
        at = lo + (Py_ssize_t)(word * 64) + top - 1;
        partner[row] = at;
    }
}

/* Memory that is kept from problem to problem. */
typedef struct {
    void *memory;
    size_t bytes;
} space;

/* Room for so many items; NULL where memory does not suffice. */
static void *room(space *s, size_t items, size_t width)
{
    if (items > SIZE_MAX / 2 / width)
        return NULL;
    if (items * width > s->bytes) {
        free(s->memory);
        s->memory = malloc(items * width);
        s->bytes = s->memory ? items * width : 0;
    }
    return s->memory;
}

/* What is wrong with the arguments of align, NULL where nothing is. */
static const char *align_fault(const column *c, Py_ssize_t keys)
{
    Py_ssize_t rows = c[ROW_KEY].items, columns = c[COLUMN_KEY].items, problems = c[SCALE].items;
    if (c[ROW_HELD].items != rows || c[ROW_WEIGHT].items != rows || c[ROW_MARKS].items != rows ||
        c[COLUMN_HELD].items != columns || c[COLUMN_MARKS].items != columns || c[ROW_STARTS].items != problems + 1 ||
        c[COLUMN_STARTS].items != problems + 1 || c[SAVED].items != problems || c[WORTH].items != 8)
        return "columns of one length are needed";
    if (c[PARTNER].items && c[PARTNER].items != rows)
        return "a partner for each row is needed";
    if (shared(c, ALIGN_COLUMNS, PARTNER))
        return "columns that are written must lie apart from the others";
    if (columns > INT32_MAX - 1 || rows > INT32_MAX - 1)
        return "at most 2**31 - 2 rows and columns can be aligned";
    for (int side = 0; side < 2; side++) {
        const int64_t *starts = c[side ? COLUMN_STARTS : ROW_STARTS].view.buf;
        const int32_t *key = c[side ? COLUMN_KEY : ROW_KEY].view.buf;
        Py_ssize_t entries = side ? columns : rows;
        if (starts[0] != 0 || starts[problems] != entries)
            return "the problems must cover all rows and columns";
        for (Py_ssize_t i = 0; i < problems; i++)
            if (starts[i] > starts[i + 1])
                return "starts must rise";
        for (Py_ssize_t i = 0; i < entries; i++)
            if (key[i] < 0 || key[i] >= keys)
                return "a key is out of range";
    }
    if (c[BEFORE].items && c[BEFORE].items != columns + problems)
        return "what is saved before must be given for each problem and column";
    if (c[FIRST].items || c[LAST].items) {
        const int64_t *first = c[FIRST].view.buf, *last = c[LAST].view.buf;
        if (problems != 1 || c[BEFORE].items || c[FIRST].items != rows + 1 || c[LAST].items != rows + 1)
            return "a band belongs to one problem, and has a first and a last column for each number of rows";
        for (Py_ssize_t i = 0; i <= rows; i++)
            if (first[i] < 0 || first[i] > last[i] || last[i] > columns ||
                (i && (first[i] < first[i - 1] || last[i] < last[i - 1])))
                return "a band must rise and stay among the columns";
    }
    return NULL;
}

static int align_all(column *c, uint32_t *heads, Py_ssize_t keys)
{
    enum { BEST, PLACES, OFFSET, RAISED, BEGUN, SPACES };
    space kept[SPACES] = {{NULL, 0}};
    const int64_t *row_starts = c[ROW_STARTS].view.buf, *column_starts = c[COLUMN_STARTS].view.buf;
    int64_t *saved = c[SAVED].view.buf;
    int failed = 0;
    for (Py_ssize_t problem = 0; !failed && problem < c[SCALE].items; problem++) {
        int64_t r = row_starts[problem], k = column_starts[problem];
        grid g = {
            .height = (Py_ssize_t)(row_starts[problem + 1] - r),
            .width = (Py_ssize_t)(column_starts[problem + 1] - k),
            .row_key = (const int32_t *)c[ROW_KEY].view.buf + r,
            .row_held = (const uint8_t *)c[ROW_HELD].view.buf + r,
            .row_weight = (const int64_t *)c[ROW_WEIGHT].view.buf + r,
            .row_marks = (const uint64_t *)c[ROW_MARKS].view.buf + r,
            .column_key = (const int32_t *)c[COLUMN_KEY].view.buf + k,
            .column_held = (const uint8_t *)c[COLUMN_HELD].view.buf + k,
            .column_marks = (const uint64_t *)c[COLUMN_MARKS].view.buf + k,
            .worth = c[WORTH].view.buf,
            .scale = ((const int64_t *)c[SCALE].view.buf)[problem],
            .first = c[FIRST].items ? c[FIRST].view.buf : NULL,
            .last = c[LAST].items ? c[LAST].view.buf : NULL,
            .before = c[BEFORE].items ? (const int64_t *)c[BEFORE].view.buf + k + problem : NULL,
            .first_place = heads,
            .stop = heads + keys,
        };
        g.best = room(kept + BEST, (size_t)g.width + 1, sizeof *g.best);
        g.places = room(kept + PLACES, (size_t)g.width + 1, sizeof *g.places);
        failed = !g.best || !g.places;
        if (!failed && c[PARTNER].items) {
            size_t words = 0;
            g.offset = room(kept + OFFSET, (size_t)g.height + 1, sizeof *g.offset);
            for (Py_ssize_t row = 0; g.offset && row < g.height; row++) {
                g.offset[row] = words;
                words += (size_t)(g.first ? g.last[row + 1] - g.first[row + 1] : g.width) / 64 + 1;
            }
            g.raised = room(kept + RAISED, words + 1, sizeof *g.raised);
            g.begun = room(kept + BEGUN, words + 1, sizeof *g.begun);
            failed = !g.offset || !g.raised || !g.begun;
            if (!failed) {
                memset(g.raised, 0, words * sizeof *g.raised);
                memset(g.begun, 0, words * sizeof *g.begun);
            }
        }
        if (failed)
            break;
        for (Py_ssize_t j = 0; j < g.width; j++)
            g.stop[g.column_key[j]]++;
        uint32_t end = 1; /* a key that begins at 0 has no room yet */
        for (Py_ssize_t j = 0; j < g.width; j++) {
            uint32_t *first = g.first_place + g.column_key[j], *stop = g.stop + g.column_key[j];
            if (!*first) {
                *first = end;
                end += *stop;
                *stop = *first;
            }
            g.places[(*stop)++] = (uint32_t)j << 1 | (g.column_held[j] != 0);
        }
        fill(&g);
        for (Py_ssize_t j = 0; j < g.width; j++)
            g.first_place[g.column_key[j]] = g.stop[g.column_key[j]] = 0;
        saved[problem] = 0;
        for (Py_ssize_t j = 0; j <= g.width; j++) {
            int64_t more = minus(g.best[j], g.before ? g.before[j] : 0);
            if (more > saved[problem])
                saved[problem] = more;
        }
        if (c[PARTNER].items)
            walk_back(&g, (int64_t *)c[PARTNER].view.buf + r);
    }
    for (int i = 0; i < SPACES; i++)
        free(kept[i].memory);
    return failed;
}

PyObject *memlens_align(PyObject *module, PyObject *args)
{
    column c[ALIGN_COLUMNS] = {{{0}, 0}};
    Py_ssize_t keys;
    const char *fault = NULL;
    int failed = 0;
    (void)module;
    if (PyTuple_Size(args) != ALIGN_COLUMNS + 1)
        return PyErr_Format(PyExc_TypeError, "align takes %d columns and the number of keys", (int)ALIGN_COLUMNS);
    keys = PyLong_AsSsize_t(PyTuple_GetItem(args, ALIGN_COLUMNS));
    if (keys == -1 && PyErr_Occurred())
        return NULL;
    for (int i = 0; i < ALIGN_COLUMNS; i++)
        if (take(PyTuple_GetItem(args, i), c + i, align_columns[i].width, align_columns[i].writable, align_columns[i].name)) {
            release(c, i);
            return NULL;
        }
    Py_BEGIN_ALLOW_THREADS
    fault = align_fault(c, keys);
    if (!fault) {
        uint32_t *heads = keys < 0 ? NULL : calloc((size_t)keys + 1, 2 * sizeof *heads);
        failed = !heads || align_all(c, heads, keys);
        free(heads);
    }
    Py_END_ALLOW_THREADS
    release(c, ALIGN_COLUMNS);
    if (fault)
        return PyErr_Format(PyExc_ValueError, "align: %s", fault);
    return failed ? PyErr_NoMemory() : Py_NewRef(Py_None);
}

/* --- chain ----------------------------------------------------------------------------------------------------------- */

static inline int64_t distance(int64_t a, int64_t b)
{
    return a > b ? a - b : b - a;
}

/* Score the chains that end at each candidate.  Scores and offsets of candidates that are none are never read. */
static void score_chains(const int64_t *at, const int64_t *places, Py_ssize_t rows, Py_ssize_t each, int64_t gram,
                         Py_ssize_t back, int64_t *score, int64_t *before)
{
    int64_t best = -1, of_row_before = -1; /* the best chain up to two rows before, and that of the row between */
    for (Py_ssize_t row = 0; row < rows; row++) {
        int64_t best_of_row = -1;
        for (Py_ssize_t here = row * each; here < (row + 1) * each; here++) {
            before[here] = -1;
            if (places[here] < 0)
                continue;
            int64_t offset = places[here] - at[row], value = INT64_MIN, origin = -1;
            for (Py_ssize_t other = row > back ? row - back : 0; other < row; other++) {
                int64_t most = at[row] - at[other] < gram ? at[row] - at[other] : gram;
                for (Py_ssize_t x = other * each; x < (other + 1) * each; x++) {
                    if (places[x] < 0 || places[here] <= places[x])
                        continue;
                    int64_t way = places[here] - places[x];
                    /* Grams that overlap cover no more than they take together. */
                    int64_t gain = score[x] - distance(offset, places[x] - at[other]) + (way < most ? way : most);
                    if (gain > value) {
                        value = gain;
                        origin = x;
                    }
                }
            }
            if (best >= 0 && places[here] > places[best]) { /* the best chain so far, if it ended longer ago */
                int64_t way = places[here] - places[best], most = at[row] - at[best / each];
                way = way < most ? way : most;
                int64_t gain = score[best] - distance(offset, places[best] - at[best / each]) + (way < gram ? way : gram);
                if (gain > value) {
                    value = gain;
                    origin = best;
                }
            }
            score[here] = gram - distance(offset, 0); /* every chain begins at offset 0, where both sequences do */
            if (value > score[here]) {
                score[here] = value;
                before[here] = origin;
            }
            if (best_of_row < 0 || score[here] > score[best_of_row])
                best_of_row = here;
        }
        if (of_row_before >= 0 && (best < 0 || score[of_row_before] > score[best]))
            best = of_row_before;
        of_row_before = best_of_row;
    }
}

PyObject *memlens_chain(PyObject *module, PyObject *args)
{
    PyObject *objects[3];
    long long gram, back, last_offset;
    column c[3] = {{{0}, 0}};
    const char *fault = NULL;
    int failed = 0;
    (void)module;
    if (!PyArg_ParseTuple(args, "OOOLLL:chain", &objects[0], &objects[1], &objects[2], &gram, &back, &last_offset))
        return NULL;
    if (take(objects[0], c, 8, 0, "at") || take(objects[1], c + 1, 8, 0, "places") || take(objects[2], c + 2, 8, 1, "chosen")) {
        release(c, 3);
        return NULL;
    }
    Py_ssize_t rows = c[0].items, all = c[1].items, each = rows ? all / rows : 0;
    const int64_t *at = c[0].view.buf, *places = c[1].view.buf;
    int64_t *chosen = c[2].view.buf;
    if (c[2].items != rows || each * rows != all || back < 0 || back > INT32_MAX || gram < 0 || gram > INT32_MAX ||
        shared(c, 3, 2) || last_offset > INT64_C(1) << 40 || last_offset < -(INT64_C(1) << 40))
        fault = "candidates for each gram, and one to choose of each, are needed";
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t i = 0; !fault && i < all; i++)
        if (places[i] > INT64_C(1) << 40 || (i < rows && (at[i] < (i ? at[i - 1] : 0) || at[i] > INT64_C(1) << 40)))
            fault = "grams must rise, and places be less than 2**40";
    if (!fault && all) {
        int64_t *score = malloc((size_t)all * sizeof(int64_t)), *before = malloc((size_t)all * sizeof(int64_t));
        failed = !score || !before;
        if (!failed) {
            score_chains(at, places, rows, each, gram, (Py_ssize_t)back, score, before);
            int64_t best = -1, most = INT64_MIN;
            for (Py_ssize_t i = 0; i < all; i++) {
                if (places[i] < 0)
                    continue;
                int64_t value = score[i] - distance(places[i] - at[i / each], last_offset);
                if (value > most) {
                    most = value;
                    best = i;
                }
            }
            for (Py_ssize_t i = 0; i < rows; i++)
                chosen[i] = -1;
            for (; best >= 0; best = before[best])
                chosen[best / each] = best % each;
        }
        free(score);
        free(before);
    }
    Py_END_ALLOW_THREADS
    release(c, 3);
    if (fault)
        return PyErr_Format(PyExc_ValueError, "chain: %s", fault);
    return failed ? PyErr_NoMemory() : Py_NewRef(Py_None);
}
