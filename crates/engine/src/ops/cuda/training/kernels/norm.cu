// ---- Norms and their gradients ------------------------------------------------------------------------------------

namespace norms {
struct Norm {
    const void *x;        // [rows, width]
    const float *weight;  // [width], or null: `constant`
    const float *bias;    // [width] or null
    void *out;            // as x
    const void *dy;       // as x
    void *dx;             // as x
    float *partials;      // [blocks, 3, width]: parts of the gradients of weight and bias, and of the sums of dx; or null
    u32 rows, width;
    u32 accumulate;       // whether dx is added to
    u32 is_layer;         // whether the mean is taken off
    float epsilon;
    float constant;
};

// A row that a warp has in registers as it is stored, N chunks of 16 bytes a lane, zeros beyond its end.
template <typename T, int N> struct Row {
    static constexpr int COUNT = Wide<T>::COUNT;
    Wide<T> chunks[N];

    __device__ void read(const void *from, u64 at, u32 width) {
#pragma unroll
        for (int n = 0; n < N; n++) {
            u32 column = (n * 32 + threadIdx.x) * COUNT;
            if (column < width) {
                chunks[n] = *(const Wide<T> *)((const T *)from + at + column);
            } else {
#pragma unroll
                for (int i = 0; i < COUNT; i++) narrow(0, chunks[n].x[i]);
            }
        }
    }

    __device__ float x(int n, int i) const { return widen(chunks[n].x[i]); }

    __device__ Statistics statistics(const Norm &work) const {
        auto numbers = [&](int n, int i) { return x(n, i); };
        return statistics_of_lanes<N, COUNT>(numbers, work.width, work.is_layer, work.epsilon);
    }
};

// Four numbers of a row of weights.
template <int COUNT> __device__ inline void read_weights(const float *from, u32 column, float constant, float (&to)[COUNT]) {
    if (!from) {
#pragma unroll
        for (int i = 0; i < COUNT; i++) to[i] = constant;
        return;
    }
#pragma unroll
    for (int i = 0; i < COUNT; i += 4) {
        float4 four = *(const float4 *)(from + column + i);
        to[i] = four.x, to[i + 1] = four.y, to[i + 2] = four.z, to[i + 3] = four.w;
    }
}

// A warp has every so-many-th row, and the next one under way; a block has 32 × 8 threads.
template <typename T, int N> __device__ void forward(const Norm &work) {
    constexpr int COUNT = Wide<T>::COUNT;
    u32 number = blockIdx.x * blockDim.y + threadIdx.y, step = gridDim.x * blockDim.y;
    if (number >= work.rows) return;
    Row<T, N> row, next;
    next.read(work.x, (u64)number * work.width, work.width);
    float weight[N][COUNT], bias[N][COUNT];
#pragma unroll
    for (int n = 0; n < N; n++) {
        u32 column = (n * 32 + threadIdx.x) * COUNT;
        if (column >= work.width) continue;
        read_weights(work.weight, column, work.constant, weight[n]);
        read_weights(work.bias, column, 0, bias[n]);
    }
    for (; number < work.rows; number += step) {
        row = next;
        if (number + step < work.rows) next.read(work.x, (u64)(number + step) * work.width, work.width);
        Statistics known = row.statistics(work);
#pragma unroll
        for (int n = 0; n < N; n++) {
            u32 column = (n * 32 + threadIdx.x) * COUNT;
            if (column >= work.width) continue;
            Wide<T> out;
#pragma unroll
            for (int i = 0; i < COUNT; i++) {
                narrow((row.x(n, i) - known.mean) * known.scale * weight[n][i] + bias[n][i], out.x[i]);
            }
            *(Wide<T> *)((T *)work.out + (u64)number * work.width + column) = out;
        }
    }
}

// Copies 16 bytes to shared memory, while the thread goes on.
__device__ inline void copy_ahead(void *to, const void *from) {
    u32 address = (u32)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from) : "memory");
}

