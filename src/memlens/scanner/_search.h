/* The packed search: where one of many prefixes may begin, and where lines end, 64 bytes at a time. */
#ifndef MEMLENS_SEARCH_H
#define MEMLENS_SEARCH_H
#include "_machine.h"

/* Of 64 bytes at a time: where one of the prefixes may begin (its first three bytes fit), and where a line ends.  A prefix
 * belongs to one of eight buckets, one bit each; a byte fits a bucket where the tables of its low and of its high half both
 * say so.  Two bytes after the last one must be readable. */
typedef void Search(Text p, int64_t words, Text nibbles, uint64_t *candidates, uint64_t *line_ends);
typedef void Ends(Text p, int64_t words, uint64_t *line_ends); /* where lines end, and nothing else */

static void search_plain(Text p, int64_t words, Text t, uint64_t *candidates, uint64_t *line_ends) {
    for (int64_t w = 0; w < words; w++) {
        uint64_t c = 0, l = 0;
        for (int i = 0; i < 64; i++, p++) {
            uint8_t hit = t[p[0] & 15] & t[16 + (p[0] >> 4)] & t[32 + (p[1] & 15)] & t[48 + (p[1] >> 4)];
            hit &= t[64 + (p[2] & 15)] & t[80 + (p[2] >> 4)];
            c |= (uint64_t)(hit != 0) << i, l |= (uint64_t)(*p == '\n') << i;
        }
        candidates[w] = c, line_ends[w] = l;
    }
}

static void ends_plain(Text p, int64_t words, uint64_t *line_ends) {
    for (int64_t w = 0; w < words; w++)
        for (int i = line_ends[w] = 0; i < 64; i++) line_ends[w] |= (uint64_t)(*p++ == '\n') << i;
}

/* The same with vectors; what each machine calls its operations is defined before each use. */
#define SEARCH(NAME, ENDS, ATTRIBUTES)                                                                                      \
    ATTRIBUTES static void ENDS(Text p, int64_t words, uint64_t *line_ends) {                                               \
        for (int64_t w = 0; w < words; w++) {                                                                               \
            uint64_t ends = 0;                                                                                              \
            for (unsigned i = 0; i < 64; i += sizeof(V), p += sizeof(V)) ends |= (uint64_t)EQUAL(LOAD(p), '\n') << i;       \
            line_ends[w] = ends;                                                                                            \
        }                                                                                                                   \
    }                                                                                                                       \
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
SEARCH(search_avx2, ends_avx2, __attribute__((target("avx2"))))

static Search *searches[] = {search_avx2, search_plain};
static Ends *ends[] = {ends_avx2, ends_plain};
static int available(int which) { return which || __builtin_cpu_supports("avx2"); }
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
SEARCH(search_neon, ends_neon, )

static Search *searches[] = {search_neon, search_plain};
static Ends *ends[] = {ends_neon, ends_plain};
static int available(int which) { (void)which; return 1; }
#else
static Search *searches[] = {search_plain};
static Ends *ends[] = {ends_plain};
static int available(int which) { (void)which; return 1; }
#endif

enum { FASTEST = -1, SEARCHES = sizeof searches / sizeof *searches };

#endif
