/* Replays of memory allocators: what tests/support/plain_allocator.py does in the plainest way.

   A replay is a state that Python holds in a capsule and lets go on by some operations at a time, without the interpreter lock.  It
   stops early where there was much to look at one by one, as an allocator itself does it: what is not mapped of expandable chunks,
   groups, the ages of idle chunks.  All else is in trees.  The columns that it reads and writes belong to Python.  Of its own it has 4 bytes an
   operation, 40 a block, 56 a chunk, some 100 in each tree for each of these, and the changes of the last call.  What numbers mean: allocators/models.py.  */

#include "_columns.h"
#include "_ordered.h"

/* --- what is given ---------------------------------------------------------------------------------------------------- */

enum { REQUEST, FREE, TRIM, FAILED }; /* a request that failed as recorded, too */
enum { TAKEN, GIVEN_BACK, MAPPED, UNMAPPED };
enum { KEPT, AFTER_FREE, BEFORE_GROWTH };
enum { CREATION, SIZE };
enum { ENOUGH, FAMILY, ALL };
enum { RECORDED, ASCENDING, DESCENDING, REUSE, SHUFFLED };
enum { TILE_FREE = -1, TILE_UNMAPPED = -2 };

/* Columns, in the order in which they are given; the last ones are written where there is a trace. */
#define ALL_COLUMNS(X)                                                                                                         \
    X(int8_t, operation, 0) X(int64_t, of, 0) X(int32_t, group_of, 0) X(int64_t, need, 0) X(int64_t, growth, 0)                \
    X(int32_t, family, 0) X(int64_t, min_remainder, 0) X(int64_t, split_below, 0) X(int64_t, page, 0)    \
    X(uint8_t, keeps, 0) X(uint8_t, collected, 0) X(uint64_t, chunk_base, 0) X(int64_t, chunk_size, 0)                         \
    X(int32_t, chunk_group, 0) X(int64_t, chunk_page, 0) X(int64_t, tile_chunk, 0) X(uint64_t, tile_addr, 0)                   \
    X(int64_t, tile_size, 0) X(int64_t, tile_use, 0) X(int32_t, first_group, 0) X(int64_t, first_size, 0)                      \
    X(uint8_t, relief, 0) X(uint64_t, recorded, 0) X(int64_t, number, 0) X(uint64_t, word, 0) X(uint64_t, address, 1)          \
    X(int64_t, occupied, 1)
#define INDEX(type, name, written) OF_##name,
#define WANTED(type, name, written) {#name, sizeof(type), written},
#define POINTER(type, name, written) type *name;
#define POINT(type, name, written) s->name = s->columns[OF_##name].view.buf;
#define ITEMS(name) s->columns[OF_##name].items
enum { ALL_COLUMNS(INDEX) COLUMNS };
static const wanted given[COLUMNS] = {ALL_COLUMNS(WANTED)};
enum { START, TAKE_HIGH, OLDEST_FIRST, MAX_SPLIT, MAX_ROUNDING, IDLE, SORTING, COLLECT_ABOVE, ALLOWED, RANGE_BYTES, LIMIT, PLACEMENT, TRACE, ALL_NUMBERS };
enum { SEED, LOW, HIGH, ALL_WORDS };

#define NO_LIMIT INT64_MAX
#define MOST (INT64_C(1) << 48) /* bytes of a block, a chunk, a page or a range */
#define MOST_GROUPS (1 << 20)
#define MOST_WORK (1 << 23)
#define STEP 512
#define ANYWHERE (UINT64_C(1) << 62)
#define TRIES 64
#define END (UINT64_C(1) << 63)

/* --- the state -------------------------------------------------------------------------------------------------------- */

typedef struct {
    uint64_t addr;
    int64_t size;
    uint32_t chunk, before, after;
    int32_t group;
    uint8_t used, mapped, expandable;
} block;

typedef struct {
    uint64_t base, number;
    uint64_t origin; /* its base, or where it would begin if the chunks followed each other in the order in which they were taken */
    int64_t size, page, born;
    int32_t group;
} chunk;

typedef struct {
    int64_t at, size;
    uint64_t addr;
    int8_t kind;
} change;

enum { FINE, NO_MEMORY, NO_GROUP, NO_REQUEST, NOT_LIVE, NOT_APART }; /* what went wrong */

typedef struct {
    column columns[COLUMNS];
    ALL_COLUMNS(POINTER)
    PyObject *origin; /* of a fork: the replay whose columns these are */
    int64_t operations, limit;
    int32_t groups, families;

    pool blocks, chunks, nodes;
    uint32_t *block_of;                     /* of each operation */
    struct {
        tree unused[POWERS], unmapped, idle, loose; /* idle chunks by creation are those of a family, under its first group */
    } *by_group;
    struct {
        int64_t requests;
        int32_t first, expandable; /* its first group; how many expandable chunks */
    } *by_family; /* one more than there are */
    tree held, ranges, starts; /* where chunks lie; what was given back of it, by size and by address */
    uint64_t up, down, drawn, chunks_made, next_origin;
    int64_t next_recorded;

    pool changes;
    int64_t operation_now, refused;
    union { /* what result() gives */
        struct {
            int64_t reserved_peak, reserved_peak_at, reserved, allocated_peak, allocated, first_failed, report[5], at;
            int64_t times[2];     /* memory was taken, and given back */
            uint64_t bytes[2][2]; /* of it: low and high word */
        };
        int64_t figures[18];
    };
    int64_t work; /* what was looked at one by one since Python was asked for an interrupt */
    int fault, ended, busy, prepared;
} state;

