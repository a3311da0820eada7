// ---- Attention for training: position terms -------------------------------------------------------------------------

namespace attention {

// The entry of a slot in the lists of rows; negative, or beyond the list, where no query and key of the tile have it.
template <int N> __device__ inline int entry_of(const Work &work, u32 query, u32 key, u32 slot, bool is_reversed = false) {
    int distance = is_reversed ? 16 * N - 1 - (int)slot : (int)slot - (16 * N - 1);
    return (int)(query + work.length) - (int)key - 1 + distance;
}
__device__ inline bool is_entry(const Work &work, int entry) {
    return entry >= 0 && entry < 2 * (int)work.length - 1;
}

// The band of a tile. Waits until all threads need the former band no more, and until all have the new one.
template <int N, int D>
__device__ inline void gather(
    const Work &work, const Rows &rows, bool is_reversed, u32 head, u32 query, u32 key, float *band
) {
    constexpr int STEP = Sizes<N, D>::STEP, SLOTS = Sizes<N, D>::SLOTS;
    __syncthreads();
#pragma unroll 2
    for (u32 i = threadIdx.x; i < SLOTS * D / 4; i += THREADS) {
        u32 slot = i / (D / 4), column = i % (D / 4) * 4;
        int entry = entry_of<N>(work, query, key, slot, is_reversed);
        float x[4] = {};
        if (is_entry(work, entry) && column < work.head_dim) {
            u64 row = rows.index[entry];
            const float *from = rows.values + (row * rows.heads + (rows.heads == 1 ? 0 : head)) * work.head_dim + column;
            if (work.is_wide) {
                take<4>(x, from);
            } else {
                for (int v = 0; v < 4; v++)
                    if (column + v < work.head_dim) x[v] = from[v];
            }
        }
        *(float4 *)(band + slot * STEP + column) = make_float4(x[0], x[1], x[2], x[3]);
    }
    __syncthreads();
}

// Adds the gradients of a band to those of a table, times a factor: the sums of a tile's vectors by their weights, and, where
// there is a `vector`, of that by the sums of the weights, which `sums` are. Neighbouring slots of a row are summed before.
template <int N, int D>
__device__ inline void give_band(
    const Work &work, const Rows &rows, bool is_reversed, u32 head, u32 query, u32 key, float factor, const float *weights,
    u32 own_step, u32 other_step, const float *vectors, float *band, const float *vector, const float *sums
) {
    constexpr int STEP = Sizes<N, D>::STEP, COUNT = Sizes<N, D>::SLOTS * D / THREADS;
    float sum[2 * N][D / 16] = {};
    add_diagonals<N, D>(sum, weights, own_step, other_step, vectors);
    __syncthreads();
#pragma unroll
    for (int n = 0; n < 2 * N; n++) {
#pragma unroll
        for (int c = 0; c < D / 16; c++) band[(down() + 16 * n) * STEP + column_of<D>(c)] = sum[n][c];
    }
    __syncthreads();
    u32 column = threadIdx.x % D, first = threadIdx.x / D * COUNT, now = ~0u;
    if (column >= work.head_dim) return;
    float more = vector ? vector[column] : 0, total = 0;
#pragma unroll 1
    for (u32 slot = first; slot <= first + COUNT; slot++) {
        int entry = entry_of<N>(work, query, key, slot, is_reversed);
        u32 row = slot < first + COUNT && is_entry(work, entry) ? rows.index[entry] : ~0u;
        if (row != now) {
            if (now != ~0u && total != 0) {
                u64 index = (u64)now * rows.heads + (rows.heads == 1 ? 0 : head);
                atomicAdd(rows.gradient + index * work.head_dim + column, total * factor);
            }
            now = row, total = 0;
        }
        if (row != ~0u) total += band[slot * STEP + column] + (vector ? sums[slot] * more : 0);
    }
}

// The dots of COUNT vectors in shared memory, down + 16·n, plus another where it is there, with one, handed on by one thread
// each.
template <int COUNT, int D, typename Take>
__device__ inline void each_dot(
    const Work &work, const float *vectors, const float *added, const float *vector, Take take
) {
#pragma unroll
    for (int n = 0; n < COUNT; n++) {
        float sum = 0;
        for (u32 column = across(); column < work.head_dim; column += 16)
            sum = fmaf(vectors[(down() + 16 * n) * (D + 4) + column] + (added ? added[column] : 0), vector[column], sum);
        sum = sum_of_lanes(sum, 16);
        if (across() == 0) take(down() + 16 * n, sum);
    }
}

// Shared memory for the terms; the band comes last, and is not there without tables.
template <int N, int D> struct Terms {
    float *by_key, *by_slot, *sums, *by_segment, *band;

    __device__ inline Terms(float *memory) {
        by_key = memory, by_slot = by_key + Sizes<N, D>::ROWS;
        sums = by_slot + Sizes<N, D>::SLOTS, by_segment = sums + Sizes<N, D>::SLOTS;
        band = by_segment + 2 * Sizes<N, D>::ROWS;
    }

    // From queries times keys to scores: adds the other terms, and scales.
    __device__ inline void finish(
        const Work &work, float (&s)[N][N], u32 sequence, u32 head, u32 query, u32 key, const float *q, const float *k
    ) {
        constexpr int ROWS = Sizes<N, D>::ROWS;
        u32 first = head * work.head_dim;
        for (u32 slot = threadIdx.x; slot < Sizes<N, D>::SLOTS; slot += THREADS) {
            int entry = entry_of<N>(work, query, key, slot);
            bool has_bias = work.bias.values && is_entry(work, entry);
            by_slot[slot] = has_bias ? work.bias.values[(u64)head * work.bias.rows + work.bias.index[entry]] : 0;
        }
        if (work.content)
            each_dot<N, D>(work, k, nullptr, work.content + first, [&](u32 key, float dot) { by_key[key] = dot * work.scale; });
        if (work.query.values) {
            gather<N, D>(work, work.query, false, head, query, key, band);
            add_band_dots<N, D, false>(work, s, q, band);
            if (work.position)
                each_dot<2 * N, D>(work, band, nullptr, work.position + first, [&](u32 slot, float dot) {
                    by_slot[slot] += dot * work.scale;
                });
        }
        if (work.key.values) {
            gather<N, D>(work, work.key, true, head, query, key, band);
            add_band_dots<N, D, true>(work, s, k, band);
        }
        u32 are_apart = work.segments ? apart<N>(work, sequence, query, key) : 0;
        for (u32 other = 0; work.segments && other < 2; other++) {
            const float *vector = segment_vector(work, other, head);
            each_dot<N, D>(work, q, work.segment_query + first, vector, [&](u32 query, float dot) {
                by_segment[other * ROWS + query] = dot * work.scale;
            });
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < N; i++) {
#pragma unroll
            for (int j = 0; j < N; j++) {
                float more = by_slot[16 * (i - j + N - 1) + down() + 15 - across()];
                if (work.content) more += by_key[across() + 16 * j];
                if (work.segments) more += by_segment[(are_apart >> (i * N + j) & 1) * ROWS + down() + 16 * i];
                s[i][j] = fmaf(s[i][j], work.scale, more);
            }
        }
    }
};

template <int N> __device__ inline void scale_scores(const Work &work, float (&s)[N][N]) {
#pragma unroll
    for (int i = 0; i < N; i++) {
#pragma unroll
        for (int j = 0; j < N; j++) s[i][j] *= work.scale;
    }
}

}  // namespace attention
