/* The element-wise part of one step of an LSTM or a GRU, forward and backward: gates with their normalizers, the new
 * state, and all gradients but the matrix products. rnn/fused.py has the equations, tensor by tensor; this is the same
 * with each row of the batch read once while it is in the cache.
 *
 * The file includes itself, once for float and once for double. Plain C with loops that GCC and Clang vectorize when
 * they may (-O3 -march=native -fno-math-errno -fno-trapping-math; never -ffast-math, which loses NaN and, when it is
 * linked, may change how the whole process rounds). */
#ifndef REAL

#include <stdint.h>
#include <string.h>

#define PASTE(a, b) a##b
#define GLUE(a, b) PASTE(a, b)
#define NAME(a) GLUE(a, SUFFIX)
#define SIMD _Pragma("omp simd")

/* A tile of the product has up to ROWS rows and PANEL vectors of columns: as many sums as registers hold. */
#if defined(__AVX512F__)
#define BYTES 64
#define ROWS 8
#define PANEL 3
#elif defined(__AVX__)
#define BYTES 32
#define ROWS 6
#define PANEL 2
#else
#define BYTES 16
#define ROWS 6
#define PANEL 2
#endif
#define BLOCK 512 /* rows of a panel that are gone through at a time */
#define SOME 256  /* the same of the other matrix */
#define WIDTH ((int64_t)(BYTES / sizeof(REAL)))
#define WIDE(left) ((left) < PANEL * WIDTH ? WIDTH : PANEL * WIDTH) /* of the next panel, where `left` columns are */
#define INLINE static inline __attribute__((always_inline))
#define SUM(...) _Pragma(#__VA_ARGS__)

/* GCC, where it tunes for AMD, would read a vector of b from memory again for each row of a. */
#if defined(__x86_64__) && !defined(__clang__)
#define IN_REGISTER(x) __asm__("" : "+v"(x))
#else
#define IN_REGISTER(x)
#endif

#define AHEAD 16  /* rows of a panel that are fetched before they are read */

/* Bytes of a packed matrix above which its rows are fetched ahead: it does not stay in the second cache then, where
 * fetching costs without any use. norms/kernel.py measures it. */
int64_t step_fetched = INT64_MAX;

/* Normalizers: over the features of a row; of each number by itself; over the rows of the batch, or its valid ones, or
 * by given statistics. OUT, MIN: eps outside the root. */
enum { NONE, LAYER, RMS, LAYER_OUT, RMS_MIN, TANH, ERF, BATCH, VALID, FIXED };
#define CURVED(site) (job->kind[site] == TANH || job->kind[site] == ERF)
#define CENTRED(kind) ((kind) == LAYER || (kind) == LAYER_OUT)
#define OVER_ROWS(site) (job->kind[site] >= BATCH)
#define STRIP 1024 /* columns of a matrix */
#define GROUP 8   /* rows whose statistics are made one after the other: their sums do not wait for each other */
#define SCRATCH 8 /* times H values for a row's backward step */
#define BENT 9  /* the same for what the curves of a row give */

#define PICK(single, other) (sizeof(REAL) == sizeof(float) ? (single) : (other))
#define MANTISSA PICK(23, 52)
#define BIAS PICK(127, 1023)
#define LIMIT PICK(87.0f, 708.0)
#define LN2_HIGH PICK(0.693359375f, 6.93145751953125e-1)
#define LN2_LOW PICK(-2.12194440e-4f, 1.42860682030941723212e-6)
#define ROUND PICK(12582912.0f, 6755399441055744.0) /* 1.5 * 2^23: adding it rounds to an integer */
#define TINY PICK(1.17549435e-38f, 2.2250738585072014e-308) /* the smallest normal number */
#define TERMS PICK(7, 13)

#define REAL float
#define BITS int32_t
#define UNSIGNED uint32_t
#define SUFFIX _float
#define ROOT __builtin_sqrtf
#include "step.c"
#undef REAL
#undef BITS
#undef UNSIGNED
#undef SUFFIX
#undef ROOT

#define REAL double
#define BITS int64_t
#define UNSIGNED uint64_t
#define SUFFIX _double
#define ROOT __builtin_sqrt
#include "step.c"

const char *step_compiler(void) {
#ifdef __clang__
    return __VERSION__;
#else
    return "GCC " __VERSION__;
#endif
}

#else

/* One sequence: see `Recurrence` in rnn/plan.py for what each array holds. */
typedef struct {
    int64_t batch, hidden, update_old, kind[4], apart; /* c of one step from that of the next: 0, all in one place */
    double eps[4], clip; /* derivatives of an LSTM's gates are bounded by +- clip */
    REAL *z, *u, *h, *c, *stats;
    const uint8_t *mask;
    const REAL *gain_x, *gain_h, *shift, *shift_h, *gain_c, *shift_c, *inside, *dout;
    REAL *dz, *du, *dc, *carry, *dgain_x, *dgain_h, *dshift, *dshift_h, *dgain_c, *dshift_c, *dinside, *scratch;
    const REAL *packed;
    REAL *dh, *moments[4], *seen, *sums, *curved;
    /* x, where z is made here and forgotten, `some` steps at a time: x_t of row b at x[t * down + b * right]. */
    const REAL *x, *packed_x;
    REAL *gathered;
    int64_t inputs, down, right, some;
} NAME(Job);

/* 2^n and e^r - 1 of x = n ln 2 + r, |r| <= ln 2 / 2: e^x = 2^n q + 2^n and e^x - 1 = 2^n q + (2^n - 1) keep their
 * relative accuracy. Comparisons, unlike fmin, let NaN through. */
