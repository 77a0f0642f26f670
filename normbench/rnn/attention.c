/* Reading from an image and writing onto a canvas through Gaussian filters (DRAW, Gregor et al. 2015, 3.2), forward and
 * backward, an example at a time while its image is in the cache. rnn/attention.py has the equations. Part of step.c,
 * which includes it once for float and once for double. */

/* One axis: N filters of `side` pixels around `centre`, each divided by its sum. */
typedef struct {
    REAL centre, stride, sigma;
    REAL *filters, *gradient; /* (N, side) each */
} NAME(Axis);

/* A window's numbers and what follows from them; see `window` in attention.py for their order and bounds. */
typedef struct {
    int64_t n, side;
    REAL intensity, inside[3]; /* 1 where a logarithm is within its bounds, for outside of these nothing changes */
    NAME(Axis) y, x;
} NAME(Window);

static inline REAL NAME(offset)(int64_t i, int64_t n) { return (REAL)i - (REAL)n / 2 + (REAL)0.5; }

static void NAME(filters)(const NAME(Axis) *axis, int64_t n, int64_t side) {
    for (int64_t i = 0; i < n; i++) {
        const REAL mean = axis->centre + NAME(offset)(i, n) * axis->stride, inverse = 1 / axis->sigma;
        REAL *restrict row = axis->filters + i * side, total = 0;
        SUM(omp simd reduction(+ : total))
        for (int64_t a = 0; a < side; a++) {
            const REAL u = ((REAL)a - mean) * inverse;
            const REAL value = NAME(exponential)((REAL)-0.5 * u * u);
            /* what counts for nothing is 0: denormal numbers would make all that follows many times slower */
            row[a] = u * u > (REAL)(0.9 * LIMIT) ? 0 : value; /* NaN stays */
            total += row[a];
        }
        total = 1 / (total + (REAL)1e-4);
        SIMD
        for (int64_t a = 0; a < side; a++) row[a] *= total;
    }
}

/* From five numbers of an example; scratch: 4 N side. */
static NAME(Window) NAME(window)(const REAL *given, int64_t n, int64_t side, REAL bound, REAL *scratch) {
    NAME(Window) w = {.n = n, .side = side};
    REAL logs[3];
    for (int k = 0; k < 3; k++) {
        const REAL value = given[2 + k];
        logs[k] = value > bound ? bound : value < -bound ? -bound : value; /* NaN stays */
        w.inside[k] = value >= -bound && value <= bound;
    }
    w.intensity = NAME(exponential)(logs[2]);
    const REAL apart = (REAL)(side - 1) / (REAL)(n > 1 ? n - 1 : 1) * NAME(exponential)(logs[0]);
    const REAL sigma = NAME(exponential)(logs[1] / 2);
    w.y = (NAME(Axis)){(given[0] + 1) / 2 * side, apart, sigma, scratch, scratch + n * side};
    w.x = (NAME(Axis)){(given[1] + 1) / 2 * side, apart, sigma, scratch + 2 * n * side, scratch + 3 * n * side};
    NAME(filters)(&w.y, n, side);
    NAME(filters)(&w.x, n, side);
    return w;
}

/* Of one axis' filters, whose gradients are there: d[0] of its place, d[1] of the logarithm of the stride, d[2] of that
 * of the variance. */
static void NAME(filters_back)(const NAME(Axis) *axis, int64_t n, int64_t side, REAL *d) {
    const REAL inverse = 1 / axis->sigma;
    d[0] = d[1] = d[2] = 0;
    for (int64_t i = 0; i < n; i++) {
        const REAL *restrict f = axis->filters + i * side, *restrict df = axis->gradient + i * side;
        const REAL mean = axis->centre + NAME(offset)(i, n) * axis->stride;
        REAL dot = 0, first = 0, second = 0;
        SUM(omp simd reduction(+ : dot))
        for (int64_t a = 0; a < side; a++) dot += f[a] * df[a];
        SUM(omp simd reduction(+ : first, second))
        for (int64_t a = 0; a < side; a++) {
            const REAL u = ((REAL)a - mean) * inverse, slope = f[a] * (df[a] - dot) * u;
            first += slope, second += slope * u;
        }
        d[0] += first * inverse;
        d[1] += first * inverse * NAME(offset)(i, n) * axis->stride;
        d[2] += second / 2;
    }
    d[0] *= (REAL)side / 2;
}

