import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor


def layer_init(layer, std=np.sqrt(2), bias_const=0.0):
    nn.init.orthogonal_(layer.weight, std)
    if layer.bias is not None:
        nn.init.constant_(layer.bias, bias_const)
    return layer


class EntityAttention(nn.Module):
    def __init__(self, in_dim: int, embed_dim: int, n_heads: int = 4):
        super().__init__()
        self.n_heads = n_heads
        self.embed_dim = embed_dim
        self.head_dim = embed_dim // n_heads
        self.in_trans = nn.Linear(in_dim, embed_dim * 3, bias=False)
        self.out_trans = nn.Linear(embed_dim, embed_dim)
        self.register_buffer("scale_factor", torch.tensor(float(self.head_dim)).sqrt())

    def forward(self, entities, alive=None):
        """entities (bs, ne, in_dim); alive (bs, ne) is 1 for the agents and enemies still in the game."""
        bs, ne, _ = entities.shape
        query, key, value = self.in_trans(entities).chunk(3, dim=2)

        query = query.reshape(bs, ne, self.n_heads, self.head_dim).transpose(1, 2)
        key = key.reshape(bs, ne, self.n_heads, self.head_dim).permute(0, 2, 3, 1)
        value = value.reshape(bs, ne, self.n_heads, self.head_dim).transpose(1, 2)

        logits = torch.matmul(query, key) / self.scale_factor
        if alive is not None:
            dead = (1 - alive.to(torch.uint8)).bool()
            logits = logits.masked_fill(dead[:, None, None, :], -1e10)
        weights = torch.softmax(logits, dim=-1)
        attended = torch.matmul(weights, value).transpose(1, 2).reshape(bs, ne, self.embed_dim)
        return self.out_trans(attended)


class EntityExtractor(BaseFeaturesExtractor):
    def __init__(self, observation_space: gym.spaces.Dict, features_dim: int = 64):
        super().__init__(observation_space, features_dim)
        ent_dim = observation_space["entities"].shape[-1]
        self.fc = layer_init(nn.Linear(ent_dim, features_dim))
        self.attn = EntityAttention(features_dim, features_dim)

    def forward(self, obs):
        x = torch.relu(self.fc(obs["entities"]))
        return self.attn(x, obs["alive"]).mean(dim=1)


def make_env(env_id, seed):
    def thunk():
        env = gym.wrappers.RecordEpisodeStatistics(gym.make(env_id))
        env.action_space.seed(seed)
        return env

    return thunk


if __name__ == "__main__":
    envs = gym.vector.SyncVectorEnv([make_env("Skirmish-v0", i) for i in range(8)])
    print(envs.single_observation_space)
