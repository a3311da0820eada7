// ---- Cross-entropy ------------------------------------------------------------------------------------------------

namespace loss {
constexpr u32 IGNORE = ~0u;

struct Entropy {
    const void *scores;    // [rows, classes]
    void *slopes;          // as scores, or null: their gradient, 0 for rows that do not count; may be the scores
    const u32 *targets;    // [rows]
    float *losses;         // [rows]
    const Scalars *scalars;
    u32 rows, classes;
};

// A row by `threads` threads that share it, of which this is number `thread`; `all` sums and finds the largest among them.
template <typename S, typename T, typename Sum, typename Most>
__device__ void entropy(const Entropy &work, u32 row, u32 thread, u32 threads, Sum all, Most most) {
    const S *scores = (const S *)work.scores + (u64)row * work.classes;
    T *slopes = work.slopes ? (T *)work.slopes + (u64)row * work.classes : nullptr;
    u32 target = work.targets[row];
    if (target == IGNORE) {
        if (thread == 0) work.losses[row] = 0;
        if (slopes) {
            for (u32 i = thread; i < work.classes; i += threads) narrow(0, slopes[i]);
        }
        return;
    }
    float largest = -INFINITY;
    for (u32 i = thread; i < work.classes; i += threads) largest = fmaxf(largest, widen(scores[i]));
    largest = most(largest);
    float sum = 0;
    for (u32 i = thread; i < work.classes; i += threads) sum += expf(widen(scores[i]) - largest);
    sum = all(sum);
    // Read before a slope may take its place: `all` above waited for every thread.
    float own = widen(scores[target]);
    if (thread == 0) work.losses[row] = logf(sum) + (largest - own);
    if (!slopes) return;
    // All have read it.
    all(own);
    float scale = work.scalars->scale / work.scalars->counted;
    float share = scale / sum;
    for (u32 i = thread; i < work.classes; i += threads) {
        float slope = expf(widen(scores[i]) - largest) * share;
        narrow(i == target ? slope - scale : slope, slopes[i]);
    }
}

template <typename S, typename T> __device__ void by_warps(const Entropy &work) {
    u32 row = blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= work.rows) return;
    auto all = [](float x) { return sum_of_lanes(x); };
    auto most = [](float x) { return largest_of_lanes(x, 32); };
    entropy<S, T>(work, row, threadIdx.x, 32, all, most);
}

template <typename S, typename T> __device__ void by_blocks(const Entropy &work) {
    __shared__ float parts[32];
    auto all = [](float x) { return sum_of_block(x, parts); };
    auto most = [](float x) {
        x = largest_of_lanes(x, 32);
        __syncthreads();
        if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
        __syncthreads();
        return largest_of_lanes(threadIdx.x % 32 < blockDim.x / 32 ? parts[threadIdx.x % 32] : -INFINITY, 32);
    };
    entropy<S, T>(work, blockIdx.x, threadIdx.x, blockDim.x, all, most);
}

// ---- Whole rows in registers ----
// A block has every so-many-th row, and the next one under way, so that scores are read once and their gradient is written once;
// the sums of its columns, which are the gradient of the bias, stay in registers too.

constexpr int BLOCK = 1024;

struct Both {
    float largest, sum;
};

// What both of a warp come to over a block, in one meeting: every lane gives its warp's.
__device__ inline Both of_block(Both own, Both *parts) {
    __syncthreads();
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = own;
    __syncthreads();
    own = parts[threadIdx.x % 32];
    float largest = largest_of_lanes(own.largest, 32);
    // A warp that has no scores has no sum.
    return {largest, sum_of_lanes(own.sum * (own.largest == -INFINITY ? 1 : expf(own.largest - largest)))};
}

