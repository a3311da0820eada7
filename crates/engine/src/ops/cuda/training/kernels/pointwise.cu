// ---- Number by number: activations, gates, dropout, sums ----------------------------------------------------------

namespace pointwise {
template <typename T, typename Chunk, int COUNT, int KIND>
__device__ void activate_as(const T *x, T *y, u64 chunks, u32 is_slope) {
    u64 index = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= chunks) return;
    Chunk from = ((const Chunk *)x)[index], to;
    if (is_slope) to = ((const Chunk *)y)[index];
    const T *a = (const T *)&from;
    T *b = (T *)&to;
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        Activated both = activate<T, KIND>(widen(a[i]));
        narrow(is_slope ? widen(b[i]) * both.slope : both.y, b[i]);
    }
    ((Chunk *)y)[index] = to;
}

// y = f(x), or y ·= f′(x).
template <typename T, typename Chunk, int COUNT>
__device__ void activation(const T *x, T *y, u64 chunks, u32 kind, u32 is_slope) {
    switch (kind) {
    case GELU: return activate_as<T, Chunk, COUNT, GELU>(x, y, chunks, is_slope);
    case GELU_TANH: return activate_as<T, Chunk, COUNT, GELU_TANH>(x, y, chunks, is_slope);
    case RELU: return activate_as<T, Chunk, COUNT, RELU>(x, y, chunks, is_slope);
    case SILU: return activate_as<T, Chunk, COUNT, SILU>(x, y, chunks, is_slope);
    case TANH: return activate_as<T, Chunk, COUNT, TANH>(x, y, chunks, is_slope);
    default: return activate_as<T, Chunk, COUNT, IDENTITY>(x, y, chunks, is_slope);
    }
}

// dy ·= f′(x), both [rows, width], and parts of the sums of its columns, as sums::columns leaves them: the gradient of the bias of
// the layer that x came from, without reading dy once more.
template <typename T, int KIND>
__device__ void slope_and_sums_as(const T *x, T *dy, float *partials, u32 rows, u32 width, u32 splits) {
    constexpr int COUNT = Wide<T>::COUNT, MORE = 4;
    u32 tile = blockIdx.x / splits, split = blockIdx.x % splits;
    u32 first = tile * 32 * COUNT, column = first + threadIdx.x * COUNT, step = splits * 8;
    float sum[COUNT] = {};
    if (column < width) {
        for (u32 row = split * 8 + threadIdx.y; row < rows; row += MORE * step) {
            Wide<T> from[MORE], to[MORE];
#pragma unroll
            for (u32 more = 0; more < MORE; more++) {
                if (row + more * step >= rows) continue;
                u64 at = (u64)(row + more * step) * width + column;
                from[more] = *(const Wide<T> *)(x + at), to[more] = *(const Wide<T> *)(dy + at);
            }
#pragma unroll
            for (u32 more = 0; more < MORE; more++) {
                if (row + more * step >= rows) continue;
#pragma unroll
                for (int i = 0; i < COUNT; i++) {
                    float slope = widen(to[more].x[i]) * activate<T, KIND>(widen(from[more].x[i])).slope;
                    sum[i] += slope;
                    narrow(slope, to[more].x[i]);
                }
                *(Wide<T> *)(dy + (u64)(row + more * step) * width + column) = to[more];
            }
        }
    }
    sums::leave_part<COUNT>(sum, first, min((u32)(32 * COUNT), width - first), partials + (u64)split * width);
}

template <typename T>
__device__ void slope_and_sums(const T *x, T *dy, float *partials, u32 rows, u32 width, u32 splits, u32 kind) {
    switch (kind) {
    case GELU: return slope_and_sums_as<T, GELU>(x, dy, partials, rows, width, splits);
    case GELU_TANH: return slope_and_sums_as<T, GELU_TANH>(x, dy, partials, rows, width, splits);
    case RELU: return slope_and_sums_as<T, RELU>(x, dy, partials, rows, width, splits);
    case SILU: return slope_and_sums_as<T, SILU>(x, dy, partials, rows, width, splits);
    case TANH: return slope_and_sums_as<T, TANH>(x, dy, partials, rows, width, splits);
    default: return slope_and_sums_as<T, IDENTITY>(x, dy, partials, rows, width, splits);
    }
}

// out [rows, row] = activation(gate)·up, x [rows, 2, row] being both; or dx of x from dy.
template <typename T, typename Chunk, int COUNT, int KIND>
__device__ void gate_as(const T *x, T *out, const T *dy, T *dx, u64 chunks, u32 row) {
    u64 index = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= chunks) return;
    u64 at = index / row * 2 * row + index % row;
    Chunk first = ((const Chunk *)x)[at], second = ((const Chunk *)x)[at + row], other;
    T *gate = (T *)&first, *up = (T *)&second, *third = (T *)&other;
    if (dx) other = ((const Chunk *)dy)[index];
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        Activated both = activate<T, KIND>(widen(gate[i]));
        if (dx) {
            float slope = widen(third[i]), value = widen(up[i]);
            narrow(slope * value * both.slope, gate[i]);
            narrow(slope * both.y, up[i]);
        } else {
            narrow(both.y * widen(up[i]), third[i]);
        }
    }
    if (dx) {
        ((Chunk *)dx)[at] = first;
        ((Chunk *)dx)[at + row] = second;
    } else {
        ((Chunk *)out)[index] = other;
    }
}