INLINE REAL NAME(split)(REAL x, REAL *q) {
    static const REAL factor[] = {1,          1,           1.0 / 2,      1.0 / 6,       1.0 / 24,
                                  1.0 / 120,  1.0 / 720,   1.0 / 5040,   1.0 / 40320,   1.0 / 362880,
                                  1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800.0};
    x = x > (REAL)LIMIT ? (REAL)LIMIT : x;
    x = x < -(REAL)LIMIT ? -(REAL)LIMIT : x;
    REAL shifted = x * (REAL)1.44269504088896340736 + (REAL)ROUND;
    REAL n = shifted - (REAL)ROUND;
    REAL r = (x - n * (REAL)LN2_HIGH) - n * (REAL)LN2_LOW;
    REAL p = factor[TERMS];
    for (int k = TERMS - 1; k > 0; k--) p = p * r + factor[k]; /* Taylor's series: its remainder is below rounding */
    *q = p * r;
    BITS bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (BITS)((UNSIGNED)(bits + BIAS) << MANTISSA);
    REAL power;
    memcpy(&power, &bits, sizeof power);
    return power;
}

INLINE REAL NAME(sigmoid)(REAL x) {
    REAL q, power = NAME(split)(-x, &q);
    return 1 / (1 + (power * q + power));
}

INLINE REAL NAME(tanh)(REAL x) {
    REAL q, power = NAME(split)(2 * x, &q);
    REAL less = power * q + (power - 1);
    return less / (less + 2);
}

static inline REAL NAME(exponential)(REAL x) {
    REAL q, power = NAME(split)(x, &q);
    return power * q + power;
}

/* In float32 x P(x^2) / Q(x^2), to 5 units of the last place; coefficients from Eigen. */
INLINE REAL NAME(erf)(REAL x) {
    static const REAL above[] = {2.2905065861350646e-4, 3.4082910107109506e-3, 5.0955695062380861e-2,
                                 1.8520832239976145e-1, 1.128379143519084};
    static const REAL below[] = {-1.1791602954361697e-7, 2.3547966471313185e-5, 1.0179625278914885e-3,
                                 1.4070470171167667e-2, 1.1098505178285362e-1, 4.9746925110067538e-1, 1};
    const REAL limit = 3.832506856900711; /* from here on it is 1 */
    if (sizeof x == sizeof(double)) return (REAL)__builtin_erf(x);
    x = x > limit ? limit : x;
    x = x < -limit ? -limit : x;
    REAL square = x * x, p = above[0], q = below[0];
    for (int k = 1; k < 5; k++) p = p * square + above[k];
    for (int k = 1; k < 7; k++) q = q * square + below[k];
    return x * p / q;
}

typedef REAL NAME(vector) __attribute__((vector_size(BYTES), aligned(sizeof(REAL)), may_alias));

/* Sum of x, or of (x - mean)^2; in four chains, added up by halves, for one addition has to wait for another. */
INLINE REAL NAME(sum)(const REAL *x, int64_t n, REAL mean, const int squared) {
    NAME(vector) sums[4] = {{0}};
    REAL parts[WIDTH];
    int64_t j = 0;
    for (; j + 4 * WIDTH <= n; j += 4 * WIDTH)
        for (int v = 0; v < 4; v++) {
            NAME(vector) d = *(const NAME(vector) *)(x + j + v * WIDTH) - mean;
            if (squared) d *= d;
            sums[v] += d;
        }
    sums[0] = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    memcpy(parts, sums, sizeof parts);
#define HALVE(half) for (int k = 0; k < (half); k++) parts[k] += parts[k + (half)];
    if (WIDTH > 8) HALVE(8)
    if (WIDTH > 4) HALVE(4)
    if (WIDTH > 2) HALVE(2)
    REAL total = parts[0] + parts[1];
    for (; j < n; j++) total += squared ? (x[j] - mean) * (x[j] - mean) : x[j];
    return total;
}

/* Of a row: stats[0] the mean (0 of rms), stats[1] 1 / sqrt(variance or mean square + eps), or 1 / (deviation + eps),
 * or 1 / max(root of the mean square, eps). */
static inline void NAME(moments)(const REAL *restrict x, int64_t n, int64_t kind, double eps, REAL *restrict stats) {
    stats[0] = CENTRED(kind) ? NAME(sum)(x, n, 0, 0) / n : 0;
    stats[1] = kind == LAYER || kind == RMS ? 1 / (REAL)__builtin_sqrt(NAME(sum)(x, n, stats[0], 1) / n + eps) : 1;
    if (kind == LAYER_OUT) {
        const REAL variance = NAME(sum)(x, n, stats[0], 1) / n;
        stats[1] = 1 / ((REAL)__builtin_sqrt(variance < (REAL)TINY ? (REAL)TINY : variance) + (REAL)eps);
    }
    if (kind == RMS_MIN) {
        const REAL root = (REAL)__builtin_sqrt(NAME(sum)(x, n, 0, 1) / n);
        stats[1] = 1 / (root < (REAL)eps ? (REAL)eps : root);
    }
}

/* The mean of dy gain normed as the gradient has it: with eps outside the root, r = 1 / (s + eps), dr / ds = -r^2 gives
 * it the factor (s + eps) / s; a root that eps replaces has none. */
static inline REAL NAME(sloped)(REAL dot, int64_t kind, double eps, REAL rstd) {
    if (kind == RMS_MIN) return rstd < 1 / (REAL)eps ? dot : 0;
    const REAL share = kind == LAYER_OUT ? 1 - (REAL)eps * rstd : 1; /* s / (s + eps) */
    return share > 0 ? dot / share : 0;
}

/* out = f(alpha x + shift) of n features, by the curve of a site; x where it has none. */
static void NAME(curve)(const NAME(Job) *job, int site, const REAL *x, REAL *restrict out, int64_t n) {
    if (!CURVED(site)) {
        memcpy(out, x, n * sizeof *out);
        return;
    }
    const REAL alpha = job->inside[2 * site], shift = job->inside[2 * site + 1];
    if (job->kind[site] == TANH)
        SIMD
        for (int64_t j = 0; j < n; j++) out[j] = NAME(tanh)(alpha * x[j] + shift);
    else
        SIMD
        for (int64_t j = 0; j < n; j++) out[j] = NAME(erf)(alpha * x[j] + shift);
}

