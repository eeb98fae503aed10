/* Replays of memory allocators: what tests/support/plain_allocator.py does in the plainest way.

   A replay is a state that Python holds in a capsule and lets go on by some operations at a time, without the interpreter lock.  It
   stops early where there was much to look at one by one, as an allocator itself does it: what is not mapped of expandable chunks,
   groups, the ages of idle chunks.  All else is in trees.  The columns that it reads and writes belong to Python.  Of its own it has four bytes an
   operation, for each block 40 (a chunk: 48) and some 100 at most in each tree that it is in, and of changes those of the last call.
   The framework is not known here: allocators/models.py says what the numbers mean.  */

#include "_columns.h"
#include "_ordered.h"
#include "_sources.h"

/* --- what is given ---------------------------------------------------------------------------------------------------- */

enum { REQUEST, FREE, TRIM };
enum { TAKEN, GIVEN_BACK, MAPPED, UNMAPPED };
enum { KEPT, AFTER_FREE, BEFORE_GROWTH };
enum { CREATION, SIZE };
enum { ENOUGH, FAMILY, ALL };
enum { RECORDED, ASCENDING, DESCENDING, REUSE, SHUFFLED };
enum { TILE_FREE = -1, TILE_UNMAPPED = -2 };

/* Columns, in the order in which they are given. */
enum {
    OPERATION, OF, GROUP, BLOCK, GROWTH, FAILED,
    FAMILY_OF, MIN_REMAINDER, SPLIT_BELOW, PAGE, KEEPS, COLLECTED,
    CHUNK_BASE, CHUNK_SIZE, CHUNK_GROUP, CHUNK_PAGE, TILE_CHUNK, TILE_ADDR, TILE_SIZE, TILE_USE,
    FIRST_GROUP, FIRST_SIZE, RELIEF, PLACES, NUMBERS, WORDS, ADDRESS, OCCUPIED, COLUMNS
};
static const struct { const char *name; int width; } given[COLUMNS] = {
    {"operation", 1}, {"of", 8}, {"group", 4}, {"block", 8}, {"growth", 8}, {"failed", 8},
    {"family", 4}, {"min_remainder", 8}, {"split_below", 8}, {"page", 8}, {"kept", 1}, {"collected", 1},
    {"chunk_base", 8}, {"chunk_size", 8}, {"chunk_group", 4}, {"chunk_page", 8},
    {"tile_chunk", 8}, {"tile_addr", 8}, {"tile_size", 8}, {"tile_use", 8},
    {"first_group", 4}, {"first_size", 8}, {"relief", 1}, {"recorded", 8}, {"numbers", 8}, {"words", 8},
    {"address", 8}, {"occupied", 8},
};
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
    int64_t size, born;
    uint32_t chunk, before, after;
    uint8_t used, mapped;
} block;

typedef struct {
    uint64_t base, number;
    uint64_t origin; /* its base, or where it would begin if the chunks followed each other in the order in which they were taken */
    int64_t size, page;
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
    const int8_t *operation;
    const int64_t *of, *need, *growth, *failed, *min_remainder, *split_below, *page, *first_size, *number;
    const int32_t *group_of, *family;
    const uint8_t *keeps, *collected, *relief;
    const uint64_t *recorded, *word;
    uint64_t *address;
    int64_t *occupied;
    int64_t operations, at, limit;
    int32_t groups, families;

    pool blocks, chunks, nodes;
    uint32_t *block_of;                     /* of each operation */
    tree *unused, *unmapped, *idle, *loose; /* of each group; idle chunks by creation are those of a family, under its first group */
    int32_t *first, *expandable;            /* of each family, its first group; how many expandable chunks */
    int64_t *requests;
    tree held, ranges, starts; /* where chunks lie; what was given back of it, by size and by address */
    uint64_t up, down, drawn, chunks_made, next_origin;
    int64_t next_recorded;

    change *changes;
    size_t changed, room_for_changes;
    int64_t operation_now, reserved, allocated, reserved_peak, reserved_peak_at, allocated_peak, refused, taken, given_back;
    uint64_t taken_bytes[2], given_back_bytes[2]; /* high and low word */
    int64_t first_failed, report[5];
    int64_t work; /* what was looked at one by one since Python was asked for an interrupt */
    int fault, ended, busy, prepared;
} state;

static inline block *b_(const state *s, uint32_t number) { return (block *)s->blocks.items + number; }
static inline chunk *c_(const state *s, const block *b) { return (chunk *)s->chunks.items + b->chunk; }

/* What the longest step needs of blocks, chunks and nodes, to be had before it begins. */
static inline int ready(state *s)
{
    enum { BLOCKS = 16, CHUNKS = 16, PUTS = 12 };
    if ((s->blocks.spare < BLOCKS && pool_grow(&s->blocks, BLOCKS)) || (s->chunks.spare < CHUNKS && pool_grow(&s->chunks, CHUNKS)) ||
        (s->nodes.spare < PUTS * NODES_OF_A_PUT && pool_grow(&s->nodes, PUTS * NODES_OF_A_PUT)))
        s->fault = NO_MEMORY;
    return s->fault;
}

static void note(state *s, int8_t kind, uint64_t addr, int64_t size)
{
    if (!s->number[TRACE])
        return;
    if (s->changed == s->room_for_changes) {
        size_t room = s->room_for_changes ? 2 * s->room_for_changes : 256;
        change *more = realloc(s->changes, room * sizeof *more);
        if (!more) {
            s->fault = NO_MEMORY;
            return;
        }
        s->changes = more;
        s->room_for_changes = room;
    }
    s->changes[s->changed++] = (change){s->operation_now, size, addr, kind};
}

