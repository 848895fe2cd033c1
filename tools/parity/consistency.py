# The numbers of tests/golden/consistency.h: the loss on the first page of R-Drop's program
# (https://github.com/dropreg/R-Drop), in PyTorch, for ten rows that stand for two passes over five tokens.
#
#     python3 tools/parity/consistency.py >tests/golden/consistency.h
import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
N, V, D, A = 5, 7, 4, 1.5
x = torch.tensor([((i * 37) % 23 - 11) / 8 for i in range(2 * N * D)]).view(2 * N, D).requires_grad_()
w = torch.tensor([((i * 29) % 19 - 9) / 8 for i in range(V * D)]).view(V, D).requires_grad_()
b = torch.tensor([((i * 13) % 7 - 3) / 8 for i in range(V)]).requires_grad_()
t = torch.tensor([(3 * i + 1) % V for i in range(N)])


def compute_kl_loss(p, q):
    p_loss = F.kl_div(F.log_softmax(p, dim=-1), F.softmax(q, dim=-1), reduction='none').sum()
    q_loss = F.kl_div(F.log_softmax(q, dim=-1), F.softmax(p, dim=-1), reduction='none').sum()
    return (p_loss + q_loss) / 2


def cross_entropy_loss(z):
    return F.cross_entropy(z, t, label_smoothing=0.1, reduction='sum')


logits = x @ w.t() + b
ce_loss = 0.5 * (cross_entropy_loss(logits[:N]) + cross_entropy_loss(logits[N:]))
kl_loss = compute_kl_loss(logits[:N], logits[N:])
(ce_loss + A * kl_loss).backward()

print('/* Made by tools/parity/consistency.py with PyTorch. */')
for name, numbers in [('loss', ce_loss), ('divergence', kl_loss), ('dx', x.grad), ('dw', w.grad), ('db', b.grad)]:
    texts = ['%.12g' % v for v in numbers.detach().flatten().tolist()]
    print('static const double consistency_%s[] = {' % name)
    for i in range(0, len(texts), 6):
        print('    ' + ', '.join(texts[i:i + 6]) + ',')
    print('};')
