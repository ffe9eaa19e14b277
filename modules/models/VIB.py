"""The Variational Information Bottleneck of Alemi et al., https://arxiv.org/abs/1612.00410."""

from torch.optim import Adam
from torch.utils.data import DataLoader

from jade.trainer import Trainer


class VariationalInformationBottleneckTrainer(Trainer):
    def initialize(
        self,
        z_dim: int,
        encoder_layers: list[int],
        classifier_layers: list[int],
        beta: float,
        lr: float,
        batch_size: int,
        num_workers: int = 0,
    ):
        # The strength of the bottleneck
        self.beta = beta

        self.encoder = self.instantiate_architecture("Encoder", z_dim=z_dim, layers=encoder_layers)
        self.classifier = self.instantiate_architecture(
            "Classifier", z_dim=z_dim, layers=classifier_layers
        )
        self.prior = self.instantiate_architecture("Prior", z_dim=z_dim)
        self.opt = Adam(
            [*self.encoder.parameters(), *self.classifier.parameters()], lr=lr, fused=True
        )

        if num_workers == 0:
            self.train_loader = self.make_loader("train", batch_size, shuffle=True)
        else:
            self.train_loader = DataLoader(
                self.datasets["train"], batch_size, shuffle=True, num_workers=num_workers
            )

    def train_step(self, data):
        losses = self.compute_loss_components(data)
        pred_loss = losses["prediction"].mean()
        reg_loss = losses["regularization"].mean()
        loss = pred_loss + self.beta * reg_loss

        self.add_loss_item("Pred Loss", pred_loss)
        self.add_loss_item("Reg Loss", reg_loss)

        self.opt.zero_grad()
        loss.backward()
        self.opt.step()

    def compute_loss_components(self, data):
        """Return the loss of the prediction and the size of the code, for each sample."""
        q_z_given_x = self.encoder(data["x"])
        z = q_z_given_x.rsample()
        return {
            "prediction": -self.classifier(z).log_prob(data["y"]),
            "regularization": q_z_given_x.log_prob(z) - self.prior().log_prob(z),
        }

    def predict(self, x):
        """Return the most probable class of each sample."""
        return self.classifier(self.encoder(x).mean).logits.argmax(dim=-1)
