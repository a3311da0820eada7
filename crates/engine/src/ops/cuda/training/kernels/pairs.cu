// ---- Losses of vectors that come in pairs -------------------------------------------------------------------------
// As ops/similarity.rs: rows 2i and 2i + 1 of [rows, width] are a pair. Where the batch has scores, the mean squared error of
// the cosines; else the mean cross-entropy of finding each row's partner among all other rows that count.

namespace pairs {

constexpr int THREADS = 256, WARPS = THREADS / 32;
constexpr int TILE = 64, DEPTH = 16;
// What cosines are multiplied with before the softmax.
constexpr float SCALE = 20;

struct Pairs {
    const void *vectors;    // [rows, width]
    const u32 *counts;      // [rows / 2]: whether a pair counts
    const float *scores;    // [rows / 2]
    const u32 *is_scored;   // whether there are scores
    const float *scale;     // what the gradient is multiplied with
    float *loss;
    void *gradient;         // [rows, width], set
    float *cosines;         // [rows, rows]: times SCALE
    float *logarithms;      // [rows]: ln Σ e^…; with scores, cosine − score
    float *losses;          // [rows]
    float *share;           // [1]: 1 / what is averaged over
    u32 rows;
    u32 width;
};

// A thread's 4 × 4 numbers of a tile, 16 apart, summed over DEPTH at a time from shared memory.
struct Tile {
    float a[DEPTH][TILE + 1], b[DEPTH][TILE + 1];
    __device__ void add(float (&sum)[4][4]) const {
        u32 down = threadIdx.x / 16, across = threadIdx.x % 16;
#pragma unroll
        for (int k = 0; k < DEPTH; k++) {
            float x[4], y[4];
#pragma unroll
            for (int i = 0; i < 4; i++) x[i] = a[k][down + 16 * i], y[i] = b[k][across + 16 * i];
#pragma unroll
            for (int i = 0; i < 4; i++) {
#pragma unroll
                for (int j = 0; j < 4; j++) sum[i][j] += x[i] * y[j];
            }
        }
    }
};

template <typename T> __device__ void cosines(const Pairs &work) {
    __shared__ Tile tile;
    if (*work.is_scored) return;
    u32 tiles = (work.rows + TILE - 1) / TILE;
    u32 top = blockIdx.x / tiles * TILE, left = blockIdx.x % tiles * TILE;
    const T *vectors = (const T *)work.vectors;
    float sum[4][4] = {};
    for (u32 first = 0; first < work.width; first += DEPTH) {
        __syncthreads();
        for (u32 index = threadIdx.x; index < DEPTH * TILE; index += THREADS) {
            u32 k = index % DEPTH, row = index / DEPTH;
            auto at = [&](u32 row) {
                return row < work.rows && first + k < work.width ? widen(vectors[(u64)row * work.width + first + k]) : 0;
            };
            tile.a[k][row] = at(top + row), tile.b[k][row] = at(left + row);
        }
        __syncthreads();
        tile.add(sum);
    }
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < 4; j++) {
            u32 row = top + threadIdx.x / 16 + 16 * i, other = left + threadIdx.x % 16 + 16 * j;
            if (row >= work.rows || other >= work.rows) continue;
            bool is_there = row != other && work.counts[other / 2];
            work.cosines[(u64)row * work.rows + other] = is_there ? SCALE * sum[i][j] : -INFINITY;
        }
    }
}

// A warp a row.
template <typename T> __device__ void losses(const Pairs &work) {
    u32 row = blockIdx.x * WARPS + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= work.rows) return;
    bool is_counted = work.counts[row / 2];
    float logarithm = 0, loss = 0;
    if (*work.is_scored) {
        const T *a = (const T *)work.vectors + (u64)row * work.width, *b = (const T *)work.vectors + (u64)(row ^ 1) * work.width;
        float cosine = 0;
        for (u32 i = lane; i < work.width; i += 32) cosine += widen(a[i]) * widen(b[i]);
        logarithm = sum_of_lanes(cosine) - work.scores[row / 2];
        loss = row % 2 == 0 && is_counted ? logarithm * logarithm : 0;
    } else if (is_counted) {
        const float *cosines = work.cosines + (u64)row * work.rows;
        float most = -INFINITY, total = 0;
        for (u32 i = lane; i < work.rows; i += 32) most = fmaxf(most, cosines[i]);
        most = largest_of_lanes(most, 32);
        for (u32 i = lane; i < work.rows; i += 32) total += exponential<T>(cosines[i] - most);
        total = logf(sum_of_lanes(total));
        logarithm = most + total;
        loss = total + (most - cosines[row ^ 1]);
    }
    if (lane == 0) work.logarithms[row] = logarithm, work.losses[row] = loss;
}