/* x, or where it has curves what they make of it, in `out`; the last `rest` features have a site of their own. */
static inline const REAL *NAME(curves)(const NAME(Job) *job, int site, const REAL *x, REAL *out, int64_t n,
                                       int64_t rest) {
    if (!CURVED(site) && !(rest && CURVED(site + 2))) return x;
    NAME(curve)(job, site, x, out, n - rest);
    if (rest) NAME(curve)(job, site + 2, x + n - rest, out + n - rest, rest);
    return out;
}

/* dx of y = gain f(alpha x + shift) from dy and f; dgain, if there, += dy f. dx may be x or dy. */
INLINE void NAME(slope)(const NAME(Job) *job, int site, const REAL *dy, const REAL *x, const REAL *f, REAL *dx,
                        const REAL *gain, REAL *dgain, int64_t n, const int kind) {
    const REAL alpha = job->inside[2 * site], shift = job->inside[2 * site + 1];
    REAL dot = 0, sum = 0;
    SUM(omp simd reduction(+ : dot, sum))
    for (int64_t j = 0; j < n; j++) {
        const REAL u = alpha * x[j] + shift;
        const REAL slope = kind == TANH ? 1 - f[j] * f[j] : (REAL)1.12837916709551257390 * NAME(exponential)(-u * u);
        const REAL d = dy[j] * gain[j] * slope;
        dot += d * x[j], sum += d;
        if (dgain) dgain[j] += dy[j] * f[j];
        dx[j] = alpha * d;
    }
    job->dinside[2 * site] += dot, job->dinside[2 * site + 1] += sum;
}

INLINE void NAME(uncurve)(const NAME(Job) *job, int site, const REAL *dy, const REAL *x, const REAL *f, REAL *dx,
                          const REAL *gain, REAL *dgain, int64_t n) {
    if (job->kind[site] == TANH) NAME(slope)(job, site, dy, x, f, dx, gain, dgain, n, TANH);
    else NAME(slope)(job, site, dy, x, f, dx, gain, dgain, n, ERF);
}

/* dx of y = gain (x - mean) rstd from dy; dgain += dy (x - mean) rstd. dx may be x. f: what a curve made of x. */
static inline void NAME(unnorm)(const NAME(Job) *job, int site, const REAL *restrict dy, const REAL *x, const REAL *f,
                                REAL *dx, const REAL *restrict gain, REAL *restrict dgain, int64_t n,
                                const REAL *stats) {
    const REAL mean = stats[0], rstd = stats[1];
    const int64_t half = n / 2, kind = job->kind[site];
    REAL sum = 0, dot = 0, sum1 = 0, dot1 = 0;
    if (kind == NONE) memcpy(dx, dy, n * sizeof *dx);
    if (kind == NONE || kind >= BATCH) return;
    if (CURVED(site)) {
        NAME(uncurve)(job, site, dy, x, f, dx, gain, dgain, n);
        return;
    }
#define NORMED(k) ((x[k] - mean) * rstd)
    SUM(omp simd reduction(+ : sum, dot, sum1, dot1))
    for (int64_t j = 0; j < half; j++) {
        REAL d = dy[j] * gain[j], d1 = dy[j + half] * gain[j + half];
        sum += d, dot += d * NORMED(j), sum1 += d1, dot1 += d1 * NORMED(j + half);
    }
    for (int64_t j = 2 * half; j < n; j++) sum += dy[j] * gain[j], dot += dy[j] * gain[j] * NORMED(j);
    sum = CENTRED(kind) ? (sum + sum1) / n : 0;
    dot = NAME(sloped)((dot + dot1) / n, kind, job->eps[site], rstd);
    SIMD
    for (int64_t j = 0; j < n; j++) {
        REAL normed = NORMED(j);
        dgain[j] += dy[j] * normed;
        dx[j] = rstd * (dy[j] * gain[j] - sum - normed * dot);
    }
#undef NORMED
}

/* Which rows of step t make the statistics of a site; NULL for all of them, *count how many. */
static inline const uint8_t *NAME(counted)(const NAME(Job) *job, int64_t t, int site, int64_t *count) {
    const uint8_t *rows = job->kind[site] == VALID && job->mask ? job->mask + t * job->batch : NULL;
    *count = rows ? 0 : job->batch;
    for (int64_t b = 0; rows && b < job->batch; b++) *count += rows[b] != 0;
    return rows;
}

/* Normalizers over rows: x = (x - mean) / root in its place, for all that follows to take as it is. Of each of the
 * `width` columns the moments hold mean, 1 / root (0 where no row counts) and variance. */
static void NAME(standardize)(const NAME(Job) *job, int64_t t, int site, REAL *x, int64_t stride, int64_t width) {
    const int64_t batch = job->batch;
    REAL *restrict mean = job->moments[site] + t * 3 * width, *restrict rstd = mean + width;
    REAL *restrict variance = rstd + width;
    if (job->kind[site] != FIXED) {
        int64_t count;
        const uint8_t *rows = NAME(counted)(job, t, site, &count);
        const REAL share = count ? 1 / (REAL)count : 0;
        memset(mean, 0, 3 * width * sizeof *mean);
        for (int64_t b = 0; b < batch; b++) {
            const REAL *restrict row = x + b * stride;
            if (rows && !rows[b]) continue;
            SIMD
            for (int64_t j = 0; j < width; j++) mean[j] += row[j];
        }
        SIMD
        for (int64_t j = 0; j < width; j++) mean[j] *= share;
        for (int64_t b = 0; b < batch; b++) {
            const REAL *restrict row = x + b * stride;
            if (rows && !rows[b]) continue;
            SIMD
            for (int64_t j = 0; j < width; j++) variance[j] += (row[j] - mean[j]) * (row[j] - mean[j]);
        }
        SIMD
        for (int64_t j = 0; j < width; j++) {
            variance[j] *= share;
            rstd[j] = count ? 1 / (REAL)__builtin_sqrt(variance[j] + job->eps[site]) : 0;
        }
    }
    for (int64_t b = 0; b < batch; b++) {
        REAL *restrict row = x + b * stride;
        SIMD
        for (int64_t j = 0; j < width; j++) row[j] = (row[j] - mean[j]) * rstd[j];
    }
}

