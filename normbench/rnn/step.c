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
#define SUM(...) _Pragma(#__VA_ARGS__)

#define REAL float
#define BITS int32_t
#define UNSIGNED uint32_t
#define SUFFIX _float
#define MANTISSA 23
#define BIAS 127
#define LIMIT 87.0f
#define LN2_HIGH 0.693359375f
#define LN2_LOW -2.12194440e-4f
#define ROUND 12582912.0f /* 1.5 * 2^23: adding it rounds to an integer */
#define TERMS 7
#include __FILE__
#undef REAL
#undef BITS
#undef UNSIGNED
#undef SUFFIX
#undef MANTISSA
#undef BIAS
#undef LIMIT
#undef LN2_HIGH
#undef LN2_LOW
#undef ROUND
#undef TERMS

#define REAL double
#define BITS int64_t
#define UNSIGNED uint64_t
#define SUFFIX _double
#define MANTISSA 52
#define BIAS 1023
#define LIMIT 708.0
#define LN2_HIGH 6.93145751953125e-1
#define LN2_LOW 1.42860682030941723212e-6
#define ROUND 6755399441055744.0
#define TERMS 13
#include __FILE__

const char *step_compiler(void) {
#ifdef __clang__
    return __VERSION__;
#else
    return "GCC " __VERSION__;
#endif
}

#else

/* One sequence: see Job in rnn/fused.py for what each array holds. Normalizers: 0 none, 1 layer, 2 rms. */
typedef struct {
    int64_t batch, hidden, update_old, kind[4];
    double eps[4];
    REAL *z, *u, *h, *c, *stats;
    const uint8_t *mask;
    const REAL *gain_x, *gain_h, *shift, *shift_h, *gain_c, *shift_c, *dout;
    REAL *dz, *du, *dc, *carry, *dgain_x, *dgain_h, *dshift, *dshift_h, *dgain_c, *dshift_c, *scratch;
} NAME(Job);

/* 2^n and e^r - 1 of x = n ln 2 + r, |r| <= ln 2 / 2: e^x = 2^n q + 2^n and e^x - 1 = 2^n q + (2^n - 1) keep their
 * relative accuracy. Comparisons, unlike fmin, let NaN through. */
static inline __attribute__((always_inline)) REAL NAME(split)(REAL x, REAL *q) {
    static const REAL inverse[] = {1.0, 1.0,     1.0 / 2, 1.0 / 3,  1.0 / 4,  1.0 / 5,  1.0 / 6,
                                   1.0 / 7, 1.0 / 8, 1.0 / 9, 1.0 / 10, 1.0 / 11, 1.0 / 12, 1.0 / 13};
    x = x > (REAL)LIMIT ? (REAL)LIMIT : x;
    x = x < -(REAL)LIMIT ? -(REAL)LIMIT : x;
    REAL shifted = x * (REAL)1.44269504088896340736 + (REAL)ROUND;
    REAL n = shifted - (REAL)ROUND;
    REAL r = (x - n * (REAL)LN2_HIGH) - n * (REAL)LN2_LOW;
    REAL p = 1;
    for (int k = TERMS; k > 1; k--) p = p * (r * inverse[k]) + 1;
    *q = p * r;
    BITS bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (BITS)((UNSIGNED)(bits + BIAS) << MANTISSA);
    REAL power;
    memcpy(&power, &bits, sizeof power);
    return power;
}

static inline __attribute__((always_inline)) REAL NAME(sigmoid)(REAL x) {
    REAL q, power = NAME(split)(-x, &q);
    return 1 / (1 + (power * q + power));
}

static inline __attribute__((always_inline)) REAL NAME(tanh)(REAL x) {
    REAL q, power = NAME(split)(2 * x, &q);
    REAL less = power * q + (power - 1);
    return less / (less + 2);
}

/* stats[0] the mean (0 of rms), stats[1] 1 / sqrt(variance or mean square + eps). */
static inline void NAME(moments)(const REAL *restrict x, int64_t n, int64_t kind, double eps, REAL *restrict stats) {
    REAL mean = 0, square = 0;
    if (kind == 0) {
        stats[0] = 0, stats[1] = 1;
        return;
    }
    if (kind == 1) {
        SUM(omp simd reduction(+ : mean))
        for (int64_t j = 0; j < n; j++) mean += x[j];
        mean /= n;
    }
    SUM(omp simd reduction(+ : square))
    for (int64_t j = 0; j < n; j++) square += (x[j] - mean) * (x[j] - mean);
    stats[0] = mean;
    stats[1] = 1 / (REAL)__builtin_sqrt(square / n + eps);
}

