"""The keys that a config.json of each family may have.

    python golden/config_keys.py        writes crates/roformer/src/blueprint/keys.tsv

One row per `model_type`, and first one for all of them: the fields of
transformers' classes, other names for them, the older names that the classes
still read, and what files have that were published before. A file of a newer
transformers with any other key is refused: nobody here knows what it means.
"""

import dataclasses
import importlib
import inspect
import re
from pathlib import Path

import transformers
from transformers import AutoConfig, GenerationConfig, PreTrainedConfig
from transformers.modeling_rope_utils import RotaryEmbeddingConfigMixin

OUT = Path(__file__).resolve().parent.parent / "crates/roformer/src/blueprint/keys.tsv"

MODELS = """roformer bert roberta xlm-roberta camembert llama mistral qwen2 qwen3 minimind phi3 glm4 gemma2
gemma3_text gpt2 gptj gpt_neox modernbert nomic_bert eurobert mpt t5 deberta-v2 llama4_text xlnet""".split()

# What files of any model have: written by older versions, by programs around transformers, or read by its loader.
PUBLISHED = """_name_or_path name_or_path _commit_hash _attn_implementation attn_implementation _experts_implementation
experts_implementation _attn_implementation_autoset auto_map torch_dtype torchscript transformers_version model_type
num_labels use_cache gradient_checkpointing pruned_heads finetuning_task use_bfloat16 tf_legacy_loss is_decoder
add_cross_attention cross_attention_hidden_size decoder_start_token_id tie_encoder_decoder tie_word_embeddings
bos_token_id eos_token_id pad_token_id sep_token_id cls_token_id mask_token_id unk_token_id tokenizer_class prefix
task_specific_params output_attentions output_hidden_states output_past return_dict use_return_dict
quantization_config compression_config per_layer_config tie_last_hidden_states sentence_transformers
sbert_ce_default_activation_function
pretraining_tp cache_implementation unsloth_version unsloth_fixed use_unsloth pretraining_dataset language initializer_factor initializer_range
_num_labels id2label label2id problem_type""".split()

# What files of one family have beyond its class, by their first releases and their own code.
BERTS = """directionality pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers pooler_size_per_head
pooler_type position_embedding_type classifier_dropout embedding_size gradient_checkpointing model_name""".split()
OTHERS = {
    "bert": BERTS,
    "roberta": BERTS,
    "xlm-roberta": BERTS,
    "camembert": BERTS,
    "nomic_bert": """n_embd n_head n_inner n_layer n_positions activation_function attn_pdrop embd_pdrop resid_pdrop
        layer_norm_epsilon rotary_emb_base rotary_emb_fraction rotary_emb_interleaved rotary_emb_scale_base
        rotary_scaling_factor qkv_proj_bias mlp_fc1_bias mlp_fc2_bias dense_seq_output prenorm parallel_block
        parallel_block_tied_norm causal use_flash_attn use_rms_norm use_xentropy fused_bias_fc fused_dropout_add_ln
        last_layer_subset max_trained_positions pad_vocab_size_multiple scale_attn_by_inverse_layer_idx
        scale_attn_weights reorder_and_upcast_attn summary_activation summary_first_dropout
        summary_proj_to_labels summary_type summary_use_proj""".split(),
    "mistral": ["attention_bias"],
    "xlnet": ["untie_r", "start_n_top", "end_n_top"],
    "gemma2": ["hidden_act"],
    "gemma3_text": ["hidden_act"],
    "gpt2": ["n_ctx"],
    # Written where it is handed over; its class takes four times the width.
    "mpt": ["intermediate_size"],
    "gptj": """n_ctx rotary scale_attn_weights summary_activation summary_first_dropout summary_proj_to_labels summary_type
        summary_use_proj""".split(),
    "modernbert": "position_embedding_type repad_logits_with_grad".split(),
    "deberta-v2": "model_name padding_idx attention_head_size".split(),
    "t5": ["n_positions"],
    # Norms without parameters and what else RoFormerV2 and RoFormer-Sim say, and what is handed over here.
    "roformer": "norm_type use_bias add_pooling_layer pooler_activation summary_type summary_use_proj summary_activation "
    "summary_first_dropout summary_proj_to_labels directionality eos_token_id".split(),
}
# MiniMind is in no transformers: Llama's keys and those of its own configuration.
MINIMIND = """dropout flash_attn use_moe num_experts num_experts_per_tok n_routed_experts n_shared_experts scoring_func
aux_loss_alpha router_aux_loss_coef seq_aux norm_topk_prob inference_rope_scaling moe_intermediate_size""".split()
# How a network says an encoding or an attention that its family does not have.
HANDED_OVER = ["position_encoding", "linear_attention"]


def read_by(part):
    """The keys that a class takes out of what it is given beside its fields."""
    return set(re.findall(r'kwargs\.(?:pop|get|setdefault)\(\s*"(\w+)"', inspect.getsource(part)))


def asked_by(config):
    """The keys that the model's own code asks for, whether the configuration has them or not."""
    name = config.__module__.replace(".configuration_", ".modeling_")
    source = inspect.getsource(importlib.import_module(name))
    return set(re.findall(r'getattr\((?:self\.)?config, "(\w+)"', source))


def fields(part):
    return {field.name for field in dataclasses.fields(part)}


def keys(config):
    """The keys of a configuration's class; those of an object within it with its name before them."""
    own = fields(config) | set(config.attribute_map) | read_by(config) | set(config().to_dict())
    if "rope_parameters" in own:
        own |= read_by(RotaryEmbeddingConfigMixin)
    for name, part in config.sub_configs.items():
        own |= {f"{name}.{key}" for key in keys(part)}
    return own


def of(model):
    if model == "minimind":
        return keys(transformers.LlamaConfig) | set(MINIMIND)
    config = type(AutoConfig.for_model(model))
    return keys(config) | asked_by(config) | set(OTHERS.get(model, []))


def main():
    # The rope of an older file is that of the classes that have one.
    read = read_by(PreTrainedConfig.__post_init__) - read_by(RotaryEmbeddingConfigMixin)
    every = fields(PreTrainedConfig) | set(PreTrainedConfig().to_dict()) | read
    every |= set(PUBLISHED) | set(GenerationConfig._get_default_generation_params()) | set(HANDED_OVER)
    rows = {"*": every} | {model: of(model) - every for model in MODELS}
    version = ".".join(transformers.__version__.split(".")[:2])
    text = f"transformers\t{version}\n" + "".join(f"{model}\t{' '.join(sorted(own))}\n" for model, own in rows.items())
    OUT.write_text(text)
    print(f"{len(rows) - 1} model types, {sum(map(len, rows.values()))} keys")


if __name__ == "__main__":
    main()