// Rows of x, of dy and of dx as it was on their way to shared memory, two of each: a lane reads only what it has copied itself, so
// that nobody waits for anybody. Registers are for the sums.
template <typename T, int N> struct Ahead {
    static constexpr int COUNT = Wide<T>::COUNT;
    Wide<T> *own;  // of the warp: [2, 3, N, 32]

    __device__ Wide<T> *place(u32 stage, int which, int n) const { return own + ((stage * 3 + which) * N + n) * 32 + threadIdx.x; }

    __device__ void fetch(const Norm &work, u32 number, u32 stage) const {
        if (number < work.rows) {
#pragma unroll
            for (int n = 0; n < N; n++) {
                u32 column = (n * 32 + threadIdx.x) * COUNT;
                if (column >= work.width) continue;
                u64 at = (u64)number * work.width + column;
                copy_ahead(place(stage, 0, n), (const T *)work.x + at);
                copy_ahead(place(stage, 1, n), (const T *)work.dy + at);
                if (work.accumulate) copy_ahead(place(stage, 2, n), (const T *)work.dx + at);
            }
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    }

    // A chunk of a row, read once more where it is needed once more.
    __device__ Wide<T> again(u32 stage, int which, int n) const {
        Wide<T> chunk;
        u32 *words = (u32 *)&chunk, address = (u32)__cvta_generic_to_shared(place(stage, which, n));
        asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                     : "r"(address));
        return chunk;
    }

    // Zeros beyond the end of the row.
    __device__ Row<T, N> row(u32 stage, int which, u32 width) const {
        Row<T, N> row;
#pragma unroll
        for (int n = 0; n < N; n++) {
            if ((n * 32 + threadIdx.x) * COUNT < width) {
                row.chunks[n] = *place(stage, which, n);
            } else {
#pragma unroll
                for (int i = 0; i < COUNT; i++) narrow(0, row.chunks[n].x[i]);
            }
        }
        return row;
    }
};

// With n = (x − mean)·scale and g = dy·weight, dx = scale·(g − mean g − n·mean(g·n)); the mean of g is there only where a
// mean was taken off. A warp has every so-many-th row; the sums of dy·n, of dy and of dx over its rows stay in registers.
template <typename T, int N> __device__ void backward(const Norm &work) {
    constexpr int COUNT = Wide<T>::COUNT;
    extern __shared__ float shared[];
    Ahead<T, N> ahead = {(Wide<T> *)shared + threadIdx.y * 2 * 3 * N * 32};
    float sums[3][N][COUNT] = {};
    u32 number = blockIdx.x * blockDim.y + threadIdx.y, step = gridDim.x * blockDim.y;
    ahead.fetch(work, number, 0);
    for (u32 stage = 0; number < work.rows; number += step, stage ^= 1) {
        ahead.fetch(work, number + step, stage ^ 1);
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        Row<T, N> row = ahead.row(stage, 0, work.width), dy = ahead.row(stage, 1, work.width);
        Statistics known = row.statistics(work);
        float sum = 0, product = 0;
#pragma unroll
        for (int n = 0; n < N; n++) {
            u32 column = (n * 32 + threadIdx.x) * COUNT;
            if (column >= work.width) continue;
            float weight[COUNT];
            read_weights(work.weight, column, work.constant, weight);
#pragma unroll
            for (int i = 0; i < COUNT; i++) {
                float normed = (row.x(n, i) - known.mean) * known.scale, g = dy.x(n, i) * weight[i];
                sums[0][n][i] += dy.x(n, i) * normed;
                sums[1][n][i] += dy.x(n, i);
                sum += g;
                product += g * normed;
            }
        }
        sum = work.is_layer ? sum_of_lanes(sum) / work.width : 0;
        product = sum_of_lanes(product) / work.width;
#pragma unroll
        for (int n = 0; n < N; n++) {
            u32 column = (n * 32 + threadIdx.x) * COUNT;
            if (column >= work.width) continue;
            Wide<T> x = ahead.again(stage, 0, n), dy = ahead.again(stage, 1, n), out = ahead.again(stage, 2, n);
            float weight[COUNT];
            read_weights(work.weight, column, work.constant, weight);
#pragma unroll
            for (int i = 0; i < COUNT; i++) {
                float normed = (widen(x.x[i]) - known.mean) * known.scale;
                float d = known.scale * (widen(dy.x[i]) * weight[i] - sum - normed * product);
                if (work.accumulate) d += widen(out.x[i]);
                sums[2][n][i] += d;
                narrow(d, out.x[i]);
            }
            *(Wide<T> *)((T *)work.dx + (u64)number * work.width + column) = out;
        }
    }
    if (!work.partials) return;
    // The sums of all warps take the place of the rows, which have no more bytes than these.
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    float *own = shared + (u64)threadIdx.y * 3 * work.width;
#pragma unroll
    for (int which = 0; which < 3; which++) {
#pragma unroll
        for (int n = 0; n < N; n++) {
            u32 column = (n * 32 + threadIdx.x) * COUNT;
            if (column >= work.width) continue;
#pragma unroll
            for (int i = 0; i < COUNT; i += 4) {
                const float *four = sums[which][n] + i;
                *(float4 *)(own + which * work.width + column + i) = make_float4(four[0], four[1], four[2], four[3]);
            }
        }
    }
    __syncthreads();
    u32 all = 3 * work.width;
    for (u32 i = threadIdx.y * 32 + threadIdx.x; i < all; i += blockDim.y * 32) {
        float sum = shared[i];
        for (u32 warp = 1; warp < blockDim.y; warp++) sum += shared[warp * all + i];
        work.partials[(u64)blockIdx.x * all + i] = sum;
    }
}

