// ---- Feature maps of linear attention -----------------------------------------------------------------------------
// A block takes one head of up to TOKENS neighbouring tokens of a text: x [tokens, heads · dim] → [tokens, heads · features].
// What is raised to a power of e stands in shared memory as f32 in between. Keys of a head have one shift, the largest exponent
// of all that are real: a first kernel finds that of each block.

namespace features {

enum Kind { ELU, SOFTMAX, EXP, FAVOR };

constexpr int TOKENS = 32, THREADS = 256, WARPS = THREADS / 32;
constexpr int PART = 64, DEPTH = 32;  // of a product: columns and depth at a time

extern __shared__ float memory[];

struct Features {
    const void *x;             // [batch · length, heads · dim]
    void *y;                   // [batch · length, heads · features]
    const void *dy;            // as y; of the way back
    void *dx;                  // as x; of the way back
    const float *projections;  // [features, dim]: of FAVOR
    const u64 *mask;           // [batch, words]: of keys
    float *largest;            // [batch · heads, blocks]: of keys
    u32 length;
    u32 heads;
    u32 dim;
    u32 features;
    u32 words;
    u32 blocks;                // of a text
    u32 are_keys;
    u32 accumulate;            // on the way back
    float shrink;              // d^(−1/4): of FAVOR
    float scale;               // what features are multiplied with
};

// Where a block works: rows of a token's heads, from the first token of the block on.
struct Place {
    u32 text, head, first, count;
    __device__ Place(const Features &work) {
        u32 block = blockIdx.x % work.blocks, task = blockIdx.x / work.blocks;
        text = task / work.heads, head = task % work.heads, first = block * TOKENS;
        count = work.length - first < TOKENS ? work.length - first : TOKENS;
    }
    // The first number of a row.
    __device__ u64 row(const Features &work, u32 row, u32 width) const {
        return (((u64)text * work.length + first + row) * work.heads + head) * width;
    }
    __device__ bool is_real(const Features &work, u32 row) const {
        u32 token = first + row;
        return work.mask[(u64)text * work.words + token / 64] >> token % 64 & 1;
    }
};

// Copies the block's rows to shared memory, `step` numbers apart; zeros beyond them.
template <typename T>
__device__ inline void gather(const Features &work, const Place &place, const void *from, u32 width, float *to, u32 step) {
    for (u32 row = threadIdx.x / 32; row < TOKENS; row += WARPS) {
        const T *x = (const T *)from + place.row(work, row, width);
        for (u32 i = threadIdx.x % 32; i < width; i += 32) to[row * step + i] = row < place.count ? widen(x[i]) : 0;
    }
}

// out [TOKENS, columns] = scale · a [TOKENS, depth] · b, with b(k, j) read from global memory, PART columns at a time.
template <typename B>
__device__ inline void product(float *out, u32 out_step, const float *a, u32 a_step, u32 columns, u32 depth, float scale,
                               float *part, B b) {
    u32 down = threadIdx.x / 16, across = threadIdx.x % 16;
    for (u32 left = 0; left < columns; left += PART) {
        float sum[2][4] = {};
        for (u32 top = 0; top < depth; top += DEPTH) {
            __syncthreads();
            for (u32 index = threadIdx.x; index < DEPTH * PART; index += THREADS) b(part, left, top, index);
            __syncthreads();
            u32 count = depth - top < DEPTH ? depth - top : DEPTH;
            for (u32 k = 0; k < count; k++) {
                float x[2], y[4];
#pragma unroll
                for (int i = 0; i < 2; i++) x[i] = a[(down + 16 * i) * a_step + top + k];
#pragma unroll
                for (int j = 0; j < 4; j++) y[j] = part[k * (PART + 1) + across + 16 * j];
#pragma unroll
                for (int i = 0; i < 2; i++) {
#pragma unroll
                    for (int j = 0; j < 4; j++) sum[i][j] += x[i] * y[j];
                }
            }
        }
        for (int i = 0; i < 2; i++) {
            for (int j = 0; j < 4; j++) {
                u32 column = left + across + 16 * j;
                if (column < columns) out[(down + 16 * i) * out_step + column] = scale * sum[i][j];
            }
        }
    }
    __syncthreads();
}

// What features are powers of, in shared memory: rows `step` apart. A row's are less by what `square` gives.
struct Exponents {
    float *rows, *x;
    u32 step, x_step;
};

template <typename T, int KIND> __device__ inline Exponents exponents(const Features &work, const Place &place) {
    Exponents all = {memory, memory + TOKENS * (work.features | 1), work.features | 1, work.dim | 1};
    if (KIND != FAVOR) {
        gather<T>(work, place, work.x, work.dim, all.rows, all.step);
        __syncthreads();
        return all;
    }
    gather<T>(work, place, work.x, work.dim, all.x, all.x_step);
    float *part = all.x + TOKENS * all.x_step;
    // Neighbouring threads read neighbouring numbers of a projection.
    product(all.rows, all.step, all.x, all.x_step, work.features, work.dim, work.shrink, part,
            [&](float *part, u32 left, u32 top, u32 index) {
                u32 k = index % DEPTH, j = index / DEPTH;
                bool is_there = left + j < work.features && top + k < work.dim;
                part[k * (PART + 1) + j] = is_there ? work.projections[(u64)(left + j) * work.dim + top + k] : 0;
            });
    return all;
}

// ‖x̂‖²/2 of a row, for all lanes of a warp.
template <int KIND> __device__ inline float square(const Features &work, const Exponents &all, u32 row) {
    if (KIND != FAVOR) return 0;
    float sum = 0;
    for (u32 i = threadIdx.x % 32; i < work.dim; i += 32) sum += all.x[row * all.x_step + i] * all.x[row * all.x_step + i];
    return 0.5f * work.shrink * work.shrink * sum_of_lanes(sum);
}

__device__ inline float largest_of_row(const Features &work, const Exponents &all, u32 row) {
    float most = -INFINITY;
    for (u32 i = threadIdx.x % 32; i < work.features; i += 32) most = fmaxf(most, all.rows[row * all.step + i]);
    return largest_of_lanes(most, 32);
}

// The largest of a number of every thread.
__device__ inline float largest_of_block(float x) {
    __shared__ float parts[WARPS];
    x = largest_of_lanes(x, 32);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
    __syncthreads();
    for (int warp = 0; warp < WARPS; warp++) x = fmaxf(x, parts[warp]);
    return x;
}

// The largest exponent of a block's real keys.
template <typename T, int KIND> __device__ void largest(const Features &work) {
    Place place(work);
    Exponents all = exponents<T, KIND>(work, place);
    float most = -INFINITY;
    for (u32 row = threadIdx.x / 32; row < place.count; row += WARPS) {
        if (place.is_real(work, row)) most = fmaxf(most, largest_of_row(work, all, row) - square<KIND>(work, all, row));
    }
    most = largest_of_block(most);
    if (threadIdx.x == 0) work.largest[blockIdx.x] = most;
}

template <typename T, int KIND> __device__ void forward(const Features &work) {
    Place place(work);
    Exponents all = exponents<T, KIND>(work, place);
    float shared_shift = 0;
    if (KIND != SOFTMAX && work.are_keys) {
        const float *blocks = work.largest + (u64)(blockIdx.x / work.blocks) * work.blocks;
        float most = -INFINITY;
        for (u32 block = threadIdx.x; block < work.blocks; block += THREADS) most = fmaxf(most, blocks[block]);
        most = largest_of_block(most);
        shared_shift = most == -INFINITY ? 0 : most;
    }
    for (u32 row = threadIdx.x / 32; row < place.count; row += WARPS) {
        T *y = (T *)work.y + place.row(work, row, work.features);
        const float *x = all.rows + row * all.step;
        if (KIND != SOFTMAX && work.are_keys && !place.is_real(work, row)) {
            for (u32 i = threadIdx.x % 32; i < work.features; i += 32) narrow(0, y[i]);
            continue;
        }
        float shift, scale = work.scale;
        if (KIND != SOFTMAX && work.are_keys) {
            shift = shared_shift + square<KIND>(work, all, row);
        } else {
            // A row's own largest exponent, less the square that all of its exponents are less by.
            shift = largest_of_row(work, all, row);
        }
        if (KIND == SOFTMAX) {
            float total = 0;
            for (u32 i = threadIdx.x % 32; i < work.features; i += 32) total += exponential<T>(x[i] - shift);
            scale = 1 / sum_of_lanes(total);
        }
        for (u32 i = threadIdx.x % 32; i < work.features; i += 32) narrow(scale * exponential<T>(x[i] - shift), y[i]);
    }
}

// elu(x) + 1, of all numbers.
template <typename T, int COUNT> __device__ void elu(const Features &work, u64 numbers) {
    u64 at = ((u64)blockIdx.x * blockDim.x + threadIdx.x) * COUNT;
    if (at >= numbers) return;
    float x[COUNT];
    rows::load<T, COUNT>((const T *)work.x + at, x);
#pragma unroll
    for (int i = 0; i < COUNT; i++) x[i] = x[i] > 0 ? x[i] + 1 : exponential<T>(x[i]);
    rows::store<T, COUNT>((T *)work.y + at, x);
}

// Of elu(x) + 1 and of e^x, number by number: the slope of a power is the power.
template <typename T, int COUNT> __device__ void backward(const Features &work, u64 numbers, u32 is_elu) {
    u64 at = ((u64)blockIdx.x * blockDim.x + threadIdx.x) * COUNT;
    if (at >= numbers) return;
    float x[COUNT], y[COUNT], slope[COUNT];
    rows::load<T, COUNT>((const T *)work.x + at, x);
    rows::load<T, COUNT>((const T *)work.y + at, y);
    rows::load<T, COUNT>((const T *)work.dy + at, slope);
#pragma unroll
    for (int i = 0; i < COUNT; i++) slope[i] *= is_elu && x[i] > 0 ? 1 : y[i];
    rows::give<T, COUNT>((T *)work.dx + at, slope, work.accumulate);
}

// Of the softmax: a warp a row.
template <typename T> __device__ void softmax_backward(const Features &work) {
    Place place(work);
    for (u32 row = threadIdx.x / 32; row < place.count; row += WARPS) {
        u64 at = place.row(work, row, work.dim);
        const T *y = (const T *)work.y + at, *dy = (const T *)work.dy + at;
        float mean = 0;
        for (u32 i = threadIdx.x % 32; i < work.dim; i += 32) mean += widen(y[i]) * widen(dy[i]);
        mean = sum_of_lanes(mean);
        for (u32 i = threadIdx.x % 32; i < work.dim; i += 32) {
            float slope[1] = {widen(y[i]) * (widen(dy[i]) - mean)};
            rows::give<T, 1>((T *)work.dx + at + i, slope, work.accumulate);
        }
    }
}

// dx = d^(−1/4)·(Σ_f t_f w_f − x̂·Σ_f t_f) with t = dy·y
template <typename T> __device__ void favor_backward(const Features &work) {
    Place place(work);
    u32 step = work.features | 1, out_step = work.dim | 1;
    float *slopes = memory, *out = slopes + TOKENS * step, *part = out + TOKENS * out_step;
    for (u32 row = threadIdx.x / 32; row < TOKENS; row += WARPS) {
        u64 at = place.row(work, row, work.features);
        const T *y = (const T *)work.y + at, *dy = (const T *)work.dy + at;
        for (u32 i = threadIdx.x % 32; i < work.features; i += 32) {
            slopes[row * step + i] = row < place.count ? widen(y[i]) * widen(dy[i]) : 0;
        }
    }
    product(out, out_step, slopes, step, work.dim, work.features, work.shrink, part,
            [&](float *part, u32 left, u32 top, u32 index) {
                u32 j = index % PART, k = index / PART;
                bool is_there = left + j < work.dim && top + k < work.features;
                part[k * (PART + 1) + j] = is_there ? work.projections[(u64)(top + k) * work.dim + left + j] : 0;
            });
    for (u32 row = threadIdx.x / 32; row < place.count; row += WARPS) {
        u64 at = place.row(work, row, work.dim);
        float total = 0;
        for (u32 i = threadIdx.x % 32; i < work.features; i += 32) total += slopes[row * step + i];
        total = work.shrink * work.shrink * sum_of_lanes(total);
        for (u32 i = threadIdx.x % 32; i < work.dim; i += 32) {
            float slope[1] = {out[row * out_step + i] - total * widen(((const T *)work.x)[at + i])};
            rows::give<T, 1>((T *)work.dx + at + i, slope, work.accumulate);
        }
    }
}

}  // namespace features

