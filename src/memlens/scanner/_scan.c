/* The compiled part of the scanner: one packed search for the first bytes of all formats, a small machine that runs the
 * programs made from their regular expressions, and the writing of rows.
 *
 * It knows no format: all it works with are the tables that tables.py makes.  It allocates nothing, reads the text within its
 * bounds only, and runs without the interpreter lock.  What it cannot decide within fixed bounds of stack and steps it hands
 * back as an "odd" row, and `re` decides. */
#include "../_columns.h"
#include "_search.h"

/* ---------------------------------------------------------------- tables, as tables.py lays them out */

enum { FORMATS, VALUES, HEADERS, LINE_FORMATS, HEADER_PC, HEADER_FIRST, HEADER_LAST, NUMBERS };
enum { /* after these numbers: offsets */
    AT_FORMATS = NUMBERS, AT_COLUMNS, AT_CODE, AT_SETS, AT_ENTRIES, AT_FIRST, AT_LINE_FORMATS, AT_POOL, AT_NIBBLES
};
enum { PLACE, LINE, BY_RE }; /* how a format is looked for */
enum { COVERS = 1, UNCOVERED = 2, ONCE = 4, BEFORE = 8, NEAREST = 16, AT_LINE_START = 32, APART = 64, GROUP = 7 }; /* flags of a format; below its group */

typedef struct { int32_t mode, flags, pc, first, columns, column, literal, length; } Format;
typedef struct { uint64_t word, mask; int32_t format, unused; } Entry;
typedef struct {
    const int32_t *head, *code, *first, *line_formats;
    const Format *formats;
    const Column *columns;
    const Entry *entries;
    const uint8_t (*sets)[256], *pool, *nibbles;
} Tables;

static Tables tables_at(Text at) {
    const int32_t *head = (const int32_t *)at;
    return (Tables){
        .head = head,
        .code = (const int32_t *)(at + head[AT_CODE]),
        .first = (const int32_t *)(at + head[AT_FIRST]),
        .line_formats = (const int32_t *)(at + head[AT_LINE_FORMATS]),
        .formats = (const Format *)(at + head[AT_FORMATS]),
        .columns = (const Column *)(at + head[AT_COLUMNS]),
        .entries = (const Entry *)(at + head[AT_ENTRIES]),
        .sets = (const uint8_t (*)[256])(at + head[AT_SETS]),
        .pool = at + head[AT_POOL],
        .nibbles = at + head[AT_NIBBLES],
    };
}

/* ---------------------------------------------------------------- one block */

/* What is known between calls, in an int64 array of Python's: these, the values of the last header, and of each format where its
 * last match ended (after the end of the text where it is not looked for) and which line is done. */
enum { POSITION, NUMBER, START, ROWS, ODD, COVERED, LOOKED, FOUND, STATE };
enum { ODD_ORDER = 1, ODD_LINE = 2, ODD_HEADER = 4 }; /* what Python has to put right */
enum { ROW_FORMAT, ROW_START, ROW_END, ROW_LINE_START, ROW_LINE, ROW };
enum { WINDOW = 400, STRETCH = 4096, LATEST = 16 }; /* bytes before a match where its header stands; passed over at once; rows kept in mind */

typedef struct { int64_t group, thread, row, added; } Latest;
typedef struct {
    Tables t;
    Text block, begin, end;
    Text line_start; /* of the line that is looked at; its number is `line` and as many more as bits of `line_ends` are set */
    uint64_t line_ends;
    int64_t line, capacity, *state, *last_header, *next, *done, *rows;
    Latest latest[LATEST];
    int64_t groups, added, closed[8]; /* the last group seen, rows so far, and up to which one those of each group stay */
    Machine m;
} Scan;

/* How many bits are set: few, and not every machine counts them at once. */
static inline int64_t ones(uint64_t word) {
    int64_t count = 0;
    for (; word; word &= word - 1) count++;
    return count;
}

/* The value of a group that the machine has found. */
static inline int64_t value_of(const Scan *s, const Column *column, int i) {
    return convert(column, s->t.pool, s->block, s->m.slots[2 * i], s->m.slots[2 * i + 1], s->m.high);
}

