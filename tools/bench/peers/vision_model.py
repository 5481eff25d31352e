"""The peer for pictures: ToST's image classifier in plain PyTorch, written from the formulas.

Parameter names are the official ones. The operator comes twice: as the official code computes it,
and as little work as PyTorch can be asked for; the model uses the latter.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

# Features of a row or a column of the positions, the longest period's base, and a shift of 1e-6.
POSITION_FEATURES = 32
POSITION_BASE = 10000
LAYER_NORM_EPS = 1e-6


def tssa_official(w, temp, heads):
    """w [B, N, C], temp [H, 1] -> y [B, N, C], one tensor of that size for every step.

    D_i = max(sqrt(sum_n w_ni^2), 1e-12)         per channel i of a head
    Pi_n = softmax over heads of temp * sum_i w_ni^2 / D_i^2
    s_i = sum_n Pi_n w_ni^2 / (sum_n Pi_n + 1e-8)
    y_n = -w_n Pi_n / (1 + s)
    """
    batch, tokens, width = w.shape
    w = w.view(batch, tokens, heads, width // heads).transpose(1, 2)  # [B, H, N, d]
    shares = F.normalize(w, dim=2, eps=1e-12).square()
    memberships = (shares.sum(dim=-1) * temp).softmax(dim=1)  # [B, H, N]
    mass = memberships.sum(dim=-1, keepdim=True) + 1e-8
    second_moment = torch.matmul((memberships / mass).unsqueeze(-2), w.square())  # [B, H, 1, d]
    y = -(w * memberships.unsqueeze(-1)) * (1 / (1 + second_moment))
    return y.transpose(1, 2).reshape(batch, tokens, width)


def tssa_tuned(w, temp, heads):
    """The same with one square of w, nothing transposed and small factors multiplied first."""
    batch, tokens, width = w.shape
    w = w.view(batch, tokens, heads, width // heads)  # [B, N, H, d]
    squares = w.square()
    inverse_energy = squares.sum(dim=1, keepdim=True).clamp_min(1e-24).reciprocal()
    shares = (squares * inverse_energy).sum(dim=-1)  # [B, N, H]
    memberships = (shares * temp.view(heads)).softmax(dim=-1)
    weights = memberships / (memberships.sum(dim=1, keepdim=True) + 1e-8)
    second_moment = (weights.unsqueeze(-1) * squares).sum(dim=1, keepdim=True)  # [B, 1, H, d]
    y = w * (memberships.unsqueeze(-1) * (-1 / (1 + second_moment)))
    return y.view(batch, tokens, width)


class Tssa(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.temp = nn.Parameter(torch.ones(heads, 1))
        self.qkv = nn.Linear(width, width)  # one projection, whatever its name says
        self.to_out = nn.Sequential(nn.Linear(width, width))

    def forward(self, x):
        return self.to_out(tssa_tuned(self.qkv(x), self.temp, self.heads))


class Mlp(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc1 = nn.Linear(width, 4 * width)
        self.fc2 = nn.Linear(4 * width, width)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x)))


class Block(nn.Module):
    """x + gamma1 * attn(norm1 x), then x + gamma2 * mlp(norm2 x)."""

    def __init__(self, width, heads, layer_scale):
        super().__init__()
        self.gamma1 = nn.Parameter(layer_scale * torch.ones(width))
        self.gamma2 = nn.Parameter(layer_scale * torch.ones(width))
        self.norm1 = nn.LayerNorm(width, eps=LAYER_NORM_EPS)
        self.attn = Tssa(width, heads)
        self.norm2 = nn.LayerNorm(width, eps=LAYER_NORM_EPS)
        self.mlp = Mlp(width)

    def forward(self, x):
        x = torch.addcmul(x, self.gamma1, self.attn(self.norm1(x)))
        return torch.addcmul(x, self.gamma2, self.mlp(self.norm2(x)))


class ClassAttention(nn.Module):
    """What token 0 reads from all tokens by softmax attention: [B, N, C] -> [B, 1, C]."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x):
        batch, tokens, width = x.shape
        parts = self.qkv(x).view(batch, tokens, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)  # [B, H, N, d] each
        read = F.scaled_dot_product_attention(q[:, :, :1], k, v)
        return self.proj(read.transpose(1, 2).reshape(batch, 1, width))


