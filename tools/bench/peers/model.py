"""The peer: ToST and GPT-2 language models in plain PyTorch, written from the formulas.

Causal TSSA follows the paper's causal variant as eager PyTorch users run it: cumulative sums over
the tokens, one tensor per intermediate. Parameter names are the official ones.
"""

import torch
import torch.nn.functional as F
from torch import nn


def causal_tssa(w, temp, denom_bias, heads):
    """w [B, T, C], temp [H, 1], denom_bias [H, block, 1] -> y [B, T, C].

    A_t = max(sum_{r<=t} w_r^2, 1e-12)           per channel
    u_t = sum_i (w_t^2 / A_t + denom_bias_t)     over the head's channels, the bias added to each
    Pi_t = softmax over heads of temp * u_t
    s_t = sum_{r<=t} Pi_r w_r^2 / (sum_{r<=t} Pi_r + 1e-8)
    y_t = -w_t Pi_t / (1 + s_t)
    """
    batch, tokens, width = w.shape
    w = w.view(batch, tokens, heads, width // heads).transpose(1, 2)  # [B, H, T, d]
    squares = w.square()
    energy = squares.cumsum(dim=2).clamp_min(1e-12)
    scores = (squares / energy + denom_bias[:, :tokens]).sum(dim=-1)  # [B, H, T]
    memberships = (scores * temp).softmax(dim=1).unsqueeze(-1)  # [B, H, T, 1]
    mass = memberships.cumsum(dim=2) + 1e-8
    second_moment = (memberships * squares).cumsum(dim=2) / mass
    y = -(w * memberships) / (1 + second_moment)
    return y.transpose(1, 2).reshape(batch, tokens, width)


class CausalTssa(nn.Module):
    def __init__(self, width, heads, block, bias):
        super().__init__()
        self.heads = heads
        self.temp = nn.Parameter(torch.ones(heads, 1))
        self.denom_bias = nn.Parameter(torch.zeros(heads, block, 1))
        self.c_attn = nn.Linear(width, width, bias=bias)
        self.c_proj = nn.Linear(width, width, bias=bias)

    def forward(self, x):
        return self.c_proj(causal_tssa(self.c_attn(x), self.temp, self.denom_bias, self.heads))


class CausalAttention(nn.Module):
    def __init__(self, width, heads, block, bias):
        super().__init__()
        self.heads = heads
        self.c_attn = nn.Linear(width, 3 * width, bias=bias)
        self.c_proj = nn.Linear(width, width, bias=bias)

    def forward(self, x):
        batch, tokens, width = x.shape
        q, k, v = (
            part.view(batch, tokens, self.heads, width // self.heads).transpose(1, 2)
            for part in self.c_attn(x).split(width, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).reshape(batch, tokens, width))


class Mlp(nn.Module):
    def __init__(self, width, bias):
        super().__init__()
        self.c_fc = nn.Linear(width, 4 * width, bias=bias)
        self.c_proj = nn.Linear(4 * width, width, bias=bias)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x)))


class Block(nn.Module):
    """x + gamma1 * mixer(ln_1 x), then x + gamma2 * mlp(ln_2 x); plain GPT-2 has no gammas."""

    def __init__(self, kind, width, heads, block, bias):
        super().__init__()
        mixer = CausalTssa if kind == "tost" else CausalAttention
        self.ln_1 = nn.LayerNorm(width, bias=bias)
        self.attn = mixer(width, heads, block, bias)
        self.ln_2 = nn.LayerNorm(width, bias=bias)
        self.mlp = Mlp(width, bias)
        self.scaled = kind == "tost"
        if self.scaled:
            self.gamma1 = nn.Parameter(1e-5 * torch.ones(width))
            self.gamma2 = nn.Parameter(1e-5 * torch.ones(width))

    def forward(self, x):
        if self.scaled:
            x = x + self.gamma1 * self.attn(self.ln_1(x))
            return x + self.gamma2 * self.mlp(self.ln_2(x))
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class LanguageModel(nn.Module):
    def __init__(self, kind, layers, heads, width, block, vocab, bias=False):
        super().__init__()
        self.block = block
        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(vocab, width),
                "wpe": nn.Embedding(block, width),
                "h": nn.ModuleList(Block(kind, width, heads, block, bias) for _ in range(layers)),
                "ln_f": nn.LayerNorm(width, bias=bias),
            }
        )
        for name, parameter in self.named_parameters():
            if name.endswith("c_proj.weight"):
                nn.init.normal_(parameter, std=0.02 / (2 * layers) ** 0.5)
            elif parameter.dim() == 2 and not name.endswith("temp"):
                nn.init.normal_(parameter, std=0.02)
            elif name.endswith(".bias"):
                nn.init.zeros_(parameter)

    def hidden(self, ids):
        positions = torch.arange(ids.shape[1])
        x = self.transformer["wte"](ids) + self.transformer["wpe"](positions)
        for block in self.transformer["h"]:
            x = block(x)
        return self.transformer["ln_f"](x)

    def logits(self, ids):
        return F.linear(self.hidden(ids), self.transformer["wte"].weight)

    def loss(self, ids, targets):
        logits = self.logits(ids)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)

    @torch.no_grad()
    def generate(self, ids, count, temperature=0.8, top_k=200):
        """The official loop: the whole window again for every token."""
        for _ in range(count):
            window = ids[:, -self.block :]
            last = F.linear(self.hidden(window)[:, -1], self.transformer["wte"].weight)
            if temperature == 0:
                choice = last.argmax(dim=-1, keepdim=True)
            else:
                last = last / temperature
                kept = last.topk(min(top_k, last.shape[-1])).values
                last[last < kept[:, -1:]] = -float("inf")
                choice = torch.multinomial(last.softmax(dim=-1), 1)
            ids = torch.cat([ids, choice], dim=1)
        return ids


def parameter_groups(model, weight_decay):
    decayed, plain = [], []
    for name, parameter in model.named_parameters():
        matrix = parameter.dim() >= 2 and "temp" not in name and "denom" not in name
        (decayed if matrix else plain).append(parameter)
    return [
        {"params": decayed, "weight_decay": weight_decay},
        {"params": plain, "weight_decay": 0.0},
    ]
