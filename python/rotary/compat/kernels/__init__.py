"""A folder that the package `kernels` loads in place of the hub's `rotary`, from a path: `rotary.compat.kernels.PATH`.

from kernels import get_local_kernel
rotary = get_local_kernel(PATH)

from transformers import KernelConfig
config = KernelConfig({"rotary_pos_emb": f"{PATH}:apply_rotary_transformers"}, use_local_kernel=True)
model = AutoModelForCausalLM.from_pretrained(name, use_kernels=True, kernel_config=config)
"""

from pathlib import Path

PATH = Path(__file__).parent
