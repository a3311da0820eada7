// ---- Attention for training, backward -------------------------------------------------------------------------------

namespace attention {

// What a block gives. Where a sequence is one tile, a block has a key head with all its query heads, and gives to all
// (BOTH). Otherwise blocks of queries give to queries, and to what is added to them (BY_QUERIES), then blocks of keys to keys
// and values (BY_KEYS): nobody waits for another, at the price of computing the scores twice.
enum Side { BOTH, BY_QUERIES, BY_KEYS };

// Adds the sum of the vectors of all threads, times a factor, to a vector.
template <int N, int D>
__device__ inline void add_rows(const Work &work, float *to, const float (&vectors)[N][D / 16], float factor) {
#pragma unroll
    for (int c = 0; c < D / 16; c++) {
        float sum = 0;
#pragma unroll
        for (int n = 0; n < N; n++) sum += vectors[n][c];
        sum += __shfl_xor_sync(~0u, sum, 16);
        if (threadIdx.x % 32 < 16 && column_of<D>(c) < work.head_dim) atomicAdd(to + column_of<D>(c), sum * factor);
    }
}

// Vectors of a tile, times a factor, into the gradient of joined; the first is that of token `first`.
template <int N, int D>
__device__ inline void give(const Work &work, char *to, u32 first, float (&vectors)[N][D / 16], float factor) {
#pragma unroll
    for (int n = 0; n < N; n++) {
        u32 row = down() + 16 * n;
        if (first + row >= work.length) continue;
#pragma unroll
        for (int c = 0; c < D / 16; c++) vectors[n][c] *= factor;
        write_columns<D>(work, to + bytes(work, row * width_of(work)), vectors[n]);
    }
}

// Adds to the gradients of queries what reaches them by way of segments, and gives to z and E. `sums` are each query's sums of
// slopes, over keys of its own segment and over others.
template <int N, int D>
__device__ inline void give_segments(
    const Work &work, u32 head, const float *q, const float (&sums)[N][2], float (&dq)[N][D / 16]
) {
    constexpr int STEP = Sizes<N, D>::STEP;
    const float *added = work.segment_query + head * work.head_dim;
#pragma unroll 1
    for (int other = 0; other < 2; other++) {
        const float *vector = segment_vector(work, other, head);
        float by_way[N][D / 16], met[N][D / 16];
#pragma unroll
        for (int n = 0; n < N; n++) {
            float sum = other ? sums[n][1] : sums[n][0];
#pragma unroll
            for (int c = 0; c < D / 16; c++) {
                u32 column = column_of<D>(c);
                bool is_there = column < work.head_dim;
                by_way[n][c] = is_there ? sum * vector[column] : 0;
                met[n][c] = is_there ? sum * (q[(down() + 16 * n) * STEP + column] + added[column]) : 0;
                dq[n][c] += by_way[n][c];
            }
        }
        if (work.segment_query_gradient)
            add_rows<N, D>(work, work.segment_query_gradient + head * work.head_dim, by_way, work.scale);
        if (work.segment_vectors_gradient)
            add_rows<N, D>(
                work, work.segment_vectors_gradient + (other * work.heads + head) * work.head_dim, met, work.scale
            );
    }
}

// The gradients of queries, and of what is added to them: of u what reached the queries by way of keys, of v what by way of
// the table (`turned`), of z what by way of segments (`sums`). Without any tile met, there are no queries `q`.
template <int N, int D, bool TERMS>
__device__ inline void give_queries(
    const Work &work, u64 first, u32 query, u32 head, const float *q, float (&dq)[N][D / 16],
    const float (&turned)[N][D / 16], const float (&sums)[N][2]
) {
    if (TERMS) {
        u32 vector = head * work.head_dim;
        if (work.content_gradient) add_rows<N, D>(work, work.content_gradient + vector, dq, work.scale);
        if (work.position_gradient) add_rows<N, D>(work, work.position_gradient + vector, turned, work.scale);
#pragma unroll
        for (int n = 0; n < N * D / 16; n++) dq[n / (D / 16)][n % (D / 16)] += turned[n / (D / 16)][n % (D / 16)];
        if (work.segments && q) give_segments<N, D>(work, head, q, sums, dq);
    }
    give<N, D>(work, joined_at(work, work.given, first + query, head), query, dq, work.scale);
}

template <int N, int D, bool TERMS, int SIDE> __device__ inline void backward(const Work &work) {
    using S = Sizes<N, D>;
    constexpr bool FOR_QUERIES = SIDE != BY_KEYS, FOR_KEYS = SIDE != BY_QUERIES;
    extern __shared__ __align__(16) float memory[];
    float *q = memory, *slope = q + S::VECTORS, *k = slope + S::VECTORS, *v = k + S::VECTORS;
    // The weights [key, query], then the slopes of scores: [query, key] for queries, [key, query] for keys. Where both are
    // needed, the latter follow in the place of the weights.
    float *weights = v + S::VECTORS, *slopes = FOR_KEYS ? weights + S::WEIGHTS : weights;
    float *slopes_by_key = SIDE == BOTH ? weights : slopes;
    Terms<N, D> terms(slopes + S::WEIGHTS);

    u32 index = blockIdx.x, group = work.heads / work.key_heads, fixed = 0;
    if (SIDE != BOTH) fixed = index % work.tiles, index /= work.tiles;
    u32 heads = SIDE == BY_QUERIES ? work.heads : work.key_heads, sequence = index / heads;
    u32 head = index % heads, key_head = SIDE == BY_QUERIES ? head / group : head;
    // The tiles that this one meets: a window is as far on either side.
    u32 start = 0, end = work.tiles;
    if (SIDE != BOTH) {
        start = window_start(work, fixed * S::ROWS) / S::ROWS;
        end = (window_end(work, fixed * S::ROWS + S::ROWS - 1) + S::ROWS - 1) / S::ROWS;
        if (work.is_causal && SIDE == BY_KEYS) start = fixed;
        if (work.is_causal && SIDE == BY_QUERIES) end = fixed + 1;
    }
    u32 each = end - start;
    u64 first = (u64)sequence * work.length;
    u32 width = width_of(work), row = work.heads * work.head_dim, value_head = work.heads + work.key_heads + key_head;
    Dropping dropping(work);

    float dq[N][D / 16] = {}, turned[N][D / 16] = {}, dk[N][D / 16] = {}, dv[N][D / 16] = {};
    float lse[N], delta[N], by_segment[N][2] = {};
    bool is_first = true;
    for (u32 step = 0; step < (SIDE == BY_QUERIES ? each : each * group); step++) {
        if (SIDE != BY_QUERIES) head = key_head * group + step / each;
        u32 query = (SIDE == BY_QUERIES ? fixed : start + step % each) * S::ROWS;
        u32 key = (SIDE == BY_QUERIES ? start + step : fixed) * S::ROWS;
        u32 queries = min((u32)S::ROWS, work.length - query), keys = min((u32)S::ROWS, work.length - key);
        u64 word = there<N>(work, sequence, key);
        if (SIDE != BOTH && !word) continue;
        // Everything is asked for before anything is waited for.
        Fetched<N, D> fetched_q, fetched_slope, fetched_k, fetched_v;
        bool has_new_queries = SIDE != BY_QUERIES || is_first, has_new_keys = SIDE == BY_QUERIES || is_first;
        if (has_new_keys) {
            fetched_k.fetch(work, joined_at(work, work.joined, first + key, work.heads + key_head), width, keys);
            fetched_v.fetch(work, joined_at(work, work.joined, first + key, value_head), width, keys);
        }
        if (has_new_queries) {
            fetched_q.fetch(work, joined_at(work, work.joined, first + query, head), width, queries);
            fetched_slope.fetch(work, out_at(work, work.slope, first + query, head), row, queries);
#pragma unroll
            for (int i = 0; i < N; i++) {
                u32 token = min(query + down() + 16 * i, work.length - 1);
                u64 at = (first + token) * work.heads + head;
                lse[i] = work.lse[at];
                if (SIDE == BY_KEYS) {
                    delta[i] = work.delta[at];
                } else {
                    const char *result = out_at(work, work.out, first + token, head);
                    const char *its_slope = out_at(work, work.slope, first + token, head);
                    delta[i] = 0;
#pragma unroll
                    for (u32 c = 0; c < D / 16; c++) {
                        u32 column = across() + 16 * c, at = bytes(work, column);
                        if (column >= work.head_dim) continue;
                        delta[i] = fmaf(read(work, result + at), read(work, its_slope + at), delta[i]);
                    }
                    delta[i] = sum_of_lanes(delta[i], 16);
                    if (SIDE == BY_QUERIES && across() == 0 && query + down() + 16 * i < work.length) work.delta[at] = delta[i];
                }
            }
        }
        if (!is_first) __syncthreads();
        if (has_new_keys) fetched_k.place(work, k), fetched_v.place(work, v);
        if (has_new_queries) fetched_q.place(work, q), fetched_slope.place(work, slope);
        is_first = false;
        __syncthreads();

        // The scores, and the slopes of weights.
        float s[N][N] = {}, ds[N][N] = {};
        add_dots<N, D>(work, s, q, k);
        add_dots<N, D>(work, ds, slope, v);
        if (TERMS) {
            terms.finish(work, s, sequence, head, query, key, q, k);
            if (work.value.values) {
                gather<N, D>(work, work.value, false, head, query, key, terms.band);
                add_band_dots<N, D, false>(work, ds, slope, terms.band);
            }
        } else {
            scale_scores(work, s);
        }
        u32 kept = dropping.kept<N>(work, sequence, head, query, key);
        float keep = dropping.is_on ? work.keep : 1;
#pragma unroll
        for (int i = 0; i < N; i++) {
            u64 seen = within(work, word, query + down() + 16 * i, key);
#pragma unroll
            for (int j = 0; j < N; j++) {
                bool sees = seen >> (across() + 16 * j) & 1;
                float weight = sees ? expf(s[i][j] - lse[i]) : 0, factor = kept >> (i * N + j) & 1 ? keep : 0;
                ds[i][j] = sees ? weight * (factor * ds[i][j] - delta[i]) : 0;
                u32 by_query = (down() + 16 * i) * S::SCORES + across() + 16 * j;
                u32 by_key = (across() + 16 * j) * S::SCORES + down() + 16 * i;
                if (FOR_KEYS) weights[by_key] = weight * factor;
                slopes[FOR_QUERIES ? by_query : by_key] = ds[i][j];
            }
        }
        if (TERMS && FOR_QUERIES && work.segments) {
            u32 are_apart = apart<N>(work, sequence, query, key);
#pragma unroll
            for (int i = 0; i < N; i++) {
                float sums[2] = {};
#pragma unroll
                for (int j = 0; j < N; j++) {
                    bool is_apart = are_apart >> (i * N + j) & 1;
                    sums[0] += is_apart ? 0 : ds[i][j];
                    sums[1] += is_apart ? ds[i][j] : 0;
                }
                by_segment[i][0] += sum_of_lanes(sums[0], 16);
                by_segment[i][1] += sum_of_lanes(sums[1], 16);
            }
        }
        __syncthreads();
        if (FOR_KEYS) add_product<N, D>(dv, weights, slope, queries);
        if (FOR_QUERIES) add_product<N, D>(dq, slopes, k, keys);
        if (TERMS) {
            if (FOR_QUERIES) {
                for (u32 slot = threadIdx.x; slot < S::SLOTS; slot += THREADS) {
                    float sum = 0;
                    for (int i = max(0, (int)slot + 1 - S::ROWS); i < min(S::ROWS, (int)slot + 1); i++)
                        sum += slopes[i * S::SCORES + i + S::ROWS - 1 - (int)slot];
                    terms.sums[slot] = sum;
                    int entry = entry_of<N>(work, query, key, slot);
                    if (work.bias.gradient && is_entry(work, entry) && sum != 0)
                        atomicAdd(work.bias.gradient + (u64)head * work.bias.rows + work.bias.index[entry], sum);
                }
                if (work.query.values) {
                    gather<N, D>(work, work.query, false, head, query, key, terms.band);
                    add_band_product<N, D>(turned, slopes, terms.band);
                }
            }
            // One loop for all tables, since it is a lot of code.
#pragma unroll 1
            for (int which = FOR_KEYS ? 0 : 1; which < (SIDE == BY_QUERIES ? 2 : 3); which += SIDE == BY_KEYS ? 2 : 1) {
                const Rows &rows = which == 0 ? work.value : which == 1 ? work.query : work.key;
                if (!rows.gradient) continue;
                const float *vectors = which == 0 ? slope : which == 1 ? q : k;
                const float *position = which == 1 && work.position ? work.position + head * work.head_dim : nullptr;
                // Weights, and slopes by key, are [key, query].
                bool is_by_key = which == 0 || SIDE == BY_KEYS, is_reversed = which == 2;
                u32 own_step = is_by_key != is_reversed ? 1 : S::SCORES, other_step = is_by_key != is_reversed ? S::SCORES : 1;
                give_band<N, D>(
                    work, rows, is_reversed, head, query, key, which == 0 ? 1 : work.scale, which == 0 ? weights : slopes,
                    own_step, other_step, vectors, terms.band, position, terms.sums
                );
            }
        }
        if (SIDE == BOTH) {
            __syncthreads();
#pragma unroll
            for (int i = 0; i < N; i++) {
#pragma unroll
                for (int j = 0; j < N; j++) slopes_by_key[(across() + 16 * j) * S::SCORES + down() + 16 * i] = ds[i][j];
            }
            __syncthreads();
        }
        if (FOR_KEYS) {
            add_product<N, D>(dk, slopes_by_key, q, queries);
            if (TERMS) {
                if (work.content) {
                    // Keys met q + u.
#pragma unroll
                    for (int n = 0; n < N; n++) {
                        float sum = 0;
#pragma unroll
                        for (int i = 0; i < N; i++) sum += slopes_by_key[(down() + 16 * n) * S::SCORES + across() + 16 * i];
                        sum = sum_of_lanes(sum, 16);
#pragma unroll
                        for (int c = 0; c < D / 16; c++) {
                            u32 column = column_of<D>(c);
                            if (column < work.head_dim)
                                dk[n][c] = fmaf(sum, work.content[head * work.head_dim + column], dk[n][c]);
                        }
                    }
                }
                if (work.key.values) {
                    gather<N, D>(work, work.key, true, head, query, key, terms.band);
                    add_band_product<N, D>(dk, slopes_by_key, terms.band);
                }
            }
        }
        if (SIDE == BOTH) {
            give_queries<N, D, TERMS>(work, first, query, head, q, dq, turned, by_segment);
#pragma unroll
            for (int n = 0; n < N * D / 16; n++) dq[n / (D / 16)][n % (D / 16)] = turned[n / (D / 16)][n % (D / 16)] = 0;
#pragma unroll
            for (int n = 0; n < N; n++) by_segment[n][0] = by_segment[n][1] = 0;
        }
    }
    if (SIDE == BY_QUERIES)
        give_queries<N, D, TERMS>(work, first, fixed * S::ROWS, head, is_first ? nullptr : q, dq, turned, by_segment);
    if (FOR_KEYS) {
        u32 key = fixed * S::ROWS;
        give<N, D>(work, joined_at(work, work.given, first + key, work.heads + key_head), key, dk, work.scale);
        give<N, D>(work, joined_at(work, work.given, first + key, value_head), key, dv, 1);
    }
}

}  // namespace attention

