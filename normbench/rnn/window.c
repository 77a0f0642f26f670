/* A window of Gaussians that moves along a text (Graves 2013, 5.2), one step forward and backward, an example at a time.
 * rnn/window.py has the equations. Part of step.c, which includes it once for float and once for double. */

typedef struct {
    REAL height, narrowness, pace, inside[3]; /* 1 where a logarithm is within its bounds */
} NAME(Bump);

/* The k-th of n Gaussians, from 3 n numbers of an example. */
static inline NAME(Bump) NAME(bump)(const REAL *given, int64_t n, int64_t k, REAL bound, REAL shift) {
    NAME(Bump) bump;
    REAL values[3];
    for (int i = 0; i < 3; i++) {
        const REAL value = given[i * n + k] + (i == 2 ? shift : 0);
        const REAL bounded = value > bound ? bound : value < -bound ? -bound : value; /* NaN stays */
        bump.inside[i] = value >= -bound && value <= bound;
        values[i] = NAME(exponential)(bounded);
    }
    bump.height = values[0], bump.narrowness = values[1], bump.pace = values[2];
    return bump;
}

static inline REAL NAME(gaussian)(REAL distance, REAL narrowness) {
    const REAL square = narrowness * distance * distance;
    return square > (REAL)(0.9 * LIMIT) ? 0 : NAME(exponential)(-square); /* as in `filters` */
}

/* seen (B, symbols) and the places after (B, n), from the places before. scratch: U. */
void NAME(window_forward)(int64_t batch, int64_t n, int64_t places, int64_t symbols, REAL bound, REAL shift,
                          const REAL *given, const REAL *before, const int64_t *text, const int64_t *lengths,
                          REAL *seen, REAL *after, REAL *scratch) {
    memset(seen, 0, batch * symbols * sizeof *seen);
    for (int64_t b = 0; b < batch; b++) {
        const int64_t length = lengths[b], *letters = text + b * places;
        memset(scratch, 0, length * sizeof *scratch);
        for (int64_t k = 0; k < n; k++) {
            const NAME(Bump) bump = NAME(bump)(given + b * 3 * n, n, k, bound, shift);
            const REAL place = after[b * n + k] = before[b * n + k] + bump.pace;
            SIMD
            for (int64_t u = 0; u < length; u++)
                scratch[u] += bump.height * NAME(gaussian)(place - (REAL)u, bump.narrowness);
        }
        for (int64_t u = 0; u < length; u++) seen[b * symbols + letters[u]] += scratch[u];
    }
}

/* dgiven (B, 3 n) and dbefore (B, n) from dseen and dafter. scratch: U. */
void NAME(window_backward)(int64_t batch, int64_t n, int64_t places, int64_t symbols, REAL bound, REAL shift,
                           const REAL *given, const REAL *after, const int64_t *text, const int64_t *lengths,
                           const REAL *dseen, const REAL *dafter, REAL *dgiven, REAL *dbefore, REAL *scratch) {
    for (int64_t b = 0; b < batch; b++) {
        const int64_t length = lengths[b], *letters = text + b * places;
        REAL *d = dgiven + b * 3 * n;
        for (int64_t u = 0; u < length; u++) scratch[u] = dseen[b * symbols + letters[u]];
        for (int64_t k = 0; k < n; k++) {
            const NAME(Bump) bump = NAME(bump)(given + b * 3 * n, n, k, bound, shift);
            const REAL place = after[b * n + k];
            REAL zeroth = 0, first = 0, second = 0;
            SUM(omp simd reduction(+ : zeroth, first, second))
            for (int64_t u = 0; u < length; u++) {
                const REAL away = place - (REAL)u, part = scratch[u] * NAME(gaussian)(away, bump.narrowness);
                zeroth += part, first += part * away, second += part * away * away;
            }
            const REAL dplace = dafter[b * n + k] - 2 * bump.height * bump.narrowness * first;
            d[k] = bump.inside[0] * bump.height * zeroth;
            d[n + k] = -bump.inside[1] * bump.height * bump.narrowness * second;
            d[2 * n + k] = bump.inside[2] * bump.pace * dplace;
            dbefore[b * n + k] = dplace;
        }
    }
}
