// ---- Attention in bf16 and TF32 on tensor cores -------------------------------------------------------------------
//
// Four warps, each with 16·M queries whose fragments stay in registers. Keys and values come in tiles of 64, two tiles
// under way at a time, in shared memory; in TF32, whose tiles are twice as large, after the queries and through the same
// memory. Scores, exponentials and sums are f32; the weights are rounded for the product with the values.

// Heads have up to D features; every row begins at a multiple of 16 bytes.
template <typename T, int D, int M> __device__ void attend_tensor(const Attend &work) {
    constexpr int QUERIES = 64 * M;
    constexpr u32 TILE_BYTES = TILE * D * sizeof(T);
    constexpr bool IS_SHARED = sizeof(T) == 4;
    extern __shared__ __align__(128) u8 memory[];
    u32 q_tile = shared_address(memory), kv_tiles = q_tile + (IS_SHARED ? 0 : M * TILE_BYTES);
    Piece piece = piece_of(work, QUERIES);
    u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, dim = work.head_dim;
    u32 count = min((u32)QUERIES, work.queries - piece.first);
    const T *queries = (const T *)work.q + piece.sequence * work.q_sequence + piece.first * work.q_token + piece.head * dim;
    const T *keys = (const T *)work.k + piece.sequence * work.k_sequence + piece.key_head * dim;
    const T *values = (const T *)work.v + piece.sequence * work.v_sequence + piece.key_head * dim;

    // The keys that the first and the last query see bound those of all.
    Seen first = seen_by(work, piece.sequence, piece.first);
    Seen last = seen_by(work, piece.sequence, piece.first + count - 1);
    u32 from = first.start / TILE, tiles = (last.end + TILE - 1) / TILE;
    auto begin_tile = [&](u32 tile) {
        u32 start = tile * TILE, rows = min((u32)TILE, work.keys - start), to = kv_tiles + tile % 2 * 2 * TILE_BYTES;
        begin<T, D, TILE>(to, keys + start * work.k_token, work.k_token, rows, dim);
        begin<T, D, TILE>(to + TILE_BYTES, values + start * work.v_token, work.v_token, rows, dim);
    };
    Held<T, D, M> q;
    begin<T, D, QUERIES>(q_tile, queries, work.q_token, count, dim);
    if (IS_SHARED) {
        commit();
        wait<0>();
        settle<T, D, QUERIES>(q_tile);
        __syncthreads();
        q.load(q_tile, warp * M * 16);
        __syncthreads();
    }
    if (tiles > from) begin_tile(from);
    commit();

    float out[M][D / 8][4] = {};
    // Of the two rows of each fragment that a lane has numbers of.
    float largest[M][2], total[M][2] = {};
    Seen reach[M][2];
#pragma unroll
    for (int m = 0; m < M; m++) {
        for (int half = 0; half < 2; half++) {
            u32 row = (warp * M + m) * 16 + half * 8 + lane / 4;
            largest[m][half] = -INFINITY;
            reach[m][half] = seen_by(work, piece.sequence, min(piece.first + row, work.queries - 1));
        }
    }
    float scale = work.scale * LOG2_E;

    for (u32 tile = from; tile < tiles; tile++) {
        if (tile + 1 < tiles) begin_tile(tile + 1);
        commit();
        wait<1>();
        u32 k_tile = kv_tiles + tile % 2 * 2 * TILE_BYTES, v_tile = k_tile + TILE_BYTES;
        settle<T, D, 2 * TILE>(k_tile);
        __syncthreads();
        if (!IS_SHARED && tile == from) q.load(q_tile, warp * M * 16);

        float s[M][TILE / 8][4] = {};
        add_dots<T, D, TILE, M>(s, q, k_tile, 0);

        u64 word = there(work, piece.sequence, tile);
        // Between what the last begins with and the first ends with every query of the block sees every key.
        if (word != ~0ull || tile * TILE < last.start || (tile + 1) * TILE > first.end) {
#pragma unroll
            for (int m = 0; m < M; m++) {
#pragma unroll
                for (int half = 0; half < 2; half++) {
                    u64 seen = within(word, reach[m][half], tile) >> (lane % 4 * 2);
#pragma unroll
                    for (int n = 0; n < TILE / 8; n++) {
                        if (!(seen >> (n * 8) & 1)) s[m][n][2 * half] = -INFINITY;
                        if (!(seen >> (n * 8 + 1) & 1)) s[m][n][2 * half + 1] = -INFINITY;
                    }
                }
            }
        }

#pragma unroll
        for (int m = 0; m < M; m++) {
#pragma unroll
            for (int half = 0; half < 2; half++) {
                soften<T>(s[m], half, scale, largest[m][half], total[m][half], out[m]);
            }
        }

#pragma unroll
        for (int key = 0; key < TILE / 16; key++) add_rows<T, D, M>(out, s, 2 * key, v_tile, key * 16);
        // The next turn of the loop copies over this tile.
        __syncthreads();
    }
    // The queries too, where there is no key.
    wait<0>();
    __syncthreads();

#pragma unroll
    for (int m = 0; m < M; m++) {
        float factor[2];
        u32 top = (warp * M + m) * 16;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float sum = sum_of_lanes(total[m][half], 4);
            factor[half] = sum == 0 ? 0 : 1 / sum;
        }
        if (top >= count) continue;
        T *to = (T *)work.out + (((u64)piece.sequence * work.queries + piece.first + top) * work.heads + piece.head) * dim;
        store<T, D>(to, (u64)work.heads * dim, count - top, dim, out[m], factor, q_tile + top * D * sizeof(T));
    }
}

#define ATTEND_TENSOR(T, D, M, name)                                                                                   \
    extern "C" __global__ void __launch_bounds__(128) attend_##name(const __grid_constant__ Attend work) {             \
        attend_tensor<T, D, M>(work);                                                                                  \
    }
ATTEND_TENSOR(bf16, 32, 2, bf16_32)
ATTEND_TENSOR(bf16, 64, 2, bf16_64)
ATTEND_TENSOR(bf16, 128, 1, bf16_128)
ATTEND_TENSOR(float, 32, 2, tf32_32)
ATTEND_TENSOR(float, 64, 2, tf32_64)
ATTEND_TENSOR(float, 128, 1, tf32_128)
