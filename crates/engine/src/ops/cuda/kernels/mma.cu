// ---- Tensor cores --------------------------------------------------------------------------------------------------
//
// Tiles of rows of bf16 in shared memory, and fragments of them. The chunks of 16 bytes of a tile are permuted so that
// neither copies nor fragments meet in a bank.

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

// sum [16, 8] += a [16, 16] · b [16, 8]
__device__ inline void multiply(float (&sum)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// The bytes from the start of a tile of rows of D numbers to a chunk of 8 of them.
template <int D> __device__ inline u32 chunk_at(u32 row, u32 chunk) {
    constexpr u32 CHUNKS = D / 8;
    u32 turn = CHUNKS >= 8 ? row % 8 : row / 2 % 4;
    return (row * CHUNKS + (chunk ^ turn)) * 16;
}

// Begins to copy 16 bytes into shared memory, or zeros.
__device__ inline void copy_chunk(u32 to, const void *from, bool is_there) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(to), "l"(from), "r"(is_there ? 16 : 0) : "memory");
}

__device__ inline void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int LEFT> __device__ inline void wait() { asm volatile("cp.async.wait_group %0;" :: "n"(LEFT) : "memory"); }

// Begins to copy rows into shared memory, by 128 threads, with zeros beyond what is there.
template <int D, int ROWS>
__device__ inline void begin(u32 to, const bf16 *from, u64 step, u32 rows, u32 width) {
    constexpr u32 CHUNKS = D / 8;
#pragma unroll
    for (u32 i = threadIdx.x; i < ROWS * CHUNKS; i += 128) {
        u32 row = i / CHUNKS, chunk = i % CHUNKS;
        bool is_there = row < rows && chunk * 8 < width;
        const bf16 *source = is_there ? from + row * step + chunk * 8 : from;
        copy_chunk(to + chunk_at<D>(row, chunk), source, is_there);
    }
}

// Scores of a row of a fragment become exponentials, in place: one tile of a softmax that goes on with others. `half` says which
// of the two rows that a lane has numbers of; its sum of exponentials, over this lane's alone, and its results so far shrink
// where a larger score comes. `scale` is that of powers of 2.
template <int S, int O>
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
#pragma unroll
    for (int n = 0; n < O; n++) {
        out[n][2 * half] *= shrink;
        out[n][2 * half + 1] *= shrink;
    }
}