/* The gradient of what was standardized into x, in the place of x, from dy (rows `apart` from each other) behind the
 * gain; dgain, if there, += dy x. */
static void NAME(unstandardize)(const NAME(Job) *job, int64_t t, int site, const REAL *dy, int64_t apart, REAL *x,
                                int64_t stride, int64_t width, const REAL *restrict gain, REAL *restrict dgain) {
    const REAL *restrict rstd = job->moments[site] + (t * 3 + 1) * width;
    REAL *sum = job->sums, *dot = sum + width;
    int64_t count;
    const uint8_t *rows = NAME(counted)(job, t, site, &count);
    const REAL share = count && job->kind[site] != FIXED ? 1 / (REAL)count : 0;
    memset(sum, 0, 2 * width * sizeof *sum);
    for (int64_t b = 0; b < job->batch; b++) {
        const REAL *restrict dy_row = dy + b * apart, *restrict row = x + b * stride;
        if (rows && !rows[b]) continue;
        SIMD
        for (int64_t j = 0; j < width; j++) sum[j] += dy_row[j], dot[j] += dy_row[j] * row[j];
    }
    for (int64_t j = 0; dgain && j < width; j++) dgain[j] += dot[j];
    for (int64_t j = 0; j < 2 * width; j++) sum[j] *= share;
    for (int64_t b = 0; b < job->batch; b++) {
        const REAL *restrict dy_row = dy + b * apart;
        REAL *restrict row = x + b * stride;
        if (rows && !rows[b]) {
            memset(row, 0, width * sizeof *row);
            continue;
        }
        SIMD
        for (int64_t j = 0; j < width; j++) row[j] = gain[j] * rstd[j] * (dy_row[j] - sum[j] - row[j] * dot[j]);
    }
}

/* b (depth, columns), with b(k, j) at b[k * down + j * right], in the order in which `product` reads it: panel by panel,
 * each row by row, the last one filled up with zeros. Rows as long as a matrix has them share few sets of the cache. */
void NAME(pack)(int64_t down, int64_t right, int64_t depth, int64_t columns, const REAL *b, REAL *packed) {
    for (int64_t j = 0, width; j < columns; j += width) {
        width = WIDE(columns - j);
        const int64_t used = columns - j < width ? columns - j : width;
        for (int64_t k = 0; k < depth; k++, packed += width) {
            for (int64_t v = 0; v < used; v++) packed[v] = b[k * down + (j + v) * right];
            for (int64_t v = used; v < width; v++) packed[v] = 0;
        }
    }
}

/* out = a b, or += where there is `more`, for `rows` rows, of a `deep` and of out `columns` apart, and `vectors` vectors
 * of columns; rows, vectors and ahead are constants where this is called. */
INLINE void NAME(tile)(const REAL *a, int64_t deep, const REAL *b, REAL *out, int64_t depth, int64_t columns, int more,
                       const int rows, const int vectors, const int ahead) {
    NAME(vector) sums[8][PANEL];
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++)
            sums[r][v] = more ? *(NAME(vector) *)(out + r * columns + v * WIDTH) : (NAME(vector)){0};
    for (int64_t k = 0; k < depth; k++, b += vectors * WIDTH) {
        for (int v = 0; ahead && v < vectors; v++) __builtin_prefetch(b + (AHEAD * vectors + v) * WIDTH);
        NAME(vector) row[PANEL];
        for (int v = 0; v < vectors; v++) {
            row[v] = *(const NAME(vector) *)(b + v * WIDTH);
            IN_REGISTER(row[v]);
        }
        for (int r = 0; r < rows; r++)
            for (int v = 0; v < vectors; v++) sums[r][v] += a[r * deep + k] * row[v];
    }
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++) *(NAME(vector) *)(out + r * columns + v * WIDTH) = sums[r][v];
}

/* All rows by `depth` rows of a panel, of which out has `used` columns; bands of nearly the same height. */
INLINE void NAME(panel)(const REAL *a, int64_t deep, const REAL *b, REAL *out, int64_t rows, int64_t depth,
                        int64_t columns, int64_t used, int more, const int vectors, const int ahead) {
    REAL aside[8 * PANEL * WIDTH];
    const int part = used < vectors * WIDTH;
    const int64_t apart = part ? vectors * WIDTH : columns;
    if (part) memset(aside, 0, sizeof aside);
    for (int64_t left = (rows + ROWS - 1) / ROWS, count; left > 0; left--, rows -= count) {
        count = (rows + left - 1) / left;
        REAL *to = part ? aside : out;
        for (int64_t r = 0; part && more && r < count; r++) memcpy(to + r * apart, out + r * columns, used * sizeof *to);
#define BAND(n) case n: NAME(tile)(a, deep, b, to, depth, apart, more, n, vectors, ahead); break;
        switch (count) { BAND(1) BAND(2) BAND(3) BAND(4) BAND(5) BAND(6) BAND(7) BAND(8) }
#undef BAND
        for (int64_t r = 0; part && r < count; r++) memcpy(out + r * columns, to + r * apart, used * sizeof *to);
        a += count * deep, out += count * columns;
    }
}

/* out (rows, columns) = a (rows, depth) b (depth, columns), b as `pack` has left it. Some rows of a stay in the second
 * cache while b goes by, and a block of a panel in the first while they do. */
void NAME(product)(int64_t rows, int64_t depth, int64_t columns, const REAL *a, const REAL *packed, REAL *out) {
    const int ahead = depth * columns * (int64_t)sizeof *packed > step_fetched;
    for (int64_t first = 0; first < rows; first += SOME, a += SOME * depth, out += SOME * columns) {
        const int64_t some = rows - first < SOME ? rows - first : SOME;
        const REAL *b = packed;
        for (int64_t j = 0, width; j < columns; j += width) {
            width = WIDE(columns - j);
            const int64_t used = columns - j < width ? columns - j : width;
            for (int64_t k = 0, high; k < depth; k += high, b += high * width) {
                high = depth - k < BLOCK ? depth - k : BLOCK;
                if (width == WIDTH) NAME(panel)(a + k, depth, b, out + j, some, high, columns, used, k > 0, 1, 0);
                else if (ahead) NAME(panel)(a + k, depth, b, out + j, some, high, columns, used, k > 0, PANEL, 1);
                else NAME(panel)(a + k, depth, b, out + j, some, high, columns, used, k > 0, PANEL, 0);
            }
        }
    }
}

