/* Alignment tables filled, and seeds chained: the hot loops of the diff; see _columns.c and columns.py. */

#include "_columns.h"

/* --- alignment tables ------------------------------------------------------------------------------------------------ */

/* best[j] is the most that the rows so far can save with the first j columns; it never falls with j.  A row changes it
   only from a column of its own key on, and only as far as the columns there have less, so what a row takes is the
   columns of its key and the cells that rise.  For the way back two bits are kept of each cell: whether it rose in this
   row, and whether it is the first one that the pair of row and column j - 1 raised.  */

enum { ROW_KEY, ROW_HELD, ROW_WEIGHT, ROW_MARKS, ROW_STARTS, COLUMN_KEY, COLUMN_HELD, COLUMN_MARKS, COLUMN_STARTS,
       WORTH, SCALE, FIRST, LAST, KEYS, PARTNER, SAVED };

static const wanted of_align[] = {
    {"row_key", 4, 0},    {"row_held", 1, 0},    {"row_weight", 8, 0},   {"row_marks", 8, 0},     {"row_starts", 8, 0},
    {"column_key", 4, 0}, {"column_held", 1, 0}, {"column_marks", 8, 0}, {"column_starts", 8, 0}, {"worth", 8, 0},
    {"scale", 8, 0},      {"first", 8, 0},       {"last", 8, 0},         {"keys", 8, 0},          {"partner", 8, 1},
    {"saved", 8, 1},
};

/* One table: its rows and columns, and what it is filled into. */
typedef struct {
    Py_ssize_t height, width;
    const int32_t *row_key;
    const uint8_t *row_held;
    const int64_t *row_weight, *worth, *first, *last;
    const uint64_t *row_marks, *column_marks;
    int64_t scale;
    int64_t *best;       /* width + 1 */
    uint32_t *first_place, *stop, *places; /* columns by key, rising, 2 * column + held; of each key where its columns begin and end there */
    uint64_t *raised, *begun; /* bits of each row, one row after the other; NULL: no way back */
} grid;

/* The first and last cell of a row that are looked at. */
static inline Py_ssize_t low(const grid *g, Py_ssize_t row) { return (Py_ssize_t)g->first[row + 1]; }
static inline Py_ssize_t high(const grid *g, Py_ssize_t row) { return (Py_ssize_t)g->last[row + 1]; }

/* Words that hold a bit for each cell of a row. */
static inline Py_ssize_t words_of(const grid *g, Py_ssize_t row) { return (high(g, row) - low(g, row)) / 64 + 1; }

