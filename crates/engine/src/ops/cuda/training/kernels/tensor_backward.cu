// ---- Attention for training, in bf16 and TF32 on tensor cores: backward ---------------------------------------------
//
// With weights p = 2^(s − lse), dropped and scaled weights p′ = c·p or 0, slopes g of the results and δ_i = Σ g_i·out_i:
//
//     dv_j = Σ_i p′_ij·g_i     ds_ij = p_ij·(c_ij·g_i·v_j − δ_i)     dq_i = scale·Σ_j ds_ij·k_j     dk_j = scale·Σ_i ds_ij·q_i
//
// A warp has 16·M queries and goes over keys for dq, or has 16 keys and goes over queries for dk and dv: scores are computed
// twice, so that every sum has one owner and one order. Up to 64 tokens one block does both (tensor_whole.cu); beyond, two
// launches, of which the first keeps lse and δ for the second.

namespace tensor {

// Of so many queries: log₂ of the sum of exponentials, and δ. Queries that see nothing, or that are not there, have +∞, so that
// all their weights are 0.
template <int D, int QUERIES> __device__ inline void statistics(const Work &work, Place place, float2 *to) {
    constexpr u32 EACH = 16 / sizeof(Number), CHUNKS = D / EACH;
#pragma unroll
    for (u32 n = 0; n < QUERIES * CHUNKS / 128; n++) {
        u32 i = n * 128 + threadIdx.x, row = i / CHUNKS, chunk = i % CHUNKS, token = place.first + row;
        float dot = 0, lse = -INFINITY;
        if (token < work.length) {
            if (chunk == 0) lse = work.lse[((u64)place.sequence * work.length + token) * work.heads + place.head];
            if (chunk * EACH < work.head_dim) {
                u64 at = out_at(work, place.sequence, token, place.head) + chunk * EACH;
                Wide<Number> out = *(const Wide<Number> *)(work.out + at), slope = *(const Wide<Number> *)(work.out_slope + at);
#pragma unroll
                for (int n = 0; n < EACH; n++) dot = fmaf(widen(out.x[n]), widen(slope.x[n]), dot);
            }
        }
        dot = sum_of_lanes(dot, CHUNKS);
        if (chunk == 0) to[row] = {lse == -INFINITY ? INFINITY : lse * LOG2_E, dot};
    }
}

// ---- Gradients of biases --------------------------------------------------------------------------------------------

struct BiasSlope {
    float *sums;       // [rows] of the head, or null
    const u32 *index;  // [2 · length − 1]
    u32 entries;
    u32 entry;         // of the first query and the first key
};

// Adds what 16 queries and 16 keys give, from query `row` and key `column` on: each lane one distance, through memory
// [16, 16] of the warp's own.
__device__ inline void add_biases(const BiasSlope &to, const float (&left)[4], const float (&right)[4], u32 row, u32 column, float *memory) {
    u32 lane = threadIdx.x % 32;
    __syncwarp();
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float *at = memory + (half * 8 + lane / 4) * 16 + lane % 4 * 2;
        *(float2 *)at = {left[2 * half], left[2 * half + 1]};
        *(float2 *)(at + 8) = {right[2 * half], right[2 * half + 1]};
    }
    __syncwarp();
    // Query i and key j are on diagonal i − j + 15.
    float sum = 0;
#pragma unroll
    for (u32 i = 0; i < 16; i++) {
        u32 j = i + 15 - lane;
        if (j < 16) sum += memory[i * 16 + j];
    }
    u32 entry = to.entry + row + lane - 15 - column;
    bool is_there = lane < 31 && entry < to.entries;
    u32 place = is_there ? to.index[entry] : ~0u;
    // Far from the diagonal all distances often share a row.
    u32 common = __shfl_sync(~0u, place, 15);
    if (__all_sync(~0u, place == common || !is_there)) {
        sum = sum_of_lanes(is_there ? sum : 0);
        if (lane == 15 && is_there) atomicAdd(to.sums + place, sum);
    } else if (is_there) {
        atomicAdd(to.sums + place, sum);
    }
}