/* Take out escape sequences of terminals, as \x1b\[[0-9;?]*[ -/]*[@-~] finds them. */
static Text without_colours(Text p, Text end, uint8_t *to) {
    while (p < end) {
        if (*p == 0x1b && end - p > 2 && p[1] == '[') {
            Text q = p + 2;
            while (q < end && ((*q >= '0' && *q <= '9') || *q == ';' || *q == '?')) q++;
            while (q < end && *q >= ' ' && *q <= '/') q++;
            if (q < end && *q >= '@' && *q <= '~') { p = q + 1; continue; }
        }
        *to++ = *p++;
    }
    return to;
}

/* The values of the header that ends right at p: 1, or 0 where there is none, or -1 where it is odd. */
static int header_before(Scan *s, Text line_start, Text p, int64_t *values, int64_t stride) {
    const int32_t *head = s->t.head;
    const uint8_t *first = s->t.sets[head[HEADER_FIRST]];
    Machine *m = &s->m;
    uint8_t plain[WINDOW];
    Text low = p - line_start > WINDOW ? p - WINDOW : line_start, end;
    const int coloured = memchr(low, 0x1b, (size_t)(p - low)) != NULL;
    if (coloured) p = without_colours(low, p, plain), low = plain;
    m->low = low, m->high = p, m->odd = 0, m->steps = STEPS, m->from = NULL;
    for (end = NULL; low < p && !end && !m->odd; low++) {
        if (!first[*low]) continue;
        memset(m->slots, 0, sizeof *m->slots * 2 * (size_t)head[HEADERS]);
        end = run(m, head[HEADER_PC], low);
    }
    if (m->odd) return -1;
    if (end && m->from && !coloured) { /* its place in the block is where it is kept */
        const int i = known_at(m);
        m->known[i] = m->from, m->lengths[i] = p - m->from;
    }
    for (int i = 0; end && i < head[HEADERS]; i++)
        values[i * stride] = value_of(s, &s->t.columns[i], i);
    return end != NULL;
}

/* Look for the last header that ends in low < … <= p, searched from the end; as header_before. */
static int header_nearest(Scan *s, Text low, Text p, int64_t *values) {
    const uint8_t last = (uint8_t)s->t.head[HEADER_LAST];
    for (Text looked = p; p > low; p--) {
        if (p == looked) { /* stretches without the byte are passed over */
            while (p - low > STRETCH && !memchr(p - STRETCH, last, STRETCH)) p -= STRETCH;
            looked = p - low > STRETCH ? p - STRETCH : low;
        }
        if (p[-1] != last) continue;
        Text start = p - s->begin > WINDOW ? p - WINDOW : s->begin, from = p;
        if (p > s->line_start) from = start > s->line_start ? start : s->line_start;
        else while (from > start && from[-1] != '\n') from--;
        int found = header_before(s, from, p, values, 1);
        if (found) return found;
    }
    return 0;
}

static void fill_header(Scan *s, const Format *format, Text p, int64_t *cells) {
    const int32_t count = s->t.head[HEADERS];
    int64_t nothing = -1;
    if (format->flags & NEAREST) { /* a line's format may match before what was looked at */
        Text low = s->block + s->state[LOOKED];
        int found = p > low ? header_nearest(s, low, p, s->last_header) : -(p < low);
        if (found < 0) s->state[ODD] |= ODD_HEADER;
        if (found > 0) s->state[FOUND] = 1;
        if (p > low) s->state[LOOKED] = p - s->block;
        nothing = -2;
        if (s->state[FOUND]) {
            for (int i = 0; i < count; i++) cells[i * s->capacity] = s->last_header[i];
            return;
        }
    } else if (format->flags & BEFORE) {
        int found = header_before(s, s->line_start, p, cells, s->capacity);
        if (found > 0) return;
        if (found < 0) s->state[ODD] |= ODD_HEADER;
    }
    for (int i = 0; i < count; i++) cells[i * s->capacity] = nothing;
}

/* Where a row stays: in place of the latest one of its group and thread, unless one of no group stands between that is of this
 * thread, or of one that none of the group had.  To forget one makes more rows, and no other difference. */
static int64_t place_of(Scan *s, int64_t group, int64_t thread, int64_t row) {
    const int64_t added = ++s->added, last = group ? group : s->groups;
    if (group > s->groups) s->groups = group;
    for (int64_t g = group ? group : 1; g <= last; g++) {
        Latest *one = &s->latest[(4 * (uint64_t)thread + (uint64_t)g) % LATEST];
        const int known = one->group == g && one->thread == thread;
        if (group && known && one->added > s->closed[g]) return one->row;
        if (group) *one = (Latest){g, thread, row, added};
        else if (known) one->added = 0;
        else s->closed[g] = added;
    }
    return row;
}

