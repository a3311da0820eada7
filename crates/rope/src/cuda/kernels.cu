// The rotation on a GPU, with the arithmetic of the processor's loops: products rounded before they are added, 16-bit
// numbers rotated in f32 and rounded once. No header is included, so that NVRTC compiles this file alone.
//
// A thread takes one chunk of pairs (`lane`) of one token: 16 bytes of each half of a head, or 16 bytes of each of a few
// neighbouring heads. A block is lanes × groups of heads × tokens. It is small and does little before it loads, because
// that is what the memory likes: few bytes under way at a time, in the order of addresses.
// `make-ptx` compiles this file, `launch.rs` fills `Work`: keep both in step.

typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;
typedef long long i64;

enum Order { INTERLEAVED, HALF };
enum Positions { COUNTED, IDS_I32, IDS_I64, IDS_U32, ENDS_I32, ENDS_I64, ENDS_U32 };

// Queries or keys. Strides are in bytes: batch, length, heads.
struct Side {
    const void *source;
    void *target;
    i64 from[3];
    i64 to[3];
    u32 heads;
    u32 groups;          // of heads: what one thread takes
};

struct Work {
    Side sides[2];       // q and k
    const float *cos;    // [rows, pairs], rows `stride` apart
    const float *sin;    // the same
    const void *ids;     // position ids, or where packed sequences end
    i64 count;           // how many ends there are
    i64 start;           // what is added to a position to find its row
    u32 rows;            // of the table
    u32 stride;
    u32 batch;
    u32 length;
    u32 positions;       // one of Positions
    u32 by_batch;        // whether the tokens of all sequences are counted through
    u32 pairs;
    u32 offset;          // the first rotary feature, in bytes
    u32 lanes;           // chunks of pairs of a head
    u32 copies;          // chunks of features that are copied
    u32 blocks;          // that are counted first: of groups of heads, or of tokens where `heads_apart`
    u32 reciprocal;      // 2^32 / blocks, rounded up
    u32 heads_apart;     // whether tokens, not heads, are side by side in memory
    u32 conjugate;
};

// ---- Numbers ----------------------------------------------------------------------------------------------------

struct F32 {
    static constexpr int SIZE = 4;
    static __device__ float widen(u32 bits) { return __uint_as_float(bits); }
    static __device__ u32 narrow(float x) { return __float_as_uint(x); }
};

struct F16 {
    static constexpr int SIZE = 2;
    static __device__ float widen(u32 bits) {
        float x;
        asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"((u16)bits));
        return x;
    }
    static __device__ u32 narrow(float x) {
        u16 bits;
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
        return bits;
    }
    static __device__ u32 narrow(float low, float high) {
        u32 bits;
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
        return bits;
    }
};

struct BF16 {
    static constexpr int SIZE = 2;
    static __device__ float widen(u32 bits) { return __uint_as_float(bits << 16); }
    static __device__ u32 narrow(float x) {
        u16 bits;
        asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
        return bits;
    }
    static __device__ u32 narrow(float low, float high) {
        u32 bits;
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
        return bits;
    }
};

// ---- Memory -----------------------------------------------------------------------------------------------------

// Volatile, so that loads are issued where they are written: all before the first is used.
template <int BYTES> struct Words;
template <> struct Words<16> {
    u32 w[4];
    __device__ void load(const void *p) {
        asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3]) : "l"(p) : "memory");
    }
    __device__ void store(void *p) const {
        asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};"
                     :: "l"(p), "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]) : "memory");
    }
};
template <> struct Words<8> {
    u32 w[2];
    __device__ void load(const void *p) {
        asm volatile("ld.global.v2.u32 {%0, %1}, [%2];" : "=r"(w[0]), "=r"(w[1]) : "l"(p) : "memory");
    }
    __device__ void store(void *p) const {
        asm volatile("st.global.v2.u32 [%0], {%1, %2};" :: "l"(p), "r"(w[0]), "r"(w[1]) : "memory");
    }
};
template <> struct Words<4> {
    u32 w[1];
    __device__ void load(const void *p) { w[0] = *(const volatile u32 *)p; }
    __device__ void store(void *p) const { *(volatile u32 *)p = w[0]; }
};
template <> struct Words<2> {
    u32 w[1];
    __device__ void load(const void *p) { w[0] = *(const volatile u16 *)p; }
    __device__ void store(void *p) const { *(volatile u16 *)p = (u16)w[0]; }
};