template <typename T, typename Chunk, int COUNT>
__device__ void gate(const T *x, T *out, const T *dy, T *dx, u64 chunks, u32 row, u32 kind) {
    switch (kind) {
    case GELU: return gate_as<T, Chunk, COUNT, GELU>(x, out, dy, dx, chunks, row);
    case GELU_TANH: return gate_as<T, Chunk, COUNT, GELU_TANH>(x, out, dy, dx, chunks, row);
    case RELU: return gate_as<T, Chunk, COUNT, RELU>(x, out, dy, dx, chunks, row);
    case SILU: return gate_as<T, Chunk, COUNT, SILU>(x, out, dy, dx, chunks, row);
    case TANH: return gate_as<T, Chunk, COUNT, TANH>(x, out, dy, dx, chunks, row);
    default: return gate_as<T, Chunk, COUNT, IDENTITY>(x, out, dy, dx, chunks, row);
    }
}

// x ·= factor
template <typename T, typename Chunk, int COUNT> __device__ void times(T *x, u64 chunks, float factor) {
    u64 index = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= chunks) return;
    Chunk chunk = ((const Chunk *)x)[index];
    T *numbers = (T *)&chunk;
#pragma unroll
    for (int i = 0; i < COUNT; i++) narrow(widen(numbers[i]) * factor, numbers[i]);
    ((Chunk *)x)[index] = chunk;
}

// Sets numbers to 0 by chance, in place, and scales the others; numbers have the indices 0, 1, 2 and so on.
template <typename T, typename Chunk, int COUNT>
__device__ void dropout(T *x, u64 chunks, const Scalars *scalars, u64 site, u32 threshold, float scale) {
    u64 index = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= chunks || !scalars->is_training) return;
    u64 key = chance::key(scalars->seed, scalars->step, site);
    Chunk chunk = ((const Chunk *)x)[index];
    T *numbers = (T *)&chunk;
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        bool stays = chance::keeps(key, index * COUNT + i, threshold);
        narrow(stays ? widen(numbers[i]) * scale : 0, numbers[i]);
    }
    ((Chunk *)x)[index] = chunk;
}

// out = a + b
template <typename T, typename Chunk, int COUNT> __device__ void sum(const T *a, const T *b, T *out, u64 chunks) {
    u64 index = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= chunks) return;
    Chunk first = ((const Chunk *)a)[index], second = ((const Chunk *)b)[index];
    T *x = (T *)&first;
    const T *y = (const T *)&second;
#pragma unroll
    for (int i = 0; i < COUNT; i++) narrow(widen(x[i]) + widen(y[i]), x[i]);
    ((Chunk *)out)[index] = first;
}
}  // namespace pointwise

#define POINTWISE_AS(name, T, end, Chunk, COUNT)                                                                       \
    extern "C" __global__ void name##_activation##end(const T *x, T *y, u64 chunks, u32 kind, u32 is_slope) {          \
        pointwise::activation<T, Chunk, COUNT>(x, y, chunks, kind, is_slope);                                          \
    }                                                                                                                  \
    extern "C" __global__ void name##_gate##end(                                                                       \
        const T *x, T *out, const T *dy, T *dx, u64 chunks, u32 row, u32 kind) {                                       \
        pointwise::gate<T, Chunk, COUNT>(x, out, dy, dx, chunks, row, kind);                                           \
    }                                                                                                                  \
    extern "C" __global__ void name##_times##end(T *x, u64 chunks, float factor) {                                     \
        pointwise::times<T, Chunk, COUNT>(x, chunks, factor);                                                          \
    }                                                                                                                  \
    extern "C" __global__ void name##_dropout##end(                                                                    \
        T *x, u64 chunks, const Scalars *scalars, u64 site, u32 threshold, float scale) {                              \
        pointwise::dropout<T, Chunk, COUNT>(x, chunks, scalars, site, threshold, scale);                               \
    }                                                                                                                  \
    extern "C" __global__ void name##_sum##end(const T *a, const T *b, T *out, u64 chunks) {                           \
        pointwise::sum<T, Chunk, COUNT>(a, b, out, chunks);                                                            \
    }
#define SLOPE_AND_SUMS(name, T)                                                                                        \
    extern "C" __global__ void __launch_bounds__(256) name##_slope_and_sums(                                           \
        const T *x, T *dy, float *partials, u32 rows, u32 width, u32 splits, u32 kind) {                               \
        pointwise::slope_and_sums<T>(x, dy, partials, rows, width, splits, kind);                                      \
    }
SLOPE_AND_SUMS(f32, float)
SLOPE_AND_SUMS(bf16, bf16)
#define POINTWISE(name, T)                                                                                             \
    POINTWISE_AS(name, T, , T, 1)                                                                                      \
    POINTWISE_AS(name, T, _wide, Wide<T>, Wide<T>::COUNT)
POINTWISE(f32, float)
POINTWISE(bf16, bf16)