/* A row; without an end it says that this line is odd, or of a format that only `re` can read. */
static void add_row(Scan *s, int32_t number, Text p, Text end) {
    const Format *format = &s->t.formats[number];
    const int64_t n = s->state[ROWS]++, capacity = s->capacity;
    const int32_t values = s->t.head[VALUES];
    int64_t *row = s->rows + n;
    row[ROW_FORMAT * capacity] = number;
    row[ROW_START * capacity] = p - s->block;
    row[ROW_END * capacity] = end ? end - s->block : -1;
    row[ROW_LINE_START * capacity] = s->line_start - s->block;
    row[ROW_LINE * capacity] = s->line + ones(s->line_ends);
    const int64_t after = n ? p - s->block - row[ROW_START * capacity - 1] : 1;
    if (after < 0 || (after == 0 && row[-1] > number)) s->state[ODD] |= ODD_ORDER;
    if (!end) s->state[ODD] |= ODD_LINE;
    row += ROW * capacity;
    const Column *column = s->t.columns + format->column;
    for (int32_t i = 0; i < values; i++, row += capacity)
        *row = end && i < format->columns ? value_of(s, column + i, i) : -1;
    if (end && s->t.head[HEADERS]) fill_header(s, format, p, row); /* last: it uses the machine */
    const int known = end && s->t.head[HEADERS] && !(s->state[ODD] & ODD_HEADER); /* its thread, or else it is of none */
    const int64_t place = known ? place_of(s, format->flags >> GROUP & 7, *row, n) : place_of(s, 0, INT64_MIN, n);
    for (int64_t *cell = s->rows + n; place < n && cell < row + s->t.head[HEADERS] * capacity; cell += capacity) cell[place - n] = *cell;
    s->state[ROWS] -= place < n;
}

/* Try a format at one place: where the match ends; NULL with a row of its line where that is odd. */
static Text try_at(Scan *s, int32_t number, Text p) {
    const Format *format = &s->t.formats[number];
    Machine *m = &s->m;
    m->low = s->line_start, m->high = s->end, m->odd = 0, m->steps = STEPS;
    memset(m->slots, 0, sizeof *m->slots * 2 * (size_t)format->columns);
    Text end = run(m, format->pc, p);
    if (m->odd) {
        s->done[number] = s->line_start - s->block + 1;
        add_row(s, number, s->line_start, NULL);
    } else if (end) {
        s->next[number] = end - s->block;
        if (format->flags & ONCE) s->done[number] = s->line_start - s->block + 1;
        if (!(format->flags & UNCOVERED) || p - s->block >= s->state[COVERED] || format->mode != PLACE) add_row(s, number, p, end);
    }
    return end;
}

/* Try a format at every place of the line; 0 when there is no more room for rows. */
static int whole_line(Scan *s, int32_t number) {
    const Format *format = &s->t.formats[number];
    const int64_t line = s->line_start - s->block + 1;
    if (s->done[number] == line || s->next[number] > s->end - s->block) return 1;
    if (s->state[ROWS] == s->capacity) return 0;
    if (format->mode == BY_RE) add_row(s, number, s->line_start, NULL);
    else {
        const uint8_t *first = s->t.sets[format->first];
        Text p = s->block + s->next[number];
        Text stop = memchr(s->line_start, '\n', (size_t)(s->end - s->line_start));
        if (!stop) stop = s->end;
        if (p < s->line_start) p = s->line_start;
        if (format->flags & AT_LINE_START && stop > s->line_start) stop = s->line_start + 1;
        while (p < stop && s->done[number] != line) {
            if (!first[*p]) { p++; continue; }
            if (s->state[ROWS] == s->capacity) return 0;
            Text end = try_at(s, number, p);
            p = end ? end : p + 1;
        }
    }
    s->done[number] = line;
    return 1;
}

/* Leave out rows from one on that are covered; at last, for of rows that start at one place the later ones cover, too. */
static void leave_out_covered(Scan *s, int64_t kept) {
    const int32_t columns = ROW + s->t.head[VALUES] + s->t.head[HEADERS];
    for (int64_t row = kept; row < s->state[ROWS]; row++) {
        const Format *format = &s->t.formats[s->rows[row]];
        if (format->flags & UNCOVERED && format->mode == PLACE && s->rows[ROW_END * s->capacity + row] >= 0) continue;
        for (int32_t i = 0; i < columns && kept < row; i++) s->rows[i * s->capacity + kept] = s->rows[i * s->capacity + row];
        kept++;
    }
    s->state[ROWS] = kept, place_of(s, 0, INT64_MIN, kept);
}

