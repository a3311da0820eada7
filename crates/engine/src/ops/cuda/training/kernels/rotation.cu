// ---- Learned frequencies, and other numbers that positions are made of --------------------------------------------
// All of it is f32 in memory and computed in f64, as on the CPU. The turning itself is rope::cuda's.

namespace rotation {

constexpr int THREADS = 256;

// The sum of a number of every thread, in an order that depends on nothing but their number; thread 0 has it.
__device__ inline double total(double x, double *parts) {
    parts[threadIdx.x] = x;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
        __syncthreads();
    }
    return parts[0];
}

// ---- The table ----

struct Fill {
    const float *frequencies;  // [pairs]
    float *table;              // [rows, 2, pairs]: a row's cosines, then its sines
    u32 rows;
    u32 pairs;
};

// Sine and cosine as rope's trig.rs has them: reduced by multiples of π/2, then a Taylor polynomial.
__device__ inline void sine_cosine(double angle, double &sine, double &cosine) {
    double turns = rint(angle * 0.63661977236758134308);
    double x = fma(turns, -6.123233995736766e-17, fma(turns, -1.57079632679489661923, angle));
    double y = x * x;
    double s = 1.0 / 355687428096000.0;
    s = s * y - 1.0 / 1307674368000.0;
    s = s * y + 1.0 / 6227020800.0;
    s = s * y - 1.0 / 39916800.0;
    s = s * y + 1.0 / 362880.0;
    s = s * y - 1.0 / 5040.0;
    s = s * y + 1.0 / 120.0;
    s = s * y - 1.0 / 6.0;
    s = x + x * y * s;
    double c = -1.0 / 6402373705728000.0;
    c = c * y + 1.0 / 20922789888000.0;
    c = c * y - 1.0 / 87178291200.0;
    c = c * y + 1.0 / 479001600.0;
    c = c * y - 1.0 / 3628800.0;
    c = c * y + 1.0 / 40320.0;
    c = c * y - 1.0 / 720.0;
    c = c * y + 1.0 / 24.0;
    c = c * y - 1.0 / 2.0;
    c = 1.0 + y * c;
    int quarter = (int)((long long)turns & 3);
    sine = quarter == 0 ? s : quarter == 1 ? c : quarter == 2 ? -s : -c;
    cosine = quarter == 0 ? c : quarter == 1 ? -s : quarter == 2 ? -c : s;
}

// Frequencies that are no numbers, or whose angles are beyond 2^52, leave the table as it was; the loss tells.
__device__ inline void fill(const Fill &work) {
    bool is_wrong = false;
    for (u32 pair = threadIdx.x; pair < work.pairs; pair += blockDim.x) {
        double fastest = fabs((double)work.frequencies[pair]) * work.rows;
        is_wrong |= !(fastest <= 4503599627370496.0);
    }
    if (__syncthreads_or(is_wrong)) return;
    u32 index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= work.rows * work.pairs) return;
    u32 row = index / work.pairs, pair = index % work.pairs;
    double sine, cosine;
    // A position of up to 29 bits times an f32: no bit of the product is lost.
    sine_cosine((double)row * (double)work.frequencies[pair], sine, cosine);
    float *cosines = work.table + (u64)row * 2 * work.pairs;
    cosines[pair] = (float)cosine;
    cosines[work.pairs + pair] = (float)sine;
}

// ---- The gradient of the frequencies ----

struct Gradient {
    const void *y;         // [rows, width]: the vectors as the rotation left them
    const void *dy;        // [rows, width]: their gradient
    const u32 *positions;  // [length]
    double *sums;          // [blocks, pairs]
    float *gradient;       // [pairs], added to
    u64 width;
    u64 first;             // number of a row where the heads begin
    u32 length;
    u32 vectors;           // rows · heads
    u32 heads;
    u32 head_dim;
    u32 pairs;
    u32 is_half;           // pairs are features j and j + pairs; else 2j and 2j + 1
};

// Σ m·(y₀·dy₁ − y₁·dy₀) over every vectors-th of the vectors: a thread a pair, several vectors at a time.
template <typename T> __device__ void gradient(const Gradient &work) {
    __shared__ double parts[THREADS];
    u32 lanes = work.pairs < THREADS ? work.pairs : THREADS, groups = THREADS / lanes;
    u32 group = threadIdx.x / lanes;
    for (u32 base = 0; base < work.pairs; base += lanes) {
        u32 pair = base + threadIdx.x % lanes;
        u32 a = work.is_half ? pair : 2 * pair, b = work.is_half ? pair + work.pairs : a + 1;
        double sum = 0;
        if (group < groups && pair < work.pairs) {
            for (u32 vector = blockIdx.x * groups + group; vector < work.vectors; vector += gridDim.x * groups) {
                u32 row = vector / work.heads, head = vector % work.heads;
                u64 at = row * work.width + work.first + (u64)head * work.head_dim;
                const T *y = (const T *)work.y + at, *dy = (const T *)work.dy + at;
                double turned = (double)widen(y[a]) * (double)widen(dy[b]) - (double)widen(y[b]) * (double)widen(dy[a]);
                sum += (double)work.positions[row % work.length] * turned;
            }
        }
        __syncthreads();
        parts[threadIdx.x] = sum;
        __syncthreads();
        if (group == 0 && pair < work.pairs) {
            for (u32 other = 1; other < groups; other++) sum += parts[other * lanes + threadIdx.x];
            work.sums[(u64)blockIdx.x * work.pairs + pair] = sum;
        }
    }
}