// ---- Rows and a tile ------------------------------------------------------------------------------------------------

// What 16·M queries, from the tile's row `first` on, get from the first `count` of 64 keys: dq [16·M, D], yet to be scaled.
// `bits` are the keys that each half sees, unless `is_all`. Keys are worked on CHUNK at a time, which bounds registers.
template <int D, int M, int CHUNK, bool TERMS>
__device__ inline void add_to_queries(float (&dq)[M][D / 8][4], const Held<Number, D, M> &q, const Held<Number, D, M> &slope, const float2 (&statistics)[M][2],
                                      u32 k_tile, u32 v_tile, u32 first, u32 count, float log2_scale, bool is_all, const u64 (&bits)[M][2],
                                      const Terms &terms, float kept, const BiasSlope &bias_slope, float *memory) {
    u32 lane = threadIdx.x % 32;
// Once with terms, whose code is long.
#pragma unroll(TERMS ? 1 : TILE / CHUNK)
    for (int chunk = 0; chunk < TILE; chunk += CHUNK) {
        if (chunk >= count) break;
        float s[M][CHUNK / 8][4] = {}, dp[M][CHUNK / 8][4] = {};
        add_dots<Number, D, CHUNK, M>(s, q, k_tile, chunk);
        add_dots<Number, D, CHUNK, M>(dp, slope, v_tile, chunk);
#pragma unroll
        for (int m = 0; m < M; m++) {
            // Weights in place of scores.
#pragma unroll
            for (int half = 0; half < 2; half++) {
                u32 row = first + m * 16 + half * 8 + lane / 4, column = chunk + lane % 4 * 2;
                u64 counter = TERMS ? terms.counter + row * terms.step + column * GAMMA : 0;
#pragma unroll
                for (int n = 0; n < CHUNK / 8; n++) {
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        float &p = s[m][n][2 * half + i], &slope = dp[m][n][2 * half + i], shift = -statistics[m][half].x;
                        if (TERMS && terms.bias) shift += terms.bias[row + 63 - (column + n * 8 + i)];
                        if (TERMS && terms.threshold) slope = keeps(terms, counter + (n * 8 + i) * GAMMA) ? slope * kept : 0;
                        p = quick_exp2(fmaf(p, log2_scale, shift));
                    }
                }
            }
            if (!is_all) {
#pragma unroll
                for (int half = 0; half < 2; half++) {
                    u64 seen = bits[m][half] >> (chunk + lane % 4 * 2);
#pragma unroll
                    for (int n = 0; n < CHUNK / 8; n++) {
                        if (!(seen >> (n * 8) & 1)) s[m][n][2 * half] = 0;
                        if (!(seen >> (n * 8 + 1) & 1)) s[m][n][2 * half + 1] = 0;
                    }
                }
            }
#pragma unroll
            for (int n = 0; n < CHUNK / 8; n++) {
#pragma unroll
                for (int i = 0; i < 4; i++) dp[m][n][i] = s[m][n][i] * (dp[m][n][i] - statistics[m][i / 2].y);
            }
            if (TERMS && bias_slope.sums) {
#pragma unroll
                for (int n = 0; n < CHUNK / 16; n++) {
                    add_biases(bias_slope, dp[m][2 * n], dp[m][2 * n + 1], first + m * 16, chunk + n * 16, memory);
                }
            }
        }
#pragma unroll
        for (int n = 0; n < CHUNK / 16; n++) add_rows<Number, D, M>(dq, dp, 2 * n, k_tile, chunk + n * 16);
    }
}

