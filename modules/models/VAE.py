"""The Variational Autoencoder of Kingma and Welling, https://arxiv.org/abs/1312.6114."""

from torch.optim import Adam
from torch.utils.data import DataLoader

from jade.trainer import Trainer


class VariationalAutoencoderTrainer(Trainer):
    def initialize(
        self,
        z_dim: int,
        encoder_layers: list[int],
        decoder_layers: list[int],
        beta: float,
        lr: float,
        batch_size: int,
        num_workers: int = 0,
        sigma: float = 1.0,
    ):
        # The regularization strength
        self.beta = beta

        # The networks are defined in the file given by --arch_impl
        self.encoder = self.instantiate_architecture("Encoder", z_dim=z_dim, layers=encoder_layers)
        self.decoder = self.instantiate_architecture(
            "Decoder", z_dim=z_dim, layers=decoder_layers, sigma=sigma
        )
        self.prior = self.instantiate_architecture("Prior", z_dim=z_dim)

        # The fused version does the same in one call, which is worth a fifth of a small step
        self.opt = Adam(
            [
                {"params": self.encoder.parameters(), "lr": lr},
                {"params": self.decoder.parameters(), "lr": lr},
            ],
            fused=True,
        )

        # Data that fits in memory is fed by index; worker processes are for everything else
        if num_workers == 0:
            self.train_loader = self.make_loader("train", batch_size, shuffle=True)
        else:
            self.train_loader = DataLoader(
                self.datasets["train"], batch_size, shuffle=True, num_workers=num_workers
            )

    def train_step(self, data):
        losses = self.compute_loss_components(data)
        rec_loss = losses["reconstruction"].mean()
        reg_loss = losses["regularization"].mean()
        loss = rec_loss + self.beta * reg_loss

        self.add_loss_item("Rec Loss", rec_loss)
        self.add_loss_item("Reg Loss", reg_loss)

        self.opt.zero_grad()
        loss.backward()
        self.opt.step()

    def compute_loss_components(self, data):
        """Return the two parts of the negative lower bound for each sample of a batch."""
        x = data["x"]

        # Sample the representation with the reparametrization trick
        q_z_given_x = self.encoder(x)
        z = q_z_given_x.rsample()

        # - E[log p(X=x|Z=z)]
        rec_loss = -self.decoder(z).log_prob(x)

        # KL(q(Z|X=x) || p(Z)) = E[log q(Z=z|X=x) - log p(Z=z)]
        reg_loss = q_z_given_x.log_prob(z) - self.prior().log_prob(z)

        return {"reconstruction": rec_loss, "regularization": reg_loss}

    def reconstruct(self, x, *, sample_images=False):
        """Return pictures made from the codes of pictures."""
        p_x_given_z = self.decoder(self.encoder(x).mean)
        return p_x_given_z.sample() if sample_images else p_x_given_z.mean
