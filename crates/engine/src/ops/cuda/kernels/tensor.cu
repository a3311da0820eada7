// ---- Attention in bf16 on tensor cores ----------------------------------------------------------------------------
//
// Four warps, each with 16·M queries whose fragments stay in registers. Keys and values come in tiles of 64, two tiles
// under way at a time, in shared memory. Scores, exponentials and sums are f32; the weights are rounded to bf16 for the
// product with the values.

// Heads have up to D features, a multiple of 8; every row begins at a multiple of 16 bytes.
template <int D, int M> __device__ void attend_tensor(const Attend &work) {
    constexpr int QUERIES = 64 * M;
    constexpr u32 TILE_BYTES = TILE * D * 2;
    extern __shared__ __align__(128) u8 memory[];
    u32 q_tile = shared_address(memory), kv_tiles = q_tile + QUERIES * D * 2;
    Piece piece = piece_of(work, QUERIES);
    u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, dim = work.head_dim;
    u32 count = min((u32)QUERIES, work.queries - piece.first);
    const bf16 *queries = (const bf16 *)work.q + piece.sequence * work.q_sequence + piece.first * work.q_token + piece.head * dim;
    const bf16 *keys = (const bf16 *)work.k + piece.sequence * work.k_sequence + piece.key_head * dim;
    const bf16 *values = (const bf16 *)work.v + piece.sequence * work.v_sequence + piece.key_head * dim;

    // The keys that the first and the last query see bound those of all.
    Seen first = seen_by(work, piece.sequence, piece.first);
    Seen last = seen_by(work, piece.sequence, piece.first + count - 1);
    u32 from = first.start / TILE, tiles = (last.end + TILE - 1) / TILE;
    auto begin_tile = [&](u32 tile) {
        u32 start = tile * TILE, rows = min((u32)TILE, work.keys - start), to = kv_tiles + tile % 2 * 2 * TILE_BYTES;
        begin<D, TILE>(to, keys + start * work.k_token, work.k_token, rows, dim);
        begin<D, TILE>(to + TILE_BYTES, values + start * work.v_token, work.v_token, rows, dim);
    };
    begin<D, QUERIES>(q_tile, queries, work.q_token, count, dim);
    if (tiles > from) begin_tile(from);
    commit();

    u32 q[M][D / 16][4];
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
        __syncthreads();
        if (tile == from) {
#pragma unroll
            for (int m = 0; m < M; m++) {
#pragma unroll
                for (int d = 0; d < D / 16; d++) {
                    fragments(q[m][d], q_tile + chunk_at<D>((warp * M + m) * 16 + lane % 16, 2 * d + lane / 16));
                }
            }
        }
        u32 k_tile = kv_tiles + tile % 2 * 2 * TILE_BYTES, v_tile = k_tile + TILE_BYTES;

        float s[M][TILE / 8][4] = {};
#pragma unroll
        for (int d = 0; d < D / 16; d++) {
#pragma unroll
            for (int n = 0; n < TILE / 16; n++) {
                u32 k[4];
                fragments(k, k_tile + chunk_at<D>(n * 16 + lane % 8 + lane / 16 * 8, 2 * d + lane / 8 % 2));
#pragma unroll
                for (int m = 0; m < M; m++) {
                    multiply(s[m][2 * n], q[m][d], k[0], k[1]);
                    multiply(s[m][2 * n + 1], q[m][d], k[2], k[3]);
                }
            }
        }

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
                soften(s[m], half, scale, largest[m][half], total[m][half], out[m]);
            }
        }

#pragma unroll
        for (int key = 0; key < TILE / 16; key++) {
            u32 weights[M][4];
#pragma unroll
            for (int m = 0; m < M; m++) {
                weights[m][0] = pack(s[m][2 * key][0], s[m][2 * key][1]);
                weights[m][1] = pack(s[m][2 * key][2], s[m][2 * key][3]);
                weights[m][2] = pack(s[m][2 * key + 1][0], s[m][2 * key + 1][1]);
                weights[m][3] = pack(s[m][2 * key + 1][2], s[m][2 * key + 1][3]);
            }
#pragma unroll
            for (int n = 0; n < D / 16; n++) {
                u32 v[4];
                fragments_turned(v, v_tile + chunk_at<D>(key * 16 + lane % 16, 2 * n + lane / 16));
#pragma unroll
                for (int m = 0; m < M; m++) {
                    multiply(out[m][2 * n], weights[m], v[0], v[1]);
                    multiply(out[m][2 * n + 1], weights[m], v[2], v[3]);
                }
            }
        }
        // The next turn of the loop copies over this tile.
        __syncthreads();
    }
    wait<0>();

#pragma unroll
    for (int m = 0; m < M; m++) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float sum = sum_of_lanes(total[m][half], 4);
            float inverse = sum == 0 ? 0 : 1 / sum;
            u32 row = (warp * M + m) * 16 + half * 8 + lane / 4;
            if (row >= count) continue;
            bf16 *to = (bf16 *)work.out + (((u64)piece.sequence * work.queries + piece.first + row) * work.heads + piece.head) * dim;
#pragma unroll
            for (int n = 0; n < D / 8; n++) {
                u32 column = n * 8 + lane % 4 * 2;
                if (column < dim) {
                    *(u32 *)(to + column) = pack(out[m][n][2 * half] * inverse, out[m][n][2 * half + 1] * inverse);
                }
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(128) attend_tensor_32(const __grid_constant__ Attend work) {
    attend_tensor<32, 2>(work);
}
extern "C" __global__ void __launch_bounds__(128) attend_tensor_64(const __grid_constant__ Attend work) {
    attend_tensor<64, 2>(work);
}
extern "C" __global__ void __launch_bounds__(128) attend_tensor_128(const __grid_constant__ Attend work) {
    attend_tensor<128, 1>(work);
}