// What 16 keys, from the tile's row `first` on, get from the first `count` of 64 queries: dk and dv [16, D], yet to be
// scaled. On the diagonal of a causal attention keys see no earlier queries.
template <int D, int CHUNK, bool TERMS, typename Rows>
__device__ inline void add_to_keys(float (&dk)[1][D / 8][4], float (&dv)[1][D / 8][4], const Rows &k, const Rows &v, const float2 *statistics,
                                   u32 q_tile, u32 slope_tile, u32 first, u32 count, float log2_scale, bool is_diagonal, const Terms &terms,
                                   float kept) {
    u32 lane = threadIdx.x % 32;
// Once with terms, whose code is long.
#pragma unroll(TERMS ? 1 : TILE / CHUNK)
    for (int chunk = 0; chunk < TILE; chunk += CHUNK) {
        if (chunk >= count) break;
        if (is_diagonal && chunk + CHUNK <= first) continue;
        float s[1][CHUNK / 8][4] = {}, dp[1][CHUNK / 8][4] = {};
        add_dots<Number, D, CHUNK, 1>(s, k, q_tile, chunk);
        add_dots<Number, D, CHUNK, 1>(dp, v, slope_tile, chunk);
        float4 pairs[CHUNK / 8];
#pragma unroll
        for (int n = 0; n < CHUNK / 8; n++) {
            u32 column = chunk + n * 8 + lane % 4 * 2;
            pairs[n] = *(const float4 *)(statistics + column);
#pragma unroll
            for (int i = 0; i < 4; i++) {
                u32 row = first + i / 2 * 8 + lane / 4;
                float &p = s[0][n][i], shift = i % 2 ? -pairs[n].z : -pairs[n].x;
                if (TERMS && terms.bias) shift += terms.bias[column + i % 2 + 63 - row];
                p = quick_exp2(fmaf(p, log2_scale, shift));
            }
        }
        if (is_diagonal) {
#pragma unroll
            for (int n = 0; n < CHUNK / 8; n++) {
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    if (first + i / 2 * 8 + lane / 4 > chunk + n * 8 + lane % 4 * 2 + i % 2) s[0][n][i] = 0;
                }
            }
        }
#pragma unroll
        for (int n = 0; n < CHUNK / 8; n++) {
            u32 column = chunk + n * 8 + lane % 4 * 2;
            u64 counter = TERMS ? terms.counter + column * terms.step + (first + lane / 4) * GAMMA : 0;
#pragma unroll
            for (int i = 0; i < 4; i++) {
                float &p = s[0][n][i], &slope = dp[0][n][i], delta = i % 2 ? pairs[n].w : pairs[n].y;
                bool stays = true;
                if (TERMS && terms.threshold) stays = keeps(terms, counter + i % 2 * terms.step + i / 2 * 8 * GAMMA);
                slope = p * ((stays ? slope * kept : 0) - delta);
                p = stays ? p : 0;
            }
        }
#pragma unroll
        for (int n = 0; n < CHUNK / 16; n++) {
            add_rows<Number, D, 1>(dv, s, 2 * n, slope_tile, chunk + n * 16);
            add_rows<Number, D, 1>(dk, dp, 2 * n, q_tile, chunk + n * 16);
        }
    }
}

// Writes dk and dv of 16 keys; keys that are hidden have none.
template <int D>
__device__ inline void store_keys(const Work &work, Place place, u32 first, u64 word, const float (&dk)[1][D / 8][4],
                                  const float (&dv)[1][D / 8][4], float kept, u32 memory) {
    u32 lane = threadIdx.x % 32, token = place.first + first, rows = work.length - token;
    Number *to = work.joined_slope + row_at(work, place.sequence, token);
    bool is_there[2] = {(word >> (first + lane / 4) & 1) != 0, (word >> (first + 8 + lane / 4) & 1) != 0};
    float key_factor[2] = {is_there[0] ? work.scale : 0, is_there[1] ? work.scale : 0};
    float value_factor[2] = {is_there[0] ? kept : 0, is_there[1] ? kept : 0};
    store<Number, D>(to + keys_at(work, place.head), work.width, rows, work.head_dim, dk[0], key_factor, memory);
    store<Number, D>(to + values_at(work, place.head), work.width, rows, work.head_dim, dv[0], value_factor, memory);
}

__device__ inline BiasSlope bias_slope_of(const Work &work, Place place, u32 key) {
    float *sums = work.bias_slope ? work.bias_slope + (u64)place.head * work.rows : nullptr;
    return {sums, work.index, 2 * work.length - 1, place.first + work.length - 1 - key};
}

// ---- Many tokens ----------------------------------------------------------------------------------------------------

