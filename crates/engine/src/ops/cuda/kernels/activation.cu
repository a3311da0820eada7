// ---- Activations, with their slopes: those of models and of training ----------------------------------------------

enum Activation { IDENTITY, GELU, GELU_TANH, RELU, SILU, TANH };

// A value and its slope. What is not used is not computed.
struct Activated {
    float y, slope;
};

template <typename T> __device__ inline float sigmoid(float x) { return reciprocal<T>(1 + exponential<T>(-x)); }

template <typename T, int KIND> __device__ inline Activated activate(float x) {
    if (KIND == GELU) {
        float density, below = tail<T>(fabsf(x), density), part = x > 0 ? 1 - below : below;
        return {x * part, part + x * 0.3989422804014327f * density};
    }
    if (KIND == GELU_TANH) {
        // ½·x·(1 + tanh u) = x·s with s = 1/(1 + e^(−2u)); its slope is s + x·2u′·s·(1 − s).
        float u = 0.7978845608028654f * (x + 0.044715f * x * x * x);
        float s = sigmoid<T>(2 * u), du = 0.7978845608028654f * (1 + 3 * 0.044715f * x * x);
        return {x * s, s + x * 2 * du * s * (1 - s)};
    }
    if (KIND == RELU) return {x > 0 ? x : (x != x ? x : 0), x > 0 ? 1.0f : 0.0f};
    if (KIND == SILU) {
        float s = sigmoid<T>(x);
        return {x * s, s + x * s * (1 - s)};
    }
    if (KIND == TANH) {
        float y = tanhf(x);
        return {y, 1 - y * y};
    }
    return {x, 1};
}
