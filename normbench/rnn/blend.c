/* Batch layer normalization of x (m, positions, n), forward and backward: over the m rows, and over the n features of
 * each row and position, both weighted and added up. norms/batch_layer.py has the equations. Part of step.c, which
 * includes it once for float and once for double. */

/* Columns are gone through STRIP at a time, all rows twice, while these lie in the cache. */
void NAME(blend_forward)(int64_t m, int64_t positions, int64_t n, REAL weight_b, REAL weight_f, REAL eps_b, REAL eps_f,
                         const REAL *x, const REAL *restrict gain, const REAL *restrict shift, REAL *mean, REAL *variance,
                         REAL *rstd, REAL *mean_f, REAL *rstd_f, REAL *y) {
    const int64_t width = positions * n;
    memset(mean, 0, width * sizeof *mean), memset(variance, 0, width * sizeof *variance);
    for (int64_t first = 0; first < width; first += STRIP) {
        const int64_t count = width - first < STRIP ? width - first : STRIP;
        REAL *restrict mu = mean + first, *restrict v = variance + first, *restrict root = rstd + first;
        for (int64_t b = 0; b < m; b++) {
            const REAL *restrict row = x + b * width + first;
            SIMD
            for (int64_t j = 0; j < count; j++) mu[j] += row[j];
        }
        SIMD
        for (int64_t j = 0; j < count; j++) mu[j] /= m;
        for (int64_t b = 0; b < m; b++) {
            const REAL *restrict row = x + b * width + first;
            SIMD
            for (int64_t j = 0; j < count; j++) v[j] += (row[j] - mu[j]) * (row[j] - mu[j]);
        }
        SIMD
        for (int64_t j = 0; j < count; j++) {
            v[j] /= m;
            root[j] = 1 / ROOT(v[j] + eps_b);
        }
    }
    for (int64_t r = 0; r < m * positions; r++) {
        const REAL *restrict row = x + r * n, *restrict mu = mean + r % positions * n;
        const REAL *restrict root = rstd + r % positions * n;
        REAL *restrict out = y + r * n, stats[2];
        NAME(moments)(row, n, LAYER, eps_f, stats);
        const REAL mu_f = mean_f[r] = stats[0], root_f = rstd_f[r] = stats[1];
        SIMD
        for (int64_t j = 0; j < n; j++)
            out[j] = gain[j] * (weight_b * ((row[j] - mu[j]) * root[j]) + weight_f * ((row[j] - mu_f) * root_f)) + shift[j];
    }
}

/* sums: 2 (positions, n) of scratch. */
void NAME(blend_backward)(int64_t m, int64_t positions, int64_t n, REAL weight_b, REAL weight_f, const REAL *x,
                          const REAL *restrict gain, const REAL *mean, const REAL *rstd, const REAL *mean_f,
                          const REAL *rstd_f, const REAL *dy, REAL *dx, REAL *restrict dgain, REAL *restrict dshift,
                          REAL *sums) {
    const int64_t width = positions * n;
    memset(sums, 0, 2 * width * sizeof *sums);
    memset(dgain, 0, n * sizeof *dgain), memset(dshift, 0, n * sizeof *dshift);
    for (int64_t first = 0; first < width; first += STRIP) {
        const int64_t count = width - first < STRIP ? width - first : STRIP;
        const REAL *restrict mu = mean + first, *restrict root = rstd + first;
        REAL *restrict sum = sums + first, *restrict dot = sums + width + first;
        for (int64_t b = 0; b < m; b++) {
            const REAL *restrict row = x + b * width + first, *restrict d = dy + b * width + first;
            SIMD
            for (int64_t j = 0; j < count; j++) sum[j] += d[j], dot[j] += d[j] * ((row[j] - mu[j]) * root[j]);
        }
    }
    for (int64_t p = 0; p < positions; p++) {
        REAL *restrict sum = sums + p * n, *restrict dot = sum + width;
        SIMD
        for (int64_t j = 0; j < n; j++) {
            dshift[j] += sum[j], dgain[j] += weight_b * dot[j];
            sum[j] /= m, dot[j] /= m;
        }
    }
    for (int64_t r = 0; r < m * positions; r++) {
        const int64_t at = r % positions * n;
        const REAL *restrict row = x + r * n, *restrict d = dy + r * n, *restrict mu = mean + at;
        const REAL *restrict root = rstd + at, *restrict sum = sums + at, *restrict dot = sum + width;
        const REAL mu_f = mean_f[r], root_f = rstd_f[r];
        REAL *restrict out = dx + r * n, sum_f = 0, dot_f = 0;
        SUM(omp simd reduction(+ : sum_f, dot_f))
        for (int64_t j = 0; j < n; j++) {
            const REAL normed = (row[j] - mu_f) * root_f, back = d[j] * gain[j];
            sum_f += back, dot_f += back * normed;
            dgain[j] += weight_f * (d[j] * normed);
        }
        sum_f /= n, dot_f /= n;
        SIMD
        for (int64_t j = 0; j < n; j++) {
            const REAL by_rows = d[j] - sum[j] - (row[j] - mu[j]) * root[j] * dot[j];
            const REAL by_features = d[j] * gain[j] - sum_f - (row[j] - mu_f) * root_f * dot_f;
            out[j] = weight_b * root[j] * gain[j] * by_rows + weight_f * root_f * by_features;
        }
    }
}
