"""The model configurations that `rope.py` evaluates.

Each entry of `FREQUENCY_CASES` is a `Case`: a configuration in the shape in
which it is found in a published `config.json` (trimmed to the fields that
matter for position embeddings), the layer types to ask for and the sequence
lengths to ask for. The `llama-*` sweeps at the end are made up; so are all
LongRoPE factor lists, which only have the shape of the published ones.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    name: str
    config: dict
    layers: tuple = (None,)
    seq_lens: tuple = (None,)


LOCAL_GLOBAL = ("sliding_attention", "full_attention")


def longrope_factors(n, scale):
    """`n` factors that grow smoothly from 1 to about `scale`, at two decimals."""
    return [round(1 + (scale - 1) * (i / (n - 1)) ** 1.7 + 0.01 * (i % 3), 2) for i in range(n)]


def model(model_type, hidden, heads, max_pos, kv=None, **fields):
    """A configuration with the fields that nearly every file has."""
    base = {
        "model_type": model_type,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_hidden_layers": 4,
        "max_position_embeddings": max_pos,
    }
    if kv is not None:
        base["num_key_value_heads"] = kv
    return base | fields


def llama(head_dim=128, max_pos=8192, heads=8, **fields):
    return model("llama", heads * head_dim, heads, max_pos, kv=heads, **fields)


def rope_v4(kind, key="rope_type", **fields):
    return {key: kind} | fields


LLAMA31 = rope_v4(
    "llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192
)
LLAMA32 = LLAMA31 | {"factor": 32.0}
QWEN_YARN = rope_v4("yarn", "type", factor=4.0, original_max_position_embeddings=32768)
DEEPSEEK_V2_YARN = {
    "beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 0.707, "mscale_all_dim": 0.707,
    "original_max_position_embeddings": 4096, "type": "yarn",
}  # fmt: skip
DEEPSEEK_V3_YARN = DEEPSEEK_V2_YARN | {"mscale": 1.0, "mscale_all_dim": 1.0}
GPT_OSS_YARN = {
    "beta_fast": 32.0, "beta_slow": 1.0, "factor": 32.0, "original_max_position_embeddings": 4096,
    "rope_type": "yarn", "truncate": False,
}  # fmt: skip
OLMO3_YARN = {
    "attention_factor": 1.2079441541679836, "beta_fast": 32.0, "beta_slow": 1.0, "factor": 8.0,
    "original_max_position_embeddings": 8192, "rope_type": "yarn",
}  # fmt: skip
MINISTRAL3_YARN = {
    "beta_fast": 32.0, "beta_slow": 1.0, "factor": 16.0, "llama_4_scaling_beta": 0.1, "mscale": 1.0,
    "mscale_all_dim": 1.0, "original_max_position_embeddings": 16384, "rope_theta": 1000000.0,
    "rope_type": "yarn", "type": "yarn",
}  # fmt: skip
GEMMA3_V4 = {
    "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0, "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
}  # fmt: skip
GEMMA3_V5 = {
    "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"},
    "full_attention": {"factor": 8.0, "rope_theta": 1000000.0, "rope_type": "linear"},
}
GEMMA4_ROPE = {
    "full_attention": {"partial_rotary_factor": 0.25, "rope_theta": 1000000.0, "rope_type": "proportional"},
    "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"},
}
MROPE_V4 = {"type": "mrope", "mrope_section": [16, 24, 24]}
MROPE_V5 = {"mrope_section": [16, 24, 24], "rope_theta": 1000000.0, "rope_type": "default", "type": "default"}
QWEN3_VL = {"mrope_interleaved": True, "mrope_section": [24, 20, 20], "rope_type": "default"}


def phi3(n, hidden, heads, max_pos=131072, kind="longrope", key="type", scaling=(), **fields):
    """A Phi-3 style file with `n` LongRoPE factors; 4096 is the length of its first training."""
    rope = {"short_factor": longrope_factors(n, 2.5), "long_factor": longrope_factors(n, 64.0), key: kind}
    top = {"original_max_position_embeddings": 4096, "rope_theta": 10000.0, "rope_scaling": rope | dict(scaling)}
    return model("phi3", hidden, heads, max_pos, kv=heads) | top | fields


def gemma3(hidden, heads, kv, max_pos=131072, head_dim=256, **fields):
    return model("gemma3_text", hidden, heads, max_pos, kv=kv, head_dim=head_dim, num_hidden_layers=12) | fields


def gemma4(**fields):
    text = model("gemma4_text", 1536, 8, 131072, kv=1, head_dim=256, global_head_dim=512, num_hidden_layers=6)
    return text | {"layer_types": ["sliding_attention"] * 5 + ["full_attention"]} | fields


def deepseek(version, hidden, heads, **fields):
    head = {"qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "kv_lora_rank": 512}
    return model(f"deepseek_v{version}", hidden, heads, 163840, kv=heads, q_lora_rank=1536) | head | fields


def wrapped(model_type, text, **fields):
    """A multimodal file that holds its language model's fields under `text_config`."""
    return {"model_type": model_type, "text_config": text} | fields


