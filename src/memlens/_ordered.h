/* Ordered sets of pairs of 64-bit words, each with a 32-bit value: B+ trees whose nodes come from one pool; see _replay.c. */

#ifndef MEMLENS_ORDERED_H
#define MEMLENS_ORDERED_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX

/* --- items of one size, by number ------------------------------------------------------------------------------------ */

typedef struct {
    char *items; /* these move when the pool grows */
    size_t item;
    uint32_t room, used, next_free, spare; /* items there is room for, ever used, the first one given back, ones to be had */
} pool;

static void pool_open(pool *p, size_t item) { *p = (pool){NULL, item, 0, 0, NONE, 0}; }

static void pool_close(pool *p) { free(p->items); }

static inline uint32_t pool_take(pool *p) {
    uint32_t number = p->next_free;
    p->spare--;
    if (number == NONE)
        return p->used++;
    memcpy(&p->next_free, p->items + number * p->item, sizeof number);
    return number;
}

static inline void pool_return(pool *p, uint32_t number) {
    memcpy(p->items + number * p->item, &p->next_free, sizeof number);
    p->next_free = number;
    p->spare++;
}

/* See to it that so many items can be had; -1 where memory does not suffice. */
static int pool_grow(pool *p, uint32_t spare) {
    while (p->spare < spare) {
        uint32_t more = p->room ? p->room : 256;
        char *items = p->room > UINT32_MAX / 2 ? NULL : realloc(p->items, (p->room + (size_t)more) * p->item);
        if (!items)
            return -1;
        p->items = items;
        p->room += more;
        p->spare += more;
    }
    return 0;
}

/* --- trees ------------------------------------------------------------------------------------------------------------ */

enum { FAN = 32, DEPTH = 24, NODES_OF_A_PUT = 16, POWERS = 64 };

/* A leaf has entries, an inner node its children with a pair that none of a child's entries is below and all of the child before
   are; that of the first child is not looked at. */
typedef struct {
    uint64_t a, b;
    uint32_t value;
} entry;

typedef struct {
    entry entries[FAN + 1]; /* one more than it keeps */
    uint32_t count, before, after; /* leaves are linked in order */
} node;

typedef struct {
    uint32_t root, height, count; /* height 0: empty, 1: the root is a leaf */
} tree;

typedef struct {
    node *leaf;
    uint32_t at;
} place; /* of an entry, until nodes are added; leaf NULL: there is none */

static const entry NOTHING = {UINT64_MAX, 0, NONE};

static inline node *node_at(const pool *nodes, uint32_t number) { return (node *)nodes->items + number; }

static inline const entry *entry_at(place p) { return p.leaf ? p.leaf->entries + p.at : &NOTHING; }

/* Whether a pair is below another one: a comparison, and no branch. */
static inline int below(uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
    return ((unsigned __int128)a << 64 | b) < ((unsigned __int128)c << 64 | d);
}

/* How many entries of a node from `first` on are below a pair, or with `same` not above it, counted from 0; all are compared, without a branch. */
static inline uint32_t rank(const node *n, uint32_t first, uint64_t a, uint64_t b, int same) {
    uint32_t low = first;
    for (const entry *e = n->entries + first, *end = n->entries + n->count; e < end; e++)
        low += (uint32_t)(same ? !below(a, b, e->a, e->b) : below(e->a, e->b, a, b));
    return low;
}

/* The leaf in which a pair is or would be; `path` and `slots` get the inner nodes from the root on, and where they were left. */
static inline uint32_t descend(const pool *nodes, const tree *t, uint64_t a, uint64_t b, uint32_t *path, uint32_t *slots) {
    uint32_t at = t->root;
    for (uint32_t level = 1; level < t->height; level++) {
        const node *n = node_at(nodes, at);
        uint32_t slot = rank(n, 1, a, b, 1) - 1;
        if (path) {
            path[level - 1] = at;
            slots[level - 1] = slot;
        }
        at = n->entries[slot].value;
    }
    return at;
}

static inline node *leaf_of(const pool *nodes, const tree *t, uint64_t a, uint64_t b) { return node_at(nodes, descend(nodes, t, a, b, NULL, NULL)); }

