// ---- Norms and their gradients ------------------------------------------------------------------------------------

namespace norms {
struct Norm {
    const void *x;        // [rows, width]
    const float *weight;  // [width], or null: `constant`
    const float *bias;    // [width] or null
    void *out;            // as x
    const void *dy;       // as x
    void *dx;             // as x
    float *dweight;       // [width], added to, or null
    float *dbias;         // [width], added to, or null
    float *partials;      // [blocks, 2 · width]
    u32 *counter;
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

// A warp a row; a block has 32 × 8 threads.
template <typename T, int N> __device__ void forward(const Norm &work) {
    constexpr int COUNT = Wide<T>::COUNT;
    u32 number = blockIdx.x * blockDim.y + threadIdx.y;
    if (number >= work.rows) return;
    u64 at = (u64)number * work.width;
    Row<T, N> row;
    row.read(work.x, at, work.width);
    Statistics known = row.statistics(work);
#pragma unroll
    for (int n = 0; n < N; n++) {
        u32 column = (n * 32 + threadIdx.x) * COUNT;
        if (column >= work.width) continue;
        float weight[COUNT], bias[COUNT];
        read_weights(work.weight, column, work.constant, weight);
        read_weights(work.bias, column, 0, bias);
        Wide<T> out;
#pragma unroll
        for (int i = 0; i < COUNT; i++) narrow((row.x(n, i) - known.mean) * known.scale * weight[i] + bias[i], out.x[i]);
        *(Wide<T> *)((T *)work.out + at + column) = out;
    }
}

// Adds the parts of all blocks to the gradients of weight and bias: the last block does where they are few, else `norm_parts`.
__device__ inline void finish(const Norm &work) {
    if (!work.counter || !sums::is_last(work.counter, gridDim.x)) return;
    sums::add_parts(work.partials, gridDim.x, 2 * work.width, work.width, work.dweight);
    if (work.dbias) sums::add_parts(work.partials + work.width, gridDim.x, 2 * work.width, work.width, work.dbias);
}

// With n = (x − mean)·scale and g = dy·weight, dx = scale·(g − mean g − n·mean(g·n)); the mean of g is there only where a
// mean was taken off. A warp has every so-many-th row; the sums of dy·n and dy over its rows stay in registers.
template <typename T, int N> __device__ void backward(const Norm &work) {
    constexpr int COUNT = Wide<T>::COUNT;
    extern __shared__ float shared[];  // [2 · width]
    float dweight[N][COUNT] = {}, dbias[N][COUNT] = {};
    for (u32 number = blockIdx.x * blockDim.y + threadIdx.y; number < work.rows; number += gridDim.x * blockDim.y) {
        u64 at = (u64)number * work.width;
        Row<T, N> row, dy;
        row.read(work.x, at, work.width);
        dy.read(work.dy, at, work.width);
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
                dweight[n][i] += dy.x(n, i) * normed;
                dbias[n][i] += dy.x(n, i);
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
            Wide<T> *to = (Wide<T> *)((T *)work.dx + at + column);
            Wide<T> out;
            if (work.accumulate) out = *to;
            float weight[COUNT];
            read_weights(work.weight, column, work.constant, weight);
#pragma unroll
            for (int i = 0; i < COUNT; i++) {
                float normed = (row.x(n, i) - known.mean) * known.scale;
                float d = known.scale * (dy.x(n, i) * weight[i] - sum - normed * product);
                narrow(work.accumulate ? widen(out.x[i]) + d : d, out.x[i]);
            }
            *to = out;
        }
    }
    if (!work.dweight) return;
    for (u32 warp = 0; warp < blockDim.y; warp++) {
        if (threadIdx.y == warp) {
#pragma unroll
            for (int n = 0; n < N; n++) {
                u32 column = (n * 32 + threadIdx.x) * COUNT;
                if (column >= work.width) continue;
#pragma unroll
                for (int i = 0; i < COUNT; i++) {
                    float *a = shared + column + i, *b = a + work.width;
                    *a = warp == 0 ? dweight[n][i] : *a + dweight[n][i];
                    *b = warp == 0 ? dbias[n][i] : *b + dbias[n][i];
                }
            }
        }
        __syncthreads();
    }
    u32 thread = threadIdx.y * 32 + threadIdx.x;
    for (u32 i = thread; i < 2 * work.width; i += 256) work.partials[(u64)blockIdx.x * 2 * work.width + i] = shared[i];
    finish(work);
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
    extern __shared__ float shared[];  // [2 · width]
    __shared__ float parts[32];
    for (u32 i = threadIdx.x; i < 2 * work.width; i += 256) shared[i] = 0;
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
            narrow(work.accumulate ? widen(out) + d : d, out);
        }
    }
    if (!work.dweight) return;
    for (u32 i = threadIdx.x; i < 2 * work.width; i += 256) work.partials[(u64)blockIdx.x * 2 * work.width + i] = shared[i];
    finish(work);
}
}  // namespace norms

// BLOCKS of the way back are to be on a multiprocessor at a time.
#define NORM_OF(name, T, N, BLOCKS)                                                                                    \
    extern "C" __global__ void __launch_bounds__(256) name##_norm_##N(const __grid_constant__ norms::Norm work) {       \
        norms::forward<T, N>(work);                                                                                     \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(256, BLOCKS)                                                          \
        name##_norm_back_##N(const __grid_constant__ norms::Norm work) {                                               \
        norms::backward<T, N>(work);                                                                                    \
    }
#define NORM(name, T)                                                                                                  \
    NORM_OF(name, T, 1, 3)                                                                                             \
    NORM_OF(name, T, 2, 2)                                                                                             \
    NORM_OF(name, T, 3, 2)                                                                                             \
    NORM_OF(name, T, 4, 1)                                                                                             \
    extern "C" __global__ void __launch_bounds__(256) name##_norm_any(const __grid_constant__ norms::Norm work) {      \
        norms::forward_any<T>(work);                                                                                   \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(256) name##_norm_back_any(const __grid_constant__ norms::Norm work) { \
        norms::backward_any<T>(work);                                                                                  \
    }
NORM(f32, float)
NORM_OF(f32, float, 6, 2)
NORM_OF(f32, float, 8, 1)
NORM(bf16, bf16)

// dweight and dbias [width] += the sums of `parts` parts [2 · width]. A block of 256 threads has 32 columns.
extern "C" __global__ void __launch_bounds__(256) norm_parts(const float *partials, u32 parts, u32 width, float *dweight, float *dbias) {
    __shared__ float own[32];
    u32 first = blockIdx.x * 32, count = min(32u, 2 * width - first);
    if (threadIdx.x < 32) own[threadIdx.x] = 0;
    __syncthreads();
    sums::add_parts(partials + first, parts, 2 * width, count, own);
    __syncthreads();
    u32 column = first + threadIdx.x;
    if (threadIdx.x >= count) return;
    if (column < width) dweight[column] += own[threadIdx.x];
    else if (dbias) dbias[column - width] += own[threadIdx.x];
}
