// ---- Attention for training, forward --------------------------------------------------------------------------------

namespace attention {

// A block: one tile of queries of one head against all their keys, with a running softmax.
template <int N, int D, bool TERMS> __device__ inline void forward(const Work &work) {
    using S = Sizes<N, D>;
    extern __shared__ __align__(16) float memory[];
    float *q = memory, *k = q + S::VECTORS, *v = k + S::VECTORS, *weights = v + S::VECTORS;
    Terms<N, D> terms(weights + S::WEIGHTS);
    u32 head = blockIdx.x / work.tiles % work.heads, sequence = blockIdx.x / work.tiles / work.heads;
    u32 query = blockIdx.x % work.tiles * S::ROWS, key_head = head / (work.heads / work.key_heads);
    u64 first = (u64)sequence * work.length;
    u32 width = width_of(work);
    Dropping dropping(work);

    Fetched<N, D> queries, keys, values;
    queries.fetch(work, joined_at(work, work.joined, first + query, head), width, work.length - query);
    float out[N][D / 16] = {}, largest[N], total[N] = {};
#pragma unroll
    for (int i = 0; i < N; i++) largest[i] = -INFINITY;
    bool is_first = true;
    u32 end = window_end(work, query + S::ROWS - 1);
    if (work.is_causal) end = min(end, query + S::ROWS);
    for (u32 key = window_start(work, query) / S::ROWS * S::ROWS; key < end; key += S::ROWS) {
        u64 word = there<N>(work, sequence, key);
        if (!word) continue;
        u32 count = min((u32)S::ROWS, work.length - key);
        keys.fetch(work, joined_at(work, work.joined, first + key, work.heads + key_head), width, count);
        values.fetch(work, joined_at(work, work.joined, first + key, work.heads + work.key_heads + key_head), width, count);
        if (is_first) {
            queries.place(work, q);
        } else {
            __syncthreads();
        }
        is_first = false;
        keys.place(work, k);
        values.place(work, v);
        __syncthreads();
        float s[N][N] = {};
        add_dots<N, D>(work, s, q, k);
        if (TERMS) {
            terms.finish(work, s, sequence, head, query, key, q, k);
        } else {
            scale_scores(work, s);
        }
#pragma unroll
        for (int i = 0; i < N; i++) {
            u64 seen = within(work, word, query + down() + 16 * i, key);
            float most = -INFINITY;
#pragma unroll
            for (int j = 0; j < N; j++) {
                s[i][j] = seen >> (across() + 16 * j) & 1 ? s[i][j] : -INFINITY;
                most = fmaxf(most, s[i][j]);
            }
            most = fmaxf(largest[i], largest_of_lanes(most, 16));
            // Where nothing has been seen yet, any number does.
            float base = most == -INFINITY ? 0 : most, shrink = expf(largest[i] - base), sum = 0;
            largest[i] = most;
#pragma unroll
            for (int j = 0; j < N; j++) {
                s[i][j] = expf(s[i][j] - base);
                sum += s[i][j];
            }
            total[i] = total[i] * shrink + sum_of_lanes(sum, 16);
#pragma unroll
            for (int c = 0; c < D / 16; c++) out[i][c] *= shrink;
        }
        u32 kept = dropping.kept<N>(work, sequence, head, query, key);
#pragma unroll
        for (int i = 0; i < N; i++) {
#pragma unroll
            for (int j = 0; j < N; j++)
                weights[(down() + 16 * i) * S::SCORES + across() + 16 * j] = kept >> (i * N + j) & 1 ? s[i][j] : 0;
        }
        __syncthreads();
        add_product<N, D>(out, weights, v, count);
        if (TERMS && work.value.values) {
            gather<N, D>(work, work.value, false, head, query, key, terms.band);
            add_band_product<N, D>(out, weights, terms.band);
        }
    }
#pragma unroll
    for (int i = 0; i < N; i++) {
        u32 token = query + down() + 16 * i;
        if (token >= work.length) continue;
        float factor = total[i] == 0 ? 0 : (dropping.is_on ? work.keep : 1) / total[i];
#pragma unroll
        for (int c = 0; c < D / 16; c++) out[i][c] = total[i] == 0 ? 0 : out[i][c] * factor;
        write_columns<D>(work, out_at(work, work.out, first + token, head), out[i]);
        if (across() == 0)
            work.lse[(first + token) * work.heads + head] = total[i] == 0 ? -INFINITY : largest[i] + logf(total[i]);
    }
}

}  // namespace attention

// 16ths of a tile's rows, features of a head, blocks that a multiprocessor shall hold. The kernels with position terms are
// compiled by themselves.
#define ATTENTION_FORWARD(N, D, BLOCKS)                                                                                \
    extern "C" __global__ void __launch_bounds__(256, BLOCKS)                                                          \
        attention_forward_##N##_##D(const __grid_constant__ attention::Work work) {                                    \
        attention::forward<N, D, false>(work);                                                                         \
    }
#define ATTENTION_FORWARD_TERMS(N, D, BLOCKS)                                                                          \
    extern "C" __global__ void __launch_bounds__(256, BLOCKS)                                                          \
        attention_forward_##N##_##D##_terms(const __grid_constant__ attention::Work work) {                            \
        attention::forward<N, D, true>(work);                                                                          \
    }
#ifndef ATTENTION_TERMS
ATTENTION_FORWARD(2, 32, 4)
ATTENTION_FORWARD(3, 32, 4)
ATTENTION_FORWARD(4, 32, 3)
ATTENTION_FORWARD(2, 64, 3)
ATTENTION_FORWARD(4, 64, 2)
ATTENTION_FORWARD(2, 128, 2)
#else
ATTENTION_FORWARD_TERMS(2, 32, 3)
ATTENTION_FORWARD_TERMS(3, 32, 2)
ATTENTION_FORWARD_TERMS(4, 32, 2)
ATTENTION_FORWARD_TERMS(4, 64, 2)
ATTENTION_FORWARD_TERMS(2, 128, 2)
#endif
