// ---- AdamW over all parameters ------------------------------------------------------------------------------------

namespace optimizer {
struct Adam {
    float *parameters, *gradients, *first, *second;
    bf16 *copies;           // of the parameters, or null
    const u32 *decays;      // a bit for each parameter
    const double *squares;  // [parts]
    Scalars *scalars;
    const float *loss;
    double *norm;           // where the norm of all gradients goes
    u64 fours;              // parameters / 4
    u32 parts;
    float old1, old2, new1, new2;  // β₁, β₂ and what is left of 1
    float epsilon;
};

__device__ inline double sum_of_doubles(double x, double *parts) {
    for (int other = 16; other > 0; other /= 2) x += __shfl_xor_sync(~0u, x, other);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
    __syncthreads();
    x = 0;
    for (u32 i = 0; i < blockDim.x / 32; i++) x += parts[i];
    return x;
}

__device__ void adam(const Adam &work) {
    __shared__ double shared[32];
    double squares = 0;
    for (u32 i = threadIdx.x; i < work.parts; i += blockDim.x) squares += work.squares[i];
    double norm = sqrt(sum_of_doubles(squares, shared));
    Scalars given = *work.scalars;
    bool is_taken = isfinite(norm) && isfinite(*work.loss);
    if (blockIdx.x == 0 && threadIdx.x == 0) *work.norm = norm;
    if (!is_taken) return;
    double limit = given.clip > 0 ? given.clip / (norm + 1e-6) : 1;
    float clip = (float)(limit < 1 ? limit : 1);
    float rate = (float)given.rate, root = (float)given.root, decay = (float)given.decay;
    for (u64 four = (u64)blockIdx.x * blockDim.x + threadIdx.x; four < work.fours; four += (u64)gridDim.x * blockDim.x) {
        float4 p4 = ((float4 *)work.parameters)[four], g4 = ((float4 *)work.gradients)[four];
        float4 m4 = ((float4 *)work.first)[four], v4 = ((float4 *)work.second)[four];
        float *p = (float *)&p4, *g = (float *)&g4, *m = (float *)&m4, *v = (float *)&v4;
        u32 bits = work.decays[four / 8] >> (four % 8 * 4);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float slope = g[i] * clip;
            m[i] = work.old1 * m[i] + work.new1 * slope;
            v[i] = work.old2 * v[i] + work.new2 * slope * slope;
            if (bits >> i & 1) p[i] -= decay * p[i];
            p[i] -= rate * m[i] / (sqrtf(v[i]) / root + work.epsilon);
        }
        ((float4 *)work.parameters)[four] = p4;
        ((float4 *)work.first)[four] = m4;
        ((float4 *)work.second)[four] = v4;
        if (work.copies) ((uint2 *)work.copies)[four] = {pack(p[0], p[1]), pack(p[2], p[3])};
    }
}
}  // namespace optimizer

// squares [blocks] = the sums of the squares of gradients
extern "C" __global__ void __launch_bounds__(256) gradient_squares(const float *gradients, double *squares, u64 fours) {
    __shared__ double shared[32];
    double sum = 0;
    for (u64 four = (u64)blockIdx.x * 256 + threadIdx.x; four < fours; four += (u64)gridDim.x * 256) {
        float4 x = ((const float4 *)gradients)[four];
        sum += (double)x.x * x.x + (double)x.y * x.y + (double)x.z * x.z + (double)x.w * x.w;
    }
    sum = optimizer::sum_of_doubles(sum, shared);
    if (threadIdx.x == 0) squares[blockIdx.x] = sum;
}

extern "C" __global__ void __launch_bounds__(256) adam(const __grid_constant__ optimizer::Adam work) {
    optimizer::adam(work);
}

// copies = parameters, rounded
extern "C" __global__ void shorten(const float *parameters, bf16 *copies, u64 fours) {
    u64 four = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (four >= fours) return;
    float4 x = ((const float4 *)parameters)[four];
    ((uint2 *)copies)[four] = {pack(x.x, x.y), pack(x.z, x.w)};
}