/* The gradient of the five numbers, from those of the filters and of the logarithm of the intensity. */
static void NAME(window_back)(const NAME(Window) *w, REAL dintensity, REAL *restrict dgiven) {
    REAL y[3], x[3];
    NAME(filters_back)(&w->y, w->n, w->side, y);
    NAME(filters_back)(&w->x, w->n, w->side, x);
    dgiven[0] = y[0], dgiven[1] = x[0];
    dgiven[2] = w->inside[0] * (y[1] + x[1]);
    dgiven[3] = w->inside[1] * (y[2] + x[2]);
    dgiven[4] = w->inside[2] * dintensity;
}

/* out (n, columns) = times a (n, rows) b (rows, columns), or with a (rows, n) transposed. */
static inline void NAME(rows_times)(const REAL *a, int64_t by_row, int64_t by_column, const REAL *restrict b,
                                    REAL *restrict out, int64_t n, int64_t rows, int64_t columns, REAL times) {
    memset(out, 0, n * columns * sizeof *out);
    for (int64_t i = 0; i < n; i++)
        for (int64_t y = 0; y < rows; y++) {
            const REAL factor = times * a[i * by_row + y * by_column];
            SIMD
            for (int64_t k = 0; k < columns; k++) out[i * columns + k] += factor * b[y * columns + k];
        }
}

static inline REAL NAME(dot)(const REAL *restrict a, const REAL *restrict b, int64_t n) {
    REAL total = 0;
    SUM(omp simd reduction(+ : total))
    for (int64_t k = 0; k < n; k++) total += a[k] * b[k];
    return total;
}

static inline void NAME(sigmoids)(const REAL *restrict canvas, REAL *restrict out, int64_t pixels) {
    SIMD
    for (int64_t k = 0; k < pixels; k++) out[k] = NAME(sigmoid)(canvas[k]);
}

/* r (B, 2, N, N) of image and canvas (B, side, side). scratch: 6 N side + side side. */
void NAME(read_forward)(int64_t batch, int64_t side, int64_t n, REAL bound, const REAL *image, const REAL *canvas,
                        const REAL *given, REAL *out, REAL *scratch) {
    const int64_t pixels = side * side;
    REAL *of_image = scratch + 4 * n * side, *of_mean = of_image + n * side, *mean = of_mean + n * side;
    for (int64_t b = 0; b < batch; b++) {
        const NAME(Window) w = NAME(window)(given + b * 5, n, side, bound, scratch);
        REAL *restrict r = out + b * 2 * n * n;
        NAME(sigmoids)(canvas + b * pixels, mean, pixels);
        NAME(rows_times)(w.y.filters, side, 1, image + b * pixels, of_image, n, side, side, w.intensity);
        NAME(rows_times)(w.y.filters, side, 1, mean, of_mean, n, side, side, w.intensity);
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++) {
                r[i * n + j] = NAME(dot)(of_image + i * side, w.x.filters + j * side, side);
                r[(n + i) * n + j] = r[i * n + j] - NAME(dot)(of_mean + i * side, w.x.filters + j * side, side);
            }
    }
}