static inline block *b_(const state *s, uint32_t number) { return (block *)s->blocks.items + number; }
static inline chunk *c_(const state *s, const block *b) { return (chunk *)s->chunks.items + b->chunk; }

/* What the longest step needs of blocks, chunks and nodes, to be had before it begins. */
static inline int ready(state *s) {
    enum { BLOCKS = 16, CHUNKS = 16, PUTS = 12 };
    if ((s->blocks.spare < BLOCKS && pool_grow(&s->blocks, BLOCKS)) || (s->chunks.spare < CHUNKS && pool_grow(&s->chunks, CHUNKS)) ||
        (s->nodes.spare < PUTS * NODES_OF_A_PUT && pool_grow(&s->nodes, PUTS * NODES_OF_A_PUT)))
        s->fault = NO_MEMORY;
    return s->fault;
}

static void note(state *s, int8_t kind, uint64_t addr, int64_t size) {
    if (!s->number[TRACE])
        return;
    if (pool_grow(&s->changes, 1))
        s->fault = NO_MEMORY;
    else
        ((change *)s->changes.items)[pool_take(&s->changes)] = (change){s->operation_now, size, addr, kind};
}

/* Memory taken from the device, or given back to it. */
static void count(state *s, int8_t kind, uint64_t addr, int64_t size) {
    const int back = kind == GIVEN_BACK || kind == UNMAPPED;
    s->times[back]++;
    s->bytes[back][0] += (uint64_t)size;
    s->bytes[back][1] += s->bytes[back][0] < (uint64_t)size;
    s->reserved += back ? -size : size;
    if (s->reserved > s->reserved_peak) {
        s->reserved_peak = s->reserved;
        s->reserved_peak_at = s->operation_now;
    }
    note(s, kind, addr, size);
}

/* --- where chunks lie ------------------------------------------------------------------------------------------------- */

static inline int looks_around(const state *s) { return s->number[PLACEMENT] == RECORDED || s->number[PLACEMENT] == SHUFFLED; }

static inline uint64_t up_to(uint64_t number, uint64_t step) { return (number + step - 1) / step * step; }

/* Two of a kind at one place are chunks that overlap: nothing can be told apart by its address then. */
static void add_to(state *s, tree *t, uint64_t a, uint64_t b, uint32_t value) {
    if (!tree_put(&s->nodes, t, a, b, value) && !s->fault)
        s->fault = NOT_APART;
}

static int vacant(const state *s, uint64_t base, uint64_t size) {
    return entry_before(&s->nodes, &s->held, base, 0)->b <= base && base + size <= entry_from(&s->nodes, &s->held, base, 0)->a;
}

static void vacate(state *s, uint64_t base, uint64_t size) {
    add_to(s, &s->ranges, size, base, 0);
    add_to(s, &s->starts, base, size, 0);
}

static void no_longer_vacant(state *s, uint64_t base, uint64_t size) {
    tree_pull(&s->nodes, &s->ranges, size, base);
    tree_pull(&s->nodes, &s->starts, base, size);
}

static int reused(state *s, uint64_t size, uint64_t *base) {
    uint64_t whole = up_to(size, STEP);
    const entry found = *entry_from(&s->nodes, &s->ranges, whole, 0);
    if (found.a == NOTHING.a)
        return 0;
    *base = found.b;
    no_longer_vacant(s, found.b, found.a);
    if (found.a > whole)
        vacate(s, found.b + whole, found.a - whole);
    return 1;
}

