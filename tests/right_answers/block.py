"""Right answers to notebook 08's exercises, each written differently."""

import functools

import torch
import torch.nn.functional as F
from torch import nn

import course_utils


def llama_block__two_lines(x, attn, ffn, norm1, norm2):
    x = x + attn(norm1(x))
    return x + ffn(norm2(x))


def llama_block__residual_named(x, attn, ffn, norm1, norm2):
    residual = x
    x = norm1(x)
    x = attn(x)
    x = residual + x
    residual = x
    x = norm2(x)
    x = ffn(x)
    x = residual + x
    return x


def llama_block__h(x, attn, ffn, norm1, norm2):
    h = attn(norm1(x)) + x
    out = ffn(norm2(h)) + h
    return out


def llama_block__loop(x, attn, ffn, norm1, norm2):
    for sublayer, norm in ((attn, norm1), (ffn, norm2)):
        x = torch.add(sublayer(norm(x)), x)
    return x


def llama_block__sequential(x, attn, ffn, norm1, norm2):
    x = x + nn.Sequential(norm1, attn)(x)
    return x + nn.Sequential(norm2, ffn)(x)


def llama_block__branches_summed(x, attn, ffn, norm1, norm2):
    from_attention = attn(norm1(x))
    from_ffn = ffn(norm2(x + from_attention))
    return torch.stack([x, from_attention, from_ffn]).sum(0)


def llama_block__in_place_on_a_copy(x, attn, ffn, norm1, norm2):
    stream = x.clone()
    stream += attn(norm1(x))
    return stream.add(ffn(norm2(stream)))


def llama_block__helper(hidden_states, self_attn, mlp, input_layernorm, post_attention_layernorm):
    def step(h, norm, f):
        return h + f(norm(h))

    h = step(hidden_states, input_layernorm, self_attn)
    return step(h, post_attention_layernorm, mlp)


llama_block__walrus = lambda x, a, f, n1, n2: (h := x + a(n1(x))) + f(n2(h))


def llama_stack__loop(x, blocks, final_norm, head):
    for block in blocks:
        x = block(x)
    x = final_norm(x)
    return head(x)


def llama_stack__index(x, blocks, final_norm, head):
    h = x
    for i in range(len(blocks)):
        h = blocks[i](h)
    logits = head(final_norm(h))
    return logits


def llama_stack__reduce(x, blocks, final_norm, head):
    return head(final_norm(functools.reduce(lambda h, block: block(h), blocks, x)))


def llama_stack__sequential(x, blocks, final_norm, head):
    return nn.Sequential(*blocks, final_norm, head)(x)


def llama_stack__one_list(x, blocks, final_norm, head):
    for part in [*blocks, final_norm, head]:
        x = part(x)
    return x


def llama_stack__concatenated(x, blocks, final_norm, head):
    for part in blocks + [final_norm, head]:
        x = part(x)
    return x


def llama_stack__recursion(x, blocks, final_norm, head):
    if len(blocks) == 0:
        return head(final_norm(x))
    return llama_stack__recursion(blocks[0](x), blocks[1:], final_norm, head)


def llama_stack__collected(x, blocks, final_norm, head):
    hidden_states = [x]
    for index, block in enumerate(blocks):
        hidden_states.append(block(hidden_states[index]))
    return head(final_norm(hidden_states[-1]))


def llama_stack__first_apart(x, blocks, final_norm, head):
    x = blocks[0](x)
    for block in blocks[1:]:
        x = block(x)
    return head(final_norm(x))


def qk_norm__formula(q, weight, eps):
    return q / torch.sqrt(q.pow(2).mean(-1, keepdim=True) + eps) * weight


def qk_norm__the_courses(q, weight, eps):
    return course_utils.rms_norm(q, weight, eps)


def qk_norm__torch(q, weight, eps):
    return F.rms_norm(q, (q.shape[-1],), weight, eps)


def qk_norm__flattened(q, weight, eps):
    B, T, H, d = q.shape
    rows = q.reshape(B * T * H, d)
    return F.rms_norm(rows, (d,), weight, eps).reshape(B, T, H, d)


def qk_norm__head_by_head(q, weight, eps):
    heads = [course_utils.rms_norm(q[:, :, h], weight, eps) for h in range(q.shape[2])]
    return torch.stack(heads, dim=2)


def qk_norm__float32_inside(q, weight, eps):
    h = q.to(torch.float32)
    h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + eps)
    return weight * h.to(q.dtype)


def qk_norm__float64_inside(q, weight, eps):
    h = q.double()
    h = h * (h.square().sum(3)[..., None] / h.size(3) + eps) ** -0.5
    return (h * weight.double()[None, None, None, :]).type_as(q)


def qk_norm__einsum(q, weight, eps):
    mean_square = torch.einsum("bthd,bthd->bth", q, q) / q.shape[3]
    return torch.einsum("bthd,bth,d->bthd", q, (mean_square + eps).rsqrt(), weight)


def qk_norm__transposed_and_back(q, weight, eps):
    h = q.transpose(1, 2)
    h = h / (h.square().mean(-1).unsqueeze(-1) + eps).sqrt() * weight
    return h.transpose(1, 2)


def qk_norm__by_a_module(q, weight, eps):
    norm = nn.RMSNorm(q.shape[-1], eps=eps, dtype=q.dtype)
    return norm(q) * weight


def qk_norm__in_place_on_its_own(q, weight, eps):
    y = q.clone()
    y.mul_(q.square().mean(-1, keepdim=True).add_(eps).rsqrt_())
    return y * weight