// Four scores at a time, FOURS times a thread: `classes` is a multiple of 4 and at most 4·FOURS·BLOCK.
template <typename T, int FOURS> __device__ void by_registers(const Entropy &work, float *partials) {
    __shared__ Both parts[32];
    // Of one row and of the next, by turns.
    __shared__ float of_target[2];
    float4 row[FOURS], next[FOURS];
    float sums[FOURS][4] = {};
    float scale = work.scalars->scale / work.scalars->counted;
    auto read = [&](u32 number) {
        if (number >= work.rows || work.targets[number] == IGNORE) return;
#pragma unroll
        for (int k = 0; k < FOURS; k++) {
            u32 column = (k * BLOCK + threadIdx.x) * 4;
            if (column < work.classes) {
                next[k] = __ldcs((const float4 *)((const float *)work.scores + (u64)number * work.classes + column));
            }
        }
    };
    read(blockIdx.x);
    u32 side = 0;
    for (u32 number = blockIdx.x; number < work.rows; number += gridDim.x) {
        u32 target = work.targets[number];
#pragma unroll
        for (int k = 0; k < FOURS; k++) row[k] = next[k];
        read(number + gridDim.x);
        T *slopes = (T *)work.slopes + (u64)number * work.classes;
        if (target == IGNORE) {
            if (threadIdx.x == 0) work.losses[number] = 0;
            if (work.slopes) {
                for (u32 i = threadIdx.x; i < work.classes; i += BLOCK) narrow(0, slopes[i]);
            }
            continue;
        }
        side ^= 1;
        float largest = -INFINITY, sum = 0;
#pragma unroll
        for (int k = 0; k < FOURS; k++) {
            u32 column = (k * BLOCK + threadIdx.x) * 4;
            if (column >= work.classes) continue;
            const float *x = (const float *)&row[k];
            largest = fmaxf(fmaxf(largest, fmaxf(x[0], x[1])), fmaxf(x[2], x[3]));
#pragma unroll
            for (int i = 0; i < 4; i++) {
                if (column + i == target) of_target[side] = x[i];
            }
        }
        largest = largest_of_lanes(largest, 32);
        // Each exponential is found once, by the largest score of the warp.
#pragma unroll
        for (int k = 0; k < FOURS; k++) {
            u32 column = (k * BLOCK + threadIdx.x) * 4;
            if (column >= work.classes) continue;
            float *x = (float *)&row[k];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                x[i] = x[i] == -INFINITY ? 0 : expf(x[i] - largest);
                sum += x[i];
            }
        }
        Both all = of_block({largest, sum_of_lanes(sum)}, parts);
        if (threadIdx.x == 0) work.losses[number] = logf(all.sum) + (all.largest - of_target[side]);
        if (!work.slopes) continue;
        float share = expf(largest - all.largest) * (scale / all.sum);
#pragma unroll
        for (int k = 0; k < FOURS; k++) {
            u32 column = (k * BLOCK + threadIdx.x) * 4;
            if (column >= work.classes) continue;
            const float *x = (const float *)&row[k];
            T four[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                float slope = x[i] * share;
                if (column + i == target) slope -= scale;
                sums[k][i] += slope;
                narrow(slope, four[i]);
            }
            if (sizeof(T) == 4) __stcs((float4 *)(slopes + column), *(float4 *)four);
            else __stcs((uint2 *)(slopes + column), *(uint2 *)four);
        }
    }
    if (!partials) return;
#pragma unroll
    for (int k = 0; k < FOURS; k++) {
        u32 column = (k * BLOCK + threadIdx.x) * 4;
        if (column >= work.classes) continue;
        *(float4 *)(partials + (u64)blockIdx.x * work.classes + column) =
            make_float4(sums[k][0], sums[k][1], sums[k][2], sums[k][3]);
    }
}
}  // namespace loss

#define LOSS(name, S, T)                                                                                               \
    extern "C" __global__ void name##_entropy(const __grid_constant__ loss::Entropy work) { loss::by_warps<S, T>(work); } \
    extern "C" __global__ void name##_entropy_wide(const __grid_constant__ loss::Entropy work) {                       \
        loss::by_blocks<S, T>(work);                                                                                   \
    }
LOSS(f32, float, float)
LOSS(bf16, bf16, bf16)
LOSS(mixed, float, bf16)

#define LOSS_IN_REGISTERS(name, T, FOURS)                                                                              \
    extern "C" __global__ void __launch_bounds__(1024)                                                                 \
        name##_entropy_##FOURS(const __grid_constant__ loss::Entropy work, float *partials) {                          \
        loss::by_registers<T, FOURS>(work, partials);                                                                  \
    }
LOSS_IN_REGISTERS(f32, float, 1)
LOSS_IN_REGISTERS(f32, float, 3)
LOSS_IN_REGISTERS(mixed, bf16, 1)
LOSS_IN_REGISTERS(mixed, bf16, 3)

// total += scale·mean of the losses of rows that count; by one block.
extern "C" __global__ void __launch_bounds__(1024) mean_loss(const float *losses, u32 rows, const Scalars *scalars, float *total) {
    __shared__ double parts[32];
    double sum = 0;
    for (u32 i = threadIdx.x; i < rows; i += 1024) sum += losses[i];
    for (int other = 16; other > 0; other /= 2) sum += __shfl_xor_sync(~0u, sum, other);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        sum = 0;
        for (int i = 0; i < 32; i++) sum += parts[i];
        if (scalars->counted) *total += (float)(sum / scalars->counted * scalars->scale);
    }
}