/* dx of y = gain (x - mean) rstd from dy; dgain += dy (x - mean) rstd. dx may be x. */
static inline void NAME(unnorm)(const REAL *restrict dy, const REAL *x, REAL *dx, const REAL *restrict gain,
                                REAL *restrict dgain, int64_t n, int64_t kind, const REAL *stats) {
    const REAL mean = stats[0], rstd = stats[1];
    REAL sum = 0, dot = 0;
    if (kind == 0) {
        if (dx != dy) memcpy(dx, dy, n * sizeof *dx);
        return;
    }
    SUM(omp simd reduction(+ : sum, dot))
    for (int64_t j = 0; j < n; j++) {
        REAL d = dy[j] * gain[j];
        sum += d;
        dot += d * ((x[j] - mean) * rstd);
    }
    sum = kind == 1 ? sum / n : 0;
    dot /= n;
    SIMD
    for (int64_t j = 0; j < n; j++) {
        REAL normed = (x[j] - mean) * rstd;
        dgain[j] += dy[j] * normed;
        dx[j] = rstd * (dy[j] * gain[j] - sum - normed * dot);
    }
}

/* u_in: the products W_h h of this step, or NULL where they lie in job->u already. */
void NAME(lstm_forward)(NAME(Job) *job, int64_t t, const REAL *u_in) {
    const int64_t n = job->hidden;
    const REAL *restrict gx = job->gain_x, *restrict gh = job->gain_h, *restrict shift = job->shift;
    const REAL *restrict gc = job->gain_c, *restrict sc = job->shift_c;
    for (int64_t b = 0; b < job->batch; b++) {
        const int64_t row = t * job->batch + b;
        const REAL *restrict z = job->z + row * 4 * n, *restrict cp = job->c + row * n;
        REAL *restrict u = job->u + row * 4 * n, *restrict stats = job->stats + row * 6;
        REAL *restrict c = job->c + (row + job->batch) * n, *restrict h = job->h + (row + job->batch) * n;
        if (u_in) memcpy(u, u_in + b * 4 * n, 4 * n * sizeof *u);
        if (job->mask && !job->mask[row]) {
            memcpy(c, cp, n * sizeof *c);
            memcpy(h, job->h + row * n, n * sizeof *h);
            continue;
        }
        NAME(moments)(z, 4 * n, job->kind[0], job->eps[0], stats);
        NAME(moments)(u, 4 * n, job->kind[1], job->eps[1], stats + 2);
        const REAL mx = stats[0], rx = stats[1], mh = stats[2], rh = stats[3];
#define PRE(k) ((z[k] - mx) * rx * gx[k] + (u[k] - mh) * rh * gh[k] + shift[k])
        SIMD
        for (int64_t j = 0; j < n; j++)
            c[j] = NAME(sigmoid)(PRE(j)) * cp[j] + NAME(sigmoid)(PRE(j + n)) * NAME(tanh)(PRE(j + 3 * n));
        NAME(moments)(c, n, job->kind[2], job->eps[2], stats + 4);
        const REAL mc = stats[4], rc = stats[5];
        SIMD
        for (int64_t j = 0; j < n; j++)
            h[j] = NAME(sigmoid)(PRE(j + 2 * n)) * NAME(tanh)((c[j] - mc) * rc * gc[j] + sc[j]);
    }
}

/* dh: what reaches h_t from the products of step t + 1. Afterwards dz and du hold the gradients of z and u at t, dc that
 * of c_{t-1}, carry what reaches h_{t-1} past the products. */
void NAME(lstm_backward)(NAME(Job) *job, int64_t t, const REAL *dh_in) {
    const int64_t n = job->hidden;
    const REAL *restrict gx = job->gain_x, *restrict gh = job->gain_h, *restrict shift = job->shift;
    const REAL *restrict gc = job->gain_c, *restrict sc = job->shift_c;
    REAL *restrict dgc = job->dgain_c, *restrict dsc = job->dshift_c, *restrict dshift = job->dshift;
    REAL *restrict d = job->scratch, *restrict f = d + 4 * n, *restrict i = f + n, *restrict g = i + n;
    REAL *restrict dseen = g + n;
    for (int64_t b = 0; b < job->batch; b++) {
        const int64_t row = t * job->batch + b;
        const REAL *z = job->z + row * 4 * n, *u = job->u + row * 4 * n, *restrict cp = job->c + row * n;
        const REAL *restrict c = job->c + (row + job->batch) * n, *restrict stats = job->stats + row * 6;
        const REAL *restrict dout = job->dout + row * n, *restrict dh_rec = dh_in + b * n;
        REAL *restrict dc = job->dc + b * n, *restrict carry = job->carry + b * n;
        if (job->mask && !job->mask[row]) {
            SIMD
            for (int64_t j = 0; j < n; j++) carry[j] += dout[j] + dh_rec[j];
            memset(job->dz + row * 4 * n, 0, 4 * n * sizeof *d);
            memset(job->du + row * 4 * n, 0, 4 * n * sizeof *d);
            continue;
        }
        const REAL mx = stats[0], rx = stats[1], mh = stats[2], rh = stats[3], mc = stats[4], rc = stats[5];
        REAL sum = 0, dot = 0;
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
        sum = job->kind[2] == 1 ? sum / n : 0;
        dot = job->kind[2] ? dot / n : 0;
        SIMD
        for (int64_t j = 0; j < n; j++) {
            REAL dcell = dc[j] + rc * (dseen[j] * gc[j] - sum - (c[j] - mc) * rc * dot);
            d[j] = dcell * cp[j] * f[j] * (1 - f[j]);
            d[j + n] = dcell * g[j] * i[j] * (1 - i[j]);
            d[j + 3 * n] = dcell * i[j] * (1 - g[j] * g[j]);
            dc[j] = dcell * f[j];
        }
        SIMD
        for (int64_t j = 0; j < 4 * n; j++) dshift[j] += d[j];
        NAME(unnorm)(d, z, job->dz + row * 4 * n, gx, job->dgain_x, 4 * n, job->kind[0], stats);
        NAME(unnorm)(d, u, job->du + row * 4 * n, gh, job->dgain_h, 4 * n, job->kind[1], stats + 2);
    }
}