LONG = (None, 4095, 4096, 4097)

PUBLISHED = [
    # Llama
    Case("llama-1-7b", model("llama", 4096, 32, 2048)),
    Case("llama-2-7b", model("llama", 4096, 32, 4096, kv=32, rope_scaling=None)),
    Case("llama-2-70b", model("llama", 8192, 64, 4096, kv=8, rope_theta=10000.0, rope_scaling=None)),
    Case("codellama-34b", model("llama", 8192, 64, 16384, kv=8, rope_theta=1000000, rope_scaling=None)),
    Case("tinyllama-1.1b", model("llama", 2048, 32, 2048, kv=4, rope_theta=10000.0)),
    Case("llama-3-8b", model("llama", 4096, 32, 8192, kv=8, rope_theta=500000.0, rope_scaling=None)),
    Case("llama-3.1-8b", model("llama", 4096, 32, 131072, kv=8, rope_theta=500000.0, rope_scaling=LLAMA31)),
    Case("llama-3.1-8b-v5", model("llama", 4096, 32, 131072, kv=8, head_dim=128,
                                  rope_parameters=LLAMA31 | {"rope_theta": 500000.0})),
    Case("llama-3.2-1b", model("llama", 2048, 32, 131072, kv=8, head_dim=64, rope_theta=500000.0,
                               rope_scaling=LLAMA32)),
    Case("llama-3.2-3b", model("llama", 3072, 24, 131072, kv=8, head_dim=128, rope_theta=500000.0,
                               rope_scaling=LLAMA32)),
    Case("llama-3.2-11b-vision", wrapped("mllama", model("mllama_text_model", 4096, 32, 131072, kv=8,
                                         rope_theta=500000.0, rope_scaling=LLAMA31))),
    Case("llama-4-scout", wrapped("llama4", model("llama4_text", 5120, 40, 10485760, kv=8, head_dim=128,
                                  rope_theta=500000.0,
                                  rope_scaling=LLAMA31 | {"factor": 16.0, "high_freq_factor": 1.0}))),
    Case("llama-4-maverick", wrapped("llama4", model("llama4_text", 5120, 40, 1048576, kv=8, head_dim=128,
                                     rope_theta=500000.0, rope_scaling=None))),
    Case("yi-34b-200k", model("llama", 7168, 56, 200000, kv=8, rope_theta=5000000.0)),
    Case("yarn-llama-2-7b-64k", model("llama", 4096, 32, 65536, kv=32, rope_scaling={
        "factor": 16.0, "original_max_position_embeddings": 4096, "type": "yarn", "finetuned": True})),
    Case("vicuna-7b-16k", model("llama", 4096, 32, 4096, rope_scaling={"factor": 4.0, "type": "linear"})),
    Case("smollm3-3b", model("smollm3", 2048, 16, 65536, kv=4, rope_theta=5000000.0, rope_scaling=None)),
    Case("arcee-afm-4.5b", model("arcee", 2560, 20, 65536, kv=4, head_dim=128, rope_theta=10000.0, rope_scaling={
        "beta_fast": 32.0, "beta_slow": 1.0, "factor": 20.0, "mscale": 1.0,
        "original_max_position_embeddings": 4096, "rope_type": "yarn", "type": "yarn"})),
    Case("apertus-8b", model("apertus", 4096, 32, 65536, kv=8, rope_theta=12000000.0, rope_scaling=LLAMA31)),
    Case("seed-oss-36b", model("seed_oss", 5120, 80, 524288, kv=8, head_dim=128, rope_theta=10000000.0,
                               rope_scaling={"rope_type": "default"})),
    # Mistral
    Case("mistral-7b-v0.1", model("mistral", 4096, 32, 32768, kv=8, rope_theta=10000.0)),
    Case("mistral-7b-v0.3", model("mistral", 4096, 32, 32768, kv=8, rope_theta=1000000.0)),
    Case("mistral-nemo", model("mistral", 5120, 32, 131072, kv=8, head_dim=128, rope_theta=1000000.0)),
    Case("mixtral-8x7b", model("mixtral", 4096, 32, 32768, kv=8, rope_theta=1000000.0)),
    Case("ministral-8b", model("ministral", 4096, 32, 32768, kv=8, head_dim=128, rope_theta=100000000.0)),
    Case("ministral-3-text", model("ministral3", 3072, 32, 262144, kv=8, head_dim=128,
                                   rope_parameters=MINISTRAL3_YARN)),
    Case("ministral-3-3b", wrapped("mistral3", model("ministral3", 3072, 32, 262144, kv=8, head_dim=128,
                                                     rope_parameters=MINISTRAL3_YARN))),
    # Qwen
    Case("qwen2-7b", model("qwen2", 3584, 28, 131072, kv=4, rope_theta=1000000.0)),
    Case("qwen2-0.5b", model("qwen2", 896, 14, 131072, kv=2, rope_theta=1000000.0)),
    Case("qwen2.5-7b-yarn", model("qwen2", 3584, 28, 32768, kv=4, rope_theta=1000000.0, rope_scaling=QWEN_YARN)),
    Case("qwen2.5-7b-1m", model("qwen2", 3584, 28, 1010000, kv=4, rope_theta=10000000.0)),
    Case("qwen3-8b", model("qwen3", 4096, 32, 40960, kv=8, head_dim=128, rope_theta=1000000, rope_scaling=None)),
    Case("qwen3-8b-yarn", model("qwen3", 4096, 32, 131072, kv=8, head_dim=128, rope_theta=1000000, rope_scaling={
        "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768})),
    Case("qwen3-0.6b", model("qwen3", 1024, 16, 40960, kv=8, head_dim=128, rope_theta=1000000)),
    Case("qwen3-30b-a3b", model("qwen3_moe", 2048, 32, 262144, kv=4, head_dim=128, rope_theta=10000000)),
    Case("qwen3-next-80b", model("qwen3_next", 2048, 16, 262144, kv=2, head_dim=256, partial_rotary_factor=0.25,
                                 rope_theta=10000000)),
    Case("qwen2-vl-7b-v4", model("qwen2_vl", 3584, 28, 32768, kv=4, rope_theta=1000000.0, rope_scaling=MROPE_V4)),
    Case("qwen2-vl-7b-v5", wrapped("qwen2_vl", model("qwen2_vl_text", 3584, 28, 32768, kv=4,
                                                       rope_parameters=MROPE_V5))),
    Case("qwen2.5-vl-7b-v4", model("qwen2_5_vl", 3584, 28, 128000, kv=4, rope_theta=1000000.0, rope_scaling=MROPE_V4)),
    Case("qwen2.5-vl-7b-v5", wrapped("qwen2_5_vl", model("qwen2_5_vl_text", 3584, 28, 128000, kv=4,
                                                         rope_parameters=MROPE_V5))),
    Case("qwen2.5-vl-7b-yarn", model("qwen2_5_vl", 3584, 28, 128000, kv=4, rope_theta=1000000.0, rope_scaling={
        "type": "yarn", "mrope_section": [16, 24, 24], "factor": 4.0, "original_max_position_embeddings": 32768})),
    Case("qwen3-vl-8b-v4", wrapped("qwen3_vl", model("qwen3_vl_text", 4096, 32, 262144, kv=8, head_dim=128,
                                                     rope_theta=5000000, rope_scaling=QWEN3_VL))),
    Case("qwen3-vl-8b-v5", wrapped("qwen3_vl", model("qwen3_vl_text", 4096, 32, 262144, kv=8, head_dim=128,
                                                     rope_parameters=QWEN3_VL | {"rope_theta": 5000000}))),
    Case("qwen3.5-text", wrapped("qwen3_5", model("qwen3_5_text", 2048, 8, 262144, kv=2, head_dim=256, rope_parameters={
        "mrope_interleaved": True, "mrope_section": [11, 11, 10], "rope_type": "default", "rope_theta": 10000000,
        "partial_rotary_factor": 0.25}))),
    # Gemma
    Case("gemma-7b", model("gemma", 3072, 16, 8192, kv=16, head_dim=256, rope_theta=10000.0)),
    Case("gemma-2-9b", model("gemma2", 3584, 16, 8192, kv=8, head_dim=256, rope_theta=10000.0)),
    Case("gemma-2-27b", model("gemma2", 4608, 32, 8192, kv=16, head_dim=128)),
    Case("gemma-3-1b", gemma3(1152, 4, 1, 32768, rope_theta=1000000, rope_local_base_freq=10000, rope_scaling=None),
         LOCAL_GLOBAL),
    Case("gemma-3-4b-v4", wrapped("gemma3", gemma3(2560, 8, 4, **GEMMA3_V4)), LOCAL_GLOBAL),
    Case("gemma-3-4b-sparse", wrapped("gemma3", {
        "hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text", "num_hidden_layers": 34,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "sliding_window": 1024}), LOCAL_GLOBAL),
    Case("gemma-3-27b-v4", wrapped("gemma3", gemma3(5376, 32, 16, head_dim=128, **GEMMA3_V4)), LOCAL_GLOBAL),
    Case("gemma-3-4b-v5", wrapped("gemma3", gemma3(2560, 8, 4, rope_parameters=GEMMA3_V5)), LOCAL_GLOBAL),
    Case("gemma-3-27b-text-v5", gemma3(5376, 32, 16, head_dim=128, rope_parameters=GEMMA3_V5), LOCAL_GLOBAL),
    Case("gemma-3n-text", model("gemma3n_text", 2048, 8, 32768, kv=2, head_dim=256, num_hidden_layers=35,
                                rope_theta=1000000.0, rope_local_base_freq=10000.0, rope_scaling=None), LOCAL_GLOBAL),
    Case("gemma-4-text", gemma4(rope_parameters=GEMMA4_ROPE), LOCAL_GLOBAL),
    Case("gemma-4", wrapped("gemma4", gemma4(rope_parameters=GEMMA4_ROPE)), LOCAL_GLOBAL),
    Case("gemma-4-default", gemma4(), LOCAL_GLOBAL),
    Case("gemma-4-factor", gemma4(global_head_dim=256, rope_parameters=GEMMA4_ROPE | {
        "full_attention": {"partial_rotary_factor": 0.5, "rope_theta": 1000000.0, "rope_type": "proportional",
                           "factor": 8.0}}), LOCAL_GLOBAL),
    Case("gemma-4-nope", gemma4(rope_parameters=GEMMA4_ROPE | {"full_attention": None}), LOCAL_GLOBAL),
    # DeepSeek and others with latent attention
    Case("deepseek-v2", deepseek(2, 5120, 128, rope_theta=10000, rope_scaling=DEEPSEEK_V2_YARN)),
    Case("deepseek-v2-lite", deepseek(2, 2048, 16, rope_theta=10000, rope_scaling=DEEPSEEK_V2_YARN) | {
        "q_lora_rank": None}),
    Case("deepseek-v3", deepseek(3, 7168, 128, rope_theta=10000, rope_scaling=DEEPSEEK_V3_YARN)),
    Case("deepseek-v3-v5", deepseek(3, 7168, 128, rope_interleave=True,
                                    rope_parameters=DEEPSEEK_V3_YARN | {"rope_type": "yarn", "rope_theta": 10000})),
    Case("deepseek-v3-uneven-mscale", deepseek(3, 7168, 128, rope_theta=10000,
                                               rope_scaling=DEEPSEEK_V2_YARN | {"mscale": 1.0})),
    Case("deepseek-v3-plain", deepseek(3, 7168, 128, rope_theta=10000, rope_scaling=None)),
    Case("minicpm3-4b", model("minicpm3", 2560, 40, 32768, kv=40, qk_nope_head_dim=64, qk_rope_head_dim=32,
         rope_scaling={"type": "longrope", "long_factor": longrope_factors(16, 1.6), "short_factor":
                       longrope_factors(16, 1.6), "original_max_position_embeddings": 32768})),
    # Phi
    Case("phi-1.5", model("phi", 2048, 32, 2048, partial_rotary_factor=0.5, rope_theta=10000.0)),
    Case("phi-2", model("phi", 2560, 32, 2048, partial_rotary_factor=0.4, rope_theta=10000.0, rope_scaling=None)),
    Case("phi-3-mini-4k", model("phi3", 3072, 32, 4096, kv=32, original_max_position_embeddings=4096,
                                rope_theta=10000.0, rope_scaling=None)),
    Case("phi-3-mini-128k", phi3(48, 3072, 32), seq_lens=LONG),
    Case("phi-3.5-mini", phi3(48, 3072, 32, scaling={"rope_type": "longrope"}), seq_lens=(None, 131072)),
    Case("phi-3-medium-128k", phi3(64, 5120, 40), seq_lens=(None, 4097)),
    Case("phi-4-mini", phi3(48, 3072, 24, partial_rotary_factor=0.75), seq_lens=LONG),
    Case("phi-4", model("phi3", 5120, 40, 16384, kv=10, original_max_position_embeddings=16384, rope_theta=250000)),
    Case("phi-3-attention-factor", phi3(48, 3072, 32, scaling={"attention_factor": 1.25}), seq_lens=(None, 4097)),
    Case("phi-3-factor", phi3(48, 3072, 32, scaling={"factor": 16.0}), seq_lens=(None, 4097)),
    Case("phi-3-su", phi3(48, 3072, 32, kind="su", scaling={"original_max_position_embeddings": 4096}), seq_lens=LONG),
    Case("phi-3-yarn-name", phi3(48, 3072, 32, kind="yarn"), seq_lens=(None, 4097)),
    # GPT-NeoX, GPT-J and their kin
    Case("gpt-neox-20b", model("gpt_neox", 6144, 64, 2048, rotary_pct=0.25, rotary_emb_base=10000)),
    Case("pythia-1b", model("gpt_neox", 2048, 8, 2048, rotary_pct=0.25, rotary_emb_base=10000)),
    Case("pythia-2.8b", model("gpt_neox", 2560, 32, 2048, rotary_pct=0.25, rotary_emb_base=10000)),
    Case("redpajama-3b", model("gpt_neox", 2560, 32, 2048, rotary_pct=1.0, rotary_emb_base=10000)),
    Case("gpt-neox-bare", model("gpt_neox", 1024, 16, 2048)),
    Case("gpt-neox-v5", model("gpt_neox", 2560, 32, 2048, rope_parameters={
        "partial_rotary_factor": 0.5, "rope_theta": 25000.0, "rope_type": "default"})),
    Case("gpt-neox-linear", model("gpt_neox", 2560, 32, 4096, rotary_pct=0.5, rotary_emb_base=50000,
                                  rope_scaling={"type": "linear", "factor": 2.0})),
    Case("gpt-j-6b", {"model_type": "gptj", "n_embd": 4096, "n_head": 16, "n_layer": 28, "n_positions": 2048,
                      "rotary_dim": 64}),
    Case("codegen-350m", {"model_type": "codegen", "n_embd": 1024, "n_head": 16, "n_layer": 20, "n_positions": 2048,
                          "rotary_dim": 32}),
    Case("codegen-16b", {"model_type": "codegen", "n_embd": 6144, "n_head": 24, "n_layer": 34, "n_positions": 2048,
                         "rotary_dim": 64}),
    Case("stablelm-3b", model("stablelm", 2560, 32, 4096, kv=32, partial_rotary_factor=0.25, rope_theta=10000)),
    Case("stablelm-2-12b", model("stablelm", 5120, 32, 4096, kv=8, partial_rotary_factor=0.25, rope_theta=10000)),
    Case("persimmon-8b", model("persimmon", 4096, 64, 16384, partial_rotary_factor=0.5, rope_theta=25000.0)),
    Case("falcon-7b", model("falcon", 4544, 71, 2048, alibi=False, multi_query=True)),
    Case("falcon-180b", model("falcon", 14848, 232, 2048, alibi=False, rope_theta=10000.0, rope_scaling=None)),
    Case("nemotron-4-mini", model("nemotron", 3072, 24, 4096, kv=8, head_dim=128, partial_rotary_factor=0.5,
                                  rope_theta=10000)),
    Case("starcoder2-3b", model("starcoder2", 3072, 24, 16384, kv=2, rope_theta=999999.4420358813)),
    # GLM, Cohere, OLMo, ERNIE and the rest
    Case("glm-4-9b", model("glm", 4096, 32, 131072, kv=2, head_dim=128, partial_rotary_factor=0.5, rope_theta=10000.0)),
    Case("glm-4-0414", model("glm4", 4096, 32, 32768, kv=2, head_dim=128, partial_rotary_factor=0.5,
                             rope_theta=10000.0)),
    Case("glm-4.5-air", model("glm4_moe", 4096, 96, 131072, kv=8, head_dim=128, partial_rotary_factor=0.5,
                              rope_theta=1000000, rope_scaling=None)),
    Case("cohere-command-r", model("cohere", 8192, 64, 131072, kv=8, rope_theta=8000000.0)),
    Case("cohere2-command-r7b", model("cohere2", 4096, 32, 8192, kv=8, head_dim=128, rope_theta=50000)),
    Case("olmo-7b", model("olmo", 4096, 32, 2048, rope_theta=10000.0)),
    Case("olmo2-7b", model("olmo2", 4096, 32, 4096, kv=32, rope_theta=500000)),
    Case("olmo3-7b", model("olmo3", 4096, 32, 65536, kv=32, rope_theta=500000, rope_scaling=OLMO3_YARN), LOCAL_GLOBAL),
    Case("ernie-4.5-0.3b", model("ernie4_5", 1024, 16, 131072, kv=2, head_dim=128, rope_theta=500000.0)),
    Case("ernie-4.5-21b", model("ernie4_5_moe", 2560, 20, 131072, kv=4, rope_theta=500000.0)),
    Case("helium-1-2b", model("helium", 2560, 20, 4096, kv=20, head_dim=128, rope_theta=100000.0)),
    Case("granite-3.1-8b", model("granite", 4096, 32, 131072, kv=8, rope_theta=10000000.0, rope_scaling=None)),
    Case("gpt-oss-20b", model("gpt_oss", 2880, 64, 131072, kv=8, head_dim=64, initial_context_length=4096,
                              rope_theta=150000, rope_scaling=GPT_OSS_YARN)),
    Case("mimo-v2-flash", model("mimo_v2_flash", 4096, 64, 262144, kv=4, head_dim=192, rope_parameters={
        "full_attention": {"rope_type": "default", "rope_theta": 5000000.0, "partial_rotary_factor": 0.334},
        "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.334}}),
        LOCAL_GLOBAL),
    Case("laguna-yarn", model("laguna", 2048, 16, 131072, kv=8, head_dim=128,
                              layer_types=["full_attention"] + ["sliding_attention"] * 3, rope_parameters={
        "full_attention": {"rope_type": "yarn", "rope_theta": 500000.0, "partial_rotary_factor": 0.5, "factor": 32.0,
                           "original_max_position_embeddings": 4096, "beta_fast": 64.0, "beta_slow": 1.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 1.0}}),
        LOCAL_GLOBAL),
    Case("zamba2-1.2b", model("zamba2", 2048, 32, 4096, kv=32, num_hidden_layers=54, use_mem_rope=True,
                              rope_theta=10000)),
    Case("roformer-chinese-base", model("roformer", 768, 12, 1536, rotary_value=False)),
    Case("roformer-chinese-small", model("roformer", 384, 6, 512, rotary_value=False)),
    Case("modernbert-base-v4", model("modernbert", 768, 12, 8192, num_hidden_layers=22, global_rope_theta=160000.0,
                                     local_rope_theta=10000.0), LOCAL_GLOBAL),
    Case("modernbert-large-v5", model("modernbert", 1024, 16, 8192, num_hidden_layers=28, rope_parameters={
        "full_attention": {"rope_theta": 160000.0, "rope_type": "default"},
        "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"}}), LOCAL_GLOBAL),
    Case("eurobert-210m", model("eurobert", 768, 12, 8192, kv=12, rope_theta=250000)),
    Case("nomic-bert", model("nomic_bert", 768, 12, 2048, rope_parameters={
        "rope_theta": 1000.0, "rope_type": "default"})),
    Case("minimind", {"model_type": "minimind", "hidden_size": 512, "num_attention_heads": 8,
                      "num_key_value_heads": 2, "num_hidden_layers": 8, "max_position_embeddings": 32768,
                      "rope_theta": 1000000.0}),
]  # fmt: skip


def yarn(max_pos=32768, head_dim=128, theta=1000000.0, **fields):
    return llama(head_dim, max_pos, rope_theta=theta, rope_scaling={"rope_type": "yarn"} | fields)


def sweeps():
    dims = [64, 128, 80, 96, 72, 192, 256, 32, 48]
    for theta, dim in zip([500.0, 10000.0, 25000, 100000.0, 150000.0, 500000.0, 1000000, 2500000.5, 10000000.0], dims):
        yield Case(f"llama-default-{theta:g}-{dim}", llama(dim, rope_theta=theta))
    yield Case("llama-default-1234.5-30", llama(30, rope_theta=1234.5))
    yield Case("llama-default-explicit-head-dim", model("llama", 512, 8, 8192, kv=8, head_dim=192))
    yield Case("llama-default-v5", llama(128, rope_parameters={"rope_type": "default", "rope_theta": 500000.0}))
    yield Case("llama-default-v5-bare", llama(96, rope_parameters={"rope_theta": 20000.0}))

    for i, factor in enumerate([1.0, 1.5, 2, 4.0, 8.0, 16.0, 3.7]):
        key = "type" if i % 2 else "rope_type"
        rope = {key: "linear", "factor": factor}
        yield Case(f"llama-linear-{factor}", llama(dims[i], rope_theta=10000.0, rope_scaling=rope))
    partial = {"rope_type": "linear", "factor": 2.0, "rope_theta": 10000.0, "partial_rotary_factor": 0.5}
    yield Case("llama-linear-v5-partial", llama(128, rope_parameters=partial))

    lengths = (None, 1000, 4096, 4097, 8192, 131072)
    yield Case("llama-dynamic-2", llama(128, 4096, rope_scaling={"type": "dynamic", "factor": 2.0}), seq_lens=lengths)
    for i, factor in enumerate([1.0, 4.0, 8.0, 2.5]):
        rope = {"rope_type": "dynamic", "factor": factor, "rope_theta": 500000.0}
        config = llama(dims[i], 2048, rope_parameters=rope)
        yield Case(f"llama-dynamic-{factor}-v5", config, seq_lens=(None, 5000, 65536))
    rope = {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 10000.0, "partial_rotary_factor": 0.25}
    config = model("stablelm", 2560, 32, 4096, kv=32, rope_parameters=rope)
    yield Case("stablelm-dynamic-partial", config, seq_lens=(None, 9000))

    for i, factor in enumerate([1.0, 2.0, 8.0, 16.0, 40, 128.0]):
        dim, theta = dims[i], [10000.0, 1000000.0, 500000.0][i % 3]
        yield Case(f"llama-yarn-{factor}", yarn(4096, dim, theta, factor=factor, original_max_position_embeddings=4096))
    full = {"factor": 4.0, "original_max_position_embeddings": 32768}
    yield Case("llama-yarn-no-original", yarn(factor=4.0))
    yield Case("llama-yarn-factor-null", yarn(131072, factor=None, original_max_position_embeddings=8192))
    yield Case("llama-yarn-attention-factor", yarn(**full, attention_factor=0.875))
    yield Case("llama-yarn-attention-factor-one", yarn(**full, attention_factor=1.0))
    yield Case("llama-yarn-betas", yarn(**full, beta_fast=16.0, beta_slow=2.0))
    yield Case("llama-yarn-betas-zero", yarn(**full, beta_fast=0, beta_slow=0))
    yield Case("llama-yarn-betas-null", yarn(**full, beta_fast=None, beta_slow=None))
    yield Case("llama-yarn-beta-fast-only", yarn(**full, beta_fast=64))
    yield Case("llama-yarn-truncate-true", yarn(**full, truncate=True))
    yield Case("llama-yarn-truncate-false", yarn(**full, truncate=False))
    yield Case("llama-yarn-mscale", yarn(**full, mscale=0.707, mscale_all_dim=1.0))
    yield Case("llama-yarn-mscale-alone", yarn(**full, mscale=0.707))
    yield Case("llama-yarn-mscale-zero", yarn(**full, mscale=1.0, mscale_all_dim=0))
    yield Case("llama-yarn-factor-below-one", yarn(factor=0.5, original_max_position_embeddings=32768))
    yield Case("llama-yarn-singular", yarn(2048, 16, 10000.0, factor=4.0, original_max_position_embeddings=6))
    early = {"factor": 4.0, "original_max_position_embeddings": 4096}
    yield Case("llama-yarn-end-past-pairs", yarn(16384, 64, 500.0, **early))
    yield Case("llama-yarn-end-capped", yarn(16384, 64, 500.0, **early, beta_slow=0.002))
    partial = full | {"rope_type": "yarn", "rope_theta": 10000.0, "partial_rotary_factor": 0.75}
    yield Case("llama-yarn-v5-partial", llama(128, 131072, rope_parameters=partial))
    outer = llama(128, 131072, rope_scaling={"rope_type": "yarn"} | full, original_max_position_embeddings=16384)
    yield Case("llama-yarn-outer-original", outer)

    for i, (factor, low, high, original) in enumerate(
        [(8.0, 1.0, 4.0, 8192), (16.0, 1.0, 4.0, 4096), (4, 2.0, 8.0, 8192), (2.0, 1, 32, 2048), (32.0, 1.0, 1.5, 8192)]
    ):
        rope = {"factor": factor, "low_freq_factor": low, "high_freq_factor": high,
                "original_max_position_embeddings": original, "rope_type": "llama3"}  # fmt: skip
        config = llama(dims[i], 131072, rope_theta=500000.0, rope_scaling=rope)
        yield Case(f"llama-llama3-{factor}-{low}-{high}", config)
    partial = LLAMA31 | {"rope_theta": 10000.0, "partial_rotary_factor": 0.5}
    yield Case("llama-llama3-v5-partial", llama(128, 131072, rope_parameters=partial))
    no_original = {k: v for k, v in LLAMA31.items() if k != "original_max_position_embeddings"}
    yield Case("llama-llama3-no-original", llama(128, 8192, rope_theta=500000.0, rope_scaling=no_original))

    for i, extra in enumerate([{}, {"factor": 4.0}, {"attention_factor": 1.5}, {"factor": 1.0}]):
        n = dims[i] // 2
        rope = {
            "rope_type": "longrope", "short_factor": longrope_factors(n, 1.5), "long_factor": longrope_factors(n, 20.0),
            "original_max_position_embeddings": 8192, "rope_theta": 500000.0,
        }  # fmt: skip
        config = llama(dims[i], 131072, rope_parameters=rope | extra)
        yield Case(f"llama-longrope-{i}", config, seq_lens=(None, 8192, 8193))

    for i, (part, factor) in enumerate([(0.25, None), (0.5, 4.0), (0.75, None), (1.0, 2.0), (0.0, None)]):
        rope = {"rope_type": "proportional", "rope_theta": 1000000.0, "partial_rotary_factor": part}
        if factor is not None:
            rope["factor"] = factor
        yield Case(f"llama-proportional-{part}", llama(dims[i], rope_parameters=rope))
    rope = {"rope_type": "proportional", "rope_theta": 10000.0}
    yield Case("llama-proportional-no-part", llama(64, rope_parameters=rope))


FREQUENCY_CASES = PUBLISHED + list(sweeps())


@dataclass(frozen=True)
class Rotation:
    """Queries and keys to rotate.

    `table` and `math` say in which type transformers keeps the cosines and
    does the arithmetic: "input" for the type of the queries, or "f32".
    """

    name: str
    config: dict
    pairing: str
    dtypes: tuple = ("f32", "f16", "bf16")
    k_heads: int = 1
    kind: str = "plain"
    table: str = "input"
    math: str = "input"
    apply: str = "apply_rotary_pos_emb"


POSITIONS = [0, 1, 255, 256, 257, 2047, 2048, 2049, 131071, 1048575]
MROPE_POSITIONS = [
    POSITIONS,
    [0, 7, 254, 300, 256, 2047, 2050, 1023, 131072, 1048574],
    [0, 3, 256, 299, 261, 2046, 2055, 4095, 65537, 999983],
]

ROTATIONS = [
    Rotation("llama", llama(128, rope_theta=500000.0), "half", k_heads=2),
    Rotation("llama3", llama(128, 131072, rope_theta=500000.0, rope_scaling=LLAMA31), "half", ("f32", "bf16")),
    Rotation("qwen2-yarn", model("qwen2", 1024, 8, 32768, kv=2, rope_theta=1000000.0, rope_scaling=QWEN_YARN), "half"),
    Rotation("phi3-longrope", phi3(48, 768, 8), "half", ("f32", "bf16")),
    Rotation("gpt-neox", model("gpt_neox", 640, 8, 2048, rotary_pct=0.25, rotary_emb_base=10000), "half", k_heads=2),
    Rotation("phi", model("phi", 512, 8, 2048, partial_rotary_factor=0.5, rope_theta=10000.0), "half", ("f32", "f16")),
    Rotation("gpt-j", {"model_type": "gptj", "n_embd": 2048, "n_head": 8, "n_layer": 4, "n_positions": 2048,
                       "rotary_dim": 64}, "interleaved"),
    Rotation("roformer", model("roformer", 768, 12, 1536, rotary_value=False), "interleaved", k_heads=2),
    Rotation("glm", model("glm", 512, 8, 131072, kv=2, head_dim=64, partial_rotary_factor=0.5, rope_theta=10000.0),
             "interleaved"),
    Rotation("cohere", model("cohere", 1024, 8, 131072, kv=2, rope_theta=8000000.0), "interleaved", math="f32"),
    Rotation("ernie4-5", model("ernie4_5", 1024, 8, 131072, kv=2, head_dim=128, rope_theta=500000.0), "interleaved",
             ("f32", "bf16"), table="f32", math="f32"),
    Rotation("deepseek-v3", deepseek(3, 7168, 128, rope_theta=10000, rope_scaling=DEEPSEEK_V2_YARN | {"mscale": 1.0}),
             "interleaved_to_half", apply="apply_rotary_pos_emb_interleave"),
    Rotation("qwen2-vl", model("qwen2_vl", 1024, 8, 32768, kv=2, rope_theta=1000000.0, rope_scaling=MROPE_V4), "half",
             ("f32", "bf16"), kind="mrope"),
    Rotation("qwen3-vl", wrapped("qwen3_vl", model("qwen3_vl_text", 1024, 8, 262144, kv=2, head_dim=128,
             rope_theta=5000000, rope_scaling=QWEN3_VL)), "half", ("f32", "bf16"), kind="mrope"),
]  # fmt: skip


TABLE_POSITIONS = [
    0, 1, 2, 3, 255, 256, 257, 2047, 2048, 2049, 4095, 4097, 65535, 131071, 1048575, 16777217, 268435455,
    2147483647, 2147483648, -1, -5, -1048576,
]  # fmt: skip

TABLE_CASES = [
    Case("default-10000-64", llama(64, rope_theta=10000.0)),
    Case("roformer-10000-128", model("roformer", 1024, 8, 1536, rotary_value=False)),
    Case("default-500000-128", llama(128, rope_theta=500000.0)),
    Case("partial-1000000-96", model("stablelm", 1024, 8, 4096, kv=8, partial_rotary_factor=0.75,
                                     rope_theta=1000000.0)),
    Case("default-1234.5-30", llama(30, rope_theta=1234.5)),
    Case("linear-8", llama(128, rope_theta=10000.0, rope_scaling={"rope_type": "linear", "factor": 8.0})),
    Case("dynamic-2", llama(128, 4096, rope_scaling={"type": "dynamic", "factor": 2.0}), seq_lens=(10000, 131072)),
    Case("yarn-qwen2.5", model("qwen2", 1024, 8, 32768, kv=2, rope_theta=1000000.0, rope_scaling=QWEN_YARN)),
    Case("yarn-gpt-oss", model("gpt_oss", 2880, 64, 131072, kv=8, head_dim=64, rope_theta=150000,
                               rope_scaling=GPT_OSS_YARN)),
    Case("llama3", llama(128, 131072, rope_theta=500000.0, rope_scaling=LLAMA31)),
    Case("longrope-phi3", phi3(48, 768, 8), seq_lens=(131072,)),
    Case("proportional", llama(128, rope_parameters={"rope_type": "proportional", "rope_theta": 1000000.0,
                                                     "partial_rotary_factor": 0.25, "factor": 2.0})),
]  # fmt: skip