// N neighbouring elements of a type, as they lie in memory.
template <class T, int N> struct Chunk : Words<N * T::SIZE> {
    __device__ float get(int i) const {
        if (T::SIZE == 4) return T::widen(this->w[i]);
        u32 word = this->w[i / 2];
        return T::widen(i % 2 ? word >> 16 : word & 0xffff);
    }
    __device__ void set(const float (&x)[N]) {
        if constexpr (T::SIZE == 4 || N == 1) {
#pragma unroll
            for (int i = 0; i < N; i++) this->w[i] = T::narrow(x[i]);
        } else {
#pragma unroll
            for (int i = 0; i < N / 2; i++) this->w[i] = T::narrow(x[2 * i], x[2 * i + 1]);
        }
    }
};

// The first and the second features of V neighbouring pairs, in either order, with or without wide accesses.
template <class T, Order ORDER, int V, bool WIDE> struct Pairs {
    Chunk<T, V> a, b;
    __device__ void load(const char *head, u32 pair, u32 pairs) {
        a.load(head + (u64)pair * T::SIZE);
        b.load(head + ((u64)pair + pairs) * T::SIZE);
    }
    __device__ void store(char *head, u32 pair, u32 pairs) const {
        a.store(head + (u64)pair * T::SIZE);
        b.store(head + ((u64)pair + pairs) * T::SIZE);
    }
    __device__ float first(int i) const { return a.get(i); }
    __device__ float second(int i) const { return b.get(i); }
    __device__ void set(const float (&x)[V], const float (&y)[V]) { a.set(x), b.set(y); }
};
template <class T, int V> struct Pairs<T, INTERLEAVED, V, true> {
    Chunk<T, 2 * V> both;
    __device__ void load(const char *head, u32 pair, u32) { both.load(head + (u64)pair * 2 * T::SIZE); }
    __device__ void store(char *head, u32 pair, u32) const { both.store(head + (u64)pair * 2 * T::SIZE); }
    __device__ float first(int i) const { return both.get(2 * i); }
    __device__ float second(int i) const { return both.get(2 * i + 1); }
    __device__ void set(const float (&x)[V], const float (&y)[V]) {
        float all[2 * V];
#pragma unroll
        for (int i = 0; i < V; i++) all[2 * i] = x[i], all[2 * i + 1] = y[i];
        both.set(all);
    }
};
template <class T> struct Pairs<T, INTERLEAVED, 1, false> {
    Chunk<T, 1> a, b;
    __device__ void load(const char *head, u32 pair, u32) {
        a.load(head + (u64)pair * 2 * T::SIZE);
        b.load(head + ((u64)pair * 2 + 1) * T::SIZE);
    }
    __device__ void store(char *head, u32 pair, u32) const {
        a.store(head + (u64)pair * 2 * T::SIZE);
        b.store(head + ((u64)pair * 2 + 1) * T::SIZE);
    }
    __device__ float first(int) const { return a.get(0); }
    __device__ float second(int) const { return b.get(0); }
    __device__ void set(const float (&x)[1], const float (&y)[1]) { a.set(x), b.set(y); }
};

// ---- Positions --------------------------------------------------------------------------------------------------

const u32 NO_ROW = 0xffffffff;

__device__ i64 id(const Work &work, u32 type, u64 index) {
    if (type == IDS_I64) return __ldg((const i64 *)work.ids + index);
    u32 word = __ldg((const u32 *)work.ids + index);
    return type == IDS_I32 ? (i64)(i32)word : (i64)word;
}