// dq of 64·M queries of a head, and their statistics for `keys`. In TF32 queries and slopes come and go before keys and values,
// through the same memory, as in `forward`.
template <int D, int M, int CHUNK, bool TERMS> __device__ void queries(const Work &work) {
    constexpr int QUERIES = TILE * M;
    constexpr u32 BYTES = TILE * D * sizeof(Number);
    constexpr bool IS_SHARED = sizeof(Number) == 4;
    extern __shared__ __align__(128) u8 memory[];
    u32 q_tile = shared_address(memory), slope_tile = q_tile + M * BYTES, kv_tiles = q_tile + (IS_SHARED ? 0 : 2 * M * BYTES);
    float2 *shared_statistics = (float2 *)(memory + (IS_SHARED ? 4 : 2 * M + 4) * BYTES);  // [QUERIES]
    float *biases = (float *)(shared_statistics + QUERIES);                               // [2, QUERIES + 64]
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
    u32 first = warp * 16 * M;
    // Of a warp, [16, 16]: where its queries were, or behind the biases.
    float *slopes = IS_SHARED ? biases + 2 * (QUERIES + TILE) + warp * 256 : (float *)(memory + first * D * sizeof(Number));
    Held<Number, D, M> q, slope;
    begin<Number, D, QUERIES>(q_tile, tokens + (u64)place.first * work.width + queries_at(work, place.head), work.width, count, dim);
    begin<Number, D, QUERIES>(slope_tile, work.out_slope + out_at(work, place.sequence, place.first, place.head), work.heads * dim, count, dim);
    if (IS_SHARED) {
        commit();
        statistics<D, QUERIES>(work, place, shared_statistics);
        wait<0>();
        settle<Number, D, 2 * QUERIES>(q_tile);
        __syncthreads();
        q.load(q_tile, first);
        slope.load(slope_tile, first);
        __syncthreads();
    }
    if (tiles > 0) begin_tile(0);
    commit();
    if (!IS_SHARED) statistics<D, QUERIES>(work, place, shared_statistics);
    Biases<QUERIES> next;
    Drop drop = {0, 0, 1};
    if (TERMS) {
        drop = drop_of(work);
        if (work.bias) {
            next.fetch(work, place.head, place.first, 0);
            next.put(biases);
        }
    }
    float dq[M][D / 8][4] = {}, log2_scale = work.scale * LOG2_E;
    float2 own[M][2];
    u32 end = work.is_causal ? min(work.length, place.first + first + 16 * M) : work.length;
    for (u32 tile = 0; tile < tiles; tile++) {
        bool is_more = tile + 1 < tiles;
        u64 word = there(work, place.sequence, tile);
        if (is_more) begin_tile(tile + 1);
        commit();
        if (TERMS && work.bias && is_more) next.fetch(work, place.head, place.first, (tile + 1) * TILE);
        wait<1>();
        u32 start = tile * TILE, k_tile = kv_tiles + tile % 2 * 2 * BYTES;
        settle<Number, D, 2 * TILE>(k_tile);
        __syncthreads();
        if (tile == 0) {
            if (!IS_SHARED) {
                q.load(q_tile, first);
                slope.load(slope_tile, first);
            }
#pragma unroll
            for (int m = 0; m < M; m++) {
                for (int half = 0; half < 2; half++) own[m][half] = shared_statistics[first + m * 16 + half * 8 + lane / 4];
            }
        }
        if (start < end) {
            u64 bits[M][2];
#pragma unroll
            for (int m = 0; m < M; m++) {
                for (int half = 0; half < 2; half++) bits[m][half] = seen(work, word, place.first + first + m * 16 + half * 8 + lane / 4, tile);
            }
            bool is_all = word == ~0ull && (!work.is_causal || start + TILE <= place.first + first + 1);
            Terms terms = {};
            BiasSlope bias_slope = {};
            if (TERMS) {
                terms = terms_of(work, drop, place, start, biases + tile % 2 * (QUERIES + TILE));
                bias_slope = bias_slope_of(work, place, start);
            }
            add_to_queries<D, M, CHUNK, TERMS>(dq, q, slope, own, k_tile, k_tile + BYTES, first, end - start, log2_scale, is_all, bits, terms,
                                                  drop.kept, bias_slope, slopes);
        }
        if (TERMS && work.bias && is_more) next.put(biases + (tile + 1) % 2 * (QUERIES + TILE));
        // The next turn of the loop copies over this tile.
        __syncthreads();
    }
    // The queries too, where there is no key.
    wait<0>();
    __syncthreads();
    if (threadIdx.x < QUERIES && place.first + threadIdx.x < work.words * TILE) {
        u64 row = ((u64)place.sequence * work.heads + place.head) * work.words * TILE + place.first;
        work.statistics[row + threadIdx.x] = shared_statistics[threadIdx.x];
    }
    float factor[2] = {work.scale, work.scale};
#pragma unroll
    for (int m = 0; m < M; m++) {
        u32 row = first + m * 16;
        if (row >= count) continue;
        Number *to = work.joined_slope + row_at(work, place.sequence, place.first + row) + queries_at(work, place.head);
        store<Number, D>(to, work.width, count - row, dim, dq[m], factor, q_tile + row * D * sizeof(Number));
    }
}

