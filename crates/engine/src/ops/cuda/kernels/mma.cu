// ---- Tensor cores --------------------------------------------------------------------------------------------------
//
// Tiles of rows in shared memory, and products of fragments of them, for two kinds of factors: bf16, and TF32, which is f32
// with 11 bits, stored as f32. 32 bytes of a row are what one product takes of it, 16 numbers or 8, and fragments lie alike in
// both. The chunks of 16 bytes of a tile are permuted so that neither copies nor fragments meet in a bank.

__device__ inline u32 shared_address(const void *pointer) {
    u32 address;
    asm("{ .reg .u64 wide; cvta.to.shared.u64 wide, %1; cvt.u32.u64 %0, wide; }" : "=r"(address) : "l"(pointer));
    return address;
}

__device__ inline void fragments(u32 (&to)[4], u32 address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(address) : "memory");
}

__device__ inline void fragments_turned(u32 (&to)[4], u32 address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(address) : "memory");
}

__device__ inline void read_chunk(u32 (&to)[4], u32 address) {
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(address) : "memory");
}

__device__ inline void write_chunk(u32 address, const u32 (&from)[4]) {
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};"
                 :: "r"(address), "r"(from[0]), "r"(from[1]), "r"(from[2]), "r"(from[3]) : "memory");
}

__device__ inline void read_half_chunk(u32 &low, u32 &high, u32 address) {
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(low), "=r"(high) : "r"(address) : "memory");
}

__device__ inline void write_half_chunk(u32 address, u32 low, u32 high) {
    asm volatile("st.shared.v2.u32 [%0], {%1, %2};" :: "r"(address), "r"(low), "r"(high) : "memory");
}

// The nearest number of 11 bits, of which products ignore the 13 bits below: cvt.rna in two instructions instead of three. What
// is no number stays none.
__device__ inline u32 to_tf32(float x) {
    u32 bits = __float_as_uint(x);
    return fabsf(x) < INFINITY ? bits + 0x1000 : bits;
}

// The same in one instruction, but what is no number may become one: for weights, whose sum is none then, and gradients of scores,
// which are none only where results or their gradients are.
__device__ inline u32 to_tf32_quickly(float x) { return __float_as_uint(x) + 0x1000; }

// sum [16, 8] += a [16, K] · b [K, 8], where K numbers have 32 bytes.
template <typename T> __device__ inline void multiply(float (&sum)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    if constexpr (sizeof(T) == 2) {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    } else {
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    }
}

// ---- Tiles ----------------------------------------------------------------------------------------------------------

// The bytes from the start of a tile of rows of D numbers to a chunk of 16 bytes of them.
template <typename T, int D> __device__ inline u32 chunk_at(u32 row, u32 chunk) {
    constexpr u32 CHUNKS = D * sizeof(T) / 16;
    u32 turn = CHUNKS >= 8 ? row % 8 : row / 2 % 4;
    return (row * CHUNKS + (chunk ^ turn)) * 16;
}

// The address of the chunk that comes so many behind another, whose number has none of the bits of how many: the permutation
// turns bits, and tiles begin at multiples of 128 bytes.
__device__ inline u32 chunk_behind(u32 address, u32 chunks) { return (address ^ chunks % 8 * 16) + chunks / 8 * 128; }

// Begins to copy 16 bytes into shared memory, or zeros.
__device__ inline void copy_chunk(u32 to, const void *from, bool is_there) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(to), "l"(from), "r"(is_there ? 16 : 0) : "memory");
}

__device__ inline void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int LEFT> __device__ inline void wait() { asm volatile("cp.async.wait_group %0;" :: "n"(LEFT) : "memory"); }

// What a thread has of a tile that a block's threads share: the same chunk of every STEP-th row. That counts are known here and
// no condition ends the loops lets all accesses be under way at once.
template <typename T, int D, int THREADS> struct Share {
    static constexpr u32 EACH = 16 / sizeof(T), CHUNKS = D / EACH, STEP = THREADS / CHUNKS;
    u32 row, chunk;

    __device__ inline Share() : row(threadIdx.x / CHUNKS), chunk(threadIdx.x % CHUNKS) {}
};

