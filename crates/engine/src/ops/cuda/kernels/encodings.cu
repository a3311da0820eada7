// ---- Position encodings of models that are run ---------------------------------------------------------------------
//
// What rotary models do not need: codes that are added to embeddings, and attention with position terms. They are compiled
// for the GPU that is there when a model with such an encoding is first run.

struct AddRows {
    void *x;           // [batch, length, width]
    const void *rows;  // [length, width]
    u64 count;         // of all numbers of x
    u64 period;        // length · width
};

template <typename T> __device__ inline void add_rows(const AddRows &work) {
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < work.count; i += (u64)gridDim.x * blockDim.x) {
        T &x = ((T *)work.x)[i];
        narrow(widen(x) + widen(((const T *)work.rows)[i % work.period]), x);
    }
}

// Vectors, or numbers of a bias, by distance.
struct TermRows {
    const void *values;  // [rows, heads or 1, head_dim]; of a bias [heads, rows]. Null: there is none.
    const u32 *index;    // [queries + keys − 1]
    u32 rows, heads;
};

struct Termed {
    const void *q, *k, *v;
    void *out;  // [batch, queries, heads, head_dim]
    u64 q_token, q_sequence, k_token, k_sequence, v_token, v_sequence;
    const u64 *mask;      // [batch, words]: a bit per key, or null: all are there
    const u32 *prefixes;  // [batch], where the reach is a prefix
    const void *content, *position;  // [heads, head_dim], or null
    TermRows bias, query, key, value;
    const void *segment_query, *segment_vectors;  // [heads, head_dim] and [2, heads, head_dim]
    const u32 *segments;                          // [batch, keys], or null: scores have nothing of segments
    u32 queries, keys, heads, key_heads, head_dim, words, reach, window;
    float scale;
    float cap;  // scores become cap·tanh(score / cap); 0: they stay
};

constexpr u32 THREADS = 128;

// The row of a table for an entry of its index.
template <typename T> __device__ inline const T *row_of(const TermRows &table, u32 entry, u32 head, u32 dim) {
    u64 row = (u64)table.index[entry] * table.heads + (table.heads == 1 ? 0 : head);
    return (const T *)table.values + row * dim;
}

template <typename T> __device__ inline float dot(const float *a, const T *b, u32 dim) {
    float sum = 0;
    for (u32 d = 0; d < dim; d++) sum += a[d] * widen(b[d]);
    return sum;
}

// The largest over the block; `parts` holds 32 numbers.
__device__ inline float largest_of_block(float x, float *parts) {
    x = largest_of_lanes(x, 32);
    __syncthreads();
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
    __syncthreads();
    return largest_of_lanes(threadIdx.x % 32 < THREADS / 32 ? parts[threadIdx.x % 32] : -INFINITY, 32);
}

