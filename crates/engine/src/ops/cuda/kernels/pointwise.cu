// ---- Number by number: biases, activations, gates -----------------------------------------------------------------

struct Finish {
    void *x;           // [rows, width], in place
    const void *bias;  // [width] or null
    u64 chunks;        // of all rows
    u32 row;           // chunks of a row
    u32 activation;
};

template <typename T, typename Chunk, int COUNT, int KIND> __device__ void finish_as(const Finish &work) {
    u64 index = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= work.chunks) return;
    Chunk chunk = ((const Chunk *)work.x)[index];
    T *x = (T *)&chunk;
    if (work.bias) {
        Chunk other = ((const Chunk *)work.bias)[index % work.row];
        const T *bias = (const T *)&other;
#pragma unroll
        for (int i = 0; i < COUNT; i++) narrow(activate<T, KIND>(widen(x[i]) + widen(bias[i])).y, x[i]);
    } else {
#pragma unroll
        for (int i = 0; i < COUNT; i++) narrow(activate<T, KIND>(widen(x[i])).y, x[i]);
    }
    ((Chunk *)work.x)[index] = chunk;
}

template <typename T, typename Chunk, int COUNT> __device__ void finish(const Finish &work) {
    switch (work.activation) {
    case GELU: return finish_as<T, Chunk, COUNT, GELU>(work);
    case GELU_TANH: return finish_as<T, Chunk, COUNT, GELU_TANH>(work);
    case RELU: return finish_as<T, Chunk, COUNT, RELU>(work);
    case SILU: return finish_as<T, Chunk, COUNT, SILU>(work);
    case TANH: return finish_as<T, Chunk, COUNT, TANH>(work);
    default: return finish_as<T, Chunk, COUNT, IDENTITY>(work);
    }
}

struct Gate {
    const void *x;  // [rows, 2, row]
    void *out;      // [rows, row]
    u64 chunks;     // of out
    u32 row;        // chunks of a row of out
    u32 activation;
};

template <typename T, typename Chunk, int COUNT, int KIND> __device__ void gate_as(const Gate &work) {
    u64 index = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= work.chunks) return;
    u64 at = index / work.row * 2 * work.row + index % work.row;
    Chunk first = ((const Chunk *)work.x)[at], second = ((const Chunk *)work.x)[at + work.row];
    T *gate = (T *)&first;
    const T *up = (const T *)&second;
#pragma unroll
    for (int i = 0; i < COUNT; i++) narrow(activate<T, KIND>(widen(gate[i])).y * widen(up[i]), gate[i]);
    ((Chunk *)work.out)[index] = first;
}

template <typename T, typename Chunk, int COUNT> __device__ void gate(const Gate &work) {
    switch (work.activation) {
    case GELU: return gate_as<T, Chunk, COUNT, GELU>(work);
    case GELU_TANH: return gate_as<T, Chunk, COUNT, GELU_TANH>(work);
    case RELU: return gate_as<T, Chunk, COUNT, RELU>(work);
    case SILU: return gate_as<T, Chunk, COUNT, SILU>(work);
    case TANH: return gate_as<T, Chunk, COUNT, TANH>(work);
    default: return gate_as<T, Chunk, COUNT, IDENTITY>(work);
    }
}

#define POINTWISE(name, T)                                                                                             \
    extern "C" __global__ void name##_finish(const __grid_constant__ Finish work) { finish<T, T, 1>(work); }           \
    extern "C" __global__ void name##_finish_wide(const __grid_constant__ Finish work) {                               \
        finish<T, Wide<T>, Wide<T>::COUNT>(work);                                                                      \
    }                                                                                                                  \
    extern "C" __global__ void name##_gate(const __grid_constant__ Gate work) { gate<T, T, 1>(work); }                 \
    extern "C" __global__ void name##_gate_wide(const __grid_constant__ Gate work) {                                   \
        gate<T, Wide<T>, Wide<T>::COUNT>(work);                                                                        \
    }
POINTWISE(f32, float)
POINTWISE(bf16, bf16)
