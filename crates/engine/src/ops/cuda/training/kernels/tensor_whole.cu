// ---- Attention for training, in bf16 and TF32 on tensor cores: sequences of one tile --------------------------------
//
// Forward there are kernels for tiles of fewer rows too, where there are no terms: a warp has 16 rows.

namespace tensor {

// The results of a head.
template <int D, int ROWS> __device__ void forward_whole(const Work &work) {
    constexpr int THREADS = 2 * ROWS;
    constexpr u32 BYTES = ROWS * D * sizeof(Number);
    extern __shared__ __align__(128) u8 memory[];
    u32 q_tile = shared_address(memory), k_tile = q_tile + BYTES, v_tile = k_tile + BYTES;
    Place place = {blockIdx.x / work.heads, blockIdx.x % work.heads, 0};
    u32 lane = threadIdx.x % 32, first = threadIdx.x / 32 * 16, dim = work.head_dim, length = work.length;
    u32 key_head = key_head_of(work, place.head);
    const Number *tokens = work.joined + row_at(work, place.sequence, 0);
    begin<Number, D, ROWS, THREADS>(q_tile, tokens + queries_at(work, place.head), work.width, length, dim);
    begin<Number, D, ROWS, THREADS>(k_tile, tokens + keys_at(work, key_head), work.width, length, dim);
    begin<Number, D, ROWS, THREADS>(v_tile, tokens + values_at(work, key_head), work.width, length, dim);
    commit();
    u64 word = there(work, place.sequence, 0);
    wait<0>();
    settle<Number, D, 3 * ROWS, THREADS>(q_tile);
    __syncthreads();
    if (first >= length) return;
    Held<Number, D, 1> q;
    q.load(q_tile, first);
    float s[1][ROWS / 8][4] = {}, out[1][D / 8][4] = {}, factor[2], log2_scale = work.scale * LOG2_E;
    add_dots<Number, D, ROWS, 1>(s, q, k_tile, 0);
#pragma unroll
    for (int half = 0; half < 2; half++) {
        u32 row = first + half * 8 + lane / 4;
        u64 bits = seen(work, word, row, 0) >> (lane % 4 * 2);
#pragma unroll
        for (int n = 0; n < ROWS / 8; n++) {
            if (!(bits >> (n * 8) & 1)) s[0][n][2 * half] = -INFINITY;
            if (!(bits >> (n * 8 + 1) & 1)) s[0][n][2 * half + 1] = -INFINITY;
        }
        float largest = -INFINITY, total = 0;
        soften<Number>(s[0], half, log2_scale, largest, total, out[0]);
        float sum = sum_of_lanes(total, 4);
        factor[half] = sum == 0 ? 0 : 1 / sum;
        if (row < length && lane % 4 == 0) {
            float lse = sum == 0 ? -INFINITY : largest * work.scale + logf(sum);
            work.lse[((u64)place.sequence * length + row) * work.heads + place.head] = lse;
        }
    }
#pragma unroll
    for (int key = 0; key < ROWS / 16; key++) add_rows<Number, D, 1>(out, s, 2 * key, v_tile, key * 16);
    Number *to = work.out + out_at(work, place.sequence, first, place.head);
    store<Number, D>(to, work.heads * dim, length - first, dim, out[0], factor, q_tile + first * D * sizeof(Number));
}

// dq, dk and dv of a head that shares its keys with no other.
template <int D, bool TERMS> __device__ void both(const Work &work) {
    constexpr u32 BYTES = TILE * D * sizeof(Number);
    extern __shared__ __align__(128) u8 memory[];
    u32 q_tile = shared_address(memory), slope_tile = q_tile + BYTES, k_tile = q_tile + 2 * BYTES, v_tile = q_tile + 3 * BYTES;
    float2 *shared_statistics = (float2 *)(memory + 5 * BYTES);  // [64]
    float *biases = (float *)(shared_statistics + TILE);         // [128]
    Place place = {blockIdx.x / work.heads, blockIdx.x % work.heads, 0};
    u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, dim = work.head_dim, length = work.length;
    const Number *tokens = work.joined + row_at(work, place.sequence, 0);
    begin<Number, D, TILE>(q_tile, tokens + queries_at(work, place.head), work.width, length, dim);
    begin<Number, D, TILE>(k_tile, tokens + keys_at(work, place.head), work.width, length, dim);
    begin<Number, D, TILE>(v_tile, tokens + values_at(work, place.head), work.width, length, dim);
    begin<Number, D, TILE>(slope_tile, work.out_slope + out_at(work, place.sequence, 0, place.head), work.heads * dim, length, dim);
    commit();
    u64 word = there(work, place.sequence, 0);
    statistics<D, TILE>(work, place, shared_statistics);
    Drop drop = {0, 0, 1};
    Terms terms = {};
    BiasSlope bias_slope = {};
    if (TERMS) {
        drop = drop_of(work);
        if (work.bias) {
            Biases<TILE> all;
            all.fetch(work, place.head, 0, 0);
            all.put(biases);
        }
        terms = terms_of(work, drop, place, 0, biases);
        bias_slope = bias_slope_of(work, place, 0);
    }
    wait<0>();
    settle<Number, D, 4 * TILE>(q_tile);
    __syncthreads();
    u32 first = warp * 16;
    if (first >= length) return;
    u32 own_memory = q_tile + 4 * BYTES + first * D * sizeof(Number);
    float log2_scale = work.scale * LOG2_E;
    {
        Held<Number, D, 1> q, slope;
        float dq[1][D / 8][4] = {}, factor[2] = {work.scale, work.scale};
        float2 own[1][2];
        u64 bits[1][2];
        for (int half = 0; half < 2; half++) {
            u32 row = first + half * 8 + lane / 4;
            own[0][half] = shared_statistics[row];
            bits[0][half] = seen(work, word, row, 0);
        }
        q.load(q_tile, first);
        slope.load(slope_tile, first);
        u32 end = work.is_causal ? min(length, first + 16) : length;
        add_to_queries<D, 1, 16, TERMS>(dq, q, slope, own, k_tile, v_tile, first, end, log2_scale, false, bits, terms, drop.kept, bias_slope,
                                           (float *)(memory + 4 * BYTES + first * D * sizeof(Number)));
        Number *to = work.joined_slope + row_at(work, place.sequence, first) + queries_at(work, place.head);
        store<Number, D>(to, work.width, length - first, dim, dq[0], factor, own_memory);
    }
    Held<Number, D, 1> k, v;
    float dk[1][D / 8][4] = {}, dv[1][D / 8][4] = {};
    k.load(k_tile, first);
    v.load(v_tile, first);
    add_to_keys<D, 16, TERMS>(dk, dv, k, v, shared_statistics, q_tile, slope_tile, first, length, log2_scale, work.is_causal, terms, drop.kept);
    store_keys<D>(work, place, first, word, dk, dv, drop.kept, own_memory);
}

#define FORWARD_WHOLE(D, ROWS, name)                                                                                    \
    extern "C" __global__ void __launch_bounds__(2 * ROWS) tensor_forward_##name(const __grid_constant__ Work work) {   \
        forward_whole<D, ROWS>(work);                                                                                   \
    }
#define BOTH(D, TERMS, name)                                                                                            \
    extern "C" __global__ void __launch_bounds__(128) tensor_both_##name(const __grid_constant__ Work work) {           \
        both<D, TERMS>(work);                                                                                           \
    }
FORWARD_WHOLE(32, 48, 32_short)
FORWARD_WHOLE(64, 48, 64_short)
BOTH(32, false, 32)
BOTH(32, true, 32_terms)
BOTH(64, false, 64)
BOTH(64, true, 64_terms)
#undef FORWARD_WHOLE
#undef BOTH

}  // namespace tensor
