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
}  // namespace loss

#define LOSS(name, S, T)                                                                                               \
    extern "C" __global__ void name##_entropy(const __grid_constant__ loss::Entropy work) { loss::by_warps<S, T>(work); } \
    extern "C" __global__ void name##_entropy_wide(const __grid_constant__ loss::Entropy work) {                       \
        loss::by_blocks<S, T>(work);                                                                                   \
    }
LOSS(f32, float, float)
LOSS(bf16, bf16, bf16)
LOSS(mixed, float, bf16)

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
