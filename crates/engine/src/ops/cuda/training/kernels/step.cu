// ---- What changes from step to step, and sums over blocks ---------------------------------------------------------

// As in training/mod.rs.
struct Scalars {
    u64 seed, step;
    u32 is_training;
    u32 counted;    // targets that count
    float scale;    // what the gradient of the loss begins with
    u32 unused;
    double decay, rate, root, clip;
};

// The hash of ops/dropout.rs: both decide alike.
namespace chance {
__device__ inline u64 mix(u64 z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}
constexpr u64 GAMMA = 0x9E3779B97F4A7C15ull;
__device__ inline u64 key(u64 seed, u64 step, u64 site) {
    return mix(mix(mix(seed + GAMMA) + step + GAMMA) + site + GAMMA);
}
__device__ inline bool keeps(u64 key, u64 index, u32 threshold) {
    return (u32)(mix(key + (index + 1) * GAMMA) >> 32) >= threshold;
}
}  // namespace chance

namespace sums {
// A sum of every `down`-th part from `first` on, of one number or of four next to each other, several under way at a time.
template <typename Chunk, int COUNT>
__device__ inline void sum_of_parts(const float *partials, u32 first, u32 down, u32 parts, u32 step, float (&sum)[COUNT]) {
    constexpr u32 MORE = 8;
    u32 part = first;
    for (; part + (MORE - 1) * down < parts; part += MORE * down) {
        Chunk chunks[MORE];
#pragma unroll
        for (u32 more = 0; more < MORE; more++) chunks[more] = __ldcg((const Chunk *)(partials + (u64)(part + more * down) * step));
#pragma unroll
        for (u32 more = 0; more < MORE; more++) {
#pragma unroll
            for (int i = 0; i < COUNT; i++) sum[i] += ((const float *)&chunks[more])[i];
        }
    }
    for (; part < parts; part += down) {
        Chunk chunk = __ldcg((const Chunk *)(partials + (u64)part * step));
#pragma unroll
        for (int i = 0; i < COUNT; i++) sum[i] += ((const float *)&chunk)[i];
    }
}

// out[i] += the sum over parts of part[i], i < count, always in the same order; `partials` has `step` numbers a part. By a whole
// block of 256 threads, which split the parts between them; COUNT numbers a thread, of which count and step are multiples.
template <typename Chunk, int COUNT>
__device__ inline void add_parts_by(const float *partials, u32 parts, u32 step, u32 count, float *out) {
    __shared__ float shared[256][COUNT];
    u32 thread = threadIdx.y * blockDim.x + threadIdx.x;
    u32 across = 256;
    while (across > 8 && across / 2 >= count / COUNT) across /= 2;
    u32 down = 256 / across, own = thread / across;
    for (u32 start = 0; start < count; start += across * COUNT) {
        u32 i = start + thread % across * COUNT;
        float sum[COUNT] = {};
        if (i < count) sum_of_parts<Chunk, COUNT>(partials + i, own, down, parts, step, sum);
        __syncthreads();
        for (int k = 0; k < COUNT; k++) shared[thread][k] = sum[k];
        __syncthreads();
        if (own == 0 && i < count) {
            for (u32 other = 1; other < down; other++) {
                for (int k = 0; k < COUNT; k++) sum[k] += shared[other * across + thread][k];
            }
            for (int k = 0; k < COUNT; k++) out[i + k] += sum[k];
        }
    }
}

__device__ inline void add_parts(const float *partials, u32 parts, u32 step, u32 count, float *out) {
    bool is_wide = (step | count) % 4 == 0 && (u64)partials % 16 == 0;
    if (is_wide) add_parts_by<float4, 4>(partials, parts, step, count, out);
    else add_parts_by<float, 1>(partials, parts, step, count, out);
}

// Columns [first, first + count) of the sums that a block of 32 × 8 threads has found of its rows, COUNT neighbouring ones a lane: the
// block's part of them.
template <int COUNT> __device__ inline void leave_part(const float (&sum)[COUNT], u32 first, u32 count, float *part) {
    __shared__ float shared[8][32 * COUNT + 1];
#pragma unroll
    for (int i = 0; i < COUNT; i++) shared[threadIdx.y][threadIdx.x * COUNT + i] = sum[i];
    __syncthreads();
    for (u32 i = threadIdx.y * 32 + threadIdx.x; i < count; i += 256) {
        float all = 0;
        for (int row = 0; row < 8; row++) all += shared[row][i];
        part[first + i] = all;
    }
}

// partials [splits, width] = parts of the sums of the columns of x [rows, width]. A block of 32 × 8 threads has 32 chunks of columns
// and every `splits`-th group of 8 rows.
template <typename T, typename Chunk, int COUNT>
__device__ void columns(const T *x, float *partials, u32 rows, u32 width, u32 splits) {
    u32 tile = blockIdx.x / splits, split = blockIdx.x % splits;
    u32 first = tile * 32 * COUNT, column = first + threadIdx.x * COUNT;
    float sum[COUNT] = {};
    if (column < width) {
        // Several rows under way at a time.
        constexpr u32 MORE = 4;
        u32 row = split * 8 + threadIdx.y, step = splits * 8;
        for (; row + (MORE - 1) * step < rows; row += MORE * step) {
            Chunk chunks[MORE];
#pragma unroll
            for (u32 more = 0; more < MORE; more++) chunks[more] = *(const Chunk *)(x + (u64)(row + more * step) * width + column);
#pragma unroll
            for (u32 more = 0; more < MORE; more++) {
                const T *numbers = (const T *)&chunks[more];
#pragma unroll
                for (int i = 0; i < COUNT; i++) sum[i] += widen(numbers[i]);
            }
        }
        for (; row < rows; row += step) {
            Chunk chunk = *(const Chunk *)(x + (u64)row * width + column);
            const T *numbers = (const T *)&chunk;
#pragma unroll
            for (int i = 0; i < COUNT; i++) sum[i] += widen(numbers[i]);
        }
    }
    leave_part<COUNT>(sum, first, min((u32)(32 * COUNT), width - first), partials + (u64)split * width);
}

// Parts of sums that many blocks have left, and where their sum goes: as in training/sums.rs.
struct Parts {
    const float *partials;  // the first part
    float *out;             // [count], added to
    u32 parts;
    u32 step;               // from part to part
    u32 count;              // numbers of a part: at most 32
    u32 unused;
};
}  // namespace sums

#define COLUMNS(name, T)                                                                                               \
    extern "C" __global__ void __launch_bounds__(256) name##_columns(                                                  \
        const T *x, float *partials, u32 rows, u32 width, u32 splits) {                                                \
        sums::columns<T, T, 1>(x, partials, rows, width, splits);                                                      \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(256) name##_columns_wide(                                             \
        const T *x, float *partials, u32 rows, u32 width, u32 splits) {                                                \
        sums::columns<T, Wide<T>, Wide<T>::COUNT>(x, partials, rows, width, splits);                                   \
    }
COLUMNS(f32, float)
COLUMNS(bf16, bf16)

// What all parts come to, a block an entry of the table.
extern "C" __global__ void __launch_bounds__(256) sum_parts(const sums::Parts *table) {
    sums::Parts work = table[blockIdx.x];
    sums::add_parts(work.partials, work.parts, work.step, work.count, work.out);
}
