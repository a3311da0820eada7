// ---- Attention in f32 arithmetic ----------------------------------------------------------------------------------

enum Reach { ALL, CAUSAL, PREFIX };

struct Attend {
    const void *q, *k, *v;
    void *out;            // [batch, queries, heads, head_dim]
    u64 q_token, q_sequence, k_token, k_sequence, v_token, v_sequence;
    const u64 *mask;      // [batch, words]: a bit a key, or null: all are there
    const u32 *prefixes;  // [batch], where the reach is a prefix
    u32 queries, keys, heads, key_heads, head_dim;
    u32 words;            // ⌈keys / 64⌉
    u32 reach;
    u32 window;           // keys as far away as this or further are not seen; 0: none is too far
    u32 blocks;           // of queries
    float scale;
};

constexpr int TILE = 64;  // keys worked on at a time: the bits of a word of the mask

// What a block of threads works on: some queries of one head of one sequence.
struct Piece {
    u32 sequence, head, key_head, first;
};

__device__ inline Piece piece_of(const Attend &work, u32 queries_a_block) {
    u32 block = blockIdx.x % work.blocks, index = blockIdx.x / work.blocks;
    u32 head = index % work.heads;
    return {index / work.heads, head, head / (work.heads / work.key_heads), block * queries_a_block};
}

// How many keys, from the first on, a query may see.
__device__ inline u32 reach_of(const Attend &work, u32 sequence, u32 query) {
    if (work.reach == ALL) return work.keys;
    u64 end = (u64)query + 1 + work.keys;
    u32 causal = end > work.queries ? min((u32)min(end - work.queries, (u64)work.keys), work.keys) : 0;
    return work.reach == CAUSAL ? causal : max(causal, min(work.prefixes[sequence], work.keys));
}

// The keys that a query may see. Those of a later query begin and end no earlier.
struct Seen {
    u32 start, end;
};

__device__ inline Seen seen_by(const Attend &work, u32 sequence, u32 query) {
    u32 end = reach_of(work, sequence, query);
    if (work.window == 0) return {0, end};
    // Where the query stands among the keys, which may be before the first.
    long long place = (long long)query + work.keys - work.queries;
    end = (u32)max(0ll, min((long long)end, place + work.window));
    return {(u32)max(0ll, min((long long)end, place + 1 - work.window)), end};
}

// The keys of a tile that are there, a bit each.
__device__ inline u64 there(const Attend &work, u32 sequence, u32 tile) {
    u64 word = work.mask ? work.mask[(u64)sequence * work.words + tile] : ~0ull;
    u32 left = work.keys - tile * TILE;
    return left < TILE ? word & ((1ull << left) - 1) : word;
}

// Of those, the ones that a query may see.
__device__ inline u64 within(u64 word, Seen seen, u32 tile) {
    u32 start = tile * TILE;
    if (seen.end <= start || seen.start >= start + TILE) return 0;
    if (seen.end - start < TILE) word &= (1ull << (seen.end - start)) - 1;
    return seen.start > start ? word & ~0ull << (seen.start - start) : word;
}

// Rows of numbers into shared memory, as f32, `WIDTH` + 4 apart, with zeros beyond what is there.
template <typename T, int WIDTH>
__device__ inline void fetch(float *to, const T *from, u64 step, u32 rows, u32 width) {
    for (u32 i = threadIdx.x; i < TILE * WIDTH; i += blockDim.x) {
        u32 row = i / WIDTH, column = i % WIDTH;
        bool is_there = row < rows && column < width;
        to[row * (WIDTH + 4) + column] = is_there ? widen(from[row * step + column]) : 0;
    }
}

