"""Makes the folder gpt2_tanh with transformers. Run by hand; the result is committed.

    python tests/data/huggingface/make.py

A random GPT-2 of two layers with OpenAI's GELU (gelu_new), saved by save_pretrained, and beside it
expected.safetensors: token ids and the logits that transformers gives for them.
"""

import os

import torch
from safetensors.torch import save_file
from transformers import GPT2Config, GPT2LMHeadModel

HERE = os.path.dirname(os.path.abspath(__file__))

torch.manual_seed(1)
net = GPT2LMHeadModel(
    GPT2Config(
        n_layer=2,
        n_head=2,
        n_embd=8,
        n_positions=6,
        vocab_size=11,
        activation_function="gelu_new",
        bos_token_id=0,
        eos_token_id=0,
    )
)
with torch.no_grad():
    for parameter in net.parameters():  # away from biases of 0 and norms of 1
        parameter.add_(0.4 * torch.randn_like(parameter))
ids = torch.randint(11, (2, 6))
with torch.no_grad():
    logits = net.eval()(ids).logits
folder = os.path.join(HERE, "gpt2_tanh")
net.save_pretrained(folder)
os.remove(os.path.join(folder, "generation_config.json"))
save_file(
    {"ids": ids.to(torch.int32), "logits": logits.contiguous()},
    os.path.join(folder, "expected.safetensors"),
)
