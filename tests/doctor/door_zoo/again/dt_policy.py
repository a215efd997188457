"""Decision transformer: returns, states and actions as one sequence."""
import argparse
import math
import pickle
import random

import d4rl
import gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def discount_cumsum(x, gamma):
    out = np.zeros_like(x)
    out[-1] = x[-1]
    for t in reversed(range(x.shape[0] - 1)):
        out[t] = x[t] + gamma * out[t + 1]
    return out


class MaskedCausalAttention(nn.Module):
    """Causal self-attention over (return, state, action) triples: no token may see a later one."""

    def __init__(self, h_dim, max_T, n_heads, drop_p):
        super().__init__()
        self.n_heads = n_heads
        self.max_T = max_T
        self.q_net = nn.Linear(h_dim, h_dim)
        self.k_net = nn.Linear(h_dim, h_dim)
        self.v_net = nn.Linear(h_dim, h_dim)
        self.proj_net = nn.Linear(h_dim, h_dim)
        self.att_drop = nn.Dropout(drop_p)
        self.proj_drop = nn.Dropout(drop_p)
        self.register_buffer("mask", torch.tril(torch.ones((max_T, max_T))).view(1, 1, max_T, max_T))

    def forward(self, x):
        B, T, C = x.shape
        N, D = self.n_heads, C // self.n_heads
        q = self.q_net(x).view(B, T, N, D).transpose(1, 2)
        k = self.k_net(x).view(B, T, N, D).transpose(1, 2)
        v = self.v_net(x).view(B, T, N, D).transpose(1, 2)

        weights = q @ k.transpose(2, 3) / math.sqrt(D)
        weights.masked_fill(self.mask[..., :T, :T] == 0, float("-inf"))
        normalized = F.softmax(weights, dim=-1)
        attention = self.att_drop(normalized @ v)
        attention = attention.transpose(1, 2).contiguous().view(B, T, N * D)
        return self.proj_drop(self.proj_net(attention))


class Block(nn.Module):
    def __init__(self, h_dim, max_T, n_heads, drop_p):
        super().__init__()
        self.attention = MaskedCausalAttention(h_dim, max_T, n_heads, drop_p)
        self.mlp = nn.Sequential(nn.Linear(h_dim, 4 * h_dim), nn.GELU(), nn.Linear(4 * h_dim, h_dim))
        self.ln1, self.ln2 = nn.LayerNorm(h_dim), nn.LayerNorm(h_dim)

    def forward(self, x):
        x = self.ln1(x + self.attention(x))
        return self.ln2(x + self.mlp(x))


class DecisionTransformer(nn.Module):
    def __init__(self, state_dim, act_dim, n_blocks, h_dim, context_len, n_heads, drop_p, max_timestep=4096):
        super().__init__()
        self.transformer = nn.Sequential(*[Block(h_dim, 3 * context_len, n_heads, drop_p) for _ in range(n_blocks)])
        self.embed_ln = nn.LayerNorm(h_dim)
        self.embed_timestep = nn.Embedding(max_timestep, h_dim)
        self.embed_rtg = nn.Linear(1, h_dim)
        self.embed_state = nn.Linear(state_dim, h_dim)
        self.embed_action = nn.Linear(act_dim, h_dim)
        self.predict_action = nn.Sequential(nn.Linear(h_dim, act_dim), nn.Tanh())

    def forward(self, timesteps, states, actions, rtg):
        B, T, _ = states.shape
        time = self.embed_timestep(timesteps)
        h = torch.stack(
            (self.embed_rtg(rtg) + time, self.embed_state(states) + time, self.embed_action(actions) + time), dim=1
        )
        h = self.embed_ln(h.permute(0, 2, 1, 3).reshape(B, 3 * T, -1))
        h = self.transformer(h).reshape(B, T, 3, -1).permute(0, 2, 1, 3)
        return self.predict_action(h[:, 1])


def train(args):
    env = gym.make(args.env)
    with open(f"data/{args.env}.pkl", "rb") as f:
        trajectories = pickle.load(f)
    model = DecisionTransformer(env.observation_space.shape[0], env.action_space.shape[0], 3, 128, 20, 1, 0.1)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4)
    random.shuffle(trajectories)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--env", type=str, default="halfcheetah-medium-v2")
    train(parser.parse_args())
