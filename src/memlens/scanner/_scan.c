/* The compiled part of the scanner: one packed search for the first bytes of all formats, a small machine that runs the
 * programs made from their regular expressions, and the writing of rows.
 *
 * It knows no format: all it works with are the tables that tables.py makes.  It allocates nothing, reads the text within its
 * bounds only, and runs without the interpreter lock.  What it cannot decide within fixed bounds of stack and steps it hands
 * back as an "odd" row, and `re` decides. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

#if !defined(__GNUC__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "needs GCC or Clang, and a little-endian machine; without this module memlens works through re"
#endif

typedef const uint8_t *Text;

/* ---------------------------------------------------------------- tables, as tables.py lays them out */

enum { FORMATS, VALUES, HEADERS, LINE_FORMATS, HEADER_PC, HEADER_FIRST, HEADER_LAST, OFFSETS }; /* numbers, then offsets: */
enum { AT_FORMATS = OFFSETS, AT_COLUMNS, AT_CODE, AT_SETS, AT_ENTRIES, AT_FIRST, AT_LIST, AT_LINE_FORMATS, AT_POOL, AT_NIBBLES, HEAD };
enum { PLACE, LINE, BY_RE };                                                     /* how a format is looked for */
enum { COVERS = 1, UNCOVERED = 2, ONCE = 4, BEFORE = 8, NEAREST = 16, AT_LINE_START = 32 }; /* flags of a format */
enum { DECIMAL, HEXADECIMAL, WORD, DIGITS, TEXT };                               /* conversions */

typedef struct { int32_t mode, flags, pc, first, columns, column, literal, length; } Format;
typedef struct { int32_t conversion, words, count; } Column;
typedef struct { uint64_t word, mask; int32_t format, unused; } Entry;
typedef struct {
    const int32_t *head, *code, *first, *list, *line_formats;
    const Format *formats;
    const Column *columns;
    const Entry *entries;
    const uint8_t (*sets)[256], *pool, *nibbles;
} Tables;

static Tables tables_at(Text at) {
    const int32_t *head = (const int32_t *)at;
    return (Tables){head, (const int32_t *)(at + head[AT_CODE]), (const int32_t *)(at + head[AT_FIRST]), (const int32_t *)(at + head[AT_LIST]),
                    (const int32_t *)(at + head[AT_LINE_FORMATS]), (const Format *)(at + head[AT_FORMATS]), (const Column *)(at + head[AT_COLUMNS]),
                    (const Entry *)(at + head[AT_ENTRIES]), (const uint8_t (*)[256])(at + head[AT_SETS]), at + head[AT_POOL], at + head[AT_NIBBLES]};
}

/* ---------------------------------------------------------------- the machine that runs programs */

enum { MATCH, FIXED, BYTE, RUN, GREEDY, LAZY, SPLIT, CHOOSE, JUMP, SAVE, KEEP, AHEAD, NOT_AHEAD, BEHIND, NOT_BEHIND, LINE_START, LINE_END, EDGE, NO_EDGE, NOT_NEXT };
enum { DEPTH = 256, STEPS = 1 << 16, SLOTS = 64 };

/* A way not yet taken: go on at `pc` with the text from `p`.  Of a repeat: give back bytes down to `q`, or take more up to `q`.
 * Of a slot: what it held before. */
typedef struct { Text p, q; int32_t pc, what; } Choice;
enum { TAKE = -1, SHORTER = -2, RESTORE = -3 }; /* what; 0 and up: longer by a byte of this set */

typedef struct {
    const int32_t *code;
    const uint8_t (*sets)[256];
    Text low, high; /* of the text that a program may look at */
    Text slots[SLOTS];
    Choice stack[DEPTH];
    int depth, steps, odd;
} Machine;

typedef uint8_t Bytes16 __attribute__((vector_size(16)));