/* Try every format that may begin at p; 0 when there is no more room for rows. */
static int look(Scan *s, Text p) {
    const Entry *entry = s->t.entries + s->t.first[*p], *stop = s->t.entries + s->t.first[*p + 1];
    const int64_t rows = s->state[ROWS], line = s->line_start - s->block + 1;
    uint64_t word = 0;
    int uncovered = 0;
    if (s->capacity - rows <= stop - entry) return 0;
    if (s->end - p >= 8) memcpy(&word, p, 8);
    else memcpy(&word, p, (size_t)(s->end - p));
    for (; entry < stop; entry++) {
        if ((word & entry->mask) != entry->word) continue;
        const Format *format = &s->t.formats[entry->format];
        if (s->done[entry->format] == line) continue;
        if (format->flags & APART && p - s->block < s->state[COVERED]) continue;
        if (format->mode != PLACE) {
            const size_t length = (size_t)format->length;
            const int held = s->end - p >= format->length && !memcmp(p, s->t.pool + format->literal, length);
            if (held && !whole_line(s, entry->format)) return 0;
        } else if (p - s->block >= s->next[entry->format]) {
            Text end = try_at(s, entry->format, p);
            uncovered |= format->flags & UNCOVERED;
            if (end && format->flags & COVERS && end - s->block > s->state[COVERED]) s->state[COVERED] = end - s->block;
        }
    }
    if (uncovered && p - s->block < s->state[COVERED]) leave_out_covered(s, rows);
    return 1;
}

static int line_begins(Scan *s) {
    for (int32_t i = 0; i < s->t.head[LINE_FORMATS]; i++)
        if (!whole_line(s, s->t.line_formats[i])) return 0;
    return 1;
}

/* Go over the block; 0 when there is no more room for rows: the state says where to go on. */
static int scan_block(Scan *s, Search *search) {
    enum { WORDS = 16 };
    uint64_t candidates[WORDS], line_ends[WORDS];
    uint8_t tail[66];
    const int lines = s->t.head[LINE_FORMATS] > 0;
    Text p = s->block + s->state[POSITION];
    s->line = s->state[NUMBER], s->line_ends = 0, s->line_start = s->block + s->state[START];
    if (p == s->line_start && p < s->end && !line_begins(s)) return 0;
    while (p < s->end) {
        int64_t words = (s->end - p - 2) / 64;
        if (words > WORDS) words = WORDS;
        if (words > 0) search(p, words, s->t.nibbles, candidates, line_ends);
        else { /* the last bytes, with something to read after them */
            const size_t left = (size_t)(s->end - p);
            memset(tail, 0, sizeof tail), memcpy(tail, p, left < sizeof tail ? left : sizeof tail);
            search(tail, words = 1, s->t.nibbles, candidates, line_ends);
            if (left < 64) candidates[0] &= ((uint64_t)1 << left) - 1, line_ends[0] &= ((uint64_t)1 << left) - 1;
        }
        for (int64_t w = 0; w < words; w++, p += 64) {
            const uint64_t ends = line_ends[w];
            const Text line_start = s->line_start;
            for (uint64_t left = lines ? candidates[w] | ends : candidates[w]; left; left &= left - 1) {
                const int bit = __builtin_ctzll(left), at_end = lines && ends >> bit & 1;
                s->line_ends = ends & (((uint64_t)(1 + at_end) << bit) - 1);
                s->line_start = s->line_ends ? p + 64 - __builtin_clzll(s->line_ends) : line_start;
                if (at_end ? s->line_start == s->end || line_begins(s) : look(s, p + bit)) continue;
                s->state[POSITION] = p + bit + at_end - s->block, s->state[START] = s->line_start - s->block;
                s->state[NUMBER] = s->line + ones(s->line_ends);
                return 0;
            }
            s->line += ones(ends);
            s->line_start = ends ? p + 64 - __builtin_clzll(ends) : line_start;
        }
    }
    s->state[NUMBER] = s->line;
    return 1;
}

/* ---------------------------------------------------------------- the module */