class ClassAttentionBlock(nn.Module):
    """Token 0 reads the others, which are carried along: normalised, and doubled at the end."""

    def __init__(self, width, heads, layer_scale):
        super().__init__()
        self.gamma1 = nn.Parameter(layer_scale * torch.ones(width))
        self.gamma2 = nn.Parameter(layer_scale * torch.ones(width))
        self.norm1 = nn.LayerNorm(width, eps=LAYER_NORM_EPS)
        self.attn = ClassAttention(width, heads)
        self.norm2 = nn.LayerNorm(width, eps=LAYER_NORM_EPS)
        self.mlp = Mlp(width)

    def forward(self, x):
        u = self.norm1(x)
        x = torch.addcmul(x, self.gamma1, torch.cat([self.attn(u), u[:, 1:]], dim=1))
        x = self.norm2(x)
        token = x[:, :1]
        token = torch.addcmul(token, self.gamma2, self.mlp(token))
        return torch.cat([token, 2 * x[:, 1:]], dim=1)


class Stem(nn.Module):
    """3x3 convolutions of stride 2 with batch norm, GELU between them: [B, 3, S, S] -> [B, N, C]."""

    def __init__(self, width, patch):
        super().__init__()
        stages = int(math.log2(patch))
        layers, previous = [], 3
        for stage in range(stages):
            channels = width >> (stages - 1 - stage)
            convolution = nn.Conv2d(previous, channels, 3, stride=2, padding=1, bias=False)
            layers += [nn.Sequential(convolution, nn.BatchNorm2d(channels)), nn.GELU()]
            previous = channels
        self.proj = nn.Sequential(*layers[:-1])

    def forward(self, images):
        return self.proj(images).flatten(2).transpose(1, 2)


def position_features(side):
    """[side * side, 64]: of v = 2 pi r / (side + 1e-6), r = 1 ... side, for the row and the column:
    sin(v / theta_k) for even k and cos for odd, theta_k = 10000^(2 floor(k/2) / 32)."""
    v = 2 * math.pi * torch.arange(1, side + 1, dtype=torch.float64) / (side + 1e-6)
    k = torch.arange(POSITION_FEATURES)
    angles = v[:, None] / POSITION_BASE ** (2 * (k // 2) / POSITION_FEATURES).double()
    waves = torch.where(k % 2 == 0, angles.sin(), angles.cos()).float()
    rows, columns = waves[:, None].expand(-1, side, -1), waves[None].expand(side, -1, -1)
    return torch.cat([rows, columns], dim=-1).flatten(0, 1)


class Positions(nn.Module):
    def __init__(self, width, side):
        super().__init__()
        self.token_projection = nn.Conv2d(2 * POSITION_FEATURES, width, 1)
        self.register_buffer("features", position_features(side), persistent=False)

    def forward(self):
        projection = self.token_projection
        return F.linear(self.features, projection.weight.flatten(1), projection.bias)


class VisionModel(nn.Module):
    """Channels last inside the stem: tokens then need no transposition."""

    def __init__(self, depth, heads, width, patch, image_size, classes, layer_scale=1.0):
        super().__init__()
        side = -(-image_size // patch)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, width))
        self.patch_embed = Stem(width, patch)
        self.pos_embeder = Positions(width, side)
        self.blocks = nn.Sequential(*(Block(width, heads, layer_scale) for _ in range(depth)))
        self.cls_attn_blocks = nn.Sequential(
            *(ClassAttentionBlock(width, heads, layer_scale) for _ in range(2))
        )
        self.norm = nn.LayerNorm(width, eps=LAYER_NORM_EPS)
        self.head = nn.Linear(width, classes)
        nn.init.normal_(self.cls_token, std=0.02)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=0.02)
                nn.init.zeros_(module.bias)
        self.to(memory_format=torch.channels_last)

    def forward(self, images):
        x = self.patch_embed(images.contiguous(memory_format=torch.channels_last))
        x = self.blocks(x + self.pos_embeder())
        x = torch.cat([self.cls_token.expand(x.shape[0], -1, -1), x], dim=1)
        x = self.cls_attn_blocks(x)
        return self.head(self.norm(x[:, 0]))


def parameter_groups(model, weight_decay):
    """timm's rule, as the official pretraining has it: the temperatures are decayed, too."""
    decayed, plain = [], []
    for name, parameter in model.named_parameters():
        spared = parameter.dim() <= 1 or name.endswith(".bias") or name == "cls_token"
        (plain if spared else decayed).append(parameter)
    return [
        {"params": decayed, "weight_decay": weight_decay},
        {"params": plain, "weight_decay": 0.0},
    ]