/* Whether each of n bytes lies in its range; lanes from n on have the range of all bytes. */
static inline int in_ranges(Text p, Text high, int n, const int32_t *ranges) {
    Text low = (Text)ranges, span = low + 16;
    if (high - p >= 16) {
        union { Bytes16 bytes; uint64_t words[2]; } x, l, s;
        memcpy(&x, p, 16), memcpy(&l, low, 16), memcpy(&s, span, 16);
        x.bytes = (Bytes16)((x.bytes - l.bytes) > s.bytes);
        return !(x.words[0] | x.words[1]);
    }
    if (high - p < n) return 0;
    for (int i = 0; i < n; i++)
        if ((uint8_t)(p[i] - low[i]) > span[i]) return 0;
    return 1;
}

static inline int is_word(uint8_t c) {
    return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '_';
}

/* Where the run of bytes of a set that begins at p ends, at the latest at stop. */
static inline Text run_of(const uint8_t *set, Text p, Text stop) {
    for (; stop - p >= 4; p += 4) {
        if (!set[p[0]]) return p;
        if (!set[p[1]]) return p + 1;
        if (!set[p[2]]) return p + 2;
        if (!set[p[3]]) return p + 3;
    }
    while (p < stop && set[*p]) p++;
    return p;
}

static int push(Machine *m, int32_t what, int32_t pc, Text p, Text q) {
    if (m->depth == DEPTH) return !(m->odd = 1);
    m->stack[m->depth++] = (Choice){p, q, pc, what};
    return 1;
}

/* Where the match that starts at p ends, or NULL; NULL with m->odd where that was not decided. */
static Text run(Machine *m, int32_t pc, Text p) {
    const int base = m->depth;
    for (;;) {
        const int32_t *op = m->code + pc;
        switch (*op) {
        case MATCH: m->depth = base; return p;
        case FIXED:
            if (!in_ranges(p, m->high, op[1], op + 2)) goto fail;
            p += op[1], pc += 10;
            continue;
        case BYTE:
            if (p == m->high || !m->sets[op[1]][*p]) goto fail;
            p++, pc += 2;
            continue;
        case RUN: case GREEDY: {
            Text stop = m->high - p > op[3] ? p + op[3] : m->high, q = run_of(m->sets[op[1]], p, stop);
            if (q - p < op[2]) goto fail;
            if (*op == GREEDY && q - p > op[2] && !push(m, SHORTER, pc + 4, q, p + op[2])) goto odd;
            p = q, pc += 4;
            continue;
        }
        case LAZY: {
            const uint8_t *set = m->sets[op[1]];
            Text q = p, stop = m->high - p > op[3] ? p + op[3] : m->high;
            while (q < stop && q - p < op[2] && set[*q]) q++;
            if (q - p < op[2]) goto fail;
            if (!push(m, op[1], pc + 4, q, stop)) goto odd;
            p = q, pc += 4;
            continue;
        }
        case SPLIT:
            if (!push(m, TAKE, op[1], p, p)) goto odd;
            pc += 2;
            continue;
        case CHOOSE: pc = p < m->high && m->sets[op[1]][*p] ? pc + 3 : op[2]; continue;
        case JUMP: pc = op[1]; continue;
        case KEEP:
            if (m->depth && !push(m, RESTORE, op[1], m->slots[op[1]], p)) goto odd;
            pc += 2;
            continue;
        case SAVE: /* with nothing to go back to, nobody asks what the slot held */
            for (const int32_t *slot = op + 2, *stop = slot + 2 * op[1]; slot < stop; slot += 2) {
                if (m->depth && !push(m, RESTORE, *slot, m->slots[*slot], p)) goto odd;
                m->slots[*slot] = p - slot[1];
            }
            pc += 2 + 2 * op[1];
            continue;
        case AHEAD: case NOT_AHEAD: case BEHIND: case NOT_BEHIND: {
            Text end = p - m->low < op[2] ? NULL : run(m, pc + 3, p - op[2]);
            if (m->odd) goto odd;
            if ((end != NULL) != (*op == AHEAD || *op == BEHIND)) goto fail;
            pc = op[1];
            continue;
        }
        case LINE_START: if (p != m->low) goto fail; pc++; continue;
        case LINE_END: if (p != m->high && *p != '\n') goto fail; pc++; continue;
        case EDGE: case NO_EDGE:
            if (((p > m->low && is_word(p[-1])) != (p < m->high && is_word(*p))) != (*op == EDGE)) goto fail;
            pc++;
            continue;
        case NOT_NEXT:
            if (p != m->high && m->sets[op[1]][*p]) goto fail;
            pc += 2;
            continue;
        default: goto odd;
        }
    fail:
        for (;;) {
            if (m->depth == base) return NULL;
            Choice *last = &m->stack[m->depth - 1];
            if (--m->steps < 0) goto odd;
            if (last->what == RESTORE) { m->slots[last->pc] = last->p, m->depth--; continue; }
            if (last->what >= 0) {
                if (last->p == last->q || !m->sets[last->what][*last->p]) { m->depth--; continue; }
                last->p++;
            } else if (last->what == SHORTER) {
                last->p--;
                if (last->p == last->q) m->depth--;
            } else m->depth--;
            p = last->p, pc = last->pc;
            break;
        }
    }
odd:
    m->odd = 1, m->depth = base;
    return NULL;
}