/* Sums and products wrap like NumPy's: in C they must not overflow. */
static inline int64_t plus(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
static inline int64_t times(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }

/* Set the bits from `from` up to, not including, `to`. */
static inline void set_bits(uint64_t *words, size_t from, size_t to) {
    if (from == to)
        return;
    uint64_t first = ~UINT64_C(0) << (from & 63), last = ~UINT64_C(0) >> (63 - ((to - 1) & 63));
    size_t word = from >> 6, last_word = (to - 1) >> 6;
    for (; word < last_word; word++, first = ~UINT64_C(0))
        words[word] |= first;
    words[word] |= first & last;
}

/* Which of the four marks are equal, a bit each. */
static inline unsigned equal_marks(uint64_t one, uint64_t two) {
    const uint64_t low = UINT64_C(0x7fff7fff7fff7fff);
    uint64_t differing = one ^ two, equal = ~(((differing & low) + low) | differing | low) >> 15;
    return (unsigned)(equal | equal >> 15 | equal >> 30 | equal >> 45) & 15;
}

/* Raise the cells from *at to `until` that have less than a value; whether it would raise the next one, too. */
static inline int raise_cells(int64_t *best, Py_ssize_t *at, Py_ssize_t until, int64_t value, uint64_t *raised, Py_ssize_t lo) {
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

static void fill(grid *g) {
    int64_t *best = g->best, marks[16], most = 0;
    for (int equal = 0; equal < 16; equal++) {
        marks[equal] = 0;
        for (int mark = 0; mark < 4; mark++)
            if (equal >> mark & 1)
                marks[equal] = plus(marks[equal], g->worth[4 + mark]);
        most = marks[equal] > most ? marks[equal] : most;
    }
    Py_ssize_t filled = high(g, -1); /* columns that `best` is known for */
    uint64_t *raised = g->raised, *begun = g->begun;
    for (Py_ssize_t row = 0; row < g->height; row++) {
        const Py_ssize_t lo = low(g, row), hi = high(g, row);
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
        if (raised) {
            raised += words_of(g, row);
            begun += words_of(g, row);
        }
    }
}

/* From the last cell to the first, `words` after the first row's: for each row the column that it pairs with, -1 for none. */
static void walk_back(const grid *g, size_t words, int64_t *partner) {
    Py_ssize_t at = g->width;
    for (Py_ssize_t row = g->height - 1; row >= 0; row--) {
        const Py_ssize_t lo = low(g, row), hi = high(g, row);
        words -= (size_t)words_of(g, row);
        partner[row] = -1;
        at = at < hi ? at : hi;
        if (at < lo)
            continue;
        size_t cell = (size_t)(at - lo), word = cell >> 6;
        if (!(g->raised[words + word] >> (cell & 63) & 1))
            continue;
        /* The pair that raised a cell is the last one at or before it: between the two nothing changes. */
        const uint64_t *begun = g->begun + words;
        uint64_t bits = begun[word] & (~UINT64_C(0) >> (63 - (cell & 63)));
        while (!bits && word)
            bits = begun[--word];
        if (!bits)
            continue; /* cannot be: some pair raised the cell */
        at = lo + (Py_ssize_t)(word * 64) + 62 - __builtin_clzll(bits);
        partner[row] = at;
    }
}

/* What is needed of the columns of align, NULL where they have it. */
static const char *align_fault(const column *c) {
    Py_ssize_t rows = c[ROW_KEY].items, columns = c[COLUMN_KEY].items, problems = c[SCALE].items;
    if (c[ROW_HELD].items != rows || c[ROW_WEIGHT].items != rows || c[ROW_MARKS].items != rows ||
        c[COLUMN_HELD].items != columns || c[COLUMN_MARKS].items != columns || c[ROW_STARTS].items != problems + 1 ||
        c[COLUMN_STARTS].items != problems + 1 || c[SAVED].items != problems || c[WORTH].items != 8 || c[KEYS].items != 1 ||
        (c[PARTNER].items && c[PARTNER].items != rows) || c[FIRST].items != rows + problems || c[LAST].items != rows + problems)
        return "columns of one length";
    const int64_t keys = *(const int64_t *)c[KEYS].view.buf;
    if (columns > INT32_MAX - 1 || rows > INT32_MAX - 1 || keys < 0 || keys > (int64_t)INT32_MAX + 1)
        return "at most 2**31 - 2 rows and columns, and 2**31 keys";
    for (int side = 0; side < 2; side++) {
        const int64_t *starts = c[side ? COLUMN_STARTS : ROW_STARTS].view.buf;
        const int32_t *key = c[side ? COLUMN_KEY : ROW_KEY].view.buf;
        Py_ssize_t entries = side ? columns : rows;
        for (Py_ssize_t i = 0; i <= problems; i++)
            if (starts[i] < (i ? starts[i - 1] : 0) || (i == 0 && starts[i]) || (i == problems && starts[i] != entries))
                return "problems that rise and cover all rows and columns";
        for (Py_ssize_t i = 0; i < entries; i++)
            if (key[i] < 0 || key[i] >= keys)
                return "keys that are counted";
    }
    const int64_t *first = c[FIRST].view.buf, *last = c[LAST].view.buf;
    for (Py_ssize_t p = 0; p < problems; p++) {
        const int64_t *rows_of = (const int64_t *)c[ROW_STARTS].view.buf + p, *columns_of = (const int64_t *)c[COLUMN_STARTS].view.buf + p;
        for (int64_t i = rows_of[0], before = 0, until = 0; i <= rows_of[1]; i++, before = *first++, until = *last++)
            if (*first < before || *first > *last || *last < until || *last > columns_of[1] - columns_of[0])
                return "bands that rise and stay among the columns";
    }
    return NULL;
}

/* Fill a table, and walk back through it where `partner` is given: what it saves at most, -1 where memory does not suffice. */
static int64_t align_one(grid *g, const int32_t *column_key, const uint8_t *column_held, int64_t *partner) {
    size_t words = 0, cells = (size_t)g->width + 1;
    for (Py_ssize_t row = 0; partner && row < g->height; row++)
        words += (size_t)words_of(g, row);
    if (!(g->best = calloc(2 * words + cells + (cells + 1) / 2, sizeof *g->best)))
        return -1;
    g->places = (uint32_t *)(g->best + cells + 2 * words);
    if (partner) {
        g->raised = (uint64_t *)g->best + cells;
        g->begun = g->raised + words;
    }
    for (Py_ssize_t j = 0; j < g->width; j++)
        g->stop[column_key[j]]++;
    uint32_t end = 1; /* a key that begins at 0 has no room yet */
    for (Py_ssize_t j = 0; j < g->width; j++) {
        uint32_t *first = g->first_place + column_key[j], *stop = g->stop + column_key[j];
        if (!*first) {
            *first = end;
            end += *stop;
            *stop = *first;
        }
        g->places[(*stop)++] = (uint32_t)j << 1 | (column_held[j] != 0);
    }
    fill(g);
    for (Py_ssize_t j = 0; j < g->width; j++)
        g->first_place[column_key[j]] = g->stop[column_key[j]] = 0;
    int64_t saved = g->best[high(g, g->height - 1)];
    if (partner)
        walk_back(g, words, partner);
    free(g->best);
    return saved;
}

static const char *align_all(const column *c) {
    const char *needed = align_fault(c);
    if (needed)
        return needed;
    const int64_t *row_starts = c[ROW_STARTS].view.buf, *column_starts = c[COLUMN_STARTS].view.buf;
    const size_t keys = *(const size_t *)c[KEYS].view.buf;
    int64_t *saved = c[SAVED].view.buf, *partner = c[PARTNER].items ? c[PARTNER].view.buf : NULL;
    uint32_t *heads = calloc(keys + 1, 2 * sizeof *heads);
    int failed = !heads;
    for (Py_ssize_t problem = 0; !failed && problem < c[SCALE].items; problem++) {
        int64_t r = row_starts[problem], k = column_starts[problem];
        grid g = {
            .height = (Py_ssize_t)(row_starts[problem + 1] - r),
            .width = (Py_ssize_t)(column_starts[problem + 1] - k),
            .row_key = (const int32_t *)c[ROW_KEY].view.buf + r,
            .row_held = (const uint8_t *)c[ROW_HELD].view.buf + r,
            .row_weight = (const int64_t *)c[ROW_WEIGHT].view.buf + r,
            .row_marks = (const uint64_t *)c[ROW_MARKS].view.buf + r,
            .column_marks = (const uint64_t *)c[COLUMN_MARKS].view.buf + k,
            .worth = c[WORTH].view.buf,
            .scale = ((const int64_t *)c[SCALE].view.buf)[problem],
            .first = (const int64_t *)c[FIRST].view.buf + r + problem,
            .last = (const int64_t *)c[LAST].view.buf + r + problem,
            .first_place = heads,
            .stop = heads + keys,
        };
        saved[problem] = align_one(&g, (const int32_t *)c[COLUMN_KEY].view.buf + k, (const uint8_t *)c[COLUMN_HELD].view.buf + k,
                                   partner ? partner + r : NULL);
        failed = saved[problem] < 0;
    }
    free(heads);
    return failed ? OUT_OF_MEMORY : NULL;
}

FUNCTION(align, of_align, align_all)

/* --- chain ----------------------------------------------------------------------------------------------------------- */

static inline int64_t distance(int64_t a, int64_t b) { return a > b ? a - b : b - a; }

/* What a chain is worth that goes on from candidate x, of another row, to one more: the lowest number where it may not. */
static inline int64_t worth_after(const int64_t *at, const int64_t *places, int64_t score, Py_ssize_t row, Py_ssize_t here,
                                  Py_ssize_t other, Py_ssize_t x, int64_t gram) {
    if (places[x] < 0 || places[here] <= places[x])
        return INT64_MIN;
    int64_t covered = places[here] - places[x], apart = at[row] - at[other];
    covered = covered < apart ? covered : apart; /* grams that overlap cover no more than they take together */
    return score - distance(places[here] - at[row], places[x] - at[other]) + (covered < gram ? covered : gram);
}

/* Score the chains that end at each candidate.  Scores and offsets of candidates that are none are never read. */
static void score_chains(const int64_t *at, const int64_t *places, Py_ssize_t rows, Py_ssize_t each, int64_t gram,
                         Py_ssize_t back, int64_t *score, int64_t *before) {
    int64_t best = -1, of_row_before = -1; /* the best chain up to two rows before, and that of the row between */
    for (Py_ssize_t row = 0; row < rows; row++) {
        int64_t best_of_row = -1;
        for (Py_ssize_t here = row * each; here < (row + 1) * each; here++) {
            before[here] = -1;
            if (places[here] < 0)
                continue;
            int64_t value = gram - distance(places[here] - at[row], 0); /* every chain begins at offset 0, where both sequences do */
            for (Py_ssize_t other = row > back ? row - back : 0; other < row; other++)
                for (Py_ssize_t x = other * each; x < (other + 1) * each; x++) {
                    int64_t gain = worth_after(at, places, score[x], row, here, other, x, gram);
                    if (gain > value) {
                        value = gain;
                        before[here] = x;
                    }
                }
            int64_t gain = best < 0 ? INT64_MIN : worth_after(at, places, score[best], row, here, best / each, best, gram);
            if (gain > value) { /* the best chain so far, if it ended longer ago */
                value = gain;
                before[here] = best;
            }
            score[here] = value;
            if (best_of_row < 0 || value > score[best_of_row])
                best_of_row = here;
        }
        if (of_row_before >= 0 && (best < 0 || score[of_row_before] > score[best]))
            best = of_row_before;
        of_row_before = best_of_row;
    }
}

static const char *chain_all(const column *c) {
    const Py_ssize_t rows = c[0].items, all = c[1].items, each = rows ? all / rows : 0;
    const int64_t *at = c[0].view.buf, *places = c[1].view.buf, *numbers = c[2].view.buf;
    int64_t *chosen = c[3].view.buf;
    if (c[3].items != rows || each * rows != all || c[2].items != 3)
        return "candidates for each gram, and one to choose of each";
    const int64_t gram = numbers[0], back = numbers[1], last_offset = numbers[2], most = INT64_C(1) << 40;
    if (back < 0 || back > INT32_MAX || gram < 0 || gram > INT32_MAX || last_offset > most || last_offset < -most)
        return "numbers that can be";
    for (Py_ssize_t i = 0; i < all; i++)
        if (places[i] > most || (i < rows && (at[i] < (i ? at[i - 1] : 0) || at[i] > most)))
            return "grams that rise, and places of at most 2**40";
    int64_t *score = malloc((size_t)all * 2 * sizeof *score + 1), *before = score + all;
    if (!score)
        return OUT_OF_MEMORY;
    score_chains(at, places, rows, each, gram, (Py_ssize_t)back, score, before);
    int64_t best = -1, highest = INT64_MIN;
    for (Py_ssize_t i = 0; i < all; i++) {
        if (places[i] < 0)
            continue;
        int64_t value = score[i] - distance(places[i] - at[i / each], last_offset);
        if (value > highest) {
            highest = value;
            best = i;
        }
    }
    for (Py_ssize_t i = 0; i < rows; i++)
        chosen[i] = -1;
    for (; best >= 0; best = before[best])
        chosen[best / each] = best % each;
    free(score);
    return NULL;
}

static const wanted of_chain[] = {{"at", 8, 0}, {"places", 8, 0}, {"numbers", 8, 0}, {"chosen", 8, 1}};
FUNCTION(chain, of_chain, chain_all)