// Rows of any width, a block of 256 threads each.
template <typename T> __device__ Statistics statistics_any(const Norm &work, const T *x, float *parts) {
    auto numbers = [&](u32 i) { return widen(x[i]); };
    return statistics_of_block(numbers, work.width, work.is_layer, work.epsilon, parts);
}

template <typename T> __device__ void forward_any(const Norm &work) {
    __shared__ float parts[32];
    u64 at = (u64)blockIdx.x * work.width;
    const T *x = (const T *)work.x + at;
    Statistics known = statistics_any(work, x, parts);
    for (u32 i = threadIdx.x; i < work.width; i += 256) {
        float weight = work.weight ? work.weight[i] : work.constant, bias = work.bias ? work.bias[i] : 0;
        narrow((widen(x[i]) - known.mean) * known.scale * weight + bias, ((T *)work.out + at)[i]);
    }
}

template <typename T> __device__ void backward_any(const Norm &work) {
    extern __shared__ float shared[];  // [3 · width]
    __shared__ float parts[32];
    for (u32 i = threadIdx.x; i < 3 * work.width; i += 256) shared[i] = 0;
    for (u32 row = blockIdx.x; row < work.rows; row += gridDim.x) {
        u64 at = (u64)row * work.width;
        const T *x = (const T *)work.x + at, *dy = (const T *)work.dy + at;
        Statistics known = statistics_any(work, x, parts);
        float sum = 0, product = 0;
        for (u32 i = threadIdx.x; i < work.width; i += 256) {
            float weight = work.weight ? work.weight[i] : work.constant;
            float normed = (widen(x[i]) - known.mean) * known.scale, slope = widen(dy[i]);
            shared[i] += slope * normed;
            shared[work.width + i] += slope;
            sum += slope * weight;
            product += slope * weight * normed;
        }
        sum = work.is_layer ? sum_of_block(sum, parts) / work.width : 0;
        product = sum_of_block(product, parts) / work.width;
        for (u32 i = threadIdx.x; i < work.width; i += 256) {
            float weight = work.weight ? work.weight[i] : work.constant;
            float normed = (widen(x[i]) - known.mean) * known.scale;
            float d = known.scale * (widen(dy[i]) * weight - sum - normed * product);
            T &out = ((T *)work.dx + at)[i];
            if (work.accumulate) d += widen(out);
            shared[2 * work.width + i] += d;
            narrow(d, out);
        }
    }
    if (!work.partials) return;
    // A sum is read by another thread than the one that made it.
    __syncthreads();
    for (u32 i = threadIdx.x; i < 3 * work.width; i += 256) work.partials[(u64)blockIdx.x * 3 * work.width + i] = shared[i];
}
}  // namespace norms

// So many blocks of the way forward, and of the way back, are to be on a multiprocessor at a time.
#define NORM_OF(name, T, N, FORWARD, BLOCKS)                                                                           \
    extern "C" __global__ void __launch_bounds__(256, FORWARD)                                                         \
        name##_norm_##N(const __grid_constant__ norms::Norm work) {                                                    \
        norms::forward<T, N>(work);                                                                                     \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(256, BLOCKS)                                                          \
        name##_norm_back_##N(const __grid_constant__ norms::Norm work) {                                               \
        norms::backward<T, N>(work);                                                                                    \
    }
#define NORM(name, T)                                                                                                  \
    NORM_OF(name, T, 1, 4, 3)                                                                                          \
    NORM_OF(name, T, 2, 3, 2)                                                                                          \
    NORM_OF(name, T, 3, 2, 2)                                                                                          \
    NORM_OF(name, T, 4, 2, 1)                                                                                          \
    extern "C" __global__ void __launch_bounds__(256) name##_norm_any(const __grid_constant__ norms::Norm work) {      \
        norms::forward_any<T>(work);                                                                                   \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(256) name##_norm_back_any(const __grid_constant__ norms::Norm work) { \
        norms::backward_any<T>(work);                                                                                  \
    }
NORM(f32, float)
NORM_OF(f32, float, 6, 2, 1)
NORM_OF(f32, float, 8, 2, 1)
NORM(bf16, bf16)