/* dcanvas and dgiven from dout. scratch: 8 N side + side side + 2 N N. */
void NAME(read_backward)(int64_t batch, int64_t side, int64_t n, REAL bound, const REAL *image, const REAL *canvas,
                         const REAL *given, const REAL *out, const REAL *dout, REAL *dcanvas, REAL *dgiven,
                         REAL *scratch) {
    const int64_t pixels = side * side;
    REAL *of_image = scratch + 4 * n * side, *of_mean = of_image + n * side;
    REAL *to_image = of_mean + n * side, *to_mean = to_image + n * side, *mean = to_mean + n * side;
    REAL *from_image = mean + pixels, *from_mean = from_image + n * n;
    for (int64_t b = 0; b < batch; b++) {
        const NAME(Window) w = NAME(window)(given + b * 5, n, side, bound, scratch);
        const REAL *restrict d = dout + b * 2 * n * n;
        const REAL *x = image + b * pixels;
        REAL *restrict dc = dcanvas + b * pixels;
        for (int64_t k = 0; k < n * n; k++) from_image[k] = d[k] + d[n * n + k], from_mean[k] = -d[n * n + k];
        NAME(sigmoids)(canvas + b * pixels, mean, pixels);
        NAME(rows_times)(w.y.filters, side, 1, x, of_image, n, side, side, w.intensity);
        NAME(rows_times)(w.y.filters, side, 1, mean, of_mean, n, side, side, w.intensity);
        /* the filters of x: gradient (N, side) = from' (F_y x) */
        NAME(rows_times)(from_image, 1, n, of_image, w.x.gradient, n, n, side, 1);
        NAME(rows_times)(from_mean, 1, n, of_mean, to_mean, n, n, side, 1);
        for (int64_t k = 0; k < n * side; k++) w.x.gradient[k] += to_mean[k];
        /* those of y: gradient (N, side) = (from F_x) x' */
        NAME(rows_times)(from_image, n, 1, w.x.filters, to_image, n, n, side, w.intensity);
        NAME(rows_times)(from_mean, n, 1, w.x.filters, to_mean, n, n, side, w.intensity);
        for (int64_t i = 0; i < n; i++)
            for (int64_t y = 0; y < side; y++)
                w.y.gradient[i * side + y] = NAME(dot)(to_image + i * side, x + y * side, side) +
                                             NAME(dot)(to_mean + i * side, mean + y * side, side);
        NAME(rows_times)(w.y.filters, 1, side, to_mean, dc, side, n, side, 1);
        SIMD
        for (int64_t k = 0; k < pixels; k++) dc[k] *= mean[k] * (1 - mean[k]);
        NAME(window_back)(&w, NAME(dot)(d, out + b * 2 * n * n, 2 * n * n), dgiven + b * 5);
    }
}

/* out (B, side, side) = canvas + F_y' patch F_x / intensity; patch (B, N, N). scratch: 5 N side. */
void NAME(write_forward)(int64_t batch, int64_t side, int64_t n, REAL bound, const REAL *canvas, const REAL *patch,
                         const REAL *given, REAL *out, REAL *scratch) {
    const int64_t pixels = side * side;
    REAL *rows = scratch + 4 * n * side;
    for (int64_t b = 0; b < batch; b++) {
        const NAME(Window) w = NAME(window)(given + b * 5, n, side, bound, scratch);
        REAL *restrict to = out + b * pixels;
        const REAL *restrict from = canvas + b * pixels;
        NAME(rows_times)(patch + b * n * n, n, 1, w.x.filters, rows, n, n, side, 1 / w.intensity);
        NAME(rows_times)(w.y.filters, 1, side, rows, to, side, n, side, 1);
        SIMD
        for (int64_t k = 0; k < pixels; k++) to[k] += from[k];
    }
}

/* dpatch and dgiven from dout; the canvas' gradient is dout. scratch: 6 N side. */
void NAME(write_backward)(int64_t batch, int64_t side, int64_t n, REAL bound, const REAL *dout, const REAL *patch,
                          const REAL *given, REAL *dpatch, REAL *dgiven, REAL *scratch) {
    const int64_t pixels = side * side;
    REAL *rows = scratch + 4 * n * side, *back = rows + n * side;
    for (int64_t b = 0; b < batch; b++) {
        const NAME(Window) w = NAME(window)(given + b * 5, n, side, bound, scratch);
        const REAL *p = patch + b * n * n, *d = dout + b * pixels, inverse = 1 / w.intensity;
        REAL *dp = dpatch + b * n * n;
        NAME(rows_times)(p, n, 1, w.x.filters, rows, n, n, side, inverse);
        NAME(rows_times)(w.y.filters, side, 1, d, back, n, side, side, inverse);
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++)
                dp[i * n + j] = NAME(dot)(back + i * side, w.x.filters + j * side, side);
        NAME(rows_times)(p, 1, n, back, w.x.gradient, n, n, side, 1);
        for (int64_t i = 0; i < n; i++)
            for (int64_t y = 0; y < side; y++)
                w.y.gradient[i * side + y] = NAME(dot)(rows + i * side, d + y * side, side);
        NAME(window_back)(&w, -NAME(dot)(p, dp, n * n), dgiven + b * 5);
    }
}
