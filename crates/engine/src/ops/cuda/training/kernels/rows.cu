// ---- Rows: columns beside columns, codes of positions, one vector a text, sums ------------------------------------
// A thread takes COUNT neighbouring numbers: 16 bytes of T where all is aligned, else one.

namespace rows {

template <typename T, int COUNT> struct __align__(sizeof(T) * COUNT) Chunk {
    T x[COUNT];
};

template <typename T, int COUNT> __device__ inline void load(const T *from, float (&x)[COUNT]) {
    Chunk<T, COUNT> chunk = *(const Chunk<T, COUNT> *)from;
#pragma unroll
    for (int i = 0; i < COUNT; i++) x[i] = widen(chunk.x[i]);
}

// f32 is never read in more than 16 bytes.
template <int COUNT> __device__ inline void load_codes(const float *from, float (&x)[COUNT]) {
    constexpr int PART = COUNT < 4 ? COUNT : 4;
#pragma unroll
    for (int i = 0; i < COUNT; i += PART) {
        Chunk<float, PART> chunk = *(const Chunk<float, PART> *)(from + i);
#pragma unroll
        for (int j = 0; j < PART; j++) x[i + j] = chunk.x[j];
    }
}

template <typename T, int COUNT> __device__ inline void store(T *to, const float (&x)[COUNT]) {
    Chunk<T, COUNT> chunk;
#pragma unroll
    for (int i = 0; i < COUNT; i++) narrow(x[i], chunk.x[i]);
    *(Chunk<T, COUNT> *)to = chunk;
}

// Sets numbers, or adds to them.
template <typename T, int COUNT> __device__ inline void give(T *to, const float (&x)[COUNT], u32 accumulate) {
    if (!accumulate) return store<T, COUNT>(to, x);
    float sum[COUNT];
    load<T, COUNT>(to, sum);
#pragma unroll
    for (int i = 0; i < COUNT; i++) sum[i] += x[i];
    store<T, COUNT>(to, sum);
}

__device__ inline u32 thread_index() { return blockIdx.x * blockDim.x + threadIdx.x; }

// ---- Columns ----

struct Columns {
    const void *from;  // the first number that is copied
    void *to;          // where it goes
    u64 from_width;    // from row to row
    u64 to_width;
    u32 chunks;        // of all rows
    u32 row;           // chunks of a row
    u32 accumulate;
};

template <typename T, int COUNT> __device__ void columns(const Columns &work) {
    u32 index = thread_index();
    if (index >= work.chunks) return;
    u64 row = index / work.row, column = (u64)(index % work.row) * COUNT;
    float x[COUNT];
    load<T, COUNT>((const T *)work.from + row * work.from_width + column, x);
    give<T, COUNT>((T *)work.to + row * work.to_width + column, x, work.accumulate);
}

// ---- Codes of positions, f32 and the same for every text ----

struct Codes {
    const void *a;       // [rows, width], or null: 0
    const float *codes;  // [codes_rows, width]
    void *out;           // the first number that is written
    u64 out_width;       // from row to row
    u32 chunks;          // of all rows
    u32 row;             // chunks of a row
    u32 codes_rows;
};

// out = a + codes
template <typename T, int COUNT> __device__ void codes(const Codes &work) {
    u32 index = thread_index();
    if (index >= work.chunks) return;
    u32 row = index / work.row, column = index % work.row * COUNT;
    float x[COUNT], code[COUNT];
    load_codes<COUNT>(work.codes + ((u64)(row % work.codes_rows) * work.row * COUNT + column), code);
    if (work.a) {
        load<T, COUNT>((const T *)work.a + (u64)index * COUNT, x);
#pragma unroll
        for (int i = 0; i < COUNT; i++) code[i] += x[i];
    }
    store<T, COUNT>((T *)work.out + row * work.out_width + column, code);
}

struct CodesBackward {
    const void *dy;    // the first number that is read
    float *gradient;   // [codes_rows, width]
    u64 dy_width;      // from row to row
    u32 texts;
    u32 chunks;        // of the gradient
    u32 row;           // chunks of a row
    u32 codes_rows;
    u32 accumulate;
};

constexpr int LANES = 32, STRIPES = 8;

// The sum over the stripes of a block of LANES × STRIPES threads, in their order; those of stripe 0 have it.
template <int COUNT> __device__ inline void sum_of_stripes(float (&sum)[COUNT]) {
    __shared__ float parts[STRIPES][COUNT][LANES];
#pragma unroll
    for (int i = 0; i < COUNT; i++) parts[threadIdx.y][i][threadIdx.x] = sum[i];
    __syncthreads();
    if (threadIdx.y != 0) return;
    for (int stripe = 1; stripe < STRIPES; stripe++) {
#pragma unroll
        for (int i = 0; i < COUNT; i++) sum[i] += parts[stripe][i][threadIdx.x];
    }
}

// A lane a chunk of the gradient, a stripe every eighth of the texts.
template <typename T, int COUNT> __device__ void codes_backward(const CodesBackward &work) {
    u32 index = blockIdx.x * LANES + threadIdx.x;
    float sum[COUNT] = {};
    if (index < work.chunks) {
        u64 row = index / work.row, column = (u64)(index % work.row) * COUNT;
        const T *dy = (const T *)work.dy + row * work.dy_width + column;
#pragma unroll 4
        for (u32 text = threadIdx.y; text < work.texts; text += STRIPES) {
            float x[COUNT];
            load<T, COUNT>(dy + (u64)text * work.codes_rows * work.dy_width, x);
#pragma unroll
            for (int i = 0; i < COUNT; i++) sum[i] += x[i];
        }
    }
    sum_of_stripes<COUNT>(sum);
    if (threadIdx.y != 0 || index >= work.chunks) return;
    float *gradient = work.gradient + (u64)index * COUNT;
#pragma unroll
    for (int i = 0; i < COUNT; i++) gradient[i] = work.accumulate ? gradient[i] + sum[i] : sum[i];
}

// ---- One vector a text ----

struct Texts {
    const u64 *mask;  // [batch, words]: a bit a token
    const void *from; // forward: x [batch · length, width]; backward: dy [batch, width]
    void *to;         // forward: out [batch, width]; backward: dx [batch · length, width]
    u32 chunks;       // of what is written
    u32 row;          // chunks of a row
    u32 length;
    u32 words;
    u32 accumulate;   // on the way back
};

// The real tokens of a word of the mask.
__device__ inline u64 real_tokens(const Texts &work, u32 text, u32 word) {
    u64 bits = work.mask[(u64)text * work.words + word];
    u32 left = work.length - word * 64;
    return left < 64 ? bits & ((1ull << left) - 1) : bits;
}

// 1 / the number of real tokens.
__device__ inline float share(const Texts &work, u32 text) {
    int count = 0;
    for (u32 word = 0; word < work.words; word++) count += __popcll(real_tokens(work, text, word));
    return 1.0f / (count > 1 ? count : 1);
}

// The last real token of a text; its last where none is.
__device__ inline u32 last(const Texts &work, u32 text) {
    for (u32 word = work.words; word-- > 0;) {
        u64 bits = real_tokens(work, text, word);
        if (bits) return word * 64 + 63 - __clzll((long long)bits);
    }
    return work.length - 1;
}

// A block LANES chunks of a text's mean, a stripe every eighth token.
template <typename T, int COUNT> __device__ void means(const Texts &work) {
    u32 blocks = (work.row + LANES - 1) / LANES;
    u32 text = blockIdx.x / blocks, column = blockIdx.x % blocks * LANES + threadIdx.x;
    float sum[COUNT] = {};
    if (column < work.row) {
        const T *x = (const T *)work.from + ((u64)text * work.length * work.row + column) * COUNT;
#pragma unroll 4
        for (u32 token = threadIdx.y; token < work.length; token += STRIPES) {
            if (!(work.mask[(u64)text * work.words + token / 64] >> token % 64 & 1)) continue;
            float own[COUNT];
            load<T, COUNT>(x + (u64)token * work.row * COUNT, own);
#pragma unroll
            for (int i = 0; i < COUNT; i++) sum[i] += own[i];
        }
    }
    sum_of_stripes<COUNT>(sum);
    if (threadIdx.y != 0 || column >= work.row) return;
    float scale = share(work, text);
#pragma unroll
    for (int i = 0; i < COUNT; i++) sum[i] *= scale;
    store<T, COUNT>((T *)work.to + ((u64)text * work.row + column) * COUNT, sum);
}

template <typename T, int COUNT> __device__ void means_backward(const Texts &work) {
    u32 index = thread_index();
    if (index >= work.chunks) return;
    u32 row = index / work.row, column = index % work.row, text = row / work.length, token = row % work.length;
    bool is_real = work.mask[(u64)text * work.words + token / 64] >> token % 64 & 1;
    if (!is_real && work.accumulate) return;
    float x[COUNT] = {};
    if (is_real) {
        load<T, COUNT>((const T *)work.from + ((u64)text * work.row + column) * COUNT, x);
        float scale = share(work, text);
#pragma unroll
        for (int i = 0; i < COUNT; i++) x[i] *= scale;
    }
    give<T, COUNT>((T *)work.to + (u64)index * COUNT, x, work.accumulate);
}

template <typename T, int COUNT> __device__ void lasts(const Texts &work) {
    u32 index = thread_index();
    if (index >= work.chunks) return;
    u32 text = index / work.row, column = index % work.row;
    u64 row = (u64)text * work.length + last(work, text);
    float x[COUNT];
    load<T, COUNT>((const T *)work.from + (row * work.row + column) * COUNT, x);
    store<T, COUNT>((T *)work.to + (u64)index * COUNT, x);
}

template <typename T, int COUNT> __device__ void lasts_backward(const Texts &work) {
    u32 index = thread_index();
    if (index >= work.chunks) return;
    u32 row = index / work.row, column = index % work.row, text = row / work.length;
    bool is_last = row % work.length == last(work, text);
    if (!is_last && work.accumulate) return;
    float x[COUNT] = {};
    if (is_last) load<T, COUNT>((const T *)work.from + ((u64)text * work.row + column) * COUNT, x);
    give<T, COUNT>((T *)work.to + (u64)index * COUNT, x, work.accumulate);
}

// ---- Sums of rows of a table, for positions: f32 ----

struct Positions {
    float *table;          // [entries, width]: read forward; its gradient, added to, on the way back
    const u32 *rows;       // [length, 3]; of the way forward
    const u32 *order;      // [length, 3]: places in `weights`, those first whose row is the first; of the way back
    const u32 *starts;     // [entries + 1]: where the places of each row begin; of the way back
    const float *weights;  // [length, 3]; a row with the weight 0 is left out
    float *out;            // [length, width]: set forward; its gradient on the way back
    u32 length;
    u32 width;
};

__device__ inline void positions_forward(const Positions &work) {
    u32 index = thread_index();
    if (index >= work.length * work.width) return;
    u32 token = index / work.width, column = index % work.width;
    float sum = 0;
    for (u32 term = 3 * token; term < 3 * token + 3; term++) {
        float weight = work.weights[term];
        if (weight != 0) sum += weight * work.table[(u64)work.rows[term] * work.width + column];
    }
    work.out[index] = sum;
}

// A block a row of the table: what comes back to it in the order of the tokens.
__device__ inline void positions_backward(const Positions &work) {
    u32 row = blockIdx.x, first = work.starts[row], end = work.starts[row + 1];
    if (first == end) return;
    for (u32 column = threadIdx.x; column < work.width; column += blockDim.x) {
        float sum = 0;
#pragma unroll 4
        for (u32 index = first; index < end; index++) {
            u32 place = work.order[index];
            sum += work.weights[place] * work.out[(u64)(place / 3) * work.width + column];
        }
        work.table[(u64)row * work.width + column] += sum;
    }
}

}  // namespace rows