// 256 threads, 64 queries: a thread has 4 queries, of which it computes the scores of 4 keys and 4·G features of the
// result. Heads have up to 64·G features.
template <typename T, int G> __device__ void attend(const Attend &work) {
    constexpr int WIDTH = 64 * G, STEP = WIDTH + 4, SCORES = TILE + 4;
    extern __shared__ float shared[];
    float *q = shared, *kv = q + 64 * STEP, *scores = kv + TILE * STEP;
    Piece piece = piece_of(work, 64);
    u32 down = threadIdx.x / 16 * 4, across = threadIdx.x % 16;
    u32 count = min(64u, work.queries - piece.first), dim = work.head_dim;
    const T *queries = (const T *)work.q + piece.sequence * work.q_sequence + piece.first * work.q_token + piece.head * dim;
    const T *keys = (const T *)work.k + piece.sequence * work.k_sequence + piece.key_head * dim;
    const T *values = (const T *)work.v + piece.sequence * work.v_sequence + piece.key_head * dim;
    fetch<T, WIDTH>(q, queries, work.q_token, count, dim);

    float out[4][4 * G] = {}, largest[4], total[4] = {};
    Seen reach[4];
    for (int i = 0; i < 4; i++) {
        largest[i] = -INFINITY;
        reach[i] = seen_by(work, piece.sequence, min(piece.first + down + i, work.queries - 1));
    }
    u32 visible = seen_by(work, piece.sequence, piece.first + count - 1).end;
    for (u32 tile = seen_by(work, piece.sequence, piece.first).start / TILE; tile * TILE < visible; tile++) {
        u32 start = tile * TILE, rows = min((u32)TILE, work.keys - start);
        __syncthreads();
        fetch<T, WIDTH>(kv, keys + start * work.k_token, work.k_token, rows, dim);
        __syncthreads();
        float s[4][4] = {};
        for (u32 d = 0; d < dim; d += 4) {
            float4 a[4], b[4];
            for (int i = 0; i < 4; i++) a[i] = *(const float4 *)(q + (down + i) * STEP + d);
            for (int j = 0; j < 4; j++) b[j] = *(const float4 *)(kv + (across + 16 * j) * STEP + d);
#pragma unroll
            for (int i = 0; i < 4; i++) {
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    s[i][j] += a[i].x * b[j].x;
                    s[i][j] += a[i].y * b[j].y;
                    s[i][j] += a[i].z * b[j].z;
                    s[i][j] += a[i].w * b[j].w;
                }
            }
        }
        u64 word = there(work, piece.sequence, tile);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            u64 seen = within(word, reach[i], tile);
            float most = -INFINITY;
#pragma unroll
            for (int j = 0; j < 4; j++) {
                s[i][j] = seen >> (across + 16 * j) & 1 ? s[i][j] * work.scale : -INFINITY;
                most = fmaxf(most, s[i][j]);
            }
            most = fmaxf(largest[i], largest_of_lanes(most, 16));
            // Where nothing has been seen yet, any number does.
            float base = most == -INFINITY ? 0 : most;
            float shrink = expf(largest[i] - base), sum = 0;
            largest[i] = most;
#pragma unroll
            for (int j = 0; j < 4; j++) {
                float weight = expf(s[i][j] - base);
                sum += weight;
                scores[(down + i) * SCORES + across + 16 * j] = weight;
            }
            total[i] = total[i] * shrink + sum_of_lanes(sum, 16);
#pragma unroll
            for (int c = 0; c < 4 * G; c++) out[i][c] *= shrink;
        }
        __syncthreads();
        fetch<T, WIDTH>(kv, values + start * work.v_token, work.v_token, rows, dim);
        __syncthreads();
        for (u32 key = 0; key < rows; key += 4) {
            float4 weights[4];
            for (int i = 0; i < 4; i++) weights[i] = *(const float4 *)(scores + (down + i) * SCORES + key);
#pragma unroll
            for (int g = 0; g < G; g++) {
                const float *column = kv + key * STEP + across * 4 + 64 * g;
#pragma unroll
                for (int more = 0; more < 4; more++) {
                    float4 value = *(const float4 *)(column + more * STEP);
#pragma unroll
                    for (int i = 0; i < 4; i++) {
                        float weight = more == 0 ? weights[i].x : more == 1 ? weights[i].y : more == 2 ? weights[i].z : weights[i].w;
                        out[i][4 * g] += weight * value.x;
                        out[i][4 * g + 1] += weight * value.y;
                        out[i][4 * g + 2] += weight * value.z;
                        out[i][4 * g + 3] += weight * value.w;
                    }
                }
            }
        }
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        if (down + i >= count) continue;
        float inverse = total[i] == 0 ? 0 : 1 / total[i];
        T *to = (T *)work.out + (((u64)piece.sequence * work.queries + piece.first + down + i) * work.heads + piece.head) * dim;
#pragma unroll
        for (int c = 0; c < 4 * G; c++) {
            u32 column = across * 4 + c / 4 * 64 + c % 4;
            if (column < dim) narrow(out[i][c] * inverse, to[column]);
        }
    }
}

#define ATTEND(name, T)                                                                                                \
    extern "C" __global__ void __launch_bounds__(256) name##_attend_64(const __grid_constant__ Attend work) {          \
        attend<T, 1>(work);                                                                                            \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(256) name##_attend_128(const __grid_constant__ Attend work) {         \
        attend<T, 2>(work);                                                                                            \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(256) name##_attend_256(const __grid_constant__ Attend work) {         \
        attend<T, 4>(work);                                                                                            \
    }
ATTEND(f32, float)
ATTEND(bf16, bf16)