// dk and dv of 64 keys of a key head, over the queries of all its heads. In TF32 keys and values come and go before the queries.
template <int D, int CHUNK, bool TERMS> __device__ void keys(const Work &work) {
    constexpr u32 BYTES = TILE * D * sizeof(Number);
    // With many features there are not the registers to hold keys and values: then their tiles stay.
    constexpr bool IS_HELD = D * sizeof(Number) <= 256, IS_SHARED = sizeof(Number) == 4 && IS_HELD;
    extern __shared__ __align__(128) u8 memory[];
    u32 k_tile = shared_address(memory), v_tile = k_tile + BYTES, q_tiles = k_tile + (IS_SHARED ? 0 : 2 * BYTES);
    float2 *shared_statistics = (float2 *)(memory + (IS_SHARED ? 4 : 6) * BYTES);  // [2, 64]
    float *biases = (float *)(shared_statistics + 2 * TILE);                      // [2, 128]
    Place place = place_of(work, work.key_heads, TILE);
    u32 warp = threadIdx.x / 32, dim = work.head_dim, group = work.heads / work.key_heads, first = warp * 16;
    const Number *tokens = work.joined + row_at(work, place.sequence, 0);
    u32 count = min((u32)TILE, work.length - place.first);
    u64 word = there(work, place.sequence, place.first / TILE);
    // Queries before the keys do not see them where attention is causal; keys that are hidden no query sees.
    u32 skipped = work.is_causal ? place.first / TILE : 0, tiles = work.words - skipped, turns = word ? group * tiles : 0;
    auto begin_tile = [&](Place queries, u32 turn) {
        u32 rows = min((u32)TILE, work.length - queries.first), to = q_tiles + turn % 2 * 2 * BYTES;
        begin<Number, D, TILE>(to, tokens + (u64)queries.first * work.width + queries_at(work, queries.head), work.width, rows, dim);
        begin<Number, D, TILE>(to + BYTES, work.out_slope + out_at(work, queries.sequence, queries.first, queries.head), work.heads * dim, rows, dim);
        if (threadIdx.x < TILE / 2) {
            const float2 *from = work.statistics + ((u64)queries.sequence * work.heads + queries.head) * work.words * TILE + queries.first;
            copy_chunk(shared_address(shared_statistics + turn % 2 * TILE + threadIdx.x * 2), from + threadIdx.x * 2, true);
        }
    };
    // One head after the other.
    auto behind = [&](Place queries) {
        queries.first += TILE;
        if (queries.first >= work.length) queries = {queries.sequence, queries.head + 1, skipped * TILE};
        return queries;
    };
    Place now = {place.sequence, place.head * group, skipped * TILE};
    typename Chosen<IS_HELD, Held<Number, D, 1>, Fetched<Number, D, 1>>::Type k, v;
    begin<Number, D, TILE>(k_tile, tokens + (u64)place.first * work.width + keys_at(work, place.head), work.width, count, dim);
    begin<Number, D, TILE>(v_tile, tokens + (u64)place.first * work.width + values_at(work, place.head), work.width, count, dim);
    if (sizeof(Number) == 4) {
        commit();
        wait<0>();
        settle<Number, D, 2 * TILE>(k_tile);
        __syncthreads();
        k.load(k_tile, first);
        v.load(v_tile, first);
        __syncthreads();
    }
    if (turns > 0) begin_tile(now, 0);
    commit();
    Biases<TILE> next_biases;
    Drop drop = {0, 0, 1};
    if (TERMS) {
        drop = drop_of(work);
        if (work.bias) {
            next_biases.fetch(work, now.head, now.first, place.first);
            next_biases.put(biases);
        }
    }
    float dk[1][D / 8][4] = {}, dv[1][D / 8][4] = {}, log2_scale = work.scale * LOG2_E;
    for (u32 turn = 0; turn < turns; turn++) {
        bool is_more = turn + 1 < turns;
        Place next = behind(now);
        if (is_more) begin_tile(next, turn + 1);
        commit();
        if (TERMS && work.bias && is_more) next_biases.fetch(work, next.head, next.first, place.first);
        wait<1>();
        u32 q_tile = q_tiles + turn % 2 * 2 * BYTES;
        settle<Number, D, 2 * TILE>(q_tile);
        __syncthreads();
        if (sizeof(Number) == 2 && turn == 0) {
            k.load(k_tile, first);
            v.load(v_tile, first);
        }
        if (first < count) {
            Terms terms = {};
            if (TERMS) terms = terms_of(work, drop, now, place.first, biases + turn % 2 * 2 * TILE);
            add_to_keys<D, CHUNK, TERMS>(dk, dv, k, v, shared_statistics + turn % 2 * TILE, q_tile, q_tile + BYTES, first, work.length - now.first,
                                            log2_scale, work.is_causal && now.first == place.first, terms, drop.kept);
        }
        if (TERMS && work.bias && is_more) next_biases.put(biases + (turn + 1) % 2 * 2 * TILE);
        now = next;
        // The next turn of the loop copies over this tile.
        __syncthreads();
    }
    // The keys too, where there is no query for them.
    wait<0>();
    __syncthreads();
    if (first < count) store_keys<D>(work, place, first, word, dk, dv, drop.kept, k_tile + first * D * sizeof(Number));
}

