import torch
import torch.nn as nn
from torch.nn.utils import spectral_norm


class SelfAttn(nn.Module):
    """ attention layer for feature maps """

    def __init__(self, in_dim, activation=None):
        super(SelfAttn, self).__init__()
        self.chanel_in = in_dim
        self.activation = activation

        self.query_conv = nn.Conv2d(in_dim, in_dim // 8, kernel_size=1)
        self.key_conv = nn.Conv2d(in_dim, in_dim // 8, kernel_size=1)
        self.value_conv = nn.Conv2d(in_dim, in_dim, kernel_size=1)
        self.gamma = nn.Parameter(torch.zeros(1))
        self.softmax = nn.Softmax(dim=-1)

    def forward(self, x):
        """
            x : feature maps (B, C, W, H)
            out : feature maps after attention, and the N x N attention
        """
        B, C, width, height = x.size()
        N = width * height
        proj_query = self.query_conv(x).view(B, -1, N).permute(0, 2, 1)
        proj_key = self.key_conv(x).view(B, -1, N)
        attention = self.softmax(torch.bmm(proj_query, proj_key))
        proj_value = self.value_conv(x).view(B, -1, N)

        out = torch.bmm(proj_value, attention).view(B, C, width, height)
        return self.gamma * out + x, attention


class Discriminator(nn.Module):
    """ 32 x 32 images """

    def __init__(self, conv_dim=32):
        super(Discriminator, self).__init__()
        self.l1 = self.down(3, conv_dim)
        self.l2 = self.down(conv_dim, conv_dim * 2)
        self.attn = SelfAttn(conv_dim * 2, 'relu')
        self.l3 = self.down(conv_dim * 2, conv_dim * 4)
        self.last = nn.Conv2d(conv_dim * 4, 1, 4)

    @staticmethod
    def down(c_in, c_out):
        return nn.Sequential(spectral_norm(nn.Conv2d(c_in, c_out, 4, 2, 1)),
                             nn.LeakyReLU(0.1))

    def forward(self, x):
        out, p = self.attn(self.l2(self.l1(x)))
        return self.last(self.l3(out)).squeeze(), p


def hinge(d_real, d_fake):
    return torch.relu(1 - d_real).mean() + torch.relu(1 + d_fake).mean()


if __name__ == '__main__':
    D = Discriminator()
    real, fake = torch.randn(8, 3, 32, 32), torch.randn(8, 3, 32, 32)
    loss = hinge(D(real)[0], D(fake)[0])
    loss.backward()
    print(loss.item(), D.attn.gamma.grad)