/* ---------------------------------------------------------------- text to numbers */

/* The next n characters (1 to 8) in a word, the last one in its highest byte, zeros before the first.  No byte from limit on is read. */
static inline uint64_t characters(Text p, int64_t n, Text limit) {
    uint64_t word = 0;
    if (limit - p >= 8) memcpy(&word, p, 8), word <<= 8 * (8 - n);
    else memcpy((uint8_t *)&word + 8 - n, p, (size_t)n);
    return word;
}

static int64_t decimal(Text p, Text end, Text limit) {
    static const uint64_t powers[9] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};
    const int minus = *p == '-';
    uint64_t value = 0;
    p += minus;
    if (end - p > 18) {
        while (p < end && *p == '0') p++;
        if (end - p > 19) return minus ? -INT64_MAX : INT64_MAX;
    }
    while (p < end) { /* up to eight digits at once: pairs, fours, all */
        const int64_t n = end - p < 8 ? end - p : 8;
        uint64_t x = characters(p, n, limit) & 0x0f0f0f0f0f0f0f0f;
        x = (x * 10 + (x >> 8)) & 0x00ff00ff00ff00ff;
        x = (x * 100 + (x >> 16)) & 0x0000ffff0000ffff;
        value = value * powers[n] + ((x * 10000 + (x >> 32)) & 0xffffffff);
        p += n;
    }
    if (value > INT64_MAX) value = INT64_MAX;
    return minus ? -(int64_t)value : (int64_t)value;
}

static int64_t hexadecimal(Text p, Text end, Text limit) {
    uint64_t value = 0;
    if (end - p > 2 && p[1] == 'x') p += 2;
    if (end - p > 16) return -1;
    while (p < end) {
        const int64_t n = end - p < 8 ? end - p : 8;
        uint64_t x = characters(p, n, limit);
        x = (x & 0x0f0f0f0f0f0f0f0f) + (x >> 6 & 0x0101010101010101) * 9;
        x = (x << 4 | x >> 8) & 0x00ff00ff00ff00ff;
        x = (x << 8 | x >> 16) & 0x0000ffff0000ffff;
        value = value << 4 * n | ((x << 16 | x >> 32) & 0xffffffff);
        p += n;
    }
    return (int64_t)value;
}

static int64_t convert(const Column *column, Text pool, Text block, Text p, Text end, Text limit) {
    uint64_t value = 0;
    if (!p || !end) return -1;
    switch (column->conversion) {
    case DECIMAL: return decimal(p, end, limit);
    case HEXADECIMAL: return hexadecimal(p, end, limit);
    case WORD:
        pool += column->words;
        for (int i = 0, k; i < column->count; pool += 1 + *pool, i++) {
            if (end - p != *pool) continue;
            for (k = 0; k < *pool && p[k] == pool[1 + k];) k++;
            if (k == *pool) return i;
        }
        return -1;
    case DIGITS:
        for (; p < end; p++)
            if ((uint8_t)(*p - '0') < 10) value = value * 10 + (*p & 15u);
        return (int64_t)value;
    default: return (p - block) | (int64_t)(end - p < 0x7fffff ? end - p : 0x7fffff) << 40;
    }
}