static inline place place_at(const pool *nodes, node *leaf, uint32_t at) {
    return at < leaf->count ? (place){leaf, at} : (place){leaf->after == NONE ? NULL : node_at(nodes, leaf->after), 0};
}

static inline place tree_next(const pool *nodes, place p) { return place_at(nodes, p.leaf, p.at + 1); }

static inline place tree_previous(const pool *nodes, place p) {
    if (p.at)
        return (place){p.leaf, p.at - 1};
    node *leaf = p.leaf->before == NONE ? NULL : node_at(nodes, p.leaf->before);
    return (place){leaf, leaf ? leaf->count - 1 : 0};
}

/* The first entry that is not below a pair, and the last one that is. */
static inline place tree_from(const pool *nodes, const tree *t, uint64_t a, uint64_t b) {
    if (!t->height)
        return (place){NULL, 0};
    node *leaf = leaf_of(nodes, t, a, b);
    return place_at(nodes, leaf, rank(leaf, 0, a, b, 0));
}

static inline place tree_before(const pool *nodes, const tree *t, uint64_t a, uint64_t b) {
    if (!t->height)
        return (place){NULL, 0};
    node *leaf = leaf_of(nodes, t, a, b);
    const entry *last = leaf->entries + leaf->count - 1; /* often it is this one */
    return tree_previous(nodes, (place){leaf, below(last->a, last->b, a, b) ? leaf->count : rank(leaf, 0, a, b, 0)});
}

static inline const entry *entry_from(const pool *nodes, const tree *t, uint64_t a, uint64_t b) { return entry_at(tree_from(nodes, t, a, b)); }
static inline const entry *entry_before(const pool *nodes, const tree *t, uint64_t a, uint64_t b) { return entry_at(tree_before(nodes, t, a, b)); }

static inline void move(node *to, uint32_t at, const node *from, uint32_t first, uint32_t count) {
    memmove(to->entries + at, from->entries + first, count * sizeof *to->entries);
}

static inline void put_at(node *n, uint32_t at, uint64_t a, uint64_t b, uint32_t value) {
    move(n, at + 1, n, at, n->count - at);
    n->entries[at] = (entry){a, b, value};
    n->count++;
}

static inline void cut_at(node *n, uint32_t at) {
    if (at < --n->count)
        move(n, at, n, at + 1, n->count - at);
}

/* Split a leaf that has got one entry too many, at `slot`, and what is above it.  The pool has NODES_OF_A_PUT nodes to spare: two neighbours
   have a quarter of a node of entries at least, so that a tree of 2**32 entries is no higher. */
static void tree_split(pool *nodes, tree *t, uint32_t slot, uint64_t a, uint64_t b) {
    uint32_t path[DEPTH], slots[DEPTH], at = descend(nodes, t, a, b, path, slots);
    for (uint32_t level = t->height;; level--) {
        node *n = node_at(nodes, at);
        if (n->count <= FAN)
            return;
        /* The upper half goes to a node of its own; what comes last at the end of all leaves a full node behind. */
        const uint32_t half = slot == FAN && (level < t->height || n->after == NONE) ? FAN : FAN / 2, other = pool_take(nodes);
        node *upper = node_at(nodes, other);
        move(upper, 0, n, half, FAN + 1 - half);
        upper->count = FAN + 1 - half;
        n->count = half;
        if (level == t->height) {
            upper->before = at;
            upper->after = n->after;
            if (n->after != NONE)
                node_at(nodes, n->after)->before = other;
            n->after = other;
        }
        const entry first = upper->entries[0];
        if (level == 1) { /* a new root */
            t->root = pool_take(nodes);
            *node_at(nodes, t->root) = (node){{{0, 0, at}, {first.a, first.b, other}}, 2, NONE, NONE};
            t->height++;
            return;
        }
        at = path[level - 2];
        slot = slots[level - 2] + 1;
        put_at(node_at(nodes, at), slot, first.a, first.b, other);
    }
}

