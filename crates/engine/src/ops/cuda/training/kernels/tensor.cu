// ---- Attention for training, in bf16 and TF32 on tensor cores: forward ----------------------------------------------
//
// `Number` is how tokens' numbers are stored: bf16, or f32 that is rounded to TF32 for products. Scores, softmax and sums are
// f32; weights, and on the way back the gradients of scores, are rounded for their products too. Everything is done in tiles of 64
// keys or queries by blocks of four warps, and a warp has 16 rows of a tile, or 16·M. `TERMS` is whether there may be biases
// by distance and dropout: without them no code is there for them.

#ifdef TENSOR_TF32
typedef float Number;
#else
typedef bf16 Number;
#endif

namespace tensor {

struct Scalars {
    u64 seed, step;
    u32 is_training;
};

// As in tensor.rs.
struct Work {
    const Number *joined;          // [batch · length, width]: queries, keys and values side by side
    Number *out;                   // [batch · length, heads · head_dim]
    float *lse;               // [batch · length, heads]
    const u64 *mask;          // [batch, words]
    const Scalars *scalars;
    const float *bias;        // [heads, rows] or null
    const u32 *index;         // [2 · length − 1]: the row of each distance
    const Number *out_slope;       // as out
    Number *joined_slope;          // as joined
    float *bias_slope;        // as bias, or null
    float2 *statistics;       // [batch, heads, words · 64]
    u64 site;
    u32 length, heads, key_heads, head_dim;
    u32 words;                // ⌈length / 64⌉
    u32 width;
    u32 rows;                 // of the biases
    u32 blocks;               // of rows of one head of one sequence
    u32 threshold;            // of the dropout; 0: there is none
    u32 is_causal;
    float scale, kept;        // of scores; of weights that stay
};

constexpr int TILE = 64;  // the bits of a word of the mask

// What a block of threads works on: rows of one head of one sequence, from `first` on.
struct Place {
    u32 sequence, head, first;
};

__device__ inline Place place_of(const Work &work, u32 heads, u32 rows_a_block) {
    u32 block = blockIdx.x % work.blocks, index = blockIdx.x / work.blocks;
    return {index / heads, index % heads, block * rows_a_block};
}

__device__ inline u32 key_head_of(const Work &work, u32 head) { return head / (work.heads / work.key_heads); }

// The queries of a head, the keys and the values of a key head, as numbers of a row of the joined ones.
__device__ inline u64 row_at(const Work &work, u32 sequence, u32 token) {
    return ((u64)sequence * work.length + token) * work.width;
}
__device__ inline u32 queries_at(const Work &work, u32 head) { return head * work.head_dim; }
__device__ inline u32 keys_at(const Work &work, u32 key_head) { return (work.heads + key_head) * work.head_dim; }
__device__ inline u32 values_at(const Work &work, u32 key_head) {
    return (work.heads + work.key_heads + key_head) * work.head_dim;
}
// A head of a token in `out`.
__device__ inline u64 out_at(const Work &work, u32 sequence, u32 token, u32 head) {
    return (((u64)sequence * work.length + token) * work.heads + head) * work.head_dim;
}

// ---- Which keys are seen --------------------------------------------------------------------------------------------

// The keys of a tile that are there, a bit each.
__device__ inline u64 there(const Work &work, u32 sequence, u32 tile) {
    u64 word = work.mask[(u64)sequence * work.words + tile];
    u32 left = work.length - tile * TILE;
    return left < TILE ? word & ((1ull << left) - 1) : word;
}

// Of those, the ones that a query sees.
__device__ inline u64 seen(const Work &work, u64 word, u32 query, u32 tile) {
    u32 start = tile * TILE;
    if (!work.is_causal || query >= start + TILE - 1) return word;
    return query < start ? 0 : word & ((2ull << (query - start)) - 1);
}

// How many tiles of keys, from the first on, the queries before `end` may see: behind the last key nothing is computed.
__device__ inline u32 tiles_of(const Work &work, u32 sequence, u32 end) {
    u32 tiles = ((work.is_causal ? min(end, work.length) : work.length) + TILE - 1) / TILE, lane = threadIdx.x % 32;
    for (u32 first = (tiles - 1) / 32 * 32;; first -= 32) {
        bool is_any = first + lane < tiles && work.mask[(u64)sequence * work.words + first + lane] != 0;
        u32 some = __ballot_sync(~0u, is_any);
        if (some) return first + 32 - __clz(some);
        if (first == 0) return 0;
    }
}

// ---- Biases and dropout ---------------------------------------------------------------------------------------------

constexpr u64 GAMMA = 0x9E3779B97F4A7C15ull;

__device__ inline u64 mix(u64 z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

// ops/dropout.rs decides alike.
struct Drop {
    u64 key;
    u32 threshold;
    float kept;
};

__device__ inline Drop drop_of(const Work &work) {
    if (work.threshold == 0 || !work.scalars->is_training) return {0, 0, 1};
    u64 step = mix(mix(work.scalars->seed + GAMMA) + work.scalars->step + GAMMA);
    return {mix(step + work.site + GAMMA), work.threshold, work.kept};
}

// Biases and dropout of 64 keys and as many queries or more.
struct Terms {
    const float *bias;  // shared, of query i and key j at i − j + 63, times log₂ e; or null
    u64 counter;        // of the dropout of the first query and key
    u64 step;           // from query to query
    u32 threshold;
};

__device__ inline Terms terms_of(const Work &work, const Drop &drop, Place place, u32 key, const float *bias) {
    u64 row = ((u64)place.sequence * work.heads + place.head) * work.length + place.first;
    u64 counter = drop.key + (row * work.length + key + 1) * GAMMA;
    return {work.bias ? bias : nullptr, counter, work.length * GAMMA, drop.threshold};
}

__device__ inline bool keeps(const Terms &terms, u64 counter) { return (u32)(mix(counter) >> 32) >= terms.threshold; }

// What a thread fetches of the biases of some queries and 64 keys, and puts into shared memory when nobody reads there.
template <int QUERIES> struct Biases {
    static constexpr u32 COUNT = QUERIES + TILE, EACH = (COUNT + 127) / 128;
    float values[EACH];

    __device__ inline void fetch(const Work &work, u32 head, u32 query, u32 key) {
#pragma unroll
        for (u32 n = 0; n < EACH; n++) {
            u32 slot = threadIdx.x + n * 128;
            // Below 0 it is a large number.
            u32 entry = query + slot + work.length - TILE - key;
            bool is_there = slot < COUNT && entry < 2 * work.length - 1;
            values[n] = is_there ? work.bias[(u64)head * work.rows + work.index[entry]] * LOG2_E : 0;
        }
    }
    __device__ inline void put(float *to) const {
#pragma unroll
        for (u32 n = 0; n < EACH; n++) {
            u32 slot = threadIdx.x + n * 128;
            if (slot < COUNT) to[slot] = values[n];
        }
    }
};

// ---- Forward --------------------------------------------------------------------------------------------------------

// 64·M queries of a head, whose fragments stay in registers. Two tiles of keys and values are under way at a time. In TF32, whose
// tiles are twice as large, queries come and go before the keys, through the same memory: more blocks are on a multiprocessor.
template <int D, int M, bool TERMS> __device__ void forward(const Work &work) {
    constexpr int QUERIES = TILE * M;
    constexpr u32 BYTES = TILE * D * sizeof(Number);
    constexpr bool IS_SHARED = sizeof(Number) == 4;
    extern __shared__ __align__(128) u8 memory[];
    u32 q_tile = shared_address(memory), kv_tiles = q_tile + (IS_SHARED ? 0 : M * BYTES);
    float *biases = (float *)(memory + (IS_SHARED ? 4 : M + 4) * BYTES);  // [2, QUERIES + 64]
    Place place = place_of(work, work.heads, QUERIES);
    // The last queries see the most: they come first.
    if (work.is_causal) place.first = (work.blocks - 1) * QUERIES - place.first;
    u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, dim = work.head_dim, key_head = key_head_of(work, place.head);
    const Number *tokens = work.joined + row_at(work, place.sequence, 0);
    u32 count = min((u32)QUERIES, work.length - place.first), tiles = tiles_of(work, place.sequence, place.first + count);
    auto begin_tile = [&](u32 tile) {
        u32 start = tile * TILE, rows = min((u32)TILE, work.length - start), to = kv_tiles + tile % 2 * 2 * BYTES;
        const Number *from = tokens + (u64)start * work.width;
        begin<Number, D, TILE>(to, from + keys_at(work, key_head), work.width, rows, dim);
        begin<Number, D, TILE>(to + BYTES, from + values_at(work, key_head), work.width, rows, dim);
    };
    Held<Number, D, M> q;
    begin<Number, D, QUERIES>(q_tile, tokens + (u64)place.first * work.width + queries_at(work, place.head), work.width, count, dim);
    if (IS_SHARED) {
        commit();
        wait<0>();
        settle<Number, D, QUERIES>(q_tile);
        __syncthreads();
        q.load(q_tile, warp * M * 16);
        __syncthreads();
    }
    if (tiles > 0) begin_tile(0);
    commit();
    Biases<QUERIES> next;
    Drop drop = {0, 0, 1};
    if (TERMS) {
        drop = drop_of(work);
        if (work.bias) {
            next.fetch(work, place.head, place.first, 0);
            next.put(biases);
        }
    }

    float out[M][D / 8][4] = {};
    // Of the two rows of each fragment that a lane has numbers of. Scores times `scale` are powers of 2.
    float largest[M][2], total[M][2] = {}, log2_scale = work.scale * LOG2_E, scale = TERMS ? 1 : log2_scale;
#pragma unroll
    for (int m = 0; m < M; m++) largest[m][0] = largest[m][1] = -INFINITY;

    for (u32 tile = 0; tile < tiles; tile++) {
        bool is_more = tile + 1 < tiles;
        u64 word = there(work, place.sequence, tile);
        if (is_more) begin_tile(tile + 1);
        commit();
        if (TERMS && work.bias && is_more) next.fetch(work, place.head, place.first, (tile + 1) * TILE);
        wait<1>();
        u32 k_tile = kv_tiles + tile % 2 * 2 * BYTES, v_tile = k_tile + BYTES;
        settle<Number, D, 2 * TILE>(k_tile);
        __syncthreads();
        if (!IS_SHARED && tile == 0) q.load(q_tile, warp * M * 16);
        float s[M][TILE / 8][4] = {};
        add_dots<Number, D, TILE, M>(s, q, k_tile, 0);

        Terms terms;
        if (TERMS) {
            terms = terms_of(work, drop, place, tile * TILE, biases + tile % 2 * (QUERIES + TILE));
#pragma unroll
            for (int m = 0; m < M; m++) {
#pragma unroll
                for (int n = 0; n < TILE / 8; n++) {
#pragma unroll
                    for (int i = 0; i < 4; i++) {
                        u32 row = (warp * M + m) * 16 + i / 2 * 8 + lane / 4, column = n * 8 + lane % 4 * 2 + i % 2;
                        s[m][n][i] = fmaf(s[m][n][i], log2_scale, terms.bias ? terms.bias[row + 63 - column] : 0);
                    }
                }
            }
        }
        if (word != ~0ull || (work.is_causal && (tile + 1) * TILE > place.first + 1)) {
#pragma unroll
            for (int m = 0; m < M; m++) {
#pragma unroll
                for (int half = 0; half < 2; half++) {
                    u32 query = place.first + (warp * M + m) * 16 + half * 8 + lane / 4;
                    u64 bits = seen(work, word, query, tile) >> (lane % 4 * 2);
#pragma unroll
                    for (int n = 0; n < TILE / 8; n++) {
                        if (!(bits >> (n * 8) & 1)) s[m][n][2 * half] = -INFINITY;
                        if (!(bits >> (n * 8 + 1) & 1)) s[m][n][2 * half + 1] = -INFINITY;
                    }
                }
            }
        }

#pragma unroll
        for (int m = 0; m < M; m++) {
#pragma unroll
            for (int half = 0; half < 2; half++) {
                soften<Number>(s[m], half, scale, largest[m][half], total[m][half], out[m]);
                if (TERMS && terms.threshold) {
                    u32 row = (warp * M + m) * 16 + half * 8 + lane / 4;
                    u64 counter = terms.counter + row * terms.step + lane % 4 * 2 * GAMMA;
#pragma unroll
                    for (int n = 0; n < TILE / 8; n++) {
                        if (!keeps(terms, counter + n * 8 * GAMMA)) s[m][n][2 * half] = 0;
                        if (!keeps(terms, counter + (n * 8 + 1) * GAMMA)) s[m][n][2 * half + 1] = 0;
                    }
                }
            }
        }

#pragma unroll
        for (int key = 0; key < TILE / 16; key++) add_rows<Number, D, M>(out, s, 2 * key, v_tile, key * 16);
        if (TERMS && work.bias && is_more) next.put(biases + (tile + 1) % 2 * (QUERIES + TILE));
        // The next turn of the loop copies over this tile.
        __syncthreads();
    }
    // The queries too, where there is no key.
    wait<0>();
    __syncthreads();

#pragma unroll
    for (int m = 0; m < M; m++) {
        float factor[2];
        u32 first = (warp * M + m) * 16;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float sum = sum_of_lanes(total[m][half], 4);
            u32 row = first + half * 8 + lane / 4;
            factor[half] = sum == 0 ? 0 : drop.kept / sum;
            if (row < count && lane % 4 == 0) {
                float lse = sum == 0 ? -INFINITY : largest[m][half] * scale / LOG2_E + logf(sum);
                work.lse[((u64)place.sequence * work.length + place.first + row) * work.heads + place.head] = lse;
            }
        }
        if (first >= count) continue;
        Number *to = work.out + out_at(work, place.sequence, place.first + first, place.head);
        store<Number, D>(to, work.heads * dim, count - first, dim, out[m], factor, q_tile + first * D * sizeof(Number));
    }
}

// BLOCKS are to be on a multiprocessor at a time; 0: as many as there are.
#define FORWARD(D, M, TERMS, BLOCKS, name)                                                                              \
    extern "C" __global__ void __launch_bounds__(128, BLOCKS) tensor_forward_##name(const __grid_constant__ Work work) { \
        forward<D, M, TERMS>(work);                                                                                     \
    }
#ifdef TENSOR_TF32
FORWARD(32, 1, false, 4, 32)
FORWARD(64, 1, false, 3, 64)
#else
FORWARD(32, 1, false, 5, 32)
FORWARD(64, 1, false, 4, 64)
#endif
FORWARD(32, 1, true, 4, 32_terms)
FORWARD(32, 2, false, 0, 32_double)
FORWARD(64, 1, true, 3, 64_terms)
FORWARD(64, 2, false, 0, 64_double)
FORWARD(128, 1, false, 0, 128)
FORWARD(128, 1, true, 0, 128_terms)
#undef FORWARD

}  // namespace tensor