/* ---------------------------------------------------------------- one block */

/* What is known between calls, in an int64 array of Python's: these, the values of the last header, and of each format where its
 * last match ended and which line is done. */
enum { POSITION, NUMBER, START, ROWS, ODD, COVERED, LOOKED, FOUND, STATE };
enum { ODD_ORDER = 1, ODD_LINE = 2, ODD_HEADER = 4 }; /* what Python has to put right */
enum { ROW_FORMAT, ROW_START, ROW_END, ROW_LINE_START, ROW_LINE, ROW };
enum { WINDOW = 400 }; /* bytes before a match in which its header is looked for */

typedef struct {
    Tables t;
    Text block, begin, end, line_start; /* and the line that is looked at: its number is that of `line` and the line ends that are set */
    uint64_t line_ends;
    int64_t line, *state, *last_header, *next, *done, *rows;
    int64_t capacity;
    Machine m;
} Scan;

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
    if (memchr(low, 0x1b, (size_t)(p - low))) p = without_colours(low, p, plain), low = plain;
    m->low = low, m->high = p, m->odd = 0, m->steps = STEPS;
    for (end = NULL; low < p && !end && !m->odd; low++) {
        if (!first[*low]) continue;
        memset(m->slots, 0, sizeof *m->slots * 2 * (size_t)head[HEADERS]);
        end = run(m, head[HEADER_PC], low);
    }
    if (m->odd) return -1;
    for (int i = 0; end && i < head[HEADERS]; i++)
        values[i * stride] = convert(&s->t.columns[i], s->t.pool, s->block, m->slots[2 * i], m->slots[2 * i + 1], m->high);
    return end != NULL;
}

/* Look for the last header that ends in low < … <= p, searched from the end; as header_before. */
static int header_nearest(Scan *s, Text low, Text p, int64_t *values) {
    const uint8_t last = (uint8_t)s->t.head[HEADER_LAST];
    for (; p > low; p--) {
        if (p[-1] != last) continue;
        Text start = p - s->begin > WINDOW ? p - WINDOW : s->begin, from = p;
        while (from > start && from[-1] != '\n') from--;
        int found = header_before(s, from, p, values, 1);
        if (found) return found;
    }
    return 0;
}

static void fill_header(Scan *s, const Format *format, Text p, int64_t *cells) {
    const int32_t count = s->t.head[HEADERS];
    int64_t nothing = -1;
    if (format->flags & NEAREST && format->mode == PLACE) {
        Text low = s->block + s->state[LOOKED];
        int found = p > low ? header_nearest(s, low, p, s->last_header) : 0;
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
    row[ROW_LINE * capacity] = s->line + __builtin_popcountll(s->line_ends);
    if (n && (row[ROW_START * capacity - 1] > p - s->block || (row[ROW_START * capacity - 1] == p - s->block && row[-1] > number)))
        s->state[ODD] |= ODD_ORDER;
    if (!end) s->state[ODD] |= ODD_LINE;
    row += ROW * capacity;
    const Column *column = s->t.columns + format->column;
    for (int32_t i = 0; i < values; i++, row += capacity)
        *row = end && i < format->columns ? convert(column + i, s->t.pool, s->block, s->m.slots[2 * i], s->m.slots[2 * i + 1], s->m.high) : -1;
    if (end && s->t.head[HEADERS]) fill_header(s, format, p, row); /* last: it uses the machine */
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
        add_row(s, number, p, end);
    }
    return end;
}

