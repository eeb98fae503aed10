/* The machine that runs the programs made from regular expressions (programs.py), and what makes numbers of texts. */
#ifndef MEMLENS_MACHINE_H
#define MEMLENS_MACHINE_H
#include <stdint.h>
#include <string.h>

#if !defined(__GNUC__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "needs GCC or Clang, and a little-endian machine; without this module memlens works through re"
#endif

typedef const uint8_t *Text;

/* ---------------------------------------------------------------- programs */

/* What programs.py says of them. */
enum {
    MATCH, FIXED, BYTE, RUN, GREEDY, LAZY, SPLIT, CHOOSE, JUMP, SAVE, KEEP, AHEAD, NOT_AHEAD, BEHIND, NOT_BEHIND,
    LINE_START, LINE_END, EDGE, NO_EDGE, NOT_NEXT, RANGES, SAME
};
enum { DEPTH = 256, STEPS = 1 << 16, SLOTS = 64, KNOWN = 16 };

/* A way not yet taken: go on at `pc` with the text from `p`.  Of a repeat: give back bytes down to `q`, or take more
 * up to `q`.  Of a slot: what it held before. */
typedef struct { Text p, q; int32_t pc, what; } Choice;
enum { TAKE = -1, SHORTER = -2, RESTORE = -3 }; /* what; 0 and up: longer by a byte of this set */

typedef struct {
    const int32_t *code;
    const uint8_t (*sets)[256];
    Text low, high; /* of the text that a program may look at */
    Text slots[SLOTS];
    Choice stack[DEPTH];
    int depth, steps, odd;
    Text from, known[KNOWN]; /* where SAME was met last; ends of texts that matched from there on, and their lengths */
    int64_t lengths[KNOWN];
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
    while (p < stop && set[*p]) p++;
    return p;
}

/* The same of a set that is two ranges: their lows and spans, 16 bytes of each. */
static inline Text run_of_ranges(const uint8_t *set, const int32_t *ranges, Text p, Text stop, Text high) {
    if (high - p < 16) return run_of(set, p, stop);
    union { Bytes16 bytes; uint64_t words[2]; } x, r[4];
    memcpy(&x, p, 16), memcpy(r, ranges, 64);
    x.bytes = (Bytes16)((x.bytes - r[0].bytes) > r[1].bytes) & (Bytes16)((x.bytes - r[2].bytes) > r[3].bytes);
    const int n = x.words[0] ? __builtin_ctzll(x.words[0]) / 8 : x.words[1] ? 8 + __builtin_ctzll(x.words[1]) / 8 : 16;
    if (stop - p <= n) return stop;
    return n < 16 ? p + n : run_of(set, p + n, stop);
}

static int push(Machine *m, int32_t what, int32_t pc, Text p, Text q) {
    if (m->depth == DEPTH) return !(m->odd = 1);
    m->stack[m->depth++] = (Choice){p, q, pc, what};
    return 1;
}

/* Which of the known texts may be the one that ends at m->high: by its last bytes. */
static inline int known_at(const Machine *m) {
    uint64_t word = 0;
    if (m->high - m->low < 8) return 0;
    memcpy(&word, m->high - 8, 8);
    return (int)(word * 0x9e3779b97f4a7c15 >> 60);
}

/* Where the match that starts at p ends, or NULL; NULL with m->odd where that was not decided. */
static Text run(Machine *m, int32_t pc, Text p) {
    const int base = m->depth;
    const int32_t *op = m->code + pc;
    for (;;) {
        switch (*op) {
        case MATCH: m->depth = base; return p;
        case FIXED:
            if (!in_ranges(p, m->high, op[1], op + 2)) goto fail;
            p += op[1], op += 10;
            continue;
        case BYTE:
            if (p == m->high || !m->sets[op[1]][*p]) goto fail;
            p++, op += 2;
            continue;
        case RUN: case GREEDY: case RANGES: {
            Text stop = m->high - p > op[3] ? p + op[3] : m->high;
            Text q = *op == RANGES ? run_of_ranges(m->sets[op[1]], op + 4, p, stop, m->high) : run_of(m->sets[op[1]], p, stop);
            if (q - p < op[2]) goto fail;
            if (*op == GREEDY && q - p > op[2] && !push(m, SHORTER, (int32_t)(op - m->code) + 4, q, p + op[2])) goto odd;
            p = q, op += *op == RANGES ? 20 : 4;
            continue;
        }
        case LAZY: {
            const uint8_t *set = m->sets[op[1]];
            Text q = p, stop = m->high - p > op[3] ? p + op[3] : m->high;
            while (q < stop && q - p < op[2] && set[*q]) q++;
            if (q - p < op[2]) goto fail;
            if (!push(m, op[1], (int32_t)(op - m->code) + 4, q, stop)) goto odd;
            p = q, op += 4;
            continue;
        }
        case SPLIT:
            if (!push(m, TAKE, op[1], p, p)) goto odd;
            op += 2;
            continue;
        case CHOOSE: op = p < m->high && m->sets[op[1]][*p] ? op + 3 : m->code + op[2]; continue;
        case JUMP: op = m->code + op[1]; continue;
        case KEEP:
            if (m->depth && !push(m, RESTORE, op[1], m->slots[op[1]], p)) goto odd;
            op += 2;
            continue;
        case SAVE: /* with nothing to go back to, nobody asks what the slot held */
            for (const int32_t *slot = op + 2, *stop = slot + 2 * op[1]; slot < stop; slot += 2) {
                if (m->depth && !push(m, RESTORE, *slot, m->slots[*slot], p)) goto odd;
                m->slots[*slot] = p - slot[1];
            }
            op += 2 + 2 * op[1];
            continue;
        case AHEAD: case NOT_AHEAD: case BEHIND: case NOT_BEHIND: {
            Text end = p - m->low < op[2] ? NULL : run(m, (int32_t)(op - m->code) + 3, p - op[2]);
            if (m->odd) goto odd;
            if ((end != NULL) != (*op == AHEAD || *op == BEHIND)) goto fail;
            op = m->code + op[1];
            continue;
        }
        case LINE_START: if (p != m->low) goto fail; op++; continue;
        case LINE_END: if (p != m->high && *p != '\n') goto fail; op++; continue;
        case EDGE: case NO_EDGE:
            if (((p > m->low && is_word(p[-1])) != (p < m->high && is_word(*p))) != (*op == EDGE)) goto fail;
            op++;
            continue;
        case NOT_NEXT:
            if (p != m->high && m->sets[op[1]][*p]) goto fail;
            op += 2;
            continue;
        case SAME: {
            const int i = known_at(m);
            m->from = p;
            if (m->high - p == m->lengths[i] && !memcmp(p, m->known[i], (size_t)m->lengths[i])) { m->depth = base; return m->high; }
            op++;
            continue;
        }
        default: __builtin_unreachable();
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
            p = last->p, op = m->code + last->pc;
            break;
        }
    }
odd:
    m->odd = 1, m->depth = base;
    return NULL;
}

/* ---------------------------------------------------------------- text to numbers */

enum { DECIMAL, HEXADECIMAL, WORD, DIGITS, TEXT }; /* as expressions.py says; TEXT stays text */

/* How a group becomes a number; of a WORD where its words are, each after its length, and how many. */
typedef struct { int32_t conversion, words, count; } Column;

/* The next n characters (1 to 8) in a word, the last one in its highest byte, zeros before the first.  No byte from
 * limit on is read. */
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

#endif