void NAME(gru_forward)(NAME(Job) *job, int64_t t, const REAL *u_in) {
    const int64_t n = job->hidden, old = job->update_old;
    const REAL *restrict gx = job->gain_x, *restrict gh = job->gain_h, *restrict shift = job->shift;
    const REAL *restrict shift_h = job->shift_h;
    for (int64_t b = 0; b < job->batch; b++) {
        const int64_t row = t * job->batch + b;
        const REAL *restrict z = job->z + row * 3 * n, *restrict hp = job->h + row * n;
        REAL *restrict u = job->u + row * 3 * n, *restrict stats = job->stats + row * 8;
        REAL *restrict h = job->h + (row + job->batch) * n;
        if (u_in) memcpy(u, u_in + b * 3 * n, 3 * n * sizeof *u);
        if (job->mask && !job->mask[row]) {
            memcpy(h, hp, n * sizeof *h);
            continue;
        }
        NAME(moments)(z, 2 * n, job->kind[0], job->eps[0], stats);
        NAME(moments)(u, 2 * n, job->kind[1], job->eps[1], stats + 2);
        NAME(moments)(z + 2 * n, n, job->kind[2], job->eps[2], stats + 4);
        NAME(moments)(u + 2 * n, n, job->kind[3], job->eps[3], stats + 6);
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

void NAME(gru_backward)(NAME(Job) *job, int64_t t, const REAL *dh_in) {
    const int64_t n = job->hidden, old = job->update_old;
    const REAL *restrict gx = job->gain_x, *restrict gh = job->gain_h, *restrict shift = job->shift;
    const REAL *restrict shift_h = job->shift_h;
    REAL *restrict dshift = job->dshift, *restrict dshift_h = job->dshift_h;
    REAL *restrict d = job->scratch, *restrict dhc = d + 3 * n;
    for (int64_t b = 0; b < job->batch; b++) {
        const int64_t row = t * job->batch + b;
        const REAL *z = job->z + row * 3 * n, *u = job->u + row * 3 * n, *restrict hp = job->h + row * n;
        const REAL *restrict stats = job->stats + row * 8;
        const REAL *restrict dout = job->dout + row * n, *restrict dh_rec = dh_in + b * n;
        REAL *restrict carry = job->carry + b * n, *dz = job->dz + row * 3 * n, *du = job->du + row * 3 * n;
        if (job->mask && !job->mask[row]) {
            SIMD
            for (int64_t j = 0; j < n; j++) carry[j] += dout[j] + dh_rec[j];
            memset(dz, 0, 3 * n * sizeof *d);
            memset(du, 0, 3 * n * sizeof *d);
            continue;
        }
        const REAL mx = stats[0], rx = stats[1], mh = stats[2], rh = stats[3];
        const REAL mxc = stats[4], rxc = stats[5], mhc = stats[6], rhc = stats[7];
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
        NAME(unnorm)(d, z, dz, gx, job->dgain_x, 2 * n, job->kind[0], stats);
        NAME(unnorm)(d, u, du, gh, job->dgain_h, 2 * n, job->kind[1], stats + 2);
        NAME(unnorm)(d + 2 * n, z + 2 * n, dz + 2 * n, gx + 2 * n, job->dgain_x + 2 * n, n, job->kind[2], stats + 4);
        NAME(unnorm)(dhc, u + 2 * n, du + 2 * n, gh + 2 * n, job->dgain_h + 2 * n, n, job->kind[3], stats + 6);
    }
}
#undef PRE
#undef INPUT
#undef HIDDEN
#endif
