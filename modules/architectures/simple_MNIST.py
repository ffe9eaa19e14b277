"""Small fully connected networks for MNIST: pictures of 1 x 28 x 28 pixels, ten classes."""

import torch
from torch import nn
from torch.distributions import Categorical, Independent, Normal

from jade.nn import Flatten, Reshape, StochasticLinear, make_stack

N_INPUTS = 28 * 28
N_LABELS = 10


# q(Z|X): from pictures to a factorized normal distribution
class Encoder(nn.Module):
    def __init__(self, z_dim, layers):
        super().__init__()
        self.net = nn.Sequential(
            Flatten(),
            *make_stack([N_INPUTS, *layers]),
            nn.ReLU(),
            StochasticLinear(layers[-1], z_dim, "Normal"),
        )

    def forward(self, x):
        return self.net(x)


# p(X|Z): from codes to a distribution over pictures, independent in each pixel
class Decoder(nn.Module):
    def __init__(self, z_dim, layers, sigma):
        super().__init__()
        self.net = nn.Sequential(*make_stack([z_dim, *layers, N_INPUTS]), Reshape(1, 28, 28))
        self.sigma = sigma

    def forward(self, z):
        return Independent(Normal(self.net(z), self.sigma), 3)


# p(Y|Z): from codes to a distribution over labels
class Classifier(nn.Module):
    def __init__(self, z_dim, layers):
        super().__init__()
        self.net = nn.Sequential(*make_stack([z_dim, *layers, N_LABELS]))

    def forward(self, z):
        return Categorical(logits=self.net(z))


# p(Z): the standard normal distribution
class Prior(nn.Module):
    def __init__(self, z_dim):
        super().__init__()
        self.register_buffer("mu", torch.zeros(z_dim))
        self.register_buffer("sigma", torch.ones(z_dim))

    def forward(self):
        return Independent(Normal(self.mu, self.sigma), 1)