// Begins to copy rows into shared memory, with zeros beyond what is there.
template <typename T, int D, int ROWS, int THREADS = 128>
__device__ inline void begin(u32 to, const T *from, u64 step, u32 rows, u32 width) {
    Share<T, D, THREADS> own;
    const T *source = from + own.row * step + own.chunk * own.EACH;
    bool is_within = own.chunk * own.EACH < width;
#pragma unroll
    for (u32 row = 0; row < ROWS; row += own.STEP) {
        bool is_there = is_within && own.row + row < rows;
        copy_chunk(to + chunk_at<T, D>(own.row + row, own.chunk), is_there ? source + row * step : from, is_there);
    }
}

// Rounds what this thread has copied with `begin`, once that is done and before others read it: factors are rounded once, not
// with each fragment.
template <typename T, int D, int ROWS, int THREADS = 128> __device__ inline void settle(u32 to) {
    if constexpr (sizeof(T) == 4) {
        Share<T, D, THREADS> own;
        constexpr u32 COUNT = ROWS / own.STEP % 8 == 0 ? 8 : 4;
#pragma unroll
        for (u32 row = 0; row < ROWS; row += COUNT * own.STEP) {
            u32 chunks[COUNT][4];
#pragma unroll
            for (u32 n = 0; n < COUNT; n++) read_chunk(chunks[n], to + chunk_at<T, D>(own.row + row + n * own.STEP, own.chunk));
#pragma unroll
            for (u32 n = 0; n < COUNT; n++) {
#pragma unroll
                for (int i = 0; i < 4; i++) chunks[n][i] = to_tf32(__uint_as_float(chunks[n][i]));
                write_chunk(to + chunk_at<T, D>(own.row + row + n * own.STEP, own.chunk), chunks[n]);
            }
        }
    }
}

// ---- Products of tiles ----------------------------------------------------------------------------------------------

// 16·M rows of a tile as the left factor of products, in registers.
template <typename T, int D, int M> struct Held {
    u32 a[M][D * sizeof(T) / 32][4];

    __device__ inline void load(u32 tile, u32 first) {
        u32 from = tile + first * D * sizeof(T) + chunk_at<T, D>(threadIdx.x % 16, threadIdx.x % 32 / 16);
#pragma unroll
        for (int m = 0; m < M; m++) {
#pragma unroll
            for (int d = 0; d < D * sizeof(T) / 32; d++) fragments(a[m][d], chunk_behind(from, 2 * d) + m * 16 * D * sizeof(T));
        }
    }
    __device__ inline void get(u32 (&to)[4], int m, int d) const {
#pragma unroll
        for (int i = 0; i < 4; i++) to[i] = a[m][d][i];
    }
};

// The same where there are too many for registers: read each time.
template <typename T, int D, int M> struct Fetched {
    u32 from;

    __device__ inline void load(u32 tile, u32 first) {
        from = tile + first * D * sizeof(T) + chunk_at<T, D>(threadIdx.x % 16, threadIdx.x % 32 / 16);
    }
    __device__ inline void get(u32 (&to)[4], int m, int d) const {
        fragments(to, chunk_behind(from, 2 * d) + m * 16 * D * sizeof(T));
    }
};

template <bool IS_FIRST, typename A, typename B> struct Chosen {
    typedef A Type;
};
template <typename A, typename B> struct Chosen<false, A, B> {
    typedef B Type;
};

// sums [16·M, COLUMNS] += a [16·M, D] · b [COLUMNS, D]ᵀ for rows b of a tile, from `first` on.
template <typename T, int D, int COLUMNS, int M, typename Rows>
__device__ inline void add_dots(float (&sums)[M][COLUMNS / 8][4], const Rows &rows, u32 tile, u32 first) {
    u32 lane = threadIdx.x % 32;
    u32 from = tile + first * D * sizeof(T) + chunk_at<T, D>(lane % 8 + lane / 16 * 8, lane / 8 % 2);
#pragma unroll
    for (int d = 0; d < D * sizeof(T) / 32; d++) {
        u32 a[M][4], at = chunk_behind(from, 2 * d);
#pragma unroll
        for (int m = 0; m < M; m++) rows.get(a[m], m, d);
#pragma unroll
        for (int n = 0; n < COLUMNS / 16; n++) {
            u32 b[4];
            fragments(b, at + n * 16 * D * sizeof(T));
#pragma unroll
            for (int m = 0; m < M; m++) {
                multiply<T>(sums[m][2 * n], a[m], b[0], b[1]);
                multiply<T>(sums[m][2 * n + 1], a[m], b[2], b[3]);
            }
        }
    }
}