static inline void add(uint64_t sum[2], int64_t size)
{
    sum[1] += (uint64_t)size;
    sum[0] += sum[1] < (uint64_t)size;
}

static void count_taken(state *s, int8_t kind, uint64_t addr, int64_t size)
{
    s->reserved += size;
    s->taken++;
    add(s->taken_bytes, size);
    if (s->reserved > s->reserved_peak) {
        s->reserved_peak = s->reserved;
        s->reserved_peak_at = s->operation_now;
    }
    note(s, kind, addr, size);
}

static void count_given_back(state *s, int8_t kind, uint64_t addr, int64_t size)
{
    s->reserved -= size;
    s->given_back++;
    add(s->given_back_bytes, size);
    note(s, kind, addr, size);
}

/* --- where chunks lie ------------------------------------------------------------------------------------------------- */

static inline int looks_around(const state *s)
{
    return s->number[PLACEMENT] == RECORDED || s->number[PLACEMENT] == SHUFFLED;
}

static inline uint64_t up_to(uint64_t number, uint64_t step) { return (number + step - 1) / step * step; }

/* Two of a kind at one place are chunks that overlap: nothing can be told apart by its address then. */
static void add_to(state *s, tree *t, uint64_t a, uint64_t b, uint32_t value)
{
    if (!tree_put(&s->nodes, t, a, b, value) && !s->fault)
        s->fault = NOT_APART;
}

static int vacant(const state *s, uint64_t base, uint64_t size)
{
    place after = tree_from(&s->nodes, &s->held, base, 0), before = tree_before(&s->nodes, &s->held, after);
    return (before.leaf == NONE || entry_at(&s->nodes, before)->b <= base) &&
           (after.leaf == NONE || base + size <= entry_at(&s->nodes, after)->a);
}

static void vacate(state *s, uint64_t base, uint64_t size)
{
    add_to(s, &s->ranges, size, base, 0);
    add_to(s, &s->starts, base, size, 0);
}

static int reused(state *s, uint64_t size, uint64_t *base)
{
    uint64_t whole = up_to(size, STEP);
    place at = tree_from(&s->nodes, &s->ranges, whole, 0);
    if (at.leaf == NONE)
        return 0;
    const entry *e = entry_at(&s->nodes, at);
    uint64_t length = e->a;
    *base = e->b;
    tree_cut(&s->nodes, &s->ranges, at);
    tree_pull(&s->nodes, &s->starts, *base, length);
    if (length > whole)
        vacate(s, *base + whole, length - whole);
    return 1;
}