/* Sites over rows among those of the gates, before the rows are gone through: `first` gates are normalized together,
 * then the others. Where u_in lies then: NULL for job->u. */
static REAL *NAME(standardize_gates)(NAME(Job) *job, int64_t t, REAL *u_in, int64_t gates, int64_t first) {
    const int64_t n = job->hidden, width = gates * n, block = first * n, at = t * job->batch * width;
    if (job->u && u_in && (OVER_ROWS(1) || (gates > first && OVER_ROWS(3)))) {
        memcpy(job->u + at, u_in, job->batch * width * sizeof *u_in);
        u_in = NULL;
    }
    REAL *z = job->z + at, *u = u_in ? u_in : job->u + at;
    if (OVER_ROWS(0)) NAME(standardize)(job, t, 0, z, width, block);
    if (OVER_ROWS(1)) NAME(standardize)(job, t, 1, u, width, block);
    if (gates > first && OVER_ROWS(2)) NAME(standardize)(job, t, 2, z + block, width, width - block);
    if (gates > first && OVER_ROWS(3)) NAME(standardize)(job, t, 3, u + block, width, width - block);
    return u_in;
}

/* What the curves of a row give, of z, of u, of c: one place for each row of a group, or for each of all where these are
 * gone through between two uses. */
#define CURVES(b) (job->curved + (job->seen ? (b) : (b) % GROUP) * BENT * n)
#define PRE(k) ((z[k] - mx) * rx * gx[k] + (u[k] - mh) * rh * gh[k] + shift[k])

/* The statistics of one row's gates. */
INLINE void NAME(lstm_moments)(NAME(Job) *job, int64_t t, int64_t b, const REAL *u_in) {
    const int64_t n = job->hidden, row = t * job->batch + b;
    const REAL *u = u_in ? u_in + b * 4 * n : job->u + row * 4 * n;
    if (job->mask && !job->mask[row]) return;
    NAME(moments)(job->z + row * 4 * n, 4 * n, job->kind[0], job->eps[0], job->stats + row * 6);
    NAME(moments)(u, 4 * n, job->kind[1], job->eps[1], job->stats + row * 6 + 2);
}

/* c of one row. */
INLINE void NAME(lstm_cell)(NAME(Job) *job, int64_t t, int64_t b, const REAL *u_in) {
    const int64_t n = job->hidden, row = t * job->batch + b;
    const REAL *restrict gx = job->gain_x, *restrict gh = job->gain_h, *restrict shift = job->shift;
    const REAL *z = job->z + row * 4 * n, *cp = job->c + t * job->apart + b * n;
    const REAL *u = job->u ? job->u + row * 4 * n : u_in + b * 4 * n;
    const REAL *restrict stats = job->stats + row * 6;
    REAL *c = job->c + (t + 1) * job->apart + b * n;
    if (job->u && u_in) memcpy(job->u + row * 4 * n, u_in + b * 4 * n, 4 * n * sizeof *u);
    if (job->mask && !job->mask[row]) {
        memmove(c, cp, n * sizeof *c);
        return;
    }
    z = NAME(curves)(job, 0, z, CURVES(b), 4 * n, 0), u = NAME(curves)(job, 1, u, CURVES(b) + 4 * n, 4 * n, 0);
    const REAL mx = stats[0], rx = stats[1], mh = stats[2], rh = stats[3];
    SIMD
    for (int64_t j = 0; j < n; j++)
        c[j] = NAME(sigmoid)(PRE(j)) * cp[j] + NAME(sigmoid)(PRE(j + n)) * NAME(tanh)(PRE(j + 3 * n));
}

/* h of one row, from its c, or from what normalization over rows has made of it. */
INLINE void NAME(lstm_output)(NAME(Job) *job, int64_t t, int64_t b, const REAL *u_in) {
    const int64_t n = job->hidden, row = t * job->batch + b;
    const REAL *restrict gx = job->gain_x, *restrict gh = job->gain_h, *restrict shift = job->shift;
    const REAL *restrict gc = job->gain_c, *restrict sc = job->shift_c;
    const REAL *z = CURVED(0) ? CURVES(b) : job->z + row * 4 * n;
    const REAL *u = CURVED(1) ? CURVES(b) + 4 * n : job->u ? job->u + row * 4 * n : u_in + b * 4 * n;
    const REAL *c = OVER_ROWS(2) ? job->seen + b * n : job->c + (t + 1) * job->apart + b * n;
    REAL *restrict stats = job->stats + row * 6, *restrict h = job->h + (row + job->batch) * n;
    if (job->mask && !job->mask[row]) {
        memcpy(h, job->h + row * n, n * sizeof *h);
        return;
    }
    NAME(moments)(c, n, job->kind[2], job->eps[2], stats + 4);
    c = NAME(curves)(job, 2, c, CURVES(b) + 8 * n, n, 0);
    const REAL mx = stats[0], rx = stats[1], mh = stats[2], rh = stats[3], mc = stats[4], rc = stats[5];
    SIMD
    for (int64_t j = 0; j < n; j++)
        h[j] = NAME(sigmoid)(PRE(j + 2 * n)) * NAME(tanh)((c[j] - mc) * rc * gc[j] + sc[j]);
}

/* u_in: the products W_h h of this step, or NULL where they lie in job->u already; job->u: NULL where no backward pass
 * will need them. */