// Sums [16, D] that `add_rows` makes. In bf16 a lane has of rows lane / 4 and 8 more, for each 8 columns, two neighbouring columns.
// In TF32 they are turned, because columns of f32 cannot be had as right factors: a lane has, for each 16 columns and then each 8
// rows, two neighbouring columns, from lane / 4 · 2 on, of two neighbouring rows, from lane % 4 · 2 on: column by column.

// sums [16·M, D] += weights [16·M, 16] · b [16, D] for rows b of a tile, from `first` on. The weights are sums as `add_dots`
// leaves them, from the 8 columns of `n` on.
template <typename T, int D, int M, int N>
__device__ inline void add_rows(float (&sums)[M][D / 8][4], const float (&weights)[M][N][4], int n, u32 tile, u32 first) {
    u32 lane = threadIdx.x % 32;
    if constexpr (sizeof(T) == 2) {
        u32 a[M][4], from = tile + first * D * sizeof(T) + chunk_at<T, D>(lane % 16, lane / 16);
#pragma unroll
        for (int m = 0; m < M; m++) {
            a[m][0] = pack(weights[m][n][0], weights[m][n][1]);
            a[m][1] = pack(weights[m][n][2], weights[m][n][3]);
            a[m][2] = pack(weights[m][n + 1][0], weights[m][n + 1][1]);
            a[m][3] = pack(weights[m][n + 1][2], weights[m][n + 1][3]);
        }
#pragma unroll
        for (int d = 0; d < D / 16; d++) {
            u32 b[4];
            fragments_turned(b, chunk_behind(from, 2 * d));
#pragma unroll
            for (int m = 0; m < M; m++) {
                multiply<T>(sums[m][2 * d], a[m], b[0], b[1]);
                multiply<T>(sums[m][2 * d + 1], a[m], b[2], b[3]);
            }
        }
    } else {
        // A lane has weights of two neighbouring rows of b, which the product takes as one of its first and one of its last four,
        // and reads two neighbouring columns of them, which it takes as one of its first and one of its last eight.
        u32 row = lane % 4 * 2;
#pragma unroll
        for (int eight = 0; eight < 2; eight++) {
            u32 from = tile + (first + eight * 8) * D * sizeof(T) + lane / 4 % 2 * 8;
            u32 even = from + chunk_at<T, D>(row, lane / 8), odd = from + chunk_at<T, D>(row + 1, lane / 8);
            u32 b[M][2][2];
#pragma unroll
            for (int m = 0; m < M; m++) {
#pragma unroll
                for (int i = 0; i < 4; i++) b[m][i / 2][i % 2] = to_tf32_quickly(weights[m][n + eight][i]);
            }
#pragma unroll
            for (int d = 0; d < D / 16; d++) {
                u32 a[4];
                read_half_chunk(a[0], a[1], chunk_behind(even, 4 * d));
                read_half_chunk(a[2], a[3], chunk_behind(odd, 4 * d));
#pragma unroll
                for (int m = 0; m < M; m++) {
#pragma unroll
                    for (int half = 0; half < 2; half++) multiply<T>(sums[m][2 * d + half], a, b[m][half][0], b[m][half][1]);
                }
            }
        }
    }
}

// Of a factor for each row that lanes have by lane / 4, those of this lane's two rows of turned sums.
__device__ inline float2 turned(float factor) {
    u32 lane = threadIdx.x % 4 * 8;
    return {__shfl_sync(~0u, factor, lane), __shfl_sync(~0u, factor, lane + 4)};
}