// A block a pair: adds the sums of all blocks to the gradient.
__device__ inline void gradient_total(const Gradient &work, u32 blocks) {
    __shared__ double parts[THREADS];
    double sum = 0;
    for (u32 block = threadIdx.x; block < blocks; block += THREADS) {
        sum += work.sums[(u64)block * work.pairs + blockIdx.x];
    }
    sum = total(sum, parts);
    if (threadIdx.x == 0) work.gradient[blockIdx.x] += (float)sum;
}

// ---- The receptive field ----

struct Field {
    const float *field;   // [a, ρ], learned
    const double *theta;  // [pairs], fixed
    float *frequencies;   // [pairs]: set by the way forward; their gradient on the way back
    float *gradient;      // [2], added to on the way back
    u32 pairs;
};

// θ* = α/10000^ρ + (1 − α)·θ with α = 1/(1 + e^(−a))
__device__ inline void field_forward(const Field &work) {
    u32 pair = blockIdx.x * blockDim.x + threadIdx.x;
    if (pair >= work.pairs) return;
    double alpha = 1 / (1 + exp(-(double)work.field[0]));
    double shared = alpha / pow(10000.0, (double)work.field[1]);
    work.frequencies[pair] = (float)(shared + (1 - alpha) * work.theta[pair]);
}

__device__ inline void field_backward(const Field &work) {
    __shared__ double parts[THREADS];
    double sum = 0, weighted = 0;
    for (u32 pair = threadIdx.x; pair < work.pairs; pair += THREADS) {
        double given = work.frequencies[pair];
        sum += given;
        weighted += given * work.theta[pair];
    }
    sum = total(sum, parts);
    __syncthreads();
    weighted = total(weighted, parts);
    if (threadIdx.x != 0) return;
    double alpha = 1 / (1 + exp(-(double)work.field[0])), power = pow(10000.0, -(double)work.field[1]);
    work.gradient[0] += (float)((power * sum - weighted) * alpha * (1 - alpha));
    // ln 10000
    work.gradient[1] += (float)(-9.21034037197618273607 * alpha * power * sum);
}

// ---- KERPLE's kernel ----

struct Kernel {
    const float *weight;  // [heads, 2]: ln r₁ and ln r₂
    float *table;         // [heads, length]: set by the way forward, read on the way back
    const float *slopes;  // [heads, length]: the table's gradient; of the way back
    float *gradient;      // [heads, 2], added to; of the way back
    u32 heads;
    u32 length;
};

// −r₁·ln(1 + r₂·distance)
__device__ inline void kernel_forward(const Kernel &work) {
    u32 index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= work.heads * work.length) return;
    u32 head = index / work.length, distance = index % work.length;
    double strength = exp((double)work.weight[2 * head]), rate = exp((double)work.weight[2 * head + 1]);
    work.table[index] = (float)(-strength * log1p(rate * distance));
}

// A block a head.
__device__ inline void kernel_backward(const Kernel &work) {
    __shared__ double parts[THREADS];
    u32 head = blockIdx.x;
    double strength = exp((double)work.weight[2 * head]), rate = exp((double)work.weight[2 * head + 1]);
    double by_strength = 0, by_rate = 0;
    for (u32 distance = threadIdx.x; distance < work.length; distance += THREADS) {
        u64 at = (u64)head * work.length + distance;
        double slope = work.slopes[at], reach = rate * distance;
        by_strength += slope * (double)work.table[at];
        by_rate -= slope * strength * reach / (1 + reach);
    }
    by_strength = total(by_strength, parts);
    __syncthreads();
    by_rate = total(by_rate, parts);
    if (threadIdx.x != 0) return;
    work.gradient[2 * head] += (float)by_strength;
    work.gradient[2 * head + 1] += (float)by_rate;
}

}  // namespace rotation

extern "C" __global__ void rotation_fill(const __grid_constant__ rotation::Fill work) { rotation::fill(work); }
extern "C" __global__ void rotation_gradient_f32(const __grid_constant__ rotation::Gradient work) {
    rotation::gradient<float>(work);
}
extern "C" __global__ void rotation_gradient_bf16(const __grid_constant__ rotation::Gradient work) {
    rotation::gradient<bf16>(work);
}
extern "C" __global__ void rotation_gradient_total(const __grid_constant__ rotation::Gradient work, u32 blocks) {
    rotation::gradient_total(work, blocks);
}
extern "C" __global__ void rotation_field(const __grid_constant__ rotation::Field work) {
    rotation::field_forward(work);
}
extern "C" __global__ void rotation_field_backward(const __grid_constant__ rotation::Field work) {
    rotation::field_backward(work);
}
extern "C" __global__ void rotation_kernel(const __grid_constant__ rotation::Kernel work) {
    rotation::kernel_forward(work);
}
extern "C" __global__ void rotation_kernel_backward(const __grid_constant__ rotation::Kernel work) {
    rotation::kernel_backward(work);
}