void NAME(lstm_forward)(NAME(Job) *job, int64_t t, REAL *u_in) {
    const int64_t n = job->hidden, batch = job->batch;
    u_in = NAME(standardize_gates)(job, t, u_in, 4, 4);
    for (int64_t first = 0; first < batch; first += GROUP) {
        const int64_t end = first + GROUP < batch ? first + GROUP : batch;
        for (int64_t b = first; b < end; b++) NAME(lstm_moments)(job, t, b, u_in);
        for (int64_t b = first; b < end; b++) NAME(lstm_cell)(job, t, b, u_in);
        for (int64_t b = first; b < end && !OVER_ROWS(2); b++) NAME(lstm_output)(job, t, b, u_in);
    }
    if (OVER_ROWS(2)) {
        memcpy(job->seen, job->c + (t + 1) * job->apart, batch * n * sizeof *job->seen);
        NAME(standardize)(job, t, 2, job->seen, n, n);
        for (int64_t b = 0; b < batch; b++) NAME(lstm_output)(job, t, b, u_in);
    }
}

/* Scratch of row b: one for all, or one for each where gradients meet over rows. */
static inline REAL *NAME(scratch_of)(const NAME(Job) *job, int64_t b) {
    return job->scratch + (job->sums ? b * SCRATCH * job->hidden : 0);
}

/* The gradients that `standardize_gates` asks for: d in the rows' scratch, of the hidden candidate after them. */
static void NAME(unstandardize_gates)(NAME(Job) *job, int64_t t, int64_t gates, int64_t first) {
    const int64_t n = job->hidden, width = gates * n, block = first * n, rest = width - block, apart = SCRATCH * n;
    const REAL *d = job->scratch;
    REAL *dz = job->dz + t * job->batch * width, *du = job->du + t * job->batch * width;
    if (OVER_ROWS(0)) NAME(unstandardize)(job, t, 0, d, apart, dz, width, block, job->gain_x, job->dgain_x);
    if (OVER_ROWS(1)) NAME(unstandardize)(job, t, 1, d, apart, du, width, block, job->gain_h, job->dgain_h);
    if (!rest) return;
    const REAL *gain_x = job->gain_x + block, *gain_h = job->gain_h + block;
    REAL *dgain_x = job->dgain_x + block, *dgain_h = job->dgain_h + block;
    if (OVER_ROWS(2)) NAME(unstandardize)(job, t, 2, d + block, apart, dz + block, width, rest, gain_x, dgain_x);
    if (OVER_ROWS(3)) NAME(unstandardize)(job, t, 3, d + width, apart, du + block, width, rest, gain_h, dgain_h);
}

/* What a row adds to the gradient of its c by way of h, and d of the output gate; f, i and g for what follows. */
INLINE void NAME(lstm_output_back)(NAME(Job) *job, int64_t t, int64_t b, const REAL *dh_in) {
    const int64_t n = job->hidden, row = t * job->batch + b;
    const REAL *restrict gx = job->gain_x, *restrict gh = job->gain_h, *restrict shift = job->shift;
    const REAL *restrict gc = job->gain_c, *restrict sc = job->shift_c;
    REAL *restrict dgc = job->dgain_c, *restrict dsc = job->dshift_c;
    REAL *restrict d = NAME(scratch_of)(job, b), *restrict f = d + 4 * n, *restrict i = f + n, *restrict g = i + n;
    REAL *restrict dseen = g + n;
    const REAL *z = job->z + row * 4 * n, *u = job->u + row * 4 * n, *restrict stats = job->stats + row * 6;
    const REAL *raw = OVER_ROWS(2) ? job->seen + b * n : job->c + (row + job->batch) * n, *c = raw;
    const REAL *restrict dout = job->dout + row * n, *restrict dh_rec = dh_in + b * n;
    REAL *restrict dc = job->dc + b * n, *restrict carry = job->carry + b * n;
    if (job->mask && !job->mask[row]) {
        SIMD
        for (int64_t j = 0; j < n; j++) carry[j] += dout[j] + dh_rec[j];
        memset(dseen, 0, n * sizeof *dseen);
        return;
    }
    const REAL mx = stats[0], rx = stats[1], mh = stats[2], rh = stats[3], mc = stats[4], rc = stats[5];
    REAL sum = 0, dot = 0;
    z = NAME(curves)(job, 0, z, CURVES(b), 4 * n, 0), u = NAME(curves)(job, 1, u, CURVES(b) + 4 * n, 4 * n, 0);
    c = NAME(curves)(job, 2, c, CURVES(b) + 8 * n, n, 0);
    SUM(omp simd reduction(+ : sum, dot))
    for (int64_t j = 0; j < n; j++) {
        f[j] = NAME(sigmoid)(PRE(j)), i[j] = NAME(sigmoid)(PRE(j + n)), g[j] = NAME(tanh)(PRE(j + 3 * n));
        REAL o = NAME(sigmoid)(PRE(j + 2 * n)), normed = (c[j] - mc) * rc;
        REAL squashed = NAME(tanh)(normed * gc[j] + sc[j]), dh = dout[j] + dh_rec[j] + carry[j];
        carry[j] = 0;
        d[j + 2 * n] = dh * squashed * o * (1 - o);
        dseen[j] = dh * o * (1 - squashed * squashed);
        dgc[j] += dseen[j] * normed;
        dsc[j] += dseen[j];
        sum += dseen[j] * gc[j];
        dot += dseen[j] * gc[j] * normed;
    }
    if (OVER_ROWS(2)) return;
    if (CURVED(2)) {
        NAME(uncurve)(job, 2, dseen, raw, c, dseen, gc, NULL, n);
        SIMD
        for (int64_t j = 0; j < n; j++) dc[j] += dseen[j];
        return;
    }
    sum = CENTRED(job->kind[2]) ? sum / n : 0;
    dot = job->kind[2] ? NAME(sloped)(dot / n, job->kind[2], job->eps[2], rc) : 0;
    SIMD
    for (int64_t j = 0; j < n; j++) dc[j] += rc * (dseen[j] * gc[j] - sum - (c[j] - mc) * rc * dot);
}