/* Try a format at every place of the line; 0 when there is no more room for rows. */
static int whole_line(Scan *s, int32_t number) {
    const Format *format = &s->t.formats[number];
    const int64_t line = s->line_start - s->block + 1;
    if (s->done[number] == line) return 1;
    if (s->state[ROWS] == s->capacity) return 0;
    if (format->mode == BY_RE) add_row(s, number, s->line_start, NULL);
    else {
        const uint8_t *first = s->t.sets[format->first];
        Text p = s->block + s->next[number], stop = memchr(s->line_start, '\n', (size_t)(s->end - s->line_start));
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

/* Try every format that may begin at p; 0 when there is no more room for rows. */
static int look(Scan *s, Text p) {
    const int32_t *list = s->t.list + s->t.first[*p], *stop = s->t.list + s->t.first[*p + 1];
    const int64_t rows = s->state[ROWS], line = s->line_start - s->block + 1;
    uint64_t word = 0;
    if (s->capacity - rows <= stop - list) return 0;
    memcpy(&word, p, s->end - p < 8 ? (size_t)(s->end - p) : 8);
    for (; list < stop; list++) {
        const Entry *entry = &s->t.entries[*list];
        if ((word & entry->mask) != entry->word) continue;
        const Format *format = &s->t.formats[entry->format];
        if (s->done[entry->format] == line) continue;
        if (format->mode != PLACE) {
            if (s->end - p >= format->length && !memcmp(p, s->t.pool + format->literal, (size_t)format->length) && !whole_line(s, entry->format)) return 0;
        } else if (p - s->block >= s->next[entry->format]) {
            Text end = try_at(s, entry->format, p);
            if (end && format->flags & COVERS && end - s->block > s->state[COVERED]) s->state[COVERED] = end - s->block;
        }
    }
    if (p - s->block < s->state[COVERED]) { /* leave out what is covered, at last: of rows that start here the later ones cover, too */
        int64_t kept = rows;
        for (int64_t row = rows; row < s->state[ROWS]; row++) {
            const Format *format = &s->t.formats[s->rows[row]];
            if (format->flags & UNCOVERED && format->mode == PLACE && s->rows[ROW_END * s->capacity + row] >= 0) continue;
            if (kept < row)
                for (int64_t *cell = s->rows, i = ROW + s->t.head[VALUES] + s->t.head[HEADERS]; i--; cell += s->capacity) cell[kept] = cell[row];
            kept++;
        }
        s->state[ROWS] = kept;
    }
    return 1;
}

static int line_begins(Scan *s) {
    for (int32_t i = 0; i < s->t.head[LINE_FORMATS]; i++)
        if (!whole_line(s, s->t.line_formats[i])) return 0;
    return 1;
}

/* ---------------------------------------------------------------- the packed search */

/* Of 64 bytes at a time: where one of the prefixes may begin (its first three bytes fit), and where a line ends.  A prefix belongs to
 * one of eight buckets, one bit each; a byte fits a bucket where the tables of its low and of its high half both say so.  Two bytes after the
 * last one must be readable. */
typedef void Search(Text p, int64_t words, Text nibbles, uint64_t *candidates, uint64_t *line_ends);

static void search_plain(Text p, int64_t words, Text t, uint64_t *candidates, uint64_t *line_ends) {
    for (int64_t w = 0; w < words; w++) {
        uint64_t c = 0, l = 0;
        for (int i = 0; i < 64; i++, p++) {
            uint8_t hit = t[p[0] & 15] & t[16 + (p[0] >> 4)] & t[32 + (p[1] & 15)] & t[48 + (p[1] >> 4)] & t[64 + (p[2] & 15)] & t[80 + (p[2] >> 4)];
            c |= (uint64_t)(hit != 0) << i, l |= (uint64_t)(*p == '\n') << i;
        }
        candidates[w] = c, line_ends[w] = l;
    }
}

/* The same with vectors; what each machine calls its operations is defined before each use. */
#define SEARCH(NAME, ATTRIBUTES)                                                                                            \
    ATTRIBUTES static void NAME(Text p, int64_t words, Text t, uint64_t *candidates, uint64_t *line_ends) {                 \
        const V a = TABLE(t), b = TABLE(t + 16), c = TABLE(t + 32), d = TABLE(t + 48), e = TABLE(t + 64), f = TABLE(t + 80); \
        for (int64_t w = 0; w < words; w++) {                                                                               \
            uint64_t found = 0, ends = 0;                                                                                   \
            for (unsigned i = 0; i < 64; i += sizeof(V), p += sizeof(V)) {                                                  \
                const V x = LOAD(p), y = LOAD(p + 1), z = LOAD(p + 2);                                                      \
                V hit = AND(LOOK_UP(a, LOW_HALF(x)), LOOK_UP(b, HIGH_HALF(x)));                                             \
                hit = AND(hit, AND(LOOK_UP(c, LOW_HALF(y)), LOOK_UP(d, HIGH_HALF(y))));                                     \
                hit = AND(hit, AND(LOOK_UP(e, LOW_HALF(z)), LOOK_UP(f, HIGH_HALF(z))));                                     \
                found |= (uint64_t)NONZERO(hit) << i, ends |= (uint64_t)EQUAL(x, '\n') << i;                                \
            }                                                                                                               \
            candidates[w] = found, line_ends[w] = ends;                                                                     \
        }                                                                                                                   \
    }

#if defined(__x86_64__)
#include <immintrin.h>
#define V __m256i
#define TABLE(q) _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(q)))
#define LOAD(q) _mm256_loadu_si256((const __m256i *)(q))
#define AND _mm256_and_si256
#define LOOK_UP _mm256_shuffle_epi8
#define LOW_HALF(v) AND(v, _mm256_set1_epi8(15))
#define HIGH_HALF(v) AND(_mm256_srli_epi16(v, 4), _mm256_set1_epi8(15))
#define EQUAL(v, byte) (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(v, _mm256_set1_epi8(byte)))
#define NONZERO(v) (uint32_t)~EQUAL(v, 0)
SEARCH(search_avx2, __attribute__((target("avx2"))))
#undef V
#undef TABLE
#undef LOAD
#undef AND
#undef LOOK_UP
#undef LOW_HALF
#undef HIGH_HALF
#undef EQUAL
#undef NONZERO
#define V __m128i
#define TABLE LOAD
#define LOAD(q) _mm_loadu_si128((const __m128i *)(q))
#define AND _mm_and_si128
#define LOOK_UP _mm_shuffle_epi8
#define LOW_HALF(v) AND(v, _mm_set1_epi8(15))
#define HIGH_HALF(v) AND(_mm_srli_epi16(v, 4), _mm_set1_epi8(15))
#define EQUAL(v, byte) (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(v, _mm_set1_epi8(byte)))
#define NONZERO(v) (0xffffu ^ EQUAL(v, 0))
SEARCH(search_ssse3, __attribute__((target("ssse3"))))

static Search *searches[] = {search_avx2, search_ssse3, search_plain};
static int available(int which) {
    return which == 0 ? __builtin_cpu_supports("avx2") : which == 1 ? __builtin_cpu_supports("ssse3") : 1;
}
#elif defined(__aarch64__)
#include <arm_neon.h>
static inline uint32_t bits(uint8x16_t mask) { /* one bit of each byte */
    static const uint8_t weights[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    const uint8x16_t weighed = vandq_u8(mask, vld1q_u8(weights));
    return vaddv_u8(vget_low_u8(weighed)) | (uint32_t)vaddv_u8(vget_high_u8(weighed)) << 8;
}
#define V uint8x16_t
#define TABLE vld1q_u8
#define LOAD vld1q_u8
#define AND vandq_u8
#define LOOK_UP vqtbl1q_u8
#define LOW_HALF(v) AND(v, vdupq_n_u8(15))
#define HIGH_HALF(v) vshrq_n_u8(v, 4)
#define EQUAL(v, byte) bits(vceqq_u8(v, vdupq_n_u8(byte)))
#define NONZERO(v) bits(vtstq_u8(v, v))
SEARCH(search_neon, )

static Search *searches[] = {search_neon, search_plain};
static int available(int which) { (void)which; return 1; }
#else
static Search *searches[] = {search_plain};
static int available(int which) { (void)which; return 1; }
#endif

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
                s->state[NUMBER] = s->line + __builtin_popcountll(s->line_ends);
                return 0;
            }
            s->line += __builtin_popcountll(ends);
            s->line_start = ends ? p + 64 - __builtin_clzll(ends) : line_start;
        }
    }
    s->state[NUMBER] = s->line;
    return 1;
}