/* Add an entry; 0 where its pair is there already. */
static inline int tree_put(pool *nodes, tree *t, uint64_t a, uint64_t b, uint32_t value) {
    if (!t->height) {
        *t = (tree){pool_take(nodes), 1, 0};
        node *root = node_at(nodes, t->root);
        root->count = 0;
        root->before = root->after = NONE;
    }
    node *n = leaf_of(nodes, t, a, b);
    entry *e = n->entries + n->count++;
    for (; e > n->entries && below(a, b, e[-1].a, e[-1].b); e--)
        *e = e[-1];
    *e = (entry){a, b, value};
    if (e > n->entries && e[-1].a == a && e[-1].b == b) {
        cut_at(n, (uint32_t)(e - n->entries));
        return 0;
    }
    t->count++;
    if (n->count > FAN)
        tree_split(nodes, t, (uint32_t)(e - n->entries), a, b);
    return 1;
}

/* Take out an entry of a leaf that has few. */
static void tree_shrink(pool *nodes, tree *t, uint64_t a, uint64_t b) {
    uint32_t path[DEPTH], slots[DEPTH], at = descend(nodes, t, a, b, path, slots);
    node *n = node_at(nodes, at);
    uint32_t slot = rank(n, 0, a, b, 0);
    for (uint32_t level = t->height;; level--) {
        cut_at(n, slot);
        if (level == 1)
            break;
        if (n->count > FAN / 4)
            return;
        /* A node that is nearly empty is joined with a neighbour of the same parent where both are half a node at most. */
        node *parent = node_at(nodes, path[level - 2]);
        uint32_t of = slots[level - 2], left;
        if (n->count) {
            if (of + 1 < parent->count && n->count + node_at(nodes, parent->entries[of + 1].value)->count <= FAN / 2)
                left = of;
            else if (of && n->count + node_at(nodes, parent->entries[of - 1].value)->count <= FAN / 2)
                left = of - 1;
            else
                return;
            node *low = node_at(nodes, parent->entries[left].value), *high = node_at(nodes, parent->entries[left + 1].value);
            move(low, low->count, high, 0, high->count);
            if (level < t->height) { /* what the first child of an inner node begins with is known above only */
                low->entries[low->count].a = parent->entries[left + 1].a;
                low->entries[low->count].b = parent->entries[left + 1].b;
            }
            low->count += high->count;
            of = left + 1;
        }
        uint32_t gone = parent->entries[of].value;
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
        t->root = n->count ? n->entries[0].value : NONE;
        t->height = n->count ? t->height - 1 : 0;
        pool_return(nodes, root);
        if (t->height)
            n = node_at(nodes, t->root);
    }
}

/* Take out the entry at a place. */
static inline void tree_cut(pool *nodes, tree *t, place p) {
    t->count--;
    if (p.leaf->count > (t->height == 1 ? 1 : FAN / 4 + 1))
        cut_at(p.leaf, p.at);
    else
        tree_shrink(nodes, t, p.leaf->entries[p.at].a, p.leaf->entries[p.at].b);
}

static inline void tree_pull(pool *nodes, tree *t, uint64_t a, uint64_t b) {
    const place p = tree_from(nodes, t, a, b);
    if (p.leaf && entry_at(p)->a == a && entry_at(p)->b == b)
        tree_cut(nodes, t, p);
}

/* --- trees by size ---------------------------------------------------------------------------------------------------- */

/* A tree for each power of 2, of the complements of sizes and addresses: the first of a size comes last, and is taken out without a move. */

static inline int power_of(uint64_t size) { return 63 - __builtin_clzll(size); }

static inline place or_larger(const pool *nodes, const tree *t, int power, place p) {
    while (!p.leaf && ++power < POWERS)
        p = tree_before(nodes, t + power, UINT64_MAX, UINT64_MAX);
    return p;
}

/* The first one that is so large at least, the next one, and the last one that is below a pair. */
static inline place size_from(const pool *nodes, const tree *t, uint64_t size) {
    return or_larger(nodes, t, power_of(size), tree_before(nodes, t + power_of(size), ~size + 1, 0));
}

static inline place size_next(const pool *nodes, const tree *t, place p) {
    return or_larger(nodes, t, power_of(~entry_at(p)->a), tree_previous(nodes, p));
}

static inline const entry *size_before(const pool *nodes, const tree *t, uint64_t size, uint64_t tie) {
    int power = power_of(size);
    const entry *e = entry_from(nodes, t + power, ~size + !tie, ~tie + 1);
    while (e == &NOTHING && power-- > 0)
        e = entry_from(nodes, t + power, 0, 0);
    return e;
}

#endif
