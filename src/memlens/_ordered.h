/* Ordered sets of pairs of 64-bit words, each with a 32-bit value: B+ trees whose nodes come from one pool; see _replay.c. */

#ifndef MEMLENS_ORDERED_H
#define MEMLENS_ORDERED_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX

/* --- items that stay where they are, by number ----------------------------------------------------------------------- */

enum { SLAB_BITS = 8, SLAB = 1 << SLAB_BITS };

typedef struct {
    char **slabs;
    size_t item;
    uint32_t count, room, next_free, spare; /* items ever used, slabs there is room for, the first one given back, ones to be had */
} pool;

static inline void *pool_at(const pool *p, uint32_t number)
{
    return p->slabs[number >> SLAB_BITS] + (number & (SLAB - 1)) * p->item;
}

static void pool_open(pool *p, size_t item)
{
    memset(p, 0, sizeof *p);
    p->item = item;
    p->next_free = NONE;
}

static void pool_close(pool *p)
{
    for (uint32_t slab = 0; slab < p->count >> SLAB_BITS; slab++)
        free(p->slabs[slab]);
    free(p->slabs);
    pool_open(p, p->item);
}

static inline uint32_t pool_take(pool *p)
{
    uint32_t number = p->next_free;
    memcpy(&p->next_free, pool_at(p, number), sizeof number);
    p->spare--;
    return number;
}

static inline void pool_return(pool *p, uint32_t number)
{
    memcpy(pool_at(p, number), &p->next_free, sizeof number);
    p->next_free = number;
    p->spare++;
}

/* See to it that so many items can be had; -1 where memory does not suffice. */
static int pool_grow(pool *p, uint32_t spare)
{
    while (p->spare < spare) {
        if (p->count > UINT32_MAX - 2 * SLAB)
            return -1;
        if (p->count >> SLAB_BITS == p->room) {
            uint32_t room = p->room ? 2 * p->room : 64;
            char **slabs = realloc(p->slabs, room * sizeof *slabs);
            if (!slabs)
                return -1;
            p->slabs = slabs;
            p->room = room;
        }
        char *slab = malloc(SLAB * p->item);
        if (!slab)
            return -1;
        p->slabs[p->count >> SLAB_BITS] = slab;
        p->count += SLAB;
        for (uint32_t number = p->count; number-- > p->count - SLAB;)
            pool_return(p, number);
    }
    return 0;
}

/* --- trees ------------------------------------------------------------------------------------------------------------ */

enum { FAN = 32, DEPTH = 24, NODES_OF_A_PUT = 16 };

/* A leaf has entries, an inner node its children with a pair that none of a child's entries is below and all of the child before
   are; that of the first child is not looked at. */
typedef struct {
    uint64_t a[FAN], b[FAN];
    uint32_t value[FAN];
    uint32_t count, before, after; /* leaves are linked in order */
} node;

typedef struct {
    uint32_t root, height; /* 0: empty, 1: the root is a leaf */
    uint64_t count;
} tree;

typedef struct {
    uint32_t leaf, at;
} place; /* of an entry; leaf NONE: there is none */

static inline node *node_at(const pool *nodes, uint32_t number) { return pool_at(nodes, number); }

static inline int below(uint64_t a, uint64_t b, uint64_t other_a, uint64_t other_b)
{
    return (a < other_a) | ((a == other_a) & (b < other_b));
}

/* How many entries of a node from `first` on are below a pair, or with `same` not above it, counted from 0. */
static inline uint32_t rank(const node *n, uint32_t first, uint64_t a, uint64_t b, int same)
{
    uint32_t low = first, left = n->count - first;
    while (left > 0) {
        uint32_t half = left / 2, at = low + half;
        int lower = same ? !below(a, b, n->a[at], n->b[at]) : below(n->a[at], n->b[at], a, b);
        low = lower ? at + 1 : low;
        left = lower ? left - half - 1 : half;
    }
    return low;
}