/* ---------------------------------------------------------------- the module */

enum { BLOCK, TABLES, STATE_OF, ROWS_OF, BUFFERS };

/* The buffers that the functions are given, checked; 0 with an exception where they do not fit. */
static int open_scan(Scan *s, Py_buffer *buffers, Py_ssize_t begin, Py_ssize_t end) {
    const Py_buffer *tables = &buffers[TABLES];
    s->t = tables_at(tables->buf);
    const int32_t *head = s->t.head;
    s->block = buffers[BLOCK].buf, s->begin = s->block + begin, s->end = s->block + end;
    s->state = buffers[STATE_OF].buf;
    s->last_header = s->state + STATE, s->next = s->last_header + head[HEADERS], s->done = s->next + head[FORMATS];
    s->rows = buffers[ROWS_OF].buf;
    s->capacity = buffers[ROWS_OF].len / (Py_ssize_t)sizeof(int64_t) / (ROW + head[VALUES] + head[HEADERS]);
    s->m.code = s->t.code, s->m.sets = s->t.sets, s->m.depth = 0;
    if (begin < 0 || begin > end || end > buffers[BLOCK].len ||
        buffers[STATE_OF].len < (Py_ssize_t)sizeof(int64_t) * (STATE + head[HEADERS] + 2 * head[FORMATS]) ||
        s->state[POSITION] < begin || s->state[POSITION] > end || s->state[ROWS] > s->capacity) {
        PyErr_SetString(PyExc_ValueError, "buffers that do not fit each other");
        return 0;
    }
    return 1;
}