// Multiplies half of the rows of sums of `add_rows`.
template <typename T, int N> __device__ inline void scale_rows(float (&sums)[N][4], int half, float factor) {
    if constexpr (sizeof(T) == 2) {
#pragma unroll
        for (int n = 0; n < N; n++) {
            sums[n][2 * half] *= factor;
            sums[n][2 * half + 1] *= factor;
        }
    } else {
        float2 factors = turned(factor);
#pragma unroll
        for (int n = half; n < N; n += 2) {
#pragma unroll
            for (int i = 0; i < 4; i++) sums[n][i] *= i % 2 ? factors.y : factors.x;
        }
    }
}

// Writes 16 rows of sums of `add_rows`, each times the factor of its half, of which some are there, through memory [16, D] of the
// warp's own. What has the factor 0 is 0, even if it is no number.
template <typename T, int D>
__device__ inline void store(T *to, u64 step, u32 rows, u32 width, const float (&sums)[D / 8][4], const float (&factor)[2], u32 memory) {
    constexpr u32 EACH = 16 / sizeof(T), CHUNKS = D / EACH;
    u32 lane = threadIdx.x % 32;
    __syncwarp();
#pragma unroll
    for (int half = 0; half < 2; half++) {
        if constexpr (sizeof(T) == 2) {
#pragma unroll
            for (int n = 0; n < D / 8; n++) {
                u32 both = pack(sums[n][2 * half] * factor[half], sums[n][2 * half + 1] * factor[half]);
                u32 address = memory + chunk_at<T, D>(half * 8 + lane / 4, n) + lane % 4 * 4;
                asm volatile("st.shared.u32 [%0], %1;" :: "r"(address), "r"(factor[half] == 0 ? 0 : both) : "memory");
            }
        } else {
            float2 factors = turned(factor[half]);
#pragma unroll
            for (int i = 0; i < 2; i++) {
                u32 row = half * 8 + lane % 4 * 2 + i;
                float own = i ? factors.y : factors.x;
#pragma unroll
                for (int d = 0; d < D / 16; d++) {
                    float low = sums[2 * d + half][i] * own, high = sums[2 * d + half][i + 2] * own;
                    u32 address = memory + chunk_at<T, D>(row, 4 * d + lane / 8) + lane / 4 % 2 * 8;
                    write_half_chunk(address, own == 0 ? 0 : __float_as_uint(low), own == 0 ? 0 : __float_as_uint(high));
                }
            }
        }
    }
    __syncwarp();
#pragma unroll
    for (u32 n = 0; n < CHUNKS / 2; n++) {
        u32 row = (n * 32 + lane) / CHUNKS, chunk = (n * 32 + lane) % CHUNKS, bytes[4];
        read_chunk(bytes, memory + chunk_at<T, D>(row, chunk));
        if (row < rows && chunk * EACH < width) *(uint4 *)(to + row * step + chunk * EACH) = make_uint4(bytes[0], bytes[1], bytes[2], bytes[3]);
    }
}

// Scores of a row of a fragment become exponentials, in place: one tile of a softmax that goes on with others. `half` says which
// of the two rows that a lane has numbers of; its sum of exponentials, over this lane's alone, and its results so far shrink
// where a larger score comes. `scale` is that of powers of 2.
template <typename T, int S, int O>
__device__ inline void soften(float (&s)[S][4], int half, float scale, float &largest, float &total, float (&out)[O][4]) {
    float most = -INFINITY;
#pragma unroll
    for (int n = 0; n < S; n++) most = fmaxf(most, fmaxf(s[n][2 * half], s[n][2 * half + 1]));
    most = fmaxf(largest, largest_of_lanes(most, 4));
    // Where nothing has been seen yet, any number does.
    float base = most == -INFINITY ? 0 : most * scale;
    float shrink = quick_exp2(largest * scale - base), sum = 0;
    largest = most;
#pragma unroll
    for (int n = 0; n < S; n++) {
#pragma unroll
        for (int i = 2 * half; i < 2 * half + 2; i++) {
            s[n][i] = quick_exp2(fmaf(s[n][i], scale, -base));
            sum += s[n][i];
        }
    }
    // Lanes are summed at the end.
    total = total * shrink + sum;
    scale_rows<T>(out, half, shrink);
}