/* The leaf in which a pair is or would be; `path` and `slots` get the inner nodes from the root on, and where they were left. */
static inline uint32_t descend(const pool *nodes, const tree *t, uint64_t a, uint64_t b, uint32_t *path, uint32_t *slots)
{
    uint32_t at = t->root;
    for (uint32_t level = 1; level < t->height; level++) {
        const node *n = node_at(nodes, at);
        uint32_t slot = rank(n, 1, a, b, 1) - 1;
        if (path) {
            path[level - 1] = at;
            slots[level - 1] = slot;
        }
        at = n->value[slot];
    }
    return at;
}

/* The first entry that is not below a pair. */
static inline place tree_from(const pool *nodes, const tree *t, uint64_t a, uint64_t b)
{
    if (!t->height)
        return (place){NONE, 0};
    uint32_t leaf = descend(nodes, t, a, b, NULL, NULL);
    const node *n = node_at(nodes, leaf);
    uint32_t at = rank(n, 0, a, b, 0);
    return at < n->count ? (place){leaf, at} : (place){n->after, 0};
}

static inline place tree_first(const pool *nodes, const tree *t) { return tree_from(nodes, t, 0, 0); }

static inline place tree_last(const pool *nodes, const tree *t)
{
    if (!t->height)
        return (place){NONE, 0};
    uint32_t at = t->root;
    for (uint32_t level = 1; level < t->height; level++)
        at = node_at(nodes, at)->value[node_at(nodes, at)->count - 1];
    return (place){at, node_at(nodes, at)->count - 1};
}

static inline place tree_next(const pool *nodes, place p)
{
    const node *n = node_at(nodes, p.leaf);
    return p.at + 1 < n->count ? (place){p.leaf, p.at + 1} : (place){n->after, 0};
}

/* The entry before one, or before the end of the tree. */
static inline place tree_before(const pool *nodes, const tree *t, place p)
{
    if (p.leaf == NONE)
        return tree_last(nodes, t);
    if (p.at)
        return (place){p.leaf, p.at - 1};
    uint32_t leaf = node_at(nodes, p.leaf)->before;
    return leaf == NONE ? (place){NONE, 0} : (place){leaf, node_at(nodes, leaf)->count - 1};
}

static inline uint32_t value_at(const pool *nodes, place p) { return node_at(nodes, p.leaf)->value[p.at]; }

static inline void move(node *to, uint32_t at, const node *from, uint32_t first, uint32_t count)
{
    memmove(to->a + at, from->a + first, count * sizeof *to->a);
    memmove(to->b + at, from->b + first, count * sizeof *to->b);
    memmove(to->value + at, from->value + first, count * sizeof *to->value);
}

static inline void put_at(node *n, uint32_t at, uint64_t a, uint64_t b, uint32_t value)
{
    move(n, at + 1, n, at, n->count - at);
    n->a[at] = a;
    n->b[at] = b;
    n->value[at] = value;
    n->count++;
}

static inline void cut_at(node *n, uint32_t at)
{
    n->count--;
    move(n, at, n, at + 1, n->count - at);
}

/* Add an entry; 0 where its pair is there already.  The pool has NODES_OF_A_PUT nodes to spare: two neighbours have a quarter of a
   node of entries at least, so that a tree of 2**32 entries is no higher. */