static uint64_t mixed(uint64_t word)
{
    word = (word ^ word >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    word = (word ^ word >> 27) * UINT64_C(0x94D049BB133111EB);
    return word ^ word >> 31;
}

static int chosen(state *s, uint64_t size, uint64_t *base)
{
    switch (s->number[PLACEMENT]) {
    case RECORDED:
        if (s->next_recorded >= s->columns[PLACES].items)
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

static int range(state *s, int64_t size, uint64_t *base)
{
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

static void addresses_given_back(state *s, uint64_t base, uint64_t size)
{
    if (looks_around(s))
        tree_pull(&s->nodes, &s->held, base, base + size);
    if (s->number[PLACEMENT] != REUSE)
        return;
    size = up_to(size, STEP);
    place after = tree_from(&s->nodes, &s->starts, base, 0), before = tree_before(&s->nodes, &s->starts, after);
    const entry none = {0, 0, 0};
    const entry next = after.leaf == NONE ? none : *entry_at(&s->nodes, after), last = before.leaf == NONE ? none : *entry_at(&s->nodes, before);
    if (next.b && next.a == base + size) {
        tree_pull(&s->nodes, &s->starts, next.a, next.b);
        tree_pull(&s->nodes, &s->ranges, next.b, next.a);
        size += next.b;
    }
    if (last.b && last.a + last.b == base) {
        tree_pull(&s->nodes, &s->starts, last.a, last.b);
        tree_pull(&s->nodes, &s->ranges, last.b, last.a);
        base = last.a;
        size += last.b;
    }
    vacate(s, base, size);
}

/* --- what is free ----------------------------------------------------------------------------------------------------- */

static uint32_t new_block(state *s, uint32_t of, uint64_t addr, int64_t size, int used, int mapped)
{
    uint32_t number = pool_take(&s->blocks);
    *b_(s, number) = (block){addr, size, 0, of, NONE, NONE, (uint8_t)used, (uint8_t)mapped};
    return number;
}

static uint32_t new_chunk(state *s, uint64_t base, int64_t size, int32_t group, int64_t page)
{
    uint32_t number = pool_take(&s->chunks);
    uint64_t origin = s->number[OLDEST_FIRST] ? s->next_origin : base;
    s->next_origin += (uint64_t)size;
    ((chunk *)s->chunks.items)[number] = (chunk){base, s->chunks_made++, origin, size, page, group};
    if (page)
        s->expandable[s->family[group]]++;
    return number;
}

static void follow(state *s, uint32_t number, uint32_t before, uint32_t after)
{
    b_(s, number)->before = before;
    b_(s, number)->after = after;
    if (before != NONE)
        b_(s, before)->after = number;
    if (after != NONE)
        b_(s, after)->before = number;
}

/* What decides between blocks of one size. */
static inline uint64_t tie(const block *b, const chunk *c) { return b->addr - c->base + c->origin; }

/* A whole chunk that can be given back. */
static inline int is_idle(const block *b, const chunk *c) { return b->before == NONE && b->after == NONE && !c->page; }

/* A free block of an expandable chunk that has whole pages: where the first begins and the last ends, from the chunk's base. */
static inline int has_pages(const block *b, const chunk *c, uint64_t *first, uint64_t *last)
{
    uint64_t ahead = b->addr - c->base, page = (uint64_t)c->page;
    if (!page)
        return 0;
    *first = up_to(ahead, page);
    *last = (ahead + (uint64_t)b->size) / page * page;
    return *first < *last;
}

/* The tree of idle chunks, or of what can be unmapped, that a free block is in; NULL: none. */
static inline tree *spare_of(state *s, const block *b, const chunk *c, uint64_t *a, uint64_t *other)
{
    uint64_t first, last;
    *a = (uint64_t)b->size;
    *other = tie(b, c);
    if (s->keeps[c->group])
        return NULL;
    if (is_idle(b, c)) {
        if (s->number[SORTING] == SIZE)
            return s->idle + c->group;
        *a = c->number;
        *other = 0;
        return s->idle + s->first[s->family[c->group]];
    }
    return has_pages(b, c, &first, &last) ? s->loose + c->group : NULL;
}

static void put(state *s, uint32_t number)
{
    block *b = b_(s, number);
    const chunk *c = c_(s, b);
    uint64_t a, other;
    b->used = 0;
    b->born = s->requests[s->family[c->group]];
    add_to(s, s->unused + c->group, (uint64_t)b->size, tie(b, c), number);
    tree *spare = spare_of(s, b, c, &a, &other);
    if (spare)
        add_to(s, spare, a, other, number);
}

/* Of the trees beside that of free blocks. */
static void pull_spare(state *s, const block *b, const chunk *c)
{
    uint64_t a, other;
    tree *spare = spare_of(s, b, c, &a, &other);
    if (spare)
        tree_pull(&s->nodes, spare, a, other);
}

static void pull(state *s, uint32_t number)
{
    const block *b = b_(s, number);
    const chunk *c = c_(s, b);
    tree_pull(&s->nodes, s->unused + c->group, (uint64_t)b->size, tie(b, c));
    pull_spare(s, b, c);
}

static void put_unmapped(state *s, uint32_t number)
{
    block *b = b_(s, number);
    b->used = b->mapped = 0;
    add_to(s, s->unmapped + c_(s, b)->group, b->addr, 0, number);
}

static void pull_unmapped(state *s, uint32_t number)
{
    const block *b = b_(s, number);
    tree_pull(&s->nodes, s->unmapped + c_(s, b)->group, b->addr, 0);
}

static void merge(state *s, uint32_t number, uint32_t other)
{
    if (other == NONE)
        return;
    block *b = b_(s, number), *o = b_(s, other);
    if (o->used || o->mapped != b->mapped)
        return;
    if (o->mapped)
        pull(s, other);
    else
        pull_unmapped(s, other);
    if (other == b->before) {
        b->addr = o->addr;
        follow(s, number, o->before, b->after);
    } else {
        follow(s, number, b->before, o->after);
    }
    b->size += o->size;
    pool_return(&s->blocks, other);
}

/* --- giving back ------------------------------------------------------------------------------------------------------ */

static void release_chunk(state *s, uint32_t number)
{
    block *b = b_(s, number);
    uint64_t base = b->addr;
    int64_t size = b->size;
    pull(s, number);
    pool_return(&s->chunks, b->chunk);
    pool_return(&s->blocks, number);
    addresses_given_back(s, base, (uint64_t)size);
    count_given_back(s, GIVEN_BACK, base, size);
}

static void unmap(state *s, uint32_t number)
{
    block *b = b_(s, number);
    chunk *c = c_(s, b);
    uint64_t first, last, ahead = b->addr - c->base, end = ahead + (uint64_t)b->size;
    if (!has_pages(b, c, &first, &last))
        return;
    pull(s, number);
    if (first > ahead) {
        uint32_t before = new_block(s, b->chunk, b->addr, (int64_t)(first - ahead), 0, 1);
        follow(s, before, b->before, number);
        put(s, before);
    }
    if (end > last) {
        uint32_t after = new_block(s, b->chunk, c->base + last, (int64_t)(end - last), 0, 1);
        follow(s, after, number, b->after);
        put(s, after);
    }
    b->addr = c->base + first;
    b->size = (int64_t)(last - first);
    b->mapped = 0;
    merge(s, number, b->before);
    merge(s, number, b->after);
    put_unmapped(s, number);
    count_given_back(s, UNMAPPED, c->base + first, (int64_t)(last - first));
    if (b->before == NONE && b->after == NONE) {
        uint64_t base = c->base, size = (uint64_t)c->size;
        pull_unmapped(s, number);
        s->expandable[s->family[c->group]]--;
        pool_return(&s->chunks, b->chunk);
        pool_return(&s->blocks, number);
        addresses_given_back(s, base, size);
    }
}

static void release_all(state *s, tree *idle)
{
    while (idle->count && !ready(s))
        release_chunk(s, value_at(&s->nodes, tree_first(&s->nodes, idle)));
}

static void give_back(state *s, int32_t family)
{
    s->work += s->first[family + 1] - s->first[family] + 1;
    if (s->number[SORTING] == CREATION)
        release_all(s, s->idle + s->first[family]);
    else
        for (int32_t group = s->first[family]; group < s->first[family + 1]; group++)
            release_all(s, s->idle + group);
    if (!s->expandable[family])
        return;
    /* What is left of a block has no whole page, so that each is looked at once. */
    for (int32_t group = s->first[family]; group < s->first[family + 1]; group++)
        while (s->loose[group].count && !ready(s))
            unmap(s, value_at(&s->nodes, tree_first(&s->nodes, s->loose + group)));
}

static void give_back_all(state *s)
{
    for (int32_t family = 0; family < s->families && !s->fault; family++)
        give_back(s, family);
}

static int give_back_enough(state *s, int32_t group, int64_t size)
{
    int64_t most = s->number[MAX_SPLIT], total = 0;
    if (most == NO_LIMIT)
        return 0;
    if (size < most)
        size = most;
    place at = tree_from(&s->nodes, s->unused + group, (uint64_t)size, 0);
    if (at.leaf != NONE) {
        uint32_t number = value_at(&s->nodes, at);
        if (is_idle(b_(s, number), c_(s, b_(s, number)))) {
            release_chunk(s, number);
            return 1;
        }
    }
    /* The largest below it; a release moves entries, so that the next one is found by what it is below. */
    uint64_t size_above = (uint64_t)size, tie_above = 0;
    while (total < size && !ready(s)) {
        at = tree_before(&s->nodes, s->unused + group, tree_from(&s->nodes, s->unused + group, size_above, tie_above));
        s->work++;
        if (at.leaf == NONE)
            break;
        uint32_t number = value_at(&s->nodes, at);
        const block *b = b_(s, number);
        if (b->size < most)
            break;
        size_above = (uint64_t)b->size;
        tie_above = tie(b, c_(s, b));
        if (is_idle(b, c_(s, b))) {
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

static void collect(state *s)
{
    int64_t excess = s->reserved - s->number[COLLECT_ABOVE], ages = 0;
    uint64_t room = 0;
    size_t count = 0;
    if (excess <= 0)
        return;
    s->work += s->groups;
    for (int32_t group = 0; group < s->groups; group++)
        room += s->idle[group].count;
    aged *idle = room ? malloc(room * sizeof *idle) : NULL;
    if (!idle) {
        s->fault = room ? NO_MEMORY : s->fault;
        return;
    }
    for (int32_t group = 0; group < s->groups; group++)
        for (place at = tree_first(&s->nodes, s->idle + group); at.leaf != NONE; at = tree_next(&s->nodes, at)) {
            uint32_t number = value_at(&s->nodes, at);
            const block *b = b_(s, number);
            int32_t of = c_(s, b)->group;
            s->work++;
            if (!s->collected[of])
                continue;
            idle[count] = (aged){s->requests[s->family[of]] - b->born, number};
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

static uint32_t room_for(state *s, int32_t group, int64_t size)
{
    for (place at = tree_first(&s->nodes, s->unmapped + group); at.leaf != NONE; at = tree_next(&s->nodes, at)) {
        uint32_t first = value_at(&s->nodes, at), before = b_(s, first)->before;
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

static int map(state *s, uint32_t number, int64_t size)
{
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
    if (b->size > size) {
        uint32_t rest = new_block(s, b->chunk, base + (uint64_t)size, b->size - size, 0, 0);
        follow(s, rest, number, b->after);
        b->size = size;
        put_unmapped(s, rest);
    }
    merge(s, number, b->before);
    merge(s, number, b->after);
    put(s, number);
    s->next_recorded++;
    count_taken(s, MAPPED, base, size);
    return 1;
}

static uint32_t expanded(state *s, int32_t group, int64_t size)
{
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

static uint32_t take_memory(state *s, int32_t group, int64_t size, int64_t growth)
{
    uint64_t base;
    s->refused = growth;
    if (ready(s) || growth > s->number[ALLOWED] - s->reserved)
        return NONE;
    if (s->page[group])
        return expanded(s, group, size);
    if (growth > s->limit - s->reserved || !range(s, growth, &base))
        return NONE;
    s->next_recorded++;
    count_taken(s, TAKEN, base, growth);
    return new_block(s, new_chunk(s, base, growth, group, 0), base, growth, 0, 1);
}

static uint32_t grown(state *s, int32_t group, int64_t size, int64_t growth)
{
    if (s->number[IDLE] == BEFORE_GROWTH)
        give_back(s, s->family[group]);
    if (s->number[COLLECT_ABOVE] >= 0)
        collect(s);
    uint32_t number = take_memory(s, group, size, growth);
    for (Py_ssize_t i = 0; number == NONE && !s->fault && i < s->columns[RELIEF].items; i++) {
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
static int64_t reach(const state *s, const block *b)
{
    return b->size + (b->after != NONE && !b_(s, b->after)->mapped ? b_(s, b->after)->size : 0);
}

static uint32_t fitting(state *s, int32_t group, int64_t size)
{
    tree *unused = s->unused + group;
    int64_t most = s->number[MAX_SPLIT];
    if (s->number[COLLECT_ABOVE] >= 0)
        s->requests[s->family[group]]++;
    place at = tree_from(&s->nodes, unused, (uint64_t)size, 0);
    if (at.leaf == NONE)
        return NONE;
    place found = at;
    uint32_t number = value_at(&s->nodes, at);
    /* What can expand counts as large as it can become; where chunks cannot any more, those that could before are passed over. */
    const int expands = c_(s, b_(s, number))->page && s->page[group];
    while (c_(s, b_(s, number))->page) {
        at = tree_next(&s->nodes, at);
        s->work++;
        if (at.leaf == NONE && !expands)
            return NONE;
        if (at.leaf == NONE || (expands && reach(s, b_(s, value_at(&s->nodes, at))) >= reach(s, b_(s, number))))
            break;
        number = value_at(&s->nodes, found = at);
    }
    int64_t has = b_(s, number)->size;
    if (size < most ? most != NO_LIMIT && has >= most : has >= size + s->number[MAX_ROUNDING])
        return NONE;
    tree_cut(&s->nodes, unused, found);
    pull_spare(s, b_(s, number), c_(s, b_(s, number)));
    return number;
}

static uint32_t request(state *s, int32_t group, int64_t size, int64_t growth)
{
    uint32_t number = fitting(s, group, size);
    if (number == NONE)
        number = grown(s, group, size, growth);
    if (number == NONE || s->fault)
        return NONE;
    block *b = b_(s, number);
    int64_t rest = b->size - size;
    b->used = 1;
    if (rest >= s->min_remainder[group] && size < s->split_below[group]) {
        uint32_t other = new_block(s, b->chunk, b->addr, rest, 0, 1);
        b->size = size;
        if (s->number[TAKE_HIGH]) {
            b->addr += (uint64_t)rest;
            follow(s, other, b->before, number);
        } else {
            b_(s, other)->addr += (uint64_t)size;
            follow(s, other, number, b->after);
        }
        put(s, other);
    }
    s->allocated += b->size;
    if (s->allocated > s->allocated_peak)
        s->allocated_peak = s->allocated;
    return number;
}

static void give(state *s, uint32_t number)
{
    block *b = b_(s, number);
    int32_t family = s->family[c_(s, b)->group];
    s->allocated -= b->size;
    b->used = 0;
    merge(s, number, b->before);
    merge(s, number, b->after);
    put(s, number);
    if (s->number[IDLE] == AFTER_FREE)
        give_back(s, family);
}

/* --- a replay --------------------------------------------------------------------------------------------------------- */

static int failed_before(const state *s, int64_t operation)
{
    Py_ssize_t low = 0, high = s->columns[FAILED].items;
    while (low < high) {
        Py_ssize_t middle = low + (high - low) / 2;
        if (s->failed[middle] < operation)
            low = middle + 1;
        else
            high = middle;
    }
    return low < s->columns[FAILED].items && s->failed[low] == operation;
}

static void fail(state *s, int32_t group, int64_t size)
{
    place last = tree_last(&s->nodes, s->unused + group);
    if (s->first_failed < 0) {
        s->first_failed = s->at;
        s->report[0] = size;
        s->report[1] = s->refused;
        s->report[2] = s->reserved;
        s->report[3] = s->reserved - s->allocated;
        s->report[4] = last.leaf == NONE ? 0 : (int64_t)entry_at(&s->nodes, last)->a;
    }
    if (!s->prepared || !failed_before(s, s->at))
        s->ended = 1;
}

/* Fetch what some operations ahead look at: what is freed then may lie anywhere. */
static inline void foresee(const state *s, int64_t at)
{
    if (at + 12 >= s->operations)
        return;
    const int64_t *of = s->of + at;
    if (of[12] >= 0 && of[12] <= at)
        __builtin_prefetch(s->block_of + of[12], 1);
    if (of[6] >= 0 && of[6] <= at && s->block_of[of[6]] != NONE)
        __builtin_prefetch(b_(s, s->block_of[of[6]]), 1);
    if (of[3] < 0 || of[3] > at || s->block_of[of[3]] == NONE)
        return;
    const block *b = b_(s, s->block_of[of[3]]);
    if (b->before != NONE)
        __builtin_prefetch(b_(s, b->before), 1);
    if (b->after != NONE)
        __builtin_prefetch(b_(s, b->after), 1);
}

static void step(state *s)
{
    const int64_t at = s->at;
    foresee(s, at);
    if (ready(s))
        return;
    s->operation_now = at;
    if (s->operation[at] == REQUEST) {
        int32_t group = s->group_of[at];
        int64_t size = s->need[at], growth = s->growth[at];
        if (group < 0 || group >= s->groups || size < 1 || size > MOST || growth > MOST || growth < (s->page[group] ? 0 : size)) {
            s->fault = NO_GROUP;
            return;
        }
        uint32_t number = s->prepared ? request(s, group, size, growth) : NONE;
        s->block_of[at] = number;
        if (s->fault)
            return;
        if (number == NONE)
            fail(s, group, size);
        else if (s->number[TRACE]) {
            s->address[at] = b_(s, number)->addr;
            s->occupied[at] = b_(s, number)->size;
        }
    } else if (s->operation[at] == FREE) {
        int64_t of = s->of[at];
        uint32_t number = of < 0 || of >= at ? NONE : s->block_of[of];
        if (number != NONE) {
            s->block_of[of] = NONE;
            give(s, number);
        } else if (of < 0 || of >= at || s->operation[of] != REQUEST) {
            s->fault = NO_REQUEST;
        } else if (!failed_before(s, of)) {
            s->fault = NOT_LIVE;
        }
        if (s->fault)
            return;
    } else {
        give_back_all(s);
    }
    s->at++;
}

/* Begin with the chunks of the opening, and with those taken when the allocator is made. */
static void begin(state *s)
{
    const uint64_t *base = s->columns[CHUNK_BASE].view.buf, *addr = s->columns[TILE_ADDR].view.buf;
    const int64_t *length = s->columns[CHUNK_SIZE].view.buf, *page = s->columns[CHUNK_PAGE].view.buf;
    const int64_t *of = s->columns[TILE_CHUNK].view.buf, *size = s->columns[TILE_SIZE].view.buf;
    const int64_t *use = s->columns[TILE_USE].view.buf;
    const int32_t *group = s->columns[CHUNK_GROUP].view.buf;
    Py_ssize_t chunks = s->columns[CHUNK_BASE].items, tiles = s->columns[TILE_CHUNK].items;
    uint32_t *numbers = malloc((size_t)(chunks + tiles + 1) * sizeof *numbers), *made;
    if (!numbers || (uint64_t)(chunks + tiles) > UINT32_MAX / 2 || pool_grow(&s->chunks, (uint32_t)chunks + 1) ||
        pool_grow(&s->blocks, (uint32_t)tiles + 1)) {
        s->fault = NO_MEMORY;
        free(numbers);
        return;
    }
    made = numbers + chunks;
    for (Py_ssize_t i = 0; i < chunks && !ready(s); i++) {
        numbers[i] = new_chunk(s, base[i], length[i], group[i], page[i]);
        if (looks_around(s))
            add_to(s, &s->held, base[i], base[i] + (uint64_t)length[i], 0);
    }
    for (Py_ssize_t i = 0; i < tiles && !s->fault; i++) {
        made[i] = new_block(s, numbers[of[i]], addr[i], size[i], 1, use[i] != TILE_UNMAPPED);
        if (i && of[i - 1] == of[i])
            follow(s, made[i], made[i - 1], NONE);
        if (use[i] >= 0) {
            s->block_of[use[i]] = made[i];
            s->allocated += size[i];
            if (s->number[TRACE]) {
                s->address[use[i]] = addr[i];
                s->occupied[use[i]] = size[i];
            }
        }
        if (use[i] != TILE_UNMAPPED)
            s->reserved += size[i];
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
    const int32_t *first_group = s->columns[FIRST_GROUP].view.buf;
    for (Py_ssize_t i = 0; i < s->columns[FIRST_GROUP].items && !s->fault && s->prepared; i++) {
        uint32_t number = take_memory(s, first_group[i], s->first_size[i], s->first_size[i]);
        if (number == NONE)
            s->prepared = 0;
        else
            put(s, number);
    }
}

/* --- what Python calls ------------------------------------------------------------------------------------------------ */

static const char capsule_name[] = "memlens._replay.state";

static void close_state(state *s)
{
    pool_close(&s->blocks);
    pool_close(&s->chunks);
    pool_close(&s->nodes);
    free(s->block_of);
    free(s->unused);
    free(s->changes);
    release(s->columns, COLUMNS);
    free(s);
}

static void destroy(PyObject *capsule)
{
    state *s = PyCapsule_GetPointer(capsule, capsule_name);
    if (s)
        close_state(s);
}

static const char *wrong(const state *s)
{
    const column *c = s->columns;
    const int64_t n = c[OPERATION].items, groups = c[FAMILY_OF].items, chunks = c[CHUNK_BASE].items, tiles = c[TILE_CHUNK].items;
    const int64_t *number = c[NUMBERS].view.buf;
    const int32_t *family = c[FAMILY_OF].view.buf, *of_chunk = c[CHUNK_GROUP].view.buf, *first = c[FIRST_GROUP].view.buf;
    const int64_t *remainder = c[MIN_REMAINDER].view.buf, *page = c[PAGE].view.buf, *size = c[CHUNK_SIZE].view.buf;
    const int64_t *page_of = c[CHUNK_PAGE].view.buf, *chunk_of = c[TILE_CHUNK].view.buf, *bytes = c[TILE_SIZE].view.buf;
    const int64_t *use = c[TILE_USE].view.buf, *taken_first = c[FIRST_SIZE].view.buf;
    const uint64_t *base = c[CHUNK_BASE].view.buf, *addr = c[TILE_ADDR].view.buf;
    int64_t all = 0;
    static const int alike[][2] = {{OPERATION, GROWTH}, {FAMILY_OF, COLLECTED}, {CHUNK_BASE, CHUNK_PAGE}, {TILE_CHUNK, TILE_USE}};
    for (int k = 0; k < 4; k++)
        for (int i = alike[k][0]; i <= alike[k][1]; i++)
            if (c[i].items != c[alike[k][0]].items)
                return "columns of one length, for each operation, for each group, for each chunk, for each tile";
    if (c[NUMBERS].items != ALL_NUMBERS || c[WORDS].items != ALL_WORDS || c[FIRST_GROUP].items != c[FIRST_SIZE].items)
        return "all numbers";
    if (number[TRACE] && (c[ADDRESS].items != n || c[OCCUPIED].items != n))
        return "columns for what is traced";
    if (number[START] < 0 || number[START] > n || number[RANGE_BYTES] < 0 || number[RANGE_BYTES] > MOST ||
        number[MAX_ROUNDING] < 0 || number[MAX_ROUNDING] > MOST || number[MAX_SPLIT] < 1 || number[ALLOWED] < 0 ||
        number[LIMIT] < 0 || number[SORTING] < CREATION || number[SORTING] > SIZE || groups > MOST_GROUPS)
        return "numbers that can be";
    for (int64_t i = 0; i < groups; i++)
        if (family[i] < (i ? family[i - 1] : 0) || family[i] > MOST_GROUPS || remainder[i] < 1 || page[i] < 0 || page[i] > MOST)
            return "groups that can be";
    for (int64_t i = 0; i < chunks; i++)
        if (of_chunk[i] < 0 || of_chunk[i] >= groups || size[i] < 1 || size[i] > 2 * MOST || page_of[i] < 0 ||
            page_of[i] > MOST || base[i] > ANYWHERE || (all += size[i]) > (int64_t)ANYWHERE)
            return "chunks that can be";
    for (int64_t i = 0; i < tiles; i++)
        if (chunk_of[i] < (i ? chunk_of[i - 1] : 0) || chunk_of[i] >= chunks || bytes[i] < 1 || bytes[i] > size[chunk_of[i]] ||
            use[i] < (page_of[chunk_of[i]] ? TILE_UNMAPPED : TILE_FREE) || use[i] >= n || addr[i] < base[chunk_of[i]] ||
            addr[i] - base[chunk_of[i]] > (uint64_t)(size[chunk_of[i]] - bytes[i]) ||
            (i && chunk_of[i] == chunk_of[i - 1] && addr[i] < addr[i - 1] + (uint64_t)bytes[i - 1]))
            return "tiles that can be";
    for (Py_ssize_t i = 0; i < c[FIRST_GROUP].items; i++)
        if (first[i] < 0 || first[i] >= groups || taken_first[i] < 1 || taken_first[i] > MOST)
            return "preallocated chunks that can be";
    return NULL;
}

/* What there is of each group and family lies in one piece of memory, of so many bytes. */
static size_t bytes_of_groups(const state *s)
{
    const size_t groups = (size_t)s->groups, families = (size_t)s->families;
    return (4 * groups + 1) * sizeof(tree) + (families + 1) * (sizeof(int64_t) + 2 * sizeof(int32_t));
}

static void lay_out(state *s, void *memory)
{
    s->unused = memory;
    s->unmapped = s->unused + s->groups;
    s->idle = s->unmapped + s->groups;
    s->loose = s->idle + s->groups;
    s->requests = (int64_t *)(s->loose + s->groups + 1);
    s->first = (int32_t *)(s->requests + s->families + 1);
    s->expandable = s->first + s->families + 1;
}

static int open_state(state *s)
{
    const column *c = s->columns;
    s->operation = c[OPERATION].view.buf;
    s->of = c[OF].view.buf;
    s->group_of = c[GROUP].view.buf;
    s->need = c[BLOCK].view.buf;
    s->growth = c[GROWTH].view.buf;
    s->failed = c[FAILED].view.buf;
    s->family = c[FAMILY_OF].view.buf;
    s->min_remainder = c[MIN_REMAINDER].view.buf;
    s->split_below = c[SPLIT_BELOW].view.buf;
    s->page = c[PAGE].view.buf;
    s->keeps = c[KEEPS].view.buf;
    s->collected = c[COLLECTED].view.buf;
    s->first_size = c[FIRST_SIZE].view.buf;
    s->relief = c[RELIEF].view.buf;
    s->recorded = c[PLACES].view.buf;
    s->number = c[NUMBERS].view.buf;
    s->word = c[WORDS].view.buf;
    s->address = c[ADDRESS].view.buf;
    s->occupied = c[OCCUPIED].view.buf;
    s->operations = c[OPERATION].items;
    s->groups = (int32_t)c[FAMILY_OF].items;
    s->families = s->groups ? s->family[s->groups - 1] + 1 : 0;
    s->at = s->number[START];
    s->limit = s->number[LIMIT];
    s->operation_now = s->reserved_peak_at = s->first_failed = -1;
    s->prepared = 1;
    const int32_t families = s->families;
    s->block_of = malloc(((size_t)s->operations + 1) * sizeof *s->block_of);
    void *memory = calloc(1, bytes_of_groups(s));
    if (!s->block_of || !memory) {
        free(memory);
        return -1;
    }
    lay_out(s, memory);
    memset(s->block_of, 0xff, (size_t)s->operations * sizeof *s->block_of);
    for (int32_t group = s->groups; group-- > 0;)
        s->first[s->family[group]] = group;
    s->first[families] = s->groups;
    for (int32_t family = families; family-- > 0;) /* a family of no group */
        if (s->groups && s->family[s->first[family]] != family)
            s->first[family] = s->first[family + 1];
    s->up = up_to(s->word[HIGH], STEP);
    if (s->number[PLACEMENT] == SHUFFLED && s->up < ANYWHERE)
        s->up = ANYWHERE;
    s->down = c[CHUNK_BASE].items ? s->word[LOW] : ANYWHERE;
    return 0;
}

static PyObject *start(PyObject *module, PyObject *args)
{
    (void)module;
    if (PyTuple_Size(args) != COLUMNS)
        return PyErr_Format(PyExc_TypeError, "start: all columns are needed");
    state *s = calloc(1, sizeof *s);
    if (!s)
        return PyErr_NoMemory();
    pool_open(&s->blocks, sizeof(block));
    pool_open(&s->chunks, sizeof(chunk));
    pool_open(&s->nodes, sizeof(node));
    for (int i = 0; i < COLUMNS; i++)
        if (take(PyTuple_GetItem(args, i), s->columns + i, given[i].width, i >= ADDRESS, given[i].name)) {
            close_state(s);
            return NULL;
        }
    const char *missing = wrong(s);
    if (missing || open_state(s)) {
        close_state(s);
        return missing ? PyErr_Format(PyExc_ValueError, "start: needed are %s", missing) : PyErr_NoMemory();
    }
    PyObject *capsule = PyCapsule_New(s, capsule_name, destroy);
    if (!capsule) {
        close_state(s);
        return NULL;
    }
    s->busy = 1;
    Py_BEGIN_ALLOW_THREADS
    begin(s);
    Py_END_ALLOW_THREADS
    s->busy = 0;
    const int fault = s->fault;
    if (fault) {
        Py_DecRef(capsule);
        return fault == NO_MEMORY ? PyErr_NoMemory() : PyErr_Format(PyExc_ValueError, "start: chunks overlap");
    }
    return capsule;
}

static state *state_of(PyObject *capsule)
{
    state *s = PyCapsule_GetPointer(capsule, capsule_name);
    if (s && s->busy) {
        PyErr_SetString(PyExc_RuntimeError, "the replay is at work");
        return NULL;
    }
    return s;
}

/* Go on by so many operations at most, until the end or until more is reserved: whether something is wrong, whether there is more to do at
   once (1; 2: more is reserved), and how many changes there are. */
static PyObject *run(PyObject *module, PyObject *args)
{
    PyObject *capsule;
    long long count, until;
    state *s;
    (void)module;
    if (!PyArg_ParseTuple(args, "OLL:run", &capsule, &count, &until) || !(s = state_of(capsule)))
        return NULL;
    s->busy = 1;
    Py_BEGIN_ALLOW_THREADS
    s->work = 0;
    for (; count > 0 && s->work < MOST_WORK && s->at < s->operations && !s->ended && !s->fault && s->reserved <= until; count--)
        step(s);
    Py_END_ALLOW_THREADS
    s->busy = 0;
    if (s->fault == NO_MEMORY)
        return PyErr_NoMemory();
    int more = s->at < s->operations && !s->ended && !s->fault;
    return Py_BuildValue("iin", s->fault, more << (s->reserved > until), (Py_ssize_t)s->changed);
}

static void *copy_of(const void *from, size_t bytes, size_t room)
{
    void *to = malloc(room);
    if (to && bytes)
        memcpy(to, from, bytes);
    return to;
}

/* A replay that goes on from here under another limit, beside the one that it is copied from; neither is traced. */
static PyObject *fork_of(PyObject *module, PyObject *args)
{
    PyObject *capsule, *made = NULL;
    long long limit;
    state *from, *s;
    (void)module;
    if (!PyArg_ParseTuple(args, "OL:fork", &capsule, &limit) || !(from = state_of(capsule)))
        return NULL;
    if (from->number[TRACE] || limit < 0)
        return PyErr_Format(PyExc_ValueError, "fork: no traced replay, and no limit below 0");
    if (!(s = copy_of(from, sizeof *s, sizeof *s)))
        return PyErr_NoMemory();
    memset(s->columns, 0, sizeof s->columns);
    s->limit = limit;
    s->block_of = copy_of(from->block_of, (size_t)s->operations * sizeof *s->block_of, ((size_t)s->operations + 1) * sizeof *s->block_of);
    lay_out(s, copy_of(from->unused, bytes_of_groups(s), bytes_of_groups(s)));
    pool *pools[] = {&s->blocks, &s->chunks, &s->nodes};
    int fits = s->block_of && s->unused;
    for (int i = 0; i < 3; i++) {
        pools[i]->items = copy_of(pools[i]->items, pools[i]->used * pools[i]->item, pools[i]->room * pools[i]->item + 1);
        fits = fits && pools[i]->items;
    }
    for (int i = 0; i < COLUMNS && fits; i++)
        fits = !take(from->columns[i].view.obj, s->columns + i, given[i].width, i >= ADDRESS, given[i].name);
    if (!fits && !PyErr_Occurred())
        PyErr_NoMemory();
    if (!fits || !(made = PyCapsule_New(s, capsule_name, destroy)))
        close_state(s);
    return made;
}

static PyObject *changes(PyObject *module, PyObject *args)
{
    static const struct { const char *name; int width; } parts[4] = {{"at", 8}, {"kind", 1}, {"addr", 8}, {"size", 8}};
    PyObject *capsule, *objects[4];
    column c[4] = {{{0}, 0}};
    state *s;
    int fits = 1;
    (void)module;
    if (!PyArg_ParseTuple(args, "OOOOO:changes", &capsule, &objects[0], &objects[1], &objects[2], &objects[3]) ||
        !(s = state_of(capsule)))
        return NULL;
    for (int i = 0; i < 4 && fits; i++) {
        fits = !take(objects[i], c + i, parts[i].width, 1, parts[i].name);
        if (fits && !(fits = c[i].items == (Py_ssize_t)s->changed))
            PyErr_SetString(PyExc_ValueError, "changes: columns as long as there are changes are needed");
    }
    for (size_t i = 0; fits && i < s->changed; i++) {
        ((int64_t *)c[0].view.buf)[i] = s->changes[i].at;
        ((int8_t *)c[1].view.buf)[i] = s->changes[i].kind;
        ((uint64_t *)c[2].view.buf)[i] = s->changes[i].addr;
        ((int64_t *)c[3].view.buf)[i] = s->changes[i].size;
    }
    release(c, 4);
    if (!fits)
        return NULL;
    s->changed = 0;
    Py_RETURN_NONE;
}

static PyObject *result(PyObject *module, PyObject *args)
{
    PyObject *capsule;
    state *s;
    (void)module;
    if (!PyArg_ParseTuple(args, "O:result", &capsule) || !(s = state_of(capsule)))
        return NULL;
#define VALUE(what) (long long)s->what
#define WORD(what) (unsigned long long)s->what
    return Py_BuildValue("LLLLLLLLLLLLLLKKKK", VALUE(reserved_peak), VALUE(reserved_peak_at), VALUE(reserved), VALUE(allocated_peak),
        VALUE(allocated), VALUE(first_failed), VALUE(report[0]), VALUE(report[1]), VALUE(report[2]), VALUE(report[3]), VALUE(report[4]),
        VALUE(at), VALUE(taken), VALUE(given_back), WORD(taken_bytes[0]), WORD(taken_bytes[1]), WORD(given_back_bytes[0]), WORD(given_back_bytes[1]));
}

static PyMethodDef methods[] = {
    {"effects", memlens_effects, METH_VARARGS, NULL},
    {"start", start, METH_VARARGS, NULL},
    {"run", run, METH_VARARGS, NULL},
    {"fork", fork_of, METH_VARARGS, NULL},
    {"changes", changes, METH_VARARGS, NULL},
    {"result", result, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot module_slots[] = {{0, NULL}};

static PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "memlens._replay",
    .m_doc = MEMLENS_SOURCES,
    .m_methods = methods,
    .m_slots = module_slots,
};

PyMODINIT_FUNC PyInit__replay(void)
{
    return PyModuleDef_Init(&definition);
}