// The row of the table that a token takes, or NO_ROW.
__device__ u32 row_of(const Work &work, u32 batch, u32 token) {
    u64 index = work.by_batch ? (u64)batch * work.length + token : token;
    // The processor has checked that these rows are there.
    if (work.positions == COUNTED) return (u32)index + (u32)work.start;
    i64 position;
    if (work.positions < ENDS_I32) {
        position = id(work, work.positions, index);
    } else {
        // How many of the packed sequences end at or before this token, and where the last of them does.
        u32 type = work.positions - ENDS_I32 + IDS_I32;
        i64 low = 0, high = work.count, begin = 0;
        while (low < high) {
            i64 middle = (low + high) / 2, end = id(work, type, middle);
            if (end <= token) low = middle + 1, begin = end;
            else high = middle;
        }
        if (low == work.count) return NO_ROW;
        position = token - begin;
    }
    // As unsigned numbers, so that no sum overflows: one comparison finds both sides.
    u64 row = (u64)position + (u64)work.start;
    return row < work.rows ? (u32)row : NO_ROW;
}

// Table rows serve every sequence of a batch, with all of its data in between: they stay in the cache the longest.
template <int N> __device__ void load_table(const float *p, float *x, u64 policy) {
    if constexpr (N == 4) {
        asm("ld.global.nc.L2::cache_hint.v4.f32 {%0, %1, %2, %3}, [%4], %5;"
            : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3]) : "l"(p), "l"(policy));
    } else if constexpr (N == 2) {
        asm("ld.global.nc.L2::cache_hint.v2.f32 {%0, %1}, [%2], %3;" : "=f"(x[0]), "=f"(x[1]) : "l"(p), "l"(policy));
    } else {
        asm("ld.global.nc.L2::cache_hint.f32 %0, [%1], %2;" : "=f"(x[0]) : "l"(p), "l"(policy));
    }
}

// The cosines and sines of V pairs of a token; NaN where the table has no row.
template <int V> struct Trig {
    float c[V], s[V];
    __device__ void load(const Work &work, u32 row, u32 pair) {
        if (row == NO_ROW) {
#pragma unroll
            for (int i = 0; i < V; i++) c[i] = s[i] = __uint_as_float(0x7fffffff);
            return;
        }
        u64 at = (u64)row * work.stride + pair;
        const float *cos = work.cos + at, *sin = work.sin + at;
        constexpr int N = V < 4 ? V : 4;
        u64 policy;
        asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
#pragma unroll
        for (int i = 0; i < V; i += N) {
            load_table<N>(cos + i, c + i, policy);
            load_table<N>(sin + i, s + i, policy);
        }
        if (work.conjugate) {
#pragma unroll
            for (int i = 0; i < V; i++) s[i] = -s[i];
        }
    }
    // (p·c − q·s, q·c + p·s), each product rounded.
    __device__ void turn(int i, float p, float q, float &x, float &y) const {
        x = __fsub_rn(__fmul_rn(p, c[i]), __fmul_rn(q, s[i]));
        y = __fadd_rn(__fmul_rn(q, c[i]), __fmul_rn(p, s[i]));
    }
};

// ---- Rotation ---------------------------------------------------------------------------------------------------