static uint64_t mixed(uint64_t word) {
    word = (word ^ word >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    word = (word ^ word >> 27) * UINT64_C(0x94D049BB133111EB);
    return word ^ word >> 31;
}

static int chosen(state *s, uint64_t size, uint64_t *base) {
    switch (s->number[PLACEMENT]) {
    case RECORDED:
        if (s->next_recorded >= ITEMS(recorded))
            return 0;
        *base = s->recorded[s->next_recorded];
        if (!*base || *base >= ANYWHERE || !vacant(s, *base, size))
            return 0;
        if (s->up < *base + size) /* it may be larger than the one recorded there */
            s->up = up_to(*base + size, STEP);
        return 1;
    case DESCENDING:
        if (s->down < size + STEP)
            return 0;
        *base = s->down = (s->down - size) / STEP * STEP;
        return 1;
    case REUSE:
        return reused(s, size, base);
    case SHUFFLED:
        for (int i = 0; i < TRIES; i++) {
            *base = mixed(s->word[SEED] + ++s->drawn * UINT64_C(0x9E3779B97F4A7C15)) % (ANYWHERE / STEP) * STEP;
            if (*base && vacant(s, *base, size))
                return 1;
        }
        return 0;
    default:
        return 0;
    }
}

static int range(state *s, int64_t size, uint64_t *base) {
    if (!chosen(s, (uint64_t)size, base)) {
        if (s->up > END - STEP - (uint64_t)size)
            return 0;
        *base = s->up;
        s->up = up_to(*base + (uint64_t)size, STEP);
    }
    if (looks_around(s))
        add_to(s, &s->held, *base, *base + (uint64_t)size, 0);
    return 1;
}

static void addresses_given_back(state *s, uint64_t base, uint64_t size) {
    if (looks_around(s))
        tree_pull(&s->nodes, &s->held, base, base + size);
    if (s->number[PLACEMENT] != REUSE)
        return;
    size = up_to(size, STEP);
    const entry next = *entry_from(&s->nodes, &s->starts, base, 0), last = *entry_before(&s->nodes, &s->starts, base, 0);
    if (next.a == base + size) {
        no_longer_vacant(s, next.a, next.b);
        size += next.b;
    }
    if (last.a + last.b == base) {
        no_longer_vacant(s, last.a, last.b);
        base = last.a;
        size += last.b;
    }
    vacate(s, base, size);
}

/* --- what is free ----------------------------------------------------------------------------------------------------- */

static uint32_t new_block(state *s, uint32_t of, uint64_t addr, int64_t size, int used, int mapped) {
    uint32_t number = pool_take(&s->blocks);
    const chunk *c = (chunk *)s->chunks.items + of;
    *b_(s, number) = (block){addr, size, of, NONE, NONE, c->group, (uint8_t)used, (uint8_t)mapped, c->page > 0};
    return number;
}

static uint32_t new_chunk(state *s, uint64_t base, int64_t size, int32_t group, int64_t page) {
    uint32_t number = pool_take(&s->chunks);
    uint64_t origin = s->number[OLDEST_FIRST] ? s->next_origin : base;
    s->next_origin += (uint64_t)size;
    ((chunk *)s->chunks.items)[number] = (chunk){base, s->chunks_made++, origin, size, page, 0, group};
    if (page)
        s->by_family[s->family[group]].expandable++;
    return number;
}

static void follow(state *s, uint32_t number, uint32_t before, uint32_t after) {
    b_(s, number)->before = before;
    b_(s, number)->after = after;
    if (before != NONE)
        b_(s, before)->after = number;
    if (after != NONE)
        b_(s, after)->before = number;
}

/* What decides between blocks of one size. */
static inline uint64_t tie(const state *s, const block *b) {
    return s->number[OLDEST_FIRST] ? b->addr - c_(s, b)->base + c_(s, b)->origin : b->addr;
}

/* A whole chunk that can be given back. */
static inline int is_idle(const block *b) { return (b->before & b->after) == NONE && !b->expandable; }

/* A free block of an expandable chunk that has whole pages: where the first begins and the last ends, from the chunk's base. */
static inline int has_pages(const block *b, const chunk *c, uint64_t *first, uint64_t *last) {
    uint64_t ahead = b->addr - c->base, page = (uint64_t)c->page;
    if (!page)
        return 0;
    *first = up_to(ahead, page);
    *last = (ahead + (uint64_t)b->size) / page * page;
    return *first < *last;
}

/* The tree of idle chunks, or of what can be unmapped, that a free block is in; NULL: none. */
static inline tree *spare_of(state *s, const block *b, uint64_t *a, uint64_t *other) {
    uint64_t first, last;
    *a = (uint64_t)b->size;
    *other = tie(s, b);
    if (s->keeps[b->group])
        return NULL;
    if (is_idle(b)) {
        if (s->number[SORTING] == SIZE)
            return &s->by_group[b->group].idle;
        *a = c_(s, b)->number;
        *other = 0;
        return &s->by_group[s->by_family[s->family[b->group]].first].idle;
    }
    return b->expandable && has_pages(b, c_(s, b), &first, &last) ? &s->by_group[b->group].loose : NULL;
}

static void put(state *s, uint32_t number) {
    block *b = b_(s, number);
    uint64_t a, other;
    b->used = 0;
    add_to(s, s->by_group[b->group].unused + power_of((uint64_t)b->size), ~(uint64_t)b->size, ~tie(s, b), number);
    tree *spare = spare_of(s, b, &a, &other);
    if (spare) {
        c_(s, b)->born = s->by_family[s->family[b->group]].requests;
        add_to(s, spare, a, other, number);
    }
}

/* Of the trees beside that of free blocks. */
static void pull_spare(state *s, const block *b) {
    uint64_t a, other;
    tree *spare = spare_of(s, b, &a, &other);
    if (spare)
        tree_pull(&s->nodes, spare, a, other);
}

static void pull(state *s, uint32_t number) {
    const block *b = b_(s, number);
    tree_pull(&s->nodes, s->by_group[b->group].unused + power_of((uint64_t)b->size), ~(uint64_t)b->size, ~tie(s, b));
    pull_spare(s, b);
}

static void put_unmapped(state *s, uint32_t number) {
    block *b = b_(s, number);
    b->used = b->mapped = 0;
    add_to(s, &s->by_group[b->group].unmapped, b->addr, 0, number);
}

static void pull_unmapped(state *s, uint32_t number) {
    const block *b = b_(s, number);
    tree_pull(&s->nodes, &s->by_group[b->group].unmapped, b->addr, 0);
}

/* Join a block with those around it that are free and mapped, or not mapped, like it. */
static void merge(state *s, uint32_t number) {
    block *b = b_(s, number);
    const uint32_t around[] = {b->before, b->after};
    for (int i = 0; i < 2; i++) {
        const uint32_t other = around[i];
        const block *o = other == NONE ? NULL : b_(s, other);
        if (!o || o->used || o->mapped != b->mapped)
            continue;
        if (o->mapped)
            pull(s, other);
        else
            pull_unmapped(s, other);
        if (i == 0) {
            b->addr = o->addr;
            follow(s, number, o->before, b->after);
        } else {
            follow(s, number, b->before, o->after);
        }
        b->size += o->size;
        pool_return(&s->blocks, other);
    }
}

/* Cut so many bytes off a block, at its end or its beginning: the number of what is cut off, which is free. */
static uint32_t cut_off(state *s, uint32_t number, int64_t size, int beginning) {
    block *b = b_(s, number);
    b->size -= size;
    const uint32_t other = new_block(s, b->chunk, b->addr + (beginning ? 0 : (uint64_t)b->size), size, 0, b->mapped);
    if (beginning) {
        b->addr += (uint64_t)size;
        follow(s, other, b->before, number);
    } else {
        follow(s, other, number, b->after);
    }
    return other;
}

/* --- giving back ------------------------------------------------------------------------------------------------------ */

/* A block that fills its chunk goes, and the chunk with it. */
static void drop_chunk(state *s, uint32_t number) {
    const block *b = b_(s, number);
    const uint64_t base = b->addr, size = (uint64_t)b->size;
    pool_return(&s->chunks, b->chunk);
    pool_return(&s->blocks, number);
    addresses_given_back(s, base, size);
}

static void release_chunk(state *s, uint32_t number) {
    const uint64_t base = b_(s, number)->addr;
    const int64_t size = b_(s, number)->size;
    pull(s, number);
    drop_chunk(s, number);
    count(s, GIVEN_BACK, base, size);
}

static void unmap(state *s, uint32_t number) {
    block *b = b_(s, number);
    const chunk *c = c_(s, b);
    uint64_t first, last, ahead = b->addr - c->base, end = ahead + (uint64_t)b->size;
    if (!has_pages(b, c, &first, &last))
        return;
    pull(s, number);
    if (first > ahead)
        put(s, cut_off(s, number, (int64_t)(first - ahead), 1));
    if (end > last)
        put(s, cut_off(s, number, (int64_t)(end - last), 0));
    b->mapped = 0;
    merge(s, number);
    put_unmapped(s, number);
    count(s, UNMAPPED, c->base + first, (int64_t)(last - first));
    if (b->before == NONE && b->after == NONE) {
        pull_unmapped(s, number);
        s->by_family[s->family[b->group]].expandable--;
        drop_chunk(s, number);
    }
}

static void release_all(state *s, tree *idle) {
    while (idle->count && !ready(s))
        release_chunk(s, entry_from(&s->nodes, idle, 0, 0)->value);
}

static void give_back(state *s, int32_t family) {
    s->work += s->by_family[family + 1].first - s->by_family[family].first + 1;
    if (s->number[SORTING] == CREATION)
        release_all(s, &s->by_group[s->by_family[family].first].idle);
    else
        for (int32_t group = s->by_family[family].first; group < s->by_family[family + 1].first; group++)
            release_all(s, &s->by_group[group].idle);
    if (!s->by_family[family].expandable)
        return;
    /* What is left of a block has no whole page, so that each is looked at once. */
    for (int32_t group = s->by_family[family].first; group < s->by_family[family + 1].first; group++)
        while (s->by_group[group].loose.count && !ready(s))
            unmap(s, entry_from(&s->nodes, &s->by_group[group].loose, 0, 0)->value);
}

static void give_back_all(state *s) {
    for (int32_t family = 0; family < s->families && !s->fault; family++)
        give_back(s, family);
}

static int give_back_enough(state *s, int32_t group, int64_t size) {
    int64_t most = s->number[MAX_SPLIT], total = 0;
    if (most == NO_LIMIT)
        return 0;
    if (size < most)
        size = most;
    uint32_t number = entry_at(size_from(&s->nodes, s->by_group[group].unused, (uint64_t)size))->value;
    if (number != NONE && is_idle(b_(s, number))) {
        release_chunk(s, number);
        return 1;
    }
    /* The largest below it; a release moves entries, so that the next one is found by what it is below. */
    uint64_t size_above = (uint64_t)size, tie_above = 0;
    while (total < size && !ready(s)) {
        number = size_before(&s->nodes, s->by_group[group].unused, size_above, tie_above)->value;
        s->work++;
        if (number == NONE || b_(s, number)->size < most)
            break;
        const block *b = b_(s, number);
        size_above = (uint64_t)b->size;
        tie_above = tie(s, b);
        if (is_idle(b)) {
            total += b->size;
            release_chunk(s, number);
        }
    }
    return total >= size;
}

typedef struct {
    int64_t age;
    uint32_t number;
} aged;

static void collect(state *s) {
    int64_t excess = s->reserved - s->number[COLLECT_ABOVE], ages = 0;
    uint64_t room = 0;
    size_t count = 0;
    if (excess <= 0)
        return;
    s->work += s->groups;
    for (int32_t group = 0; group < s->groups; group++)
        room += s->by_group[group].idle.count;
    aged *idle = room ? malloc(room * sizeof *idle) : NULL;
    if (!idle) {
        s->fault = room ? NO_MEMORY : s->fault;
        return;
    }
    for (int32_t group = 0; group < s->groups; group++)
        for (place at = tree_from(&s->nodes, &s->by_group[group].idle, 0, 0); at.leaf; at = tree_next(&s->nodes, at)) {
            uint32_t number = entry_at(at)->value;
            const block *b = b_(s, number);
            s->work++;
            if (!s->collected[b->group])
                continue;
            idle[count] = (aged){s->by_family[s->family[b->group]].requests - c_(s, b)->born, number};
            ages += idle[count++].age;
        }
    for (int freed = 1; excess > 0 && freed && count;) {
        /* The mean of a round is that of its beginning. */
        double mean = (double)ages / (double)count;
        size_t younger = 0;
        freed = 0;
        for (size_t i = 0; i < count && !ready(s); i++) {
            if ((double)idle[i].age < mean) {
                idle[younger++] = idle[i];
                continue;
            }
            freed = 1;
            excess -= b_(s, idle[i].number)->size;
            ages -= idle[i].age;
            release_chunk(s, idle[i].number);
        }
        count = younger;
    }
    free(idle);
}

/* --- growth ----------------------------------------------------------------------------------------------------------- */

static uint32_t room_for(state *s, int32_t group, int64_t size) {
    for (place at = tree_from(&s->nodes, &s->by_group[group].unmapped, 0, 0); at.leaf; at = tree_next(&s->nodes, at)) {
        uint32_t first = entry_at(at)->value, before = b_(s, first)->before;
        int64_t room = 0;
        s->work++;
        if (before != NONE && !b_(s, before)->used)
            first = before;
        for (uint32_t part = first; room < size && part != NONE && !b_(s, part)->used; part = b_(s, part)->after) {
            room += b_(s, part)->size;
            s->work++;
        }
        if (room >= size)
            return first;
    }
    uint64_t page = (uint64_t)s->page[group], base;
    int64_t whole = (int64_t)up_to((uint64_t)s->number[RANGE_BYTES], page);
    if (whole < size || !range(s, whole, &base))
        return NONE;
    uint32_t number = new_block(s, new_chunk(s, base, whole, group, (int64_t)page), base, whole, 0, 0);
    put_unmapped(s, number);
    return number;
}

static int map(state *s, uint32_t number, int64_t size) {
    block *b = b_(s, number);
    chunk *c = c_(s, b);
    uint64_t ahead = b->addr - c->base, base = b->addr;
    int64_t most = (int64_t)(up_to(ahead + (uint64_t)size, (uint64_t)c->page) - ahead);
    size = most < b->size ? most : b->size;
    if (size > s->limit - s->reserved) {
        s->refused = size;
        return 0;
    }
    pull_unmapped(s, number);
    b->mapped = 1;
    if (b->size > size)
        put_unmapped(s, cut_off(s, number, b->size - size, 0));
    merge(s, number);
    put(s, number);
    s->next_recorded++;
    count(s, MAPPED, base, size);
    return 1;
}

static uint32_t expanded(state *s, int32_t group, int64_t size) {
    uint32_t number = room_for(s, group, size);
    if (number == NONE)
        return NONE;
    if (!b_(s, number)->mapped && !map(s, number, b_(s, number)->size < size ? b_(s, number)->size : size))
        return NONE;
    while (b_(s, number)->size < size) {
        uint32_t after = b_(s, number)->after;
        int64_t missing = size - b_(s, number)->size;
        if (after == NONE || b_(s, after)->mapped || ready(s) ||
            !map(s, after, missing < b_(s, after)->size ? missing : b_(s, after)->size))
            return NONE;
        number = after;
    }
    pull(s, number);
    return number;
}

static uint32_t take_memory(state *s, int32_t group, int64_t size, int64_t growth) {
    uint64_t base;
    s->refused = growth;
    if (ready(s) || growth > s->number[ALLOWED] - s->reserved)
        return NONE;
    if (s->page[group])
        return expanded(s, group, size);
    if (growth > s->limit - s->reserved || !range(s, growth, &base))
        return NONE;
    s->next_recorded++;
    count(s, TAKEN, base, growth);
    return new_block(s, new_chunk(s, base, growth, group, 0), base, growth, 0, 1);
}

static uint32_t grown(state *s, int32_t group, int64_t size, int64_t growth) {
    if (s->number[IDLE] == BEFORE_GROWTH)
        give_back(s, s->family[group]);
    if (s->number[COLLECT_ABOVE] >= 0)
        collect(s);
    uint32_t number = take_memory(s, group, size, growth);
    for (Py_ssize_t i = 0; number == NONE && !s->fault && i < ITEMS(relief); i++) {
        if (s->relief[i] == ENOUGH) {
            if (!give_back_enough(s, group, size))
                continue;
        } else if (s->relief[i] == FAMILY) {
            give_back(s, s->family[group]);
        } else {
            give_back_all(s);
        }
        number = take_memory(s, group, size, growth);
    }
    return number;
}

/* --- a request and a free --------------------------------------------------------------------------------------------- */

/* Bytes that a block has or could have, if what follows it were mapped. */
static int64_t reach(const state *s, const block *b) {
    return b->size + (b->after != NONE && !b_(s, b->after)->mapped ? b_(s, b->after)->size : 0);
}

static uint32_t fitting(state *s, int32_t group, int64_t size) {
    tree *unused = s->by_group[group].unused;
    int64_t most = s->number[MAX_SPLIT];
    if (s->number[COLLECT_ABOVE] >= 0)
        s->by_family[s->family[group]].requests++;
    place at = size_from(&s->nodes, unused, (uint64_t)size), found = at;
    if (!at.leaf)
        return NONE;
    uint32_t number = entry_at(at)->value;
    /* What can expand counts as large as it can become; where chunks cannot any more, those that could before are passed over. */
    const int expands = b_(s, number)->expandable && s->page[group];
    while (b_(s, number)->expandable) {
        at = size_next(&s->nodes, unused, at);
        s->work++;
        if (!at.leaf && !expands)
            return NONE;
        if (!at.leaf || (expands && reach(s, b_(s, entry_at(at)->value)) >= reach(s, b_(s, number))))
            break;
        number = entry_at(found = at)->value;
    }
    int64_t has = b_(s, number)->size;
    if (size < most ? most != NO_LIMIT && has >= most : has >= size + s->number[MAX_ROUNDING])
        return NONE;
    tree_cut(&s->nodes, unused + power_of((uint64_t)has), found);
    pull_spare(s, b_(s, number));
    return number;
}

static uint32_t request(state *s, int32_t group, int64_t size, int64_t growth) {
    uint32_t number = fitting(s, group, size);
    if (number == NONE)
        number = grown(s, group, size, growth);
    if (number == NONE || s->fault)
        return NONE;
    block *b = b_(s, number);
    int64_t rest = b->size - size;
    b->used = 1;
    if (rest >= s->min_remainder[group] && size < s->split_below[group])
        put(s, cut_off(s, number, rest, s->number[TAKE_HIGH] != 0));
    s->allocated += b->size;
    if (s->allocated > s->allocated_peak)
        s->allocated_peak = s->allocated;
    return number;
}

static void give(state *s, uint32_t number) {
    block *b = b_(s, number);
    s->allocated -= b->size;
    merge(s, number);
    put(s, number);
    if (s->number[IDLE] == AFTER_FREE)
        give_back(s, s->family[b->group]);
}

/* --- a replay --------------------------------------------------------------------------------------------------------- */

static void fail(state *s, int32_t group, int64_t size) {
    const entry *last = size_before(&s->nodes, s->by_group[group].unused, UINT64_MAX, UINT64_MAX);
    if (s->first_failed < 0) {
        s->first_failed = s->at;
        const int64_t free = s->reserved - s->allocated, largest = last == &NOTHING ? 0 : (int64_t)~last->a;
        memcpy(s->report, (int64_t[]){size, s->refused, s->reserved, free, largest}, sizeof s->report);
    }
    if (!s->prepared || s->operation[s->at] != FAILED)
        s->ended = 1;
}

/* The block that a request got. */
static inline void placed(state *s, int64_t at, uint32_t number) {
    s->block_of[at] = number;
    if (s->number[TRACE]) {
        s->address[at] = b_(s, number)->addr;
        s->occupied[at] = b_(s, number)->size;
    }
}

static inline void step(state *s) {
    const int64_t at = s->at;
    const int8_t operation = s->operation[at];
    if (ready(s))
        return;
    s->operation_now = at;
    if (operation == FREE) {
        const int64_t of = s->of[at];
        const int8_t freed = of < 0 || of >= at ? TRIM : s->operation[of];
        const uint32_t number = of < 0 || of >= at ? NONE : s->block_of[of];
        if (number != NONE) {
            s->block_of[of] = NONE;
            give(s, number);
        } else if (freed != FAILED) {
            s->fault = freed == REQUEST ? NOT_LIVE : NO_REQUEST;
        }
    } else if (operation == REQUEST || operation == FAILED) {
        int32_t group = s->group_of[at];
        int64_t size = s->need[at], growth = s->growth[at];
        if ((uint32_t)group >= (uint32_t)s->groups || size < 1 || size > MOST || growth > MOST || growth < (s->page[group] ? 0 : size)) {
            s->fault = NO_GROUP;
            return;
        }
        uint32_t number = s->prepared ? request(s, group, size, growth) : NONE;
        if (number != NONE)
            placed(s, at, number);
        else if (!s->fault)
            fail(s, group, size);
    } else {
        give_back_all(s);
    }
    s->at = at + !s->fault;
}

/* Begin with the chunks of the opening, and with those taken when the allocator is made. */
static void begin(state *s) {
    const int64_t *use = s->tile_use;
    const Py_ssize_t chunks = ITEMS(chunk_base), tiles = ITEMS(tile_chunk);
    uint32_t *numbers = malloc((size_t)(chunks + tiles + 1) * sizeof *numbers), *made;
    if (!numbers || (uint64_t)(chunks + tiles) > UINT32_MAX / 2 || pool_grow(&s->chunks, (uint32_t)chunks + 1) ||
        pool_grow(&s->blocks, (uint32_t)tiles + 1)) {
        s->fault = NO_MEMORY;
        free(numbers);
        return;
    }
    made = numbers + chunks;
    for (Py_ssize_t i = 0; i < chunks && !ready(s); i++) {
        numbers[i] = new_chunk(s, s->chunk_base[i], s->chunk_size[i], s->chunk_group[i], s->chunk_page[i]);
        if (looks_around(s))
            add_to(s, &s->held, s->chunk_base[i], s->chunk_base[i] + (uint64_t)s->chunk_size[i], 0);
    }
    for (Py_ssize_t i = 0; i < tiles && !s->fault; i++) {
        made[i] = new_block(s, numbers[s->tile_chunk[i]], s->tile_addr[i], s->tile_size[i], 1, use[i] != TILE_UNMAPPED);
        if (i && s->tile_chunk[i - 1] == s->tile_chunk[i])
            follow(s, made[i], made[i - 1], NONE);
        if (use[i] >= 0) {
            s->allocated += s->tile_size[i];
            placed(s, use[i], made[i]);
        }
        if (use[i] != TILE_UNMAPPED)
            s->reserved += s->tile_size[i];
    }
    /* Only now is it known which blocks fill a chunk. */
    for (Py_ssize_t i = 0; i < tiles && !ready(s); i++) {
        if (use[i] == TILE_FREE)
            put(s, made[i]);
        else if (use[i] == TILE_UNMAPPED)
            put_unmapped(s, made[i]);
    }
    free(numbers);
    s->reserved_peak = s->reserved;
    s->allocated_peak = s->allocated;
    for (Py_ssize_t i = 0; i < ITEMS(first_group) && !s->fault && s->prepared; i++) {
        uint32_t number = take_memory(s, s->first_group[i], s->first_size[i], s->first_size[i]);
        if (number == NONE)
            s->prepared = 0;
        else
            put(s, number);
    }
}

/* --- what Python calls ------------------------------------------------------------------------------------------------ */

static const char capsule_name[] = "memlens._replay.state";

static void close_state(state *s) {
    pool_close(&s->blocks);
    pool_close(&s->chunks);
    pool_close(&s->nodes);
    free(s->block_of);
    pool_close(&s->changes);
    free(s->by_group);
    free(s->by_family);
    if (!s->origin)
        release(s->columns, COLUMNS);
    Py_XDECREF(s->origin);
    free(s);
}

static void destroy(PyObject *capsule) {
    close_state(PyCapsule_GetPointer(capsule, capsule_name));
}

/* What is needed of the columns, NULL where they have it. */
static const char *wrong(const state *s) {
    const int64_t n = ITEMS(operation), groups = ITEMS(family), chunks = ITEMS(chunk_base), tiles = ITEMS(tile_chunk);
    const int64_t *number = s->number, *page = s->page, *chunk_of = s->tile_chunk;
    int64_t all = 0;
    static const int alike[][2] = {{OF_operation, OF_growth}, {OF_family, OF_collected}, {OF_chunk_base, OF_chunk_page},
                                   {OF_tile_chunk, OF_tile_use}, {OF_first_group, OF_first_size}};
    for (int k = 0; k < 5; k++)
        for (int i = alike[k][0]; i <= alike[k][1]; i++)
            if (s->columns[i].items != s->columns[alike[k][0]].items)
                return "columns of one length, for each operation, for each group, for each chunk, for each tile";
    if (ITEMS(number) != ALL_NUMBERS || ITEMS(word) != ALL_WORDS)
        return "all numbers";
    if (number[TRACE] && (ITEMS(address) != n || ITEMS(occupied) != n))
        return "columns for what is traced";
    if (number[START] < 0 || number[START] > n || number[RANGE_BYTES] < 0 || number[RANGE_BYTES] > MOST ||
        number[MAX_ROUNDING] < 0 || number[MAX_ROUNDING] > MOST || number[MAX_SPLIT] < 1 || number[ALLOWED] < 0 ||
        number[LIMIT] < 0 || number[SORTING] < CREATION || number[SORTING] > SIZE || groups > MOST_GROUPS)
        return "numbers that can be";
    for (int64_t i = 0; i < groups; i++)
        if (s->family[i] < (i ? s->family[i - 1] : 0) || s->family[i] > MOST_GROUPS || s->min_remainder[i] < 1 || page[i] < 0 || page[i] > MOST)
            return "groups that can be";
    for (int64_t i = 0; i < chunks; i++)
        if (s->chunk_group[i] < 0 || s->chunk_group[i] >= groups || s->chunk_size[i] < 1 || s->chunk_size[i] > 2 * MOST ||
            s->chunk_page[i] < 0 || s->chunk_page[i] > MOST || s->chunk_base[i] > ANYWHERE || (all += s->chunk_size[i]) > (int64_t)ANYWHERE)
            return "chunks that can be";
    for (int64_t i = 0, of; i < tiles; i++)
        if ((of = chunk_of[i]) < (i ? chunk_of[i - 1] : 0) || of >= chunks || s->tile_size[i] < 1 || s->tile_size[i] > s->chunk_size[of] ||
            s->tile_use[i] < (s->chunk_page[of] ? TILE_UNMAPPED : TILE_FREE) || s->tile_use[i] >= n || s->tile_addr[i] < s->chunk_base[of] ||
            s->tile_addr[i] - s->chunk_base[of] > (uint64_t)(s->chunk_size[of] - s->tile_size[i]) ||
            (i && of == chunk_of[i - 1] && s->tile_addr[i] < s->tile_addr[i - 1] + (uint64_t)s->tile_size[i - 1]))
            return "tiles that can be";
    for (Py_ssize_t i = 0; i < ITEMS(first_group); i++)
        if (s->first_group[i] < 0 || s->first_group[i] >= groups || s->first_size[i] < 1 || s->first_size[i] > MOST)
            return "preallocated chunks that can be";
    return NULL;
}

static int open_state(state *s) {
    s->operations = ITEMS(operation);
    s->groups = (int32_t)ITEMS(family);
    s->families = s->groups ? s->family[s->groups - 1] + 1 : 0;
    s->at = s->number[START];
    s->limit = s->number[LIMIT];
    s->operation_now = s->reserved_peak_at = s->first_failed = -1;
    s->prepared = 1;
    const int32_t families = s->families;
    s->block_of = malloc(((size_t)s->operations + 1) * sizeof *s->block_of);
    s->by_group = calloc((size_t)s->groups + 1, sizeof *s->by_group);
    s->by_family = calloc((size_t)families + 1, sizeof *s->by_family);
    if (!s->block_of || !s->by_group || !s->by_family)
        return -1;
    memset(s->block_of, 0xff, (size_t)s->operations * sizeof *s->block_of);
    for (int32_t family = 0, group = 0; family <= families; family++) {
        while (group < s->groups && s->family[group] < family)
            group++;
        s->by_family[family].first = group;
    }
    s->up = up_to(s->word[HIGH], STEP);
    if (s->number[PLACEMENT] == SHUFFLED && s->up < ANYWHERE)
        s->up = ANYWHERE;
    s->down = ITEMS(chunk_base) ? s->word[LOW] : ANYWHERE;
    return 0;
}

static PyObject *start(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *capsule = NULL;
    state *s = calloc(1, sizeof *s);
    if (!s)
        return PyErr_NoMemory();
    pool_open(&s->blocks, sizeof(block));
    pool_open(&s->chunks, sizeof(chunk));
    pool_open(&s->nodes, sizeof(node));
    pool_open(&s->changes, sizeof(change));
    if (!take(args, s->columns, given, COLUMNS, "start")) {
        ALL_COLUMNS(POINT)
        const char *needed = wrong(s);
        if (needed)
            PyErr_Format(PyExc_ValueError, "start: needed are %s", needed);
        else if (open_state(s))
            PyErr_NoMemory();
        else
            capsule = PyCapsule_New(s, capsule_name, destroy);
    }
    if (!capsule) {
        close_state(s);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    begin(s);
    Py_END_ALLOW_THREADS
    if (s->fault) {
        s->fault == NO_MEMORY ? PyErr_NoMemory() : PyErr_Format(PyExc_ValueError, "start: chunks overlap");
        Py_DecRef(capsule);
        return NULL;
    }
    return capsule;
}

/* For PyArg_ParseTuple: the state in a capsule, if no other thread is at work on it. */
static int state_of(PyObject *capsule, void *into) {
    state *s = *(state **)into = PyCapsule_GetPointer(capsule, capsule_name);
    if (s && s->busy)
        PyErr_SetString(PyExc_RuntimeError, "the replay is at work");
    return s && !s->busy;
}

/* Go on by so many operations at most, until the end or until more is reserved: whether something is wrong, whether there is more to do at
   once (1; 2: more is reserved), and the changes since the last call, where there is a trace, as they lie in memory. */
static PyObject *run(PyObject *Py_UNUSED(module), PyObject *args) {
    long long count, until;
    state *s;
    if (!PyArg_ParseTuple(args, "O&LL:run", state_of, &s, &count, &until))
        return NULL;
    s->busy = 1;
    Py_BEGIN_ALLOW_THREADS
    s->work = 0;
    const int64_t stop = count < s->operations - s->at ? s->at + (count > 0 ? count : 0) : s->operations;
    while (s->at < stop && s->work < MOST_WORK && !(s->ended | s->fault) && s->reserved <= until)
        step(s);
    Py_END_ALLOW_THREADS
    s->busy = 0;
    if (s->fault == NO_MEMORY)
        return PyErr_NoMemory();
    int more = s->at < s->operations && !s->ended && !s->fault;
    Py_ssize_t bytes = (Py_ssize_t)(s->changes.used * sizeof(change));
    s->changes.used = 0;
    s->changes.spare = s->changes.room;
    return Py_BuildValue("iiy#", s->fault, more << (s->reserved > until), bytes ? s->changes.items : "", bytes);
}

static void *copy_of(const void *from, size_t bytes) {
    void *to = malloc(bytes + 1);
    if (to && bytes)
        memcpy(to, from, bytes);
    return to;
}

/* A replay that goes on from here under another limit, beside the one that it is copied from; neither is traced. */
static PyObject *fork_of(PyObject *Py_UNUSED(module), PyObject *args) {
    long long limit;
    state *from, *s;
    if (!PyArg_ParseTuple(args, "O&L:fork", state_of, &from, &limit))
        return NULL;
    if (from->number[TRACE] || limit < 0)
        return PyErr_Format(PyExc_ValueError, "fork: no traced replay, and no limit below 0");
    if (!(s = copy_of(from, sizeof *s)))
        return PyErr_NoMemory();
    s->origin = Py_NewRef(PyTuple_GetItem(args, 0));
    s->limit = limit;
    s->block_of = copy_of(from->block_of, (size_t)s->operations * sizeof *s->block_of);
    s->by_group = copy_of(from->by_group, (size_t)s->groups * sizeof *s->by_group);
    s->by_family = copy_of(from->by_family, ((size_t)s->families + 1) * sizeof *s->by_family);
    int fits = s->block_of && s->by_group && s->by_family;
    pool *pools[] = {&s->blocks, &s->chunks, &s->nodes, &s->changes};
    for (int i = 0; i < 4; i++) {
        pools[i]->spare -= pools[i]->room - pools[i]->used;
        pools[i]->room = pools[i]->used;
        pools[i]->items = copy_of(pools[i]->items, pools[i]->used * pools[i]->item);
        fits = fits && pools[i]->items;
    }
    PyObject *made = fits ? PyCapsule_New(s, capsule_name, destroy) : PyErr_NoMemory();
    if (!made)
        close_state(s);
    return made;
}

static PyObject *result(PyObject *Py_UNUSED(module), PyObject *args) {
    state *s;
    if (!PyArg_ParseTuple(args, "O&:result", state_of, &s))
        return NULL;
    return PyBytes_FromStringAndSize((const char *)s->figures, sizeof s->figures);
}

static PyMethodDef methods[] = {
    {"effects", memlens_effects, METH_VARARGS, NULL},
    {"start", start, METH_VARARGS, NULL},
    {"run", run, METH_VARARGS, NULL},
    {"fork", fork_of, METH_VARARGS, NULL},
    {"result", result, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
MODULE(_replay, "memlens._replay")