#define ATTENTION_BACKWARD(NAME, SIDE, N, D, BLOCKS)                                                                   \
    extern "C" __global__ void __launch_bounds__(256, BLOCKS)                                                          \
        attention_##NAME##_##N##_##D(const __grid_constant__ attention::Work work) {                                   \
        attention::backward<N, D, false, attention::SIDE>(work);                                                       \
    }
#define ATTENTION_BACKWARD_TERMS(NAME, SIDE, N, D, BLOCKS)                                                             \
    extern "C" __global__ void __launch_bounds__(256, BLOCKS)                                                          \
        attention_##NAME##_##N##_##D##_terms(const __grid_constant__ attention::Work work) {                           \
        attention::backward<N, D, true, attention::SIDE>(work);                                                        \
    }
#ifndef ATTENTION_TERMS
ATTENTION_BACKWARD(backward, BOTH, 2, 32, 4)
ATTENTION_BACKWARD(backward, BOTH, 3, 32, 3)
ATTENTION_BACKWARD(backward, BOTH, 4, 32, 2)
ATTENTION_BACKWARD(backward, BOTH, 2, 64, 3)
ATTENTION_BACKWARD(backward, BOTH, 4, 64, 2)
ATTENTION_BACKWARD(by_queries, BY_QUERIES, 4, 32, 2)
ATTENTION_BACKWARD(by_queries, BY_QUERIES, 4, 64, 2)
ATTENTION_BACKWARD(by_queries, BY_QUERIES, 2, 128, 2)
ATTENTION_BACKWARD(by_keys, BY_KEYS, 4, 32, 2)
ATTENTION_BACKWARD(by_keys, BY_KEYS, 4, 64, 2)
ATTENTION_BACKWARD(by_keys, BY_KEYS, 2, 128, 2)
#else
ATTENTION_BACKWARD_TERMS(backward, BOTH, 2, 32, 3)
ATTENTION_BACKWARD_TERMS(backward, BOTH, 3, 32, 2)
ATTENTION_BACKWARD_TERMS(backward, BOTH, 4, 32, 2)
ATTENTION_BACKWARD_TERMS(backward, BOTH, 4, 64, 1)
ATTENTION_BACKWARD_TERMS(by_queries, BY_QUERIES, 4, 64, 1)
ATTENTION_BACKWARD_TERMS(by_queries, BY_QUERIES, 2, 128, 2)
ATTENTION_BACKWARD_TERMS(by_keys, BY_KEYS, 4, 64, 1)
ATTENTION_BACKWARD_TERMS(by_keys, BY_KEYS, 2, 128, 2)
#endif