// So many blocks of queries, and of keys, are to be on a multiprocessor at a time.
#define QUERIES(D, M, CHUNK, TERMS, BLOCKS, name)                                                                       \
    extern "C" __global__ void __launch_bounds__(128, BLOCKS) tensor_queries_##name(const __grid_constant__ Work work) { \
        queries<D, M, CHUNK, TERMS>(work);                                                                              \
    }
#define KEYS(D, CHUNK, TERMS, BLOCKS, name)                                                                             \
    extern "C" __global__ void __launch_bounds__(128, BLOCKS) tensor_keys_##name(const __grid_constant__ Work work) {   \
        keys<D, CHUNK, TERMS>(work);                                                                                    \
    }
#ifdef TENSOR_TF32
QUERIES(32, 2, 32, false, 2, 32_double)
QUERIES(64, 1, 32, false, 3, 64)
QUERIES(64, 2, 16, false, 2, 64_double)
KEYS(64, 32, false, 2, 64)
#else
QUERIES(64, 1, 32, false, 0, 64)
KEYS(64, 32, false, 3, 64)
#endif
QUERIES(32, 1, 32, false, 0, 32)
QUERIES(32, 1, 32, true, 0, 32_terms)
QUERIES(64, 1, 32, true, 0, 64_terms)
QUERIES(128, 1, 16, false, 0, 128)
QUERIES(128, 1, 16, true, 0, 128_terms)
KEYS(32, 32, false, 3, 32)
KEYS(32, 32, true, 3, 32_terms)
KEYS(64, 32, true, 2, 64_terms)
KEYS(128, 16, false, 0, 128)
KEYS(128, 16, true, 0, 128_terms)
#undef QUERIES
#undef KEYS

}  // namespace tensor