static const wanted of_scan[] = {{"block", 1, 0}, {"tables", 1, 0}, {"state", 8, 1}, {"rows", 8, 1}, {"numbers", 8, 1}};
enum { BLOCK, TABLES, STATE_OF, ROWS_OF, NUMBERS_OF, COLUMNS };
enum { BEGIN, END, SEARCH_OF, RESULT, ALL_NUMBERS };

/* Whether tables lie where they say, and name nothing outside of themselves but in programs. */
static int sound(const Py_buffer *tables) {
    const int32_t *head = tables->buf;
    const int64_t length = tables->len;
    if ((uintptr_t)head % 8 || length < (Py_ssize_t)sizeof *head * (AT_NIBBLES + 1)) return 0;
    for (int i = AT_FORMATS; i <= AT_NIBBLES; i++)
        if (head[i] % 8 || head[i] < (i > AT_FORMATS ? head[i - 1] : 0) || head[i] > length) return 0;
    const Tables t = tables_at(tables->buf);
    const int64_t columns = (head[AT_CODE] - head[AT_COLUMNS]) / (int64_t)sizeof(Column), code = (head[AT_SETS] - head[AT_CODE]) / 4;
    const int64_t sets = (head[AT_ENTRIES] - head[AT_SETS]) / 256, entries = (head[AT_FIRST] - head[AT_ENTRIES]) / (int64_t)sizeof(Entry);
    const uint64_t formats = (uint64_t)head[FORMATS];
    int fits = head[FORMATS] >= 0 && head[FORMATS] <= (head[AT_COLUMNS] - head[AT_FORMATS]) / (int)sizeof(Format) && head[VALUES] >= 0 &&
        head[VALUES] <= SLOTS / 2 && head[HEADERS] >= 0 && head[HEADERS] <= SLOTS / 2 && head[HEADERS] <= columns && head[HEADER_PC] >= 0 &&
        head[HEADER_PC] <= code && head[HEADER_FIRST] >= 0 && head[HEADER_FIRST] < sets && head[AT_LINE_FORMATS] - head[AT_FIRST] >= 4 * 257 &&
        head[LINE_FORMATS] >= 0 && head[LINE_FORMATS] <= (head[AT_POOL] - head[AT_LINE_FORMATS]) / 4 && length - head[AT_NIBBLES] >= 32;
    for (int i = 0; fits && i < 257; i++) fits = t.first[i] >= (i ? t.first[i - 1] : 0) && t.first[i] <= entries;
    for (int i = 0; fits && i < t.first[256]; i++) fits = (uint64_t)t.entries[i].format < formats;
    for (int i = 0; fits && i < head[LINE_FORMATS]; i++) fits = (uint64_t)t.line_formats[i] < formats;
    for (const Column *c = t.columns; fits && c < t.columns + columns; c++) {
        int64_t word = c->words;
        for (int32_t i = 0; fits && c->conversion == WORD && i < c->count; i++) {
            fits = word >= 0 && word < head[AT_NIBBLES] - head[AT_POOL] && word + t.pool[word] < head[AT_NIBBLES] - head[AT_POOL];
            if (fits) word += 1 + t.pool[word];
        }
    }
    for (const Format *f = t.formats; fits && f < t.formats + formats; f++)
        fits = f->pc >= 0 && f->pc <= code && f->first >= 0 && f->first < sets && f->columns >= 0 && f->columns <= head[VALUES] && f->column >= 0 &&
            f->column <= columns - f->columns && f->literal >= 0 && f->length >= 0 && f->literal <= head[AT_NIBBLES] - head[AT_POOL] - f->length;
    return fits;
}

