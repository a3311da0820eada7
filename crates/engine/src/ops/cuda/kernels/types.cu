// The kernels of a model's operations. Numbers are stored as f32 or bf16 and computed in f32. No header is included, so
// that NVRTC compiles the files of this folder, one after the other, as they are; `make-ptx` has their order.
// The structs of arguments are those of arguments.rs: keep both in step.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

// ---- Numbers ------------------------------------------------------------------------------------------------------

struct bf16 {
    u16 bits;
};

__device__ inline float widen(float x) { return x; }
__device__ inline float widen(bf16 x) { return __uint_as_float((u32)x.bits << 16); }

__device__ inline void narrow(float x, float &out) { out = x; }
__device__ inline void narrow(float x, bf16 &out) { asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(out.bits) : "f"(x)); }

// Two numbers in a register, the first in the low half.
__device__ inline u32 pack(float low, float high) {
    u32 bits;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
}

// 16 bytes of numbers, read and written at once.
template <typename T> struct __align__(16) Wide {
    static constexpr int COUNT = 16 / sizeof(T);
    T x[COUNT];
};

// 2^x and 1/x to some 22 bits: enough for what is rounded to bf16.
__device__ inline float quick_exp2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
__device__ inline float quick_reciprocal(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

#define INFINITY __int_as_float(0x7f800000)
constexpr float LOG2_E = 1.4426950408889634f;

// e^x and 1/x, exact to the last place or so where T is f32.
template <typename T> __device__ inline float exponential(float x) {
    return sizeof(T) == 4 ? expf(x) : quick_exp2(x * LOG2_E);
}
template <typename T> __device__ inline float reciprocal(float x) {
    return sizeof(T) == 4 ? __frcp_rn(x) : quick_reciprocal(x);
}

// Of the normal distribution, for x ≥ 0: the upper tail ½·erfc(x/√2) and e^(−x²/2), as ops/real.rs has it.
template <typename T> __device__ inline float tail(float x, float &density) {
    float z = x * 0.70710678118654752f;
    float t = reciprocal<T>(fmaf(z, 0.4f, 1.0f));
    float sum = 0.07435536f;
    sum = fmaf(t, sum, -0.39026183f);
    sum = fmaf(t, sum, 0.6639745f);
    sum = fmaf(t, sum, -0.33482835f);
    sum = fmaf(t, sum, 0.3693367f);
    sum = fmaf(t, sum, 0.16179177f);
    sum = fmaf(t, sum, 0.22987866f);
    sum = fmaf(t, sum, 0.22575317f);
    density = exponential<T>(-z * z);
    return 0.5f * t * sum * density;
}

// The sum, or the largest, of the numbers of all lanes, or of neighbouring groups of lanes.
__device__ inline float sum_of_lanes(float x, int lanes = 32) {
    for (int other = lanes / 2; other > 0; other /= 2) x += __shfl_xor_sync(~0u, x, other);
    return x;
}
__device__ inline float largest_of_lanes(float x, int lanes) {
    for (int other = lanes / 2; other > 0; other /= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, other));
    return x;
}

// The sum over a block of up to 1024 threads; `parts` holds 32 numbers.
__device__ inline float sum_of_block(float x, float *parts) {
    x = sum_of_lanes(x);
    __syncthreads();
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
    __syncthreads();
    return sum_of_lanes(threadIdx.x % 32 < blockDim.x / 32 ? parts[threadIdx.x % 32] : 0);
}