// A block: one query of one head, against its keys in groups of as many as there are threads, with a running softmax.
template <typename T> __device__ inline void attend_terms(const Termed &work) {
    extern __shared__ float shared[];
    u32 dim = work.head_dim;
    float *content = shared, *position = content + dim, *out = position + dim, *weights = out + dim;
    float *parts = weights + THREADS;
    u32 query = blockIdx.x % work.queries, rest = blockIdx.x / work.queries;
    u32 head = rest % work.heads, sequence = rest / work.heads, key_head = head / (work.heads / work.key_heads);
    const T *q = (const T *)work.q + sequence * work.q_sequence + query * work.q_token + head * dim;
    for (u32 d = threadIdx.x; d < dim; d += THREADS) {
        float x = widen(q[d]);
        content[d] = x + (work.content ? widen(((const T *)work.content)[head * dim + d]) : 0);
        position[d] = x + (work.position ? widen(((const T *)work.position)[head * dim + d]) : 0);
        out[d] = 0;
    }
    u64 end = (u64)query + 1 + work.keys;
    u32 causal = end > work.queries ? (u32)min(end - work.queries, (u64)work.keys) : 0;
    u32 reach = work.reach == 0   ? work.keys
                : work.reach == 1 ? causal
                                  : max(causal, min(work.prefixes[sequence], work.keys));
    u32 from = 0;
    if (work.window) {
        // Where the query stands among the keys, which may be before the first.
        long long place = (long long)query + work.keys - work.queries;
        reach = (u32)max(0ll, min((long long)reach, place + work.window));
        from = (u32)max(0ll, min((long long)reach, place + 1 - work.window));
    }
    // What the query meets in keys of its own segment, and of another.
    float by_segment[2] = {};
    const u32 *segments = work.segments + (work.segments ? (u64)sequence * work.keys : 0);
    u32 own = work.segments ? segments[work.keys - work.queries + query] : 0;
    for (u32 apart = 0; work.segments && apart < 2; apart++) {
        const T *vector = (const T *)work.segment_vectors + (apart * work.heads + head) * dim;
        float sum = 0;
        for (u32 d = threadIdx.x; d < dim; d += THREADS)
            sum += (widen(q[d]) + widen(((const T *)work.segment_query)[head * dim + d])) * widen(vector[d]);
        by_segment[apart] = sum_of_block(sum, parts);
    }
    float largest = -INFINITY, total = 0;
    __syncthreads();
    for (u32 start = from; start < reach; start += THREADS) {
        u32 key = start + threadIdx.x, count = min(THREADS, reach - start);
        bool is_seen = key < reach;
        if (is_seen && work.mask) is_seen = work.mask[(u64)sequence * work.words + key / 64] >> (key % 64) & 1;
        float score = -INFINITY;
        if (is_seen) {
            const T *k = (const T *)work.k + sequence * work.k_sequence + key * work.k_token + key_head * dim;
            u32 entry = query + work.keys - 1 - key;
            float sum = dot(content, k, dim);
            if (work.query.values) sum += dot(position, row_of<T>(work.query, entry, head, dim), dim);
            if (work.key.values) {
                const T *row = row_of<T>(work.key, entry, head, dim);
                for (u32 d = 0; d < dim; d++) sum += widen(k[d]) * widen(row[d]);
            }
            if (work.segments) sum += by_segment[segments[key] != own];
            score = work.scale * sum;
            if (work.bias.values)
                score += widen(((const T *)work.bias.values)[(u64)head * work.bias.rows + work.bias.index[entry]]);
            if (work.cap != 0) score = work.cap * tanhf(score / work.cap);
        }
        float most = fmaxf(largest, largest_of_block(score, parts));
        // Where nothing has been seen yet, any number does.
        float base = most == -INFINITY ? 0 : most, shrink = expf(largest - base);
        largest = most;
        float weight = is_seen ? expf(score - base) : 0;
        total = total * shrink + sum_of_block(weight, parts);
        weights[threadIdx.x] = weight;
        __syncthreads();
        for (u32 d = threadIdx.x; d < dim; d += THREADS) {
            float sum = out[d] * shrink;
            for (u32 j = 0; j < count; j++) {
                if (weights[j] == 0) continue;
                u32 key = start + j;
                const T *v = (const T *)work.v + sequence * work.v_sequence + key * work.v_token + key_head * dim;
                float value = widen(v[d]);
                if (work.value.values)
                    value += widen(row_of<T>(work.value, query + work.keys - 1 - key, head, dim)[d]);
                sum += weights[j] * value;
            }
            out[d] = sum;
        }
        __syncthreads();
    }
    T *to = (T *)work.out + (((u64)sequence * work.queries + query) * work.heads + head) * dim;
    for (u32 d = threadIdx.x; d < dim; d += THREADS) narrow(total == 0 ? 0 : out[d] / total, to[d]);
}

#define ENCODINGS(T)                                                                                                   \
    extern "C" __global__ void T##_add_rows(const __grid_constant__ AddRows work) { add_rows<T>(work); }              \
    extern "C" __global__ void __launch_bounds__(128) T##_attend_terms(const __grid_constant__ Termed work) {         \
        attend_terms<T>(work);                                                                                         \
    }
typedef float f32;
ENCODINGS(f32)
ENCODINGS(bf16)