#define ROWS_KERNEL(name, function, Work)                                                                              \
    extern "C" __global__ void name##_f32(const __grid_constant__ rows::Work work) { rows::function<float, 1>(work); } \
    extern "C" __global__ void name##_f32_wide(const __grid_constant__ rows::Work work) {                              \
        rows::function<float, 4>(work);                                                                                \
    }                                                                                                                  \
    extern "C" __global__ void name##_bf16(const __grid_constant__ rows::Work work) { rows::function<bf16, 1>(work); } \
    extern "C" __global__ void name##_bf16_wide(const __grid_constant__ rows::Work work) {                             \
        rows::function<bf16, 8>(work);                                                                                 \
    }
ROWS_KERNEL(rows_columns, columns, Columns)
ROWS_KERNEL(rows_codes, codes, Codes)
ROWS_KERNEL(rows_codes_backward, codes_backward, CodesBackward)
ROWS_KERNEL(rows_means, means, Texts)
ROWS_KERNEL(rows_means_backward, means_backward, Texts)
ROWS_KERNEL(rows_lasts, lasts, Texts)
ROWS_KERNEL(rows_lasts_backward, lasts_backward, Texts)
extern "C" __global__ void rows_positions(const __grid_constant__ rows::Positions work) {
    rows::positions_forward(work);
}
extern "C" __global__ void rows_positions_backward(const __grid_constant__ rows::Positions work) {
    rows::positions_backward(work);
}