/* The other gates of a row, and what it hands on, from the whole gradient of its c. */
INLINE void NAME(lstm_cell_back)(NAME(Job) *job, int64_t t, int64_t b) {
    const int64_t n = job->hidden, row = t * job->batch + b;
    REAL *restrict d = NAME(scratch_of)(job, b), *restrict f = d + 4 * n, *restrict i = f + n, *restrict g = i + n;
    REAL *restrict dc = job->dc + b * n, *restrict dshift = job->dshift;
    const REAL *z = job->z + row * 4 * n, *u = job->u + row * 4 * n, *restrict cp = job->c + row * n;
    const REAL *restrict stats = job->stats + row * 6;
    if (job->mask && !job->mask[row]) {
        memset(d, 0, 4 * n * sizeof *d);
        if (!OVER_ROWS(0)) memset(job->dz + row * 4 * n, 0, 4 * n * sizeof *d);
        if (!OVER_ROWS(1)) memset(job->du + row * 4 * n, 0, 4 * n * sizeof *d);
        return;
    }
    SIMD
    for (int64_t j = 0; j < n; j++) {
        REAL dcell = dc[j];
        d[j] = dcell * cp[j] * f[j] * (1 - f[j]);
        d[j + n] = dcell * g[j] * i[j] * (1 - i[j]);
        d[j + 3 * n] = dcell * i[j] * (1 - g[j] * g[j]);
        dc[j] = dcell * f[j];
    }
    const REAL bound = job->clip;
    SIMD
    for (int64_t j = 0; j < 4 * n; j++) {
        d[j] = d[j] > bound ? bound : d[j] < -bound ? -bound : d[j]; /* NaN stays */
        dshift[j] += d[j];
    }
    REAL *dz = job->dz + row * 4 * n, *du = job->du + row * 4 * n;
    NAME(unnorm)(job, 0, d, z, CURVES(b), dz, job->gain_x, job->dgain_x, 4 * n, stats);
    NAME(unnorm)(job, 1, d, u, CURVES(b) + 4 * n, du, job->gain_h, job->dgain_h, 4 * n, stats + 2);
}

/* dh: what reaches h_t from the products of step t + 1. Afterwards dz and du hold the gradients of z and u at t, dc that
 * of c_{t-1}, carry what reaches h_{t-1} past the products. */
void NAME(lstm_backward)(NAME(Job) *job, int64_t t, REAL *dh_in) {
    const int64_t n = job->hidden, batch = job->batch;
    if (OVER_ROWS(2)) {
        const REAL *restrict c = job->c + (t + 1) * batch * n, *restrict mean = job->moments[2] + t * 3 * n;
        const REAL *restrict rstd = mean + n;
        for (int64_t b = 0; b < batch; b++)
            SIMD
            for (int64_t j = 0; j < n; j++) job->seen[b * n + j] = (c[b * n + j] - mean[j]) * rstd[j];
    }
    for (int64_t b = 0; b < batch; b++) {
        NAME(lstm_output_back)(job, t, b, dh_in);
        if (!OVER_ROWS(2)) NAME(lstm_cell_back)(job, t, b);
    }
    if (OVER_ROWS(2)) {
        NAME(unstandardize)(job, t, 2, job->scratch + 7 * n, SCRATCH * n, job->seen, n, n, job->gain_c, NULL);
        SIMD
        for (int64_t k = 0; k < batch * n; k++) job->dc[k] += job->seen[k];
        for (int64_t b = 0; b < batch; b++) NAME(lstm_cell_back)(job, t, b);
    }
    NAME(unstandardize_gates)(job, t, 4, 4);
}

void NAME(gru_forward)(NAME(Job) *job, int64_t t, REAL *u_in) {
    const int64_t n = job->hidden, old = job->update_old;
    const REAL *restrict gx = job->gain_x, *restrict gh = job->gain_h, *restrict shift = job->shift;
    const REAL *restrict shift_h = job->shift_h;
    u_in = NAME(standardize_gates)(job, t, u_in, 3, 2);
    for (int64_t b = 0; b < job->batch; b++) {
        const int64_t row = t * job->batch + b;
        const REAL *z = job->z + row * 3 * n, *restrict hp = job->h + row * n;
        REAL *restrict stats = job->stats + row * 8;
        const REAL *u = job->u ? job->u + row * 3 * n : u_in + b * 3 * n;
        REAL *restrict h = job->h + (row + job->batch) * n;
        if (job->u && u_in) memcpy(job->u + row * 3 * n, u_in + b * 3 * n, 3 * n * sizeof *u);
        if (job->mask && !job->mask[row]) {
            memcpy(h, hp, n * sizeof *h);
            continue;
        }
        NAME(moments)(z, 2 * n, job->kind[0], job->eps[0], stats);
        NAME(moments)(u, 2 * n, job->kind[1], job->eps[1], stats + 2);
        NAME(moments)(z + 2 * n, n, job->kind[2], job->eps[2], stats + 4);
        NAME(moments)(u + 2 * n, n, job->kind[3], job->eps[3], stats + 6);
        z = NAME(curves)(job, 0, z, CURVES(b), 3 * n, n), u = NAME(curves)(job, 1, u, CURVES(b) + 3 * n, 3 * n, n);
        const REAL mx = stats[0], rx = stats[1], mh = stats[2], rh = stats[3];
        const REAL mxc = stats[4], rxc = stats[5], mhc = stats[6], rhc = stats[7];
#define INPUT(k) ((z[k] - mxc) * rxc * gx[k] + shift[k])
#define HIDDEN(k, j) ((u[k] - mhc) * rhc * gh[k] + shift_h[j])
        SIMD
        for (int64_t j = 0; j < n; j++) {
            REAL share = NAME(sigmoid)(PRE(j)), r = NAME(sigmoid)(PRE(j + n));
            REAL new = NAME(tanh)(INPUT(j + 2 * n) + r * HIDDEN(j + 2 * n, j));
            share = old ? 1 - share : share;
            h[j] = (1 - share) * hp[j] + share * new;
        }
    }
}

