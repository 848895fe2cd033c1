# The numbers of tests/golden/blocks.h: attention with attn_mask and fewer key heads, nn.MultiheadAttention, nn.RMSNorm,
# rotary positions by the programs of Llama (Meta's and Hugging Face's) and SwiGLU, forward and backward, in float64.
#
#     python3 tools/parity/blocks.py >tests/golden/blocks.h
import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
B, N, M, H, KV, D = 2, 3, 5, 4, 2, 2        # sequences, queries, keys, heads, heads of keys, width of a head


def numbers(seed, *shape):
    n = torch.Size(shape).numel()
    return torch.tensor([((i * (29 + 2 * seed) + seed) % 37 - 18) / 16 for i in range(n)]).view(shape).requires_grad_()


def show(name, *tensors):
    texts = ['%.12g' % v for t in tensors for v in t.detach().flatten().tolist()]
    print('static const double %s[] = {' % name)
    while texts:
        line = '   '
        while texts and len(line) + len(texts[0]) < 110:
            line += ' ' + texts.pop(0) + ','
        print(line)
    print('};')


def heads(x, n):        # (rows of B sequences, n * D) to (B, n, rows, D)
    return x.view(B, -1, n, D).transpose(1, 2)


def rows(x):
    return x.transpose(1, 2).reshape(-1, x.shape[1] * D)


print('/* Made by tools/parity/blocks.py with PyTorch. */')

# score_bias: its shape in PyTorch, and whether attention is causal besides
masks = [('shared', (N, M), 0), ('per_head', (H, N, M), 0), ('per_sequence', (B, 1, N, M), 0),
         ('both', (B, H, N, M), 0), ('causal', (H, N, N), 1)]
for seed, (name, shape, causal) in enumerate(masks):
    keys = shape[-1]
    q, k, v = numbers(1, B * N, H * D), numbers(2, B * keys, KV * D), numbers(3, B * keys, KV * D)
    mask = numbers(4 + seed, *shape)
    hidden = torch.tensor([i % 7 == 3 and i % keys > 0 for i in range(mask.numel())]).view(shape)
    bias = mask.masked_fill(hidden, float('-inf'))
    if causal:
        bias = bias + torch.full((N, N), float('-inf')).triu(1)
    out = rows(F.scaled_dot_product_attention(heads(q, H), heads(k, KV), heads(v, KV), attn_mask=bias, scale=0.6,
                                              enable_gqa=True))
    out.backward(numbers(9, *out.shape).detach())
    show('attention_' + name, out, q.grad, k.grad, v.grad, mask.grad)

mha = torch.nn.MultiheadAttention(H * D, H, batch_first=True)
with torch.no_grad():
    for seed, p in enumerate([mha.in_proj_weight, mha.in_proj_bias, mha.out_proj.weight, mha.out_proj.bias]):
        p.copy_(numbers(seed, *p.shape))
x, mask = numbers(5, B, N, H * D), numbers(6, B * H, N, N)
y, weights = mha(x, x, x, attn_mask=mask, average_attn_weights=False)
y.backward(numbers(9, *y.shape).detach())
show('multi_head', y, x.grad, mha.in_proj_weight.grad, mha.out_proj.weight.grad, mask.grad)
show('multi_head_weights', weights)

norm = torch.nn.RMSNorm(H * D, eps=1e-6)
with torch.no_grad():
    norm.weight.copy_(numbers(1, H * D))
x = numbers(2, B * N, H * D)
y = norm(x)
y.backward(numbers(9, *y.shape).detach())
show('rms_norm', y, x.grad, norm.weight.grad)

# Rotary positions: three queries of two heads, six wide, at the positions 0, 1, 2 of base 100.
W, P = 6, 3
frequencies = 1.0 / 100 ** (torch.arange(0, W, 2) / W)
angles = torch.outer(torch.arange(P, dtype=torch.float64), frequencies)
x = numbers(3, P, 2, W)
turned = torch.view_as_complex(x.view(P, 2, -1, 2)) * torch.polar(torch.ones_like(angles), angles)[:, None]
y = torch.view_as_real(turned).flatten(2)       # Meta's apply_rotary_emb
y.backward(numbers(9, *y.shape).detach())
show('rotary_interleaved', y, x.grad)
x = numbers(3, P, 2, W)
cos, sin = (torch.cat((f(angles), f(angles)), -1)[:, None] for f in (torch.cos, torch.sin))
y = x * cos + torch.cat((-x[..., W // 2:], x[..., :W // 2]), -1) * sin      # Hugging Face's apply_rotary_pos_emb
y.backward(numbers(9, *y.shape).detach())
show('rotary_halves', y, x.grad)

x, u, v, w = numbers(1, N, H), numbers(2, M, H), numbers(3, M, H), numbers(4, H, M)
y = (F.silu(x @ u.t()) * (x @ v.t())) @ w.t()
y.backward(numbers(9, *y.shape).detach())
show('swiglu', y, x.grad, u.grad, v.grad, w.grad)