template <class T, Order FROM, Order TO, bool WIDE, bool IN_PLACE> __device__ void rotate(const Work &work) {
    constexpr bool HALVES = FROM == HALF && TO == HALF;
    constexpr int V = !WIDE ? 1 : HALVES ? 16 / T::SIZE : 8 / T::SIZE;
    // Heads of a thread; `launch.rs` has the same numbers.
    constexpr int HEADS = WIDE && !HALVES ? 8 / T::SIZE : 1;
    constexpr int COPY = WIDE ? 16 / T::SIZE : 1;

    // A division by `blocks`: the product is right or one too many.
    u32 slow = blockIdx.x;
    if (work.blocks > 1) {
        slow = __umulhi(blockIdx.x, work.reciprocal);
        if (slow * work.blocks > blockIdx.x) slow--;
    }
    u32 fast = blockIdx.x - slow * work.blocks;
    u32 groups = fast, tokens = slow, batch = blockIdx.z * gridDim.y + blockIdx.y;
    if (work.heads_apart) groups = slow, tokens = blockIdx.z * work.blocks + fast, batch = blockIdx.y;
    u32 group = groups * blockDim.y + threadIdx.y;
    u32 token = tokens * blockDim.z + threadIdx.z;
    bool key = group >= work.sides[0].groups;
    const Side &side = work.sides[key];
    u32 head = (key ? group - work.sides[0].groups : group) * HEADS;
    if (head >= side.heads || token >= work.length || batch >= work.batch) return;

    i64 from_step = side.from[2], to_step = IN_PLACE ? from_step : side.to[2];
    const char *source = (const char *)side.source + batch * side.from[0] + token * side.from[1] + head * from_step;
    char *target = IN_PLACE ? (char *)source
                            : (char *)side.target + batch * side.to[0] + token * side.to[1] + head * to_step;

    for (u32 lane = threadIdx.x; lane < work.lanes + (IN_PLACE ? 0 : work.copies); lane += blockDim.x) {
        if (IN_PLACE || lane < work.lanes) {
            u32 pair = lane * V;
            Pairs<T, FROM, V, WIDE> x[HEADS];
#pragma unroll
            for (int h = 0; h < HEADS; h++) {
                if (h == 0 || head + h < side.heads) {
                    x[h].load(source + work.offset + h * from_step, pair, work.pairs);
                }
            }
            Trig<V> trig;
            trig.load(work, row_of(work, batch, token), pair);
            // In place into another order, a vector is written where other lanes read it. They are in this warp.
            if (FROM != TO && IN_PLACE) {
                u32 thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
                __syncwarp((0xffffffff >> (32 - work.lanes)) << thread % 32 / work.lanes * work.lanes);
            }
#pragma unroll
            for (int h = 0; h < HEADS; h++) {
                if (h == 0 || head + h < side.heads) {
                    float first[V], second[V];
#pragma unroll
                    for (int i = 0; i < V; i++) {
                        trig.turn(i, x[h].first(i), x[h].second(i), first[i], second[i]);
                    }
                    Pairs<T, TO, V, WIDE> y;
                    y.set(first, second);
                    y.store(target + work.offset + h * to_step, pair, work.pairs);
                }
            }
        } else {
            // Features that do not turn, where the result goes elsewhere.
            u64 feature = (u64)(lane - work.lanes) * COPY * T::SIZE;
            if (feature >= work.offset) feature += (u64)2 * work.pairs * T::SIZE;
            for (u32 h = 0; h < HEADS && head + h < side.heads; h++) {
                Chunk<T, COPY> x;
                x.load(source + h * from_step + feature);
                x.store(target + h * to_step + feature);
            }
        }
        if (WIDE) break;
    }
}

// In place into another order, for heads that do not fit a warp's lanes: a warp a vector, through shared memory.
template <class T, Order FROM, Order TO> __device__ void reorder(const Work &work) {
    extern __shared__ float shared[];
    float *vector = shared + (u64)threadIdx.y * 2 * work.pairs;
    u64 heads = work.sides[0].heads + work.sides[1].heads;
    u64 vectors = (u64)work.batch * work.length * heads, step = (u64)gridDim.x * blockDim.y;
    for (u64 at = (u64)blockIdx.x * blockDim.y + threadIdx.y; at < vectors; at += step) {
        u64 tokens = at / heads, head = at - tokens * heads;
        u32 batch = tokens / work.length, token = tokens - (u64)batch * work.length;
        bool key = head >= work.sides[0].heads;
        const Side &side = work.sides[key];
        if (key) head -= work.sides[0].heads;
        char *x = (char *)side.target + batch * side.to[0] + token * side.to[1] + head * side.to[2] + work.offset;
        u32 row = row_of(work, batch, token);
        for (u32 pair = threadIdx.x; pair < work.pairs; pair += 32) {
            Pairs<T, FROM, 1, false> in;
            in.load(x, pair, work.pairs);
            Trig<1> trig;
            trig.load(work, row, pair);
            trig.turn(0, in.first(0), in.second(0), vector[2 * pair], vector[2 * pair + 1]);
        }
        __syncwarp();
        for (u32 pair = threadIdx.x; pair < work.pairs; pair += 32) {
            float first[1] = {vector[2 * pair]}, second[1] = {vector[2 * pair + 1]};
            Pairs<T, TO, 1, false> out;
            out.set(first, second);
            out.store(x, pair, work.pairs);
        }
        __syncwarp();
    }
}

// ---- The gradient of frequencies ----------------------------------------------------------------------------------