/* What the functions are given, checked; 0 where it does not fit. */
static int open_scan(Scan *s, const column *c) {
    const int64_t *numbers = c[NUMBERS_OF].view.buf;
    if (c[NUMBERS_OF].items != ALL_NUMBERS || !sound(&c[TABLES].view)) return 0;
    const int64_t begin = numbers[BEGIN], end = numbers[END];
    if (begin < 0 || begin > end || end > c[BLOCK].items) return 0;
    s->t = tables_at(c[TABLES].view.buf);
    const int32_t *head = s->t.head;
    s->block = c[BLOCK].view.buf, s->begin = s->block + begin, s->end = s->line_start = s->block + end;
    s->state = c[STATE_OF].view.buf;
    s->last_header = s->state + STATE, s->next = s->last_header + head[HEADERS], s->done = s->next + head[FORMATS];
    s->rows = c[ROWS_OF].view.buf;
    s->capacity = c[ROWS_OF].items / (ROW + head[VALUES] + head[HEADERS]);
    s->m.code = s->t.code, s->m.sets = s->t.sets, s->m.depth = 0;
    for (int i = 0; i < KNOWN; i++) s->m.lengths[i] = -1;
    int fits = c[STATE_OF].items >= STATE + head[HEADERS] + 2 * head[FORMATS] &&
        s->state[POSITION] >= begin && s->state[POSITION] <= end && s->state[START] >= begin && s->state[START] <= s->state[POSITION] &&
        s->state[LOOKED] >= 0 && s->state[ROWS] >= 0 && s->state[ROWS] <= s->capacity && s->state[NUMBER] > -((int64_t)1 << 60) && s->state[NUMBER] < (int64_t)1 << 60;
    for (int i = 0; fits && i < head[FORMATS]; i++) fits = s->next[i] >= 0;
    return fits;
}

/* The block scanned: whether to its end. */
static const char *scanned(const column *c) {
    Scan s = {0};
    if (!open_scan(&s, c)) return "buffers that fit each other";
    int64_t *numbers = c[NUMBERS_OF].view.buf;
    const int64_t search = numbers[SEARCH_OF];
    if (search < FASTEST || search >= SEARCHES || !available((int)search)) return "a search of this machine";
    numbers[RESULT] = scan_block(&s, searches[search == FASTEST ? !available(0) : search]);
    return NULL;
}

/* The last header of the block looked for: 1 found, 0 none, -1 odd. */
static const char *header_looked_for(const column *c) {
    Scan s = {0};
    if (!open_scan(&s, c) || !s.t.head[HEADERS]) return "buffers that fit each other, and tables with a header";
    ((int64_t *)c[NUMBERS_OF].view.buf)[RESULT] = header_nearest(&s, s.begin, s.end, s.last_header);
    return NULL;
}

static FUNCTION(scan, of_scan, scanned)
static FUNCTION(last_header, of_scan, header_looked_for)

typedef struct { Text begin, end, chosen; int64_t *row, *stop, count, lines; } Lines;

/* Take a line that begins at p: its two first bytes say whether it is kept. */
static inline void take_line(Lines *s, Text p) {
    if (p == s->end) return;
    if (s->chosen[*p << 8 | p[p + 1 < s->end]]) {
        if (s->row < s->stop) *s->row++ = p - s->begin, *s->row++ = s->lines;
        s->count++;
    }
    s->lines++;
}

/* Of each line whose first two bytes a table of 65,536 chooses where it begins and its number, as far as there is room; how many
 * these are, and how many lines there are. */
static const char *lines_chosen(const column *c) {
    enum { WORDS = 16 };
    uint64_t line_ends[WORDS];
    uint8_t tail[64] = {0};
    int64_t *row = c[2].view.buf, *counts = c[3].view.buf;
    Lines s = {c[0].view.buf, (Text)c[0].view.buf + c[0].items, c[1].view.buf, row, row + c[2].items / 2 * 2, 0, 0};
    if (c[1].items != 1 << 16 || c[3].items != 2) return "a table of 65,536 bytes, and two counts";
    take_line(&s, s.begin);
    for (Text p = s.begin; p < s.end;) {
        int64_t words = (s.end - p) / 64;
        if (words > WORDS) words = WORDS;
        if (words) ends[!available(0)](p, words, line_ends);
        else memcpy(tail, p, (size_t)(s.end - p)), ends_plain(tail, words = 1, line_ends);
        for (int64_t w = 0; w < words; w++, p += 64)
            for (uint64_t left = line_ends[w]; left; left &= left - 1) take_line(&s, p + __builtin_ctzll(left) + 1);
    }
    counts[0] = s.count, counts[1] = s.lines;
    return NULL;
}

static const wanted of_lines[] = {{"block", 1, 0}, {"chosen", 1, 0}, {"rows", 8, 1}, {"counts", 8, 1}};
static FUNCTION(lines_that_begin, of_lines, lines_chosen)

static PyMethodDef methods[] = {
    {"lines_that_begin", memlens_lines_that_begin, METH_VARARGS, NULL},
    {"scan", memlens_scan, METH_VARARGS, NULL},
    {"last_header", memlens_last_header, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL}};
MODULE(_scan, "memlens.scanner._scan")