#define FEATURES(kind, T)                                                                                              \
    extern "C" __global__ void features_softmax_##kind(const __grid_constant__ features::Features work) {              \
        features::forward<T, features::SOFTMAX>(work);                                                                 \
    }                                                                                                                  \
    extern "C" __global__ void features_exp_##kind(const __grid_constant__ features::Features work) {                  \
        features::forward<T, features::EXP>(work);                                                                     \
    }                                                                                                                  \
    extern "C" __global__ void features_favor_##kind(const __grid_constant__ features::Features work) {                \
        features::forward<T, features::FAVOR>(work);                                                                   \
    }                                                                                                                  \
    extern "C" __global__ void features_exp_largest_##kind(const __grid_constant__ features::Features work) {          \
        features::largest<T, features::EXP>(work);                                                                     \
    }                                                                                                                  \
    extern "C" __global__ void features_favor_largest_##kind(const __grid_constant__ features::Features work) {        \
        features::largest<T, features::FAVOR>(work);                                                                   \
    }                                                                                                                  \
    extern "C" __global__ void features_softmax_backward_##kind(const __grid_constant__ features::Features work) {     \
        features::softmax_backward<T>(work);                                                                           \
    }                                                                                                                  \
    extern "C" __global__ void features_favor_backward_##kind(const __grid_constant__ features::Features work) {       \
        features::favor_backward<T>(work);                                                                             \
    }                                                                                                                  \
    extern "C" __global__ void features_elu_##kind(const __grid_constant__ features::Features work, u64 numbers) {     \
        features::elu<T, 1>(work, numbers);                                                                            \
    }                                                                                                                  \
    extern "C" __global__ void features_elu_##kind##_wide(const __grid_constant__ features::Features work,             \
                                                          u64 numbers) {                                               \
        features::elu<T, Wide<T>::COUNT>(work, numbers);                                                               \
    }                                                                                                                  \
    extern "C" __global__ void features_backward_##kind(const __grid_constant__ features::Features work, u64 numbers,  \
                                                        u32 is_elu) {                                                  \
        features::backward<T, 1>(work, numbers, is_elu);                                                               \
    }                                                                                                                  \
    extern "C" __global__ void features_backward_##kind##_wide(const __grid_constant__ features::Features work,        \
                                                               u64 numbers, u32 is_elu) {                              \
        features::backward<T, Wide<T>::COUNT>(work, numbers, is_elu);                                                  \
    }
FEATURES(f32, float)
FEATURES(bf16, bf16)