// Adds m·(y₀·dy₁ − y₁·dy₀) over a slice of the tokens to sums[slice, pair]: y are the queries, dy the keys.
template <class T, Order ORDER> __device__ void gradient(const Work &work, double *sums, i64 first) {
    u32 pair = blockIdx.y * blockDim.x + threadIdx.x;
    if (pair >= work.pairs) return;
    const Side &y = work.sides[0], &dy = work.sides[1];
    double sum = 0;
    u64 tokens = (u64)work.batch * work.length, each = (tokens + gridDim.x - 1) / gridDim.x;
    u64 begin = blockIdx.x * each, end = begin + each < tokens ? begin + each : tokens;
    for (u64 at = begin; at < end; at++) {
        u32 batch = at / work.length, token = at - (u64)batch * work.length;
        u32 row = row_of(work, batch, token);
        double m = row == NO_ROW ? __longlong_as_double(0x7fffffffffffffff) : (double)(first + row);
        const char *a = (const char *)y.source + batch * y.from[0] + token * y.from[1] + work.offset;
        const char *b = (const char *)dy.source + batch * dy.from[0] + token * dy.from[1] + work.offset;
        for (u32 head = 0; head < y.heads; head++) {
            Pairs<T, ORDER, 1, false> p, q;
            p.load(a + head * y.from[2], pair, work.pairs);
            q.load(b + head * dy.from[2], pair, work.pairs);
            double turned = __dsub_rn(__dmul_rn((double)p.first(0), (double)q.second(0)),
                                      __dmul_rn((double)p.second(0), (double)q.first(0)));
            sum = __dadd_rn(sum, __dmul_rn(m, turned));
        }
    }
    sums[(u64)blockIdx.x * work.pairs + pair] = sum;
}

// Adds the sums of all slices, in order.
extern "C" __global__ void gradient_total(const double *sums, double *total, u32 slices, u32 pairs) {
    u32 pair = blockIdx.x * blockDim.x + threadIdx.x;
    if (pair >= pairs) return;
    double sum = 0;
    for (u32 slice = 0; slice < slices; slice++) sum = __dadd_rn(sum, sums[(u64)slice * pairs + pair]);
    total[pair] = __dadd_rn(total[pair], sum);
}

// ---- Names --------------------------------------------------------------------------------------------------------

#define ROTATE(name, T, FROM, TO, WIDE, IN_PLACE)                                                                     \
    extern "C" __global__ void __launch_bounds__(320, FROM == HALF && TO == HALF ? 4 : 1)                             \
        name(const __grid_constant__ Work work) { rotate<T, FROM, TO, WIDE, IN_PLACE>(work); }
#define BOTH(name, T, FROM, TO)                                                                                       \
    ROTATE(name, T, FROM, TO, false, false)                                                                           \
    ROTATE(name##_in_place, T, FROM, TO, false, true)                                                                 \
    ROTATE(name##_wide, T, FROM, TO, true, false)                                                                     \
    ROTATE(name##_wide_in_place, T, FROM, TO, true, true)
#define REORDER(name, T, FROM, TO)                                                                                    \
    extern "C" __global__ void __launch_bounds__(256)                                                                 \
        name(const __grid_constant__ Work work) { reorder<T, FROM, TO>(work); }
#define GRADIENT(name, T, ORDER)                                                                                      \
    extern "C" __global__ void __launch_bounds__(256)                                                                 \
        name(const __grid_constant__ Work work, double *sums, i64 first) { gradient<T, ORDER>(work, sums, first); }
#define ALL(type, T)                                                                                                  \
    BOTH(type##_half_half, T, HALF, HALF)                                                                             \
    BOTH(type##_half_interleaved, T, HALF, INTERLEAVED)                                                               \
    BOTH(type##_interleaved_half, T, INTERLEAVED, HALF)                                                               \
    BOTH(type##_interleaved_interleaved, T, INTERLEAVED, INTERLEAVED)                                                 \
    REORDER(type##_half_interleaved_reorder, T, HALF, INTERLEAVED)                                                    \
    REORDER(type##_interleaved_half_reorder, T, INTERLEAVED, HALF)                                                    \
    GRADIENT(type##_half_gradient, T, HALF)                                                                           \
    GRADIENT(type##_interleaved_gradient, T, INTERLEAVED)
ALL(f32, F32)
ALL(f16, F16)
ALL(bf16, BF16)