// One block: the mean.
__device__ inline void total(const Pairs &work) {
    __shared__ double sums[THREADS];
    __shared__ u32 counts[THREADS];
    double sum = 0;
    u32 count = 0;
    for (u32 row = threadIdx.x; row < work.rows; row += THREADS) {
        sum += work.losses[row];
        count += work.counts[row / 2] && (row % 2 == 0 || !*work.is_scored);
    }
    sums[threadIdx.x] = sum, counts[threadIdx.x] = count;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            sums[threadIdx.x] += sums[threadIdx.x + half];
            counts[threadIdx.x] += counts[threadIdx.x + half];
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        double share = counts[0] ? 1.0 / counts[0] : 0;
        *work.loss = (float)(sums[0] * share);
        *work.share = (float)share;
    }
}

// A tile of the gradient. A cosine is that of its row with its column, and of its column with its row.
template <typename T> __device__ void gradient(const Pairs &work) {
    __shared__ Tile tile;
    u32 tiles = (work.width + TILE - 1) / TILE;
    u32 top = blockIdx.x / tiles * TILE, left = blockIdx.x % tiles * TILE;
    const T *vectors = (const T *)work.vectors;
    float scale = *work.scale * *work.share, sum[4][4] = {};
    bool is_scored = *work.is_scored;
    if (!is_scored) {
        for (u32 first = 0; first < work.rows; first += DEPTH) {
            __syncthreads();
            for (u32 index = threadIdx.x; index < DEPTH * TILE; index += THREADS) {
                u32 k = index % DEPTH, row = top + index / DEPTH, other = first + k;
                float weight = 0;
                if (row < work.rows && other < work.rows && row != other && work.counts[row / 2] && work.counts[other / 2]) {
                    float cosine = work.cosines[(u64)row * work.rows + other];
                    weight = exponential<T>(cosine - work.logarithms[row]) + exponential<T>(cosine - work.logarithms[other]);
                    if (other == (row ^ 1)) weight -= 2;
                }
                tile.a[k][index / DEPTH] = weight;
                u32 column = left + index % TILE;
                other = first + index / TILE;
                bool is_there = other < work.rows && column < work.width && work.counts[other / 2];
                tile.b[index / TILE][index % TILE] = is_there ? widen(vectors[(u64)other * work.width + column]) : 0;
            }
            __syncthreads();
            tile.add(sum);
        }
    }
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < 4; j++) {
            u32 row = top + threadIdx.x / 16 + 16 * i, column = left + threadIdx.x % 16 + 16 * j;
            if (row >= work.rows || column >= work.width) continue;
            float slope = SCALE * scale * sum[i][j];
            if (is_scored) {
                float partner = widen(vectors[(u64)(row ^ 1) * work.width + column]);
                slope = work.counts[row / 2] ? 2 * scale * work.logarithms[row] * partner : 0;
            }
            narrow(slope, ((T *)work.gradient)[(u64)row * work.width + column]);
        }
    }
}

}  // namespace pairs

#define PAIRS(kind, T)                                                                                                 \
    extern "C" __global__ void pairs_cosines_##kind(const __grid_constant__ pairs::Pairs work) {                       \
        pairs::cosines<T>(work);                                                                                       \
    }                                                                                                                  \
    extern "C" __global__ void pairs_losses_##kind(const __grid_constant__ pairs::Pairs work) {                        \
        pairs::losses<T>(work);                                                                                        \
    }                                                                                                                  \
    extern "C" __global__ void pairs_gradient_##kind(const __grid_constant__ pairs::Pairs work) {                      \
        pairs::gradient<T>(work);                                                                                      \
    }
PAIRS(f32, float)
PAIRS(bf16, bf16)
extern "C" __global__ void pairs_total(const __grid_constant__ pairs::Pairs work) { pairs::total(work); }