void NAME(gru_backward)(NAME(Job) *job, int64_t t, REAL *dh_in) {
    const int64_t n = job->hidden, old = job->update_old;
    const REAL *restrict gx = job->gain_x, *restrict gh = job->gain_h, *restrict shift = job->shift;
    const REAL *restrict shift_h = job->shift_h;
    REAL *restrict dshift = job->dshift, *restrict dshift_h = job->dshift_h;
    for (int64_t b = 0; b < job->batch; b++) {
        REAL *restrict d = NAME(scratch_of)(job, b), *restrict dhc = d + 3 * n;
        const int64_t row = t * job->batch + b;
        const REAL *raw_z = job->z + row * 3 * n, *raw_u = job->u + row * 3 * n, *restrict hp = job->h + row * n;
        const REAL *restrict stats = job->stats + row * 8;
        const REAL *restrict dout = job->dout + row * n, *restrict dh_rec = dh_in + b * n;
        REAL *restrict carry = job->carry + b * n, *dz = job->dz + row * 3 * n, *du = job->du + row * 3 * n;
        if (job->mask && !job->mask[row]) {
            SIMD
            for (int64_t j = 0; j < n; j++) carry[j] += dout[j] + dh_rec[j];
            memset(d, 0, 4 * n * sizeof *d);
            if (!OVER_ROWS(0)) memset(dz, 0, 2 * n * sizeof *d);
            if (!OVER_ROWS(1)) memset(du, 0, 2 * n * sizeof *d);
            if (!OVER_ROWS(2)) memset(dz + 2 * n, 0, n * sizeof *d);
            if (!OVER_ROWS(3)) memset(du + 2 * n, 0, n * sizeof *d);
            continue;
        }
        const REAL mx = stats[0], rx = stats[1], mh = stats[2], rh = stats[3];
        const REAL mxc = stats[4], rxc = stats[5], mhc = stats[6], rhc = stats[7];
        const REAL *z = NAME(curves)(job, 0, raw_z, CURVES(b), 3 * n, n);
        const REAL *u = NAME(curves)(job, 1, raw_u, CURVES(b) + 3 * n, 3 * n, n);
        SIMD
        for (int64_t j = 0; j < n; j++) {
            REAL share = NAME(sigmoid)(PRE(j)), r = NAME(sigmoid)(PRE(j + n)), hidden = HIDDEN(j + 2 * n, j);
            REAL new = NAME(tanh)(INPUT(j + 2 * n) + r * hidden), dh = dout[j] + dh_rec[j] + carry[j];
            REAL gate = share * (1 - share), part = old ? 1 - share : share;
            REAL dcandidate = dh * part * (1 - new * new), dpart = dh * (new - hp[j]);
            carry[j] = dh * (1 - part);
            d[j] = (old ? -dpart : dpart) * gate;
            d[j + n] = dcandidate * hidden * r * (1 - r);
            d[j + 2 * n] = dcandidate;
            dhc[j] = dcandidate * r;
            dshift[j] += d[j], dshift[j + n] += d[j + n], dshift[j + 2 * n] += dcandidate, dshift_h[j] += dhc[j];
        }
        REAL *dgx = job->dgain_x, *dgh = job->dgain_h;
        const int64_t at = 2 * n; /* the candidate's */
        NAME(unnorm)(job, 0, d, raw_z, z, dz, gx, dgx, at, stats);
        NAME(unnorm)(job, 1, d, raw_u, u, du, gh, dgh, at, stats + 2);
        NAME(unnorm)(job, 2, d + at, raw_z + at, z + at, dz + at, gx + at, dgx + at, n, stats + 4);
        NAME(unnorm)(job, 3, dhc, raw_u + at, u + at, du + at, gh + at, dgh + at, n, stats + 6);
    }
    NAME(unstandardize_gates)(job, t, 3, 2);
}

/* z of `count` steps from `first` on. */
static void NAME(project)(NAME(Job) *job, int64_t first, int64_t count, int64_t columns) {
    const int64_t batch = job->batch, inputs = job->inputs;
    REAL *row = job->gathered;
    for (int64_t t = first; t < first + count; t++)
        for (int64_t b = 0; b < batch; b++, row += inputs)
            memcpy(row, job->x + t * job->down + b * job->right, inputs * sizeof *row);
    NAME(product)(count * batch, inputs, columns, job->gathered, job->packed_x, job->z);
}

/* All steps at once, products included. Without job->u these go, step by step, through the scratch. */
#define ALL(cell, gates)                                                                                             \
    void NAME(cell##_forward_all)(NAME(Job) *job, int64_t steps, REAL *unused) {                                     \
        const int64_t batch = job->batch, n = job->hidden, some = job->x ? job->some : steps;                        \
        NAME(Job) part = *job;                                                                                       \
        for (int64_t first = 0, count; first < steps; first += count) {                                              \
            count = steps - first < some ? steps - first : some;                                                     \
            if (job->x) NAME(project)(job, first, count, gates * n);                                                 \
            for (int64_t t = 0; t < count; t++) {                                                                    \
                REAL *u = job->u ? job->u + t * batch * gates * n : job->scratch;                                    \
                NAME(product)(batch, n, gates * n, part.h + t * batch * n, job->packed, u);                          \
                NAME(cell##_forward)(&part, t, job->u ? NULL : u);                                                   \
            }                                                                                                        \
            part.h += count * batch * n, part.c += count * job->apart;                                               \
            if (part.mask) part.mask += count * batch;                                                               \
        }                                                                                                            \
    }                                                                                                                \
    void NAME(cell##_backward_all)(NAME(Job) *job, int64_t steps, REAL *unused) {                                    \
        const int64_t batch = job->batch, n = job->hidden;                                                           \
        for (int64_t t = steps - 1; t >= 0; t--) {                                                                   \
            NAME(cell##_backward)(job, t, job->dh);                                                                  \
            NAME(product)(batch, gates * n, n, job->du + t * batch * gates * n, job->packed, job->dh);               \
        }                                                                                                            \
    }
ALL(lstm, 4)
ALL(gru, 3)
#undef ALL
#undef PRE
#undef INPUT
#undef HIDDEN

#include "attention.c"
#include "blend.c"
#include "window.c"
#endif
