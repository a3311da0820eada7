// ---- Rows: embeddings, norms, copies, means -----------------------------------------------------------------------

struct Embed {
    const void *words;
    const void *kinds;
    const u32 *ids;
    const u32 *types;  // or null: all 0
    void *out;
    u64 chunks;        // of all rows
    u32 row;           // chunks of a row
};

template <typename T, typename Chunk, int COUNT> __device__ void embed(const Embed &work) {
    u64 index = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= work.chunks) return;
    u64 token = index / work.row, column = index % work.row;
    u64 kind = work.types ? work.types[token] : 0;
    Chunk word = ((const Chunk *)work.words)[work.ids[token] * (u64)work.row + column];
    Chunk other = ((const Chunk *)work.kinds)[kind * work.row + column];
    T *x = (T *)&word;
    const T *y = (const T *)&other;
#pragma unroll
    for (int i = 0; i < COUNT; i++) narrow(widen(x[i]) + widen(y[i]), x[i]);
    ((Chunk *)work.out)[index] = word;
}

struct Norm {
    const void *x;
    const void *residual;  // or null
    const void *weight;    // [width]
    const void *bias;      // [width]; null for the norm of the mean square
    void *sum;             // where x + residual goes, or null
    void *out;             // as x
    u64 vectors;
    u64 step;              // from row to row
    u64 offset;            // of a row's first vector
    u32 heads;             // vectors of a row
    u32 width;             // of a vector
    float epsilon;
};

__device__ inline u64 place(const Norm &work, u64 vector) {
    return vector / work.heads * work.step + work.offset + vector % work.heads * work.width;
}

// A warp a vector, which stays in registers: up to N chunks of 16 bytes a lane.
template <typename T, int N> __device__ void norm_narrow(const Norm &work) {
    constexpr int COUNT = Wide<T>::COUNT;
    u64 vector = (u64)blockIdx.x * blockDim.y + threadIdx.y;
    if (vector >= work.vectors) return;
    u64 at = place(work, vector);
    float x[N][COUNT];
#pragma unroll
    for (int n = 0; n < N; n++) {
        u32 column = (n * 32 + threadIdx.x) * COUNT;
        if (column >= work.width) {
            for (int i = 0; i < COUNT; i++) x[n][i] = 0;
            continue;
        }
        Wide<T> own = *(const Wide<T> *)((const T *)work.x + at + column);
        if (work.residual) {
            Wide<T> other = *(const Wide<T> *)((const T *)work.residual + at + column);
            for (int i = 0; i < COUNT; i++) x[n][i] = widen(own.x[i]) + widen(other.x[i]);
        } else {
            for (int i = 0; i < COUNT; i++) x[n][i] = widen(own.x[i]);
        }
        if (work.sum) {
            for (int i = 0; i < COUNT; i++) narrow(x[n][i], own.x[i]);
            *(Wide<T> *)((T *)work.sum + at + column) = own;
        }
    }
    auto numbers = [&](int n, int i) { return x[n][i]; };
    Statistics known = statistics_of_lanes<N, COUNT>(numbers, work.width, work.bias, work.epsilon);
#pragma unroll
    for (int n = 0; n < N; n++) {
        u32 column = (n * 32 + threadIdx.x) * COUNT;
        if (column >= work.width) continue;
        Wide<T> weight = *(const Wide<T> *)((const T *)work.weight + column), out;
        Wide<T> bias;
        if (work.bias) bias = *(const Wide<T> *)((const T *)work.bias + column);
        for (int i = 0; i < COUNT; i++) {
            float y = (x[n][i] - known.mean) * known.scale * widen(weight.x[i]);
            narrow(work.bias ? y + widen(bias.x[i]) : y, out.x[i]);
        }
        *(Wide<T> *)((T *)work.out + at + column) = out;
    }
}

// A block a vector of any width, which stays in shared memory.
template <typename T> __device__ void norm_any(const Norm &work) {
    extern __shared__ float row[];
    __shared__ float parts[32];
    u64 at = place(work, blockIdx.x);
    for (u32 i = threadIdx.x; i < work.width; i += blockDim.x) {
        float x = widen(((const T *)work.x)[at + i]);
        if (work.residual) x += widen(((const T *)work.residual)[at + i]);
        if (work.sum) narrow(x, ((T *)work.sum)[at + i]);
        row[i] = x;
    }
    auto numbers = [&](u32 i) { return row[i]; };
    Statistics known = statistics_of_block(numbers, work.width, work.bias, work.epsilon, parts);
    for (u32 i = threadIdx.x; i < work.width; i += blockDim.x) {
        float y = (row[i] - known.mean) * known.scale * widen(((const T *)work.weight)[i]);
        if (work.bias) y += widen(((const T *)work.bias)[i]);
        narrow(y, ((T *)work.out)[at + i]);
    }
}

struct Copy {
    const void *from;
    void *to;
    u64 from_token, from_sequence, to_token, to_sequence;  // in chunks
    u64 chunks;                                            // of all
    u32 tokens;
    u32 width;                                             // chunks of a token
};

template <typename Chunk> __device__ void copy(const Copy &work) {
    u64 index = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= work.chunks) return;
    u64 column = index % work.width, token = index / work.width % work.tokens;
    u64 sequence = index / work.width / work.tokens;
    ((Chunk *)work.to)[sequence * work.to_sequence + token * work.to_token + column] =
        ((const Chunk *)work.from)[sequence * work.from_sequence + token * work.from_token + column];
}

// out [batch, width] = the mean of x [batch, tokens, width]
template <typename T> __device__ void mean(const T *x, T *out, u32 batch, u32 tokens, u32 width) {
    u64 index = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= (u64)batch * width) return;
    const T *column = x + index / width * tokens * width + index % width;
    float sum = 0;
    for (u32 token = 0; token < tokens; token++) sum += widen(column[(u64)token * width]);
    narrow(sum * (1.0f / tokens), out[index]);
}

#define ROWS(name, T)                                                                                                  \
    extern "C" __global__ void name##_embed(const __grid_constant__ Embed work) { embed<T, T, 1>(work); }              \
    extern "C" __global__ void name##_embed_wide(const __grid_constant__ Embed work) {                                 \
        embed<T, Wide<T>, Wide<T>::COUNT>(work);                                                                       \
    }                                                                                                                  \
    extern "C" __global__ void name##_norm_1(const __grid_constant__ Norm work) { norm_narrow<T, 1>(work); }           \
    extern "C" __global__ void name##_norm_2(const __grid_constant__ Norm work) { norm_narrow<T, 2>(work); }           \
    extern "C" __global__ void name##_norm_4(const __grid_constant__ Norm work) { norm_narrow<T, 4>(work); }           \
    extern "C" __global__ void name##_norm_8(const __grid_constant__ Norm work) { norm_narrow<T, 8>(work); }           \
    extern "C" __global__ void name##_norm_any(const __grid_constant__ Norm work) { norm_any<T>(work); }               \
    extern "C" __global__ void name##_mean(const T *x, T *out, u32 batch, u32 tokens, u32 width) {                     \
        mean<T>(x, out, batch, tokens, width);                                                                         \
    }
ROWS(f32, float)
ROWS(bf16, bf16)
extern "C" __global__ void copy_2(const __grid_constant__ Copy work) { copy<u16>(work); }
extern "C" __global__ void copy_4(const __grid_constant__ Copy work) { copy<u32>(work); }
extern "C" __global__ void copy_16(const __grid_constant__ Copy work) { copy<Wide<u8>>(work); }