static void release(Py_buffer *buffers) {
    for (int i = 0; i < BUFFERS; i++) PyBuffer_Release(&buffers[i]);
}

static PyObject *scan(PyObject *self, PyObject *args) {
    Py_buffer buffers[BUFFERS];
    Py_ssize_t begin, end;
    int search, done = 0;
    Scan s;
    (void)self;
    if (!PyArg_ParseTuple(args, "y*y*w*w*nni", &buffers[0], &buffers[1], &buffers[2], &buffers[3], &begin, &end, &search)) return NULL;
    const int fits = open_scan(&s, buffers, begin, end);
    if (fits) {
        Py_BEGIN_ALLOW_THREADS
        done = scan_block(&s, searches[search]);
        Py_END_ALLOW_THREADS
    }
    release(buffers);
    return fits ? PyBool_FromLong(done) : NULL;
}

static PyObject *last_header(PyObject *self, PyObject *args) {
    Py_buffer buffers[BUFFERS];
    Py_ssize_t begin, end;
    int found = 0;
    Scan s;
    (void)self;
    if (!PyArg_ParseTuple(args, "y*y*w*w*nn", &buffers[0], &buffers[1], &buffers[2], &buffers[3], &begin, &end)) return NULL;
    const int fits = open_scan(&s, buffers, begin, end);
    if (fits) {
        Py_BEGIN_ALLOW_THREADS
        found = header_nearest(&s, s.begin, s.end, s.last_header);
        Py_END_ALLOW_THREADS
    }
    release(buffers);
    return fits ? PyLong_FromLong(found) : NULL;
}

static PyMethodDef methods[] = {
    {"scan", scan, METH_VARARGS, "scan(block, tables, state, rows, begin, end, search) -> whether it went to the end"},
    {"last_header", last_header, METH_VARARGS, "last_header(block, tables, state, rows, begin, end) -> 1 found, 0 none, -1 odd"},
    {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_scan", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__scan(void) {
    PyObject *made = PyModule_Create(&module), *names = PyList_New(0);
    for (int i = 0; names && i < (int)(sizeof searches / sizeof *searches); i++) {
        PyObject *which = available(i) ? PyLong_FromLong(i) : NULL;
        if (which) PyList_Append(names, which), Py_DECREF(which);
    }
    if (made && names) PyModule_AddObjectRef(made, "SEARCHES", names); /* fastest first */
    Py_XDECREF(names);
    return made;
}