static int tree_put(pool *nodes, tree *t, uint64_t a, uint64_t b, uint32_t value)
{
    uint32_t path[DEPTH], slots[DEPTH], at;
    if (!t->height) {
        t->count++;
        t->root = pool_take(nodes);
        t->height = 1;
        node *n = node_at(nodes, t->root);
        n->count = 0;
        n->before = n->after = NONE;
        put_at(n, 0, a, b, value);
        return 1;
    }
    at = descend(nodes, t, a, b, path, slots);
    node *n = node_at(nodes, at);
    uint32_t slot = rank(n, 0, a, b, 0);
    if (slot < n->count && n->a[slot] == a && n->b[slot] == b)
        return 0;
    t->count++;
    for (uint32_t level = t->height;; level--) {
        if (n->count < FAN) {
            put_at(n, slot, a, b, value);
            return 1;
        }
        /* The upper half goes to a node of its own; what comes last at the end of all leaves a full node behind. */
        uint32_t half = slot == FAN && (level < t->height || n->after == NONE) ? FAN - 1 : FAN / 2;
        uint32_t other = pool_take(nodes);
        node *upper = node_at(nodes, other);
        move(upper, 0, n, half, FAN - half);
        upper->count = FAN - half;
        n->count = half;
        if (level == t->height) {
            upper->before = at;
            upper->after = n->after;
            if (n->after != NONE)
                node_at(nodes, n->after)->before = other;
            n->after = other;
        }
        if (slot > half)
            put_at(upper, slot - half, a, b, value);
        else
            put_at(n, slot, a, b, value);
        a = upper->a[0];
        b = upper->b[0];
        value = other;
        if (level == 1) { /* a new root */
            uint32_t root = pool_take(nodes);
            node *r = node_at(nodes, root);
            r->count = 2;
            r->before = r->after = NONE;
            r->a[0] = r->b[0] = 0;
            r->value[0] = t->root;
            r->a[1] = a;
            r->b[1] = b;
            r->value[1] = other;
            t->root = root;
            t->height++;
            return 1;
        }
        at = path[level - 2];
        n = node_at(nodes, at);
        slot = slots[level - 2] + 1;
    }
}

/* Take out an entry; 0 where it is not there. */
static int tree_pull(pool *nodes, tree *t, uint64_t a, uint64_t b)
{
    uint32_t path[DEPTH], slots[DEPTH];
    if (!t->height)
        return 0;
    uint32_t at = descend(nodes, t, a, b, path, slots);
    node *n = node_at(nodes, at);
    uint32_t slot = rank(n, 0, a, b, 0);
    if (slot == n->count || n->a[slot] != a || n->b[slot] != b)
        return 0;
    t->count--;
    for (uint32_t level = t->height;; level--) {
        cut_at(n, slot);
        if (level == 1)
            break;
        if (n->count > FAN / 4)
            return 1;
        /* A node that is nearly empty is joined with a neighbour of the same parent where both are half a node at most. */
        node *parent = node_at(nodes, path[level - 2]);
        uint32_t of = slots[level - 2];
        uint32_t left = NONE;
        if (n->count) {
            if (of + 1 < parent->count && n->count + node_at(nodes, parent->value[of + 1])->count <= FAN / 2)
                left = of;
            else if (of && n->count + node_at(nodes, parent->value[of - 1])->count <= FAN / 2)
                left = of - 1;
            else
                return 1;
            node *low = node_at(nodes, parent->value[left]), *high = node_at(nodes, parent->value[left + 1]);
            move(low, low->count, high, 0, high->count);
            if (level < t->height) { /* what the first child of an inner node begins with is known above only */
                low->a[low->count] = parent->a[left + 1];
                low->b[low->count] = parent->b[left + 1];
            }
            low->count += high->count;
            of = left + 1;
        }
        uint32_t gone = parent->value[of];
        n = node_at(nodes, gone);
        if (level == t->height) {
            if (n->before != NONE)
                node_at(nodes, n->before)->after = n->after;
            if (n->after != NONE)
                node_at(nodes, n->after)->before = n->before;
        }
        pool_return(nodes, gone);
        n = parent;
        slot = of;
    }
    /* The root: an empty one goes, and an inner one that has one child left. */
    while (t->height && (!n->count || (t->height > 1 && n->count == 1))) {
        uint32_t root = t->root;
        t->root = n->count ? n->value[0] : NONE;
        t->height = n->count ? t->height - 1 : 0;
        pool_return(nodes, root);
        if (t->height)
            n = node_at(nodes, t->root);
    }
    return 1;
}

#endif
