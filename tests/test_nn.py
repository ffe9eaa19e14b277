import copy
import io
import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.distributions import (
    Beta,
    Distribution,
    Independent,
    Normal,
    OneHotCategorical,
    kl_divergence,
)
from torch.nn import functional

import jade.nn
from jade.errors import ComponentError, ConfigError, TrainingError
from jade.nn import (
    Delta,
    Flatten,
    MaskedCrossEntropy,
    MaskedLoss,
    OneHot,
    Permute,
    Reshape,
    StochasticLinear,
    StochasticLinear2D,
    StopGrad,
    make_stack,
)

DISTRIBUTIONS = ["Normal", "Beta", "Delta", "Categorical", "Bernoulli"]


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


def constant_layer(bias, out_features, distribution, **options):
    """A layer of one input whose raw outputs are ``bias`` whatever comes in."""
    layer = StochasticLinear(1, out_features, distribution, **options)
    with torch.no_grad():
        layer.projection.weight.zero_()
        layer.projection.bias.copy_(torch.as_tensor(bias))
    return layer


def softplus(value):
    return math.log1p(math.exp(value))


# Layers without parameters


def test_public_names_are_those_of_all_and_importable():
    assert sorted(jade.nn.__all__) == jade.nn.__all__
    assert all(hasattr(jade.nn, name) for name in jade.nn.__all__)


def test_flatten_keeps_the_batch_dimension():
    assert Flatten()(torch.zeros(5, 3, 4)).shape == (5, 12)


@pytest.mark.parametrize(
    ("shape", "given", "expected"),
    [
        ((1, 28, 28), (5, 784), (5, 1, 28, 28)),
        ((-1,), (5, 3, 4), (5, 12)),
        ((2, -1), (0, 12), (0, 2, 6)),
        ((1,), (5,), (5, 1)),
    ],
)
def test_reshape_changes_only_the_shape_of_a_sample(shape, given, expected):
    assert Reshape(*shape)(torch.zeros(given)).shape == expected


def test_reshape_undoes_flatten():
    x = torch.randn(5, 3, 4)
    assert torch.equal(Reshape(3, 4)(Flatten()(x)), x)


def test_reshape_of_a_wrong_size_names_the_sizes():
    with pytest.raises(RuntimeError, match=r"\[2, 5\].*12"):
        Reshape(2, 5)(torch.zeros(3, 12))


@pytest.mark.parametrize(
    "shape", [(), (-1, -1), (0, 3), (-2,), ("28",), ([1, 28],), (2.0,), (True,)]
)
def test_reshape_with_impossible_sizes_raises(shape):
    with pytest.raises(ComponentError, match="without the batch dimension"):
        Reshape(*shape)


def test_permute_moves_the_dimensions_of_a_sample():
    x = torch.randn(5, 2, 3, 4)
    assert torch.equal(Permute(2, 0, 1)(x), x.permute(0, 3, 1, 2))


def test_permute_with_the_inverse_order_restores_the_input():
    x = torch.randn(5, 2, 3, 4)
    assert torch.equal(Permute(1, 2, 0)(Permute(2, 0, 1)(x)), x)


@pytest.mark.parametrize("dims", [(), (1, 2), (0, 0), (0, -1), ("0",), ([1, 0],)])
def test_permute_without_each_dimension_once_raises(dims):
    with pytest.raises(ComponentError, match="count from 0"):
        Permute(*dims)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8])
def test_onehot_encodes_any_integer_type_as_float(dtype):
    encoded = OneHot(3)(torch.tensor([2, 0], dtype=dtype))
    assert encoded.dtype == torch.float32
    assert encoded.tolist() == [[0, 0, 1], [1, 0, 0]]


def test_onehot_keeps_leading_dimensions():
    assert OneHot(3)(torch.zeros(2, 5, dtype=torch.long)).shape == (2, 5, 3)


def test_onehot_of_a_fractional_label_raises_instead_of_rounding():
    with pytest.raises(RuntimeError):
        OneHot(3)(torch.tensor([1.5]))


@pytest.mark.parametrize("num_classes", [0, -1, "3", 3.0, True, None])
def test_onehot_with_a_wrong_number_of_classes_raises(num_classes):
    with pytest.raises(
        ComponentError, match=r"OneHot: num_classes must be a positive integer, not"
    ):
        OneHot(num_classes)


def test_stopgrad_passes_values_and_no_gradient():
    x = torch.randn(3, requires_grad=True)
    stopped = StopGrad()(x)
    assert torch.equal(stopped, x)
    assert not stopped.requires_grad
    (stopped * x).sum().backward()
    assert torch.equal(x.grad, x.detach())


def test_stopgrad_in_a_network_leaves_earlier_layers_without_gradient():
    network = nn.Sequential(nn.Linear(2, 2), StopGrad(), nn.Linear(2, 1))
    network(torch.randn(3, 2)).sum().backward()
    assert network[0].weight.grad is None
    assert network[2].weight.grad is not None


@pytest.mark.parametrize(
    ("layer", "text"),
    [
        (Reshape(1, -1), "Reshape(1, -1)"),
        (Permute(1, 0), "Permute(1, 0)"),
        (OneHot(3), "OneHot(3)"),
    ],
)
def test_layers_show_their_arguments(layer, text):
    assert repr(layer) == text


# Stacks


def test_stack_has_activations_between_layers_and_none_at_the_end():
    layers = make_stack([784, 1024, 256, 10])
    assert [type(layer) for layer in layers] == [nn.Linear, nn.ReLU, nn.Linear, nn.ReLU, nn.Linear]
    assert [(layer.in_features, layer.out_features) for layer in layers[::2]] == [
        (784, 1024),
        (1024, 256),
        (256, 10),
    ]


def test_stack_of_two_sizes_is_one_linear_layer():
    (layer,) = make_stack((4, 2))
    assert isinstance(layer, nn.Linear)


def test_stack_accepts_numpy_integers():
    assert make_stack(np.array([4, 2]))[0].out_features == 2


def test_stack_options_set_activation_and_normalization():
    layers = make_stack([4, 3, 2, 1], activation="Tanh", batch_norm=True)
    assert [type(layer) for layer in layers] == [
        nn.Linear,
        nn.BatchNorm1d,
        nn.Tanh,
        nn.Linear,
        nn.BatchNorm1d,
        nn.Tanh,
        nn.Linear,
    ]
    assert nn.Sequential(*layers)(torch.randn(8, 4)).shape == (8, 1)


def test_stack_activation_may_be_a_callable():
    layers = make_stack([4, 3, 2], activation=lambda: nn.LeakyReLU(0.3))
    assert layers[1].negative_slope == 0.3


def test_stack_activations_are_not_shared():
    layers = make_stack([4, 3, 2, 1], activation=nn.PReLU)
    assert layers[1] is not layers[3]


def test_stack_with_an_unknown_activation_suggests_one():
    with pytest.raises(
        ComponentError, match=r"no activation 'relu'. Did you mean 'ReLU'\? Known: ELU, GELU, "
    ):
        make_stack([4, 2], activation="relu")


def test_stack_with_a_finished_activation_asks_for_its_class():
    with pytest.raises(ComponentError, match=r"a name or a class.*ReLU\(\)"):
        make_stack([4, 2], activation=nn.ReLU())


@pytest.mark.parametrize(
    "sizes",
    ["-1024 -256", "-1024\n-256", [784, "-1024 -256"], [784, *"-1024 -256"], [784, -1024, -256]],
)
def test_stack_from_a_yaml_list_without_blanks_shows_the_right_yaml(sizes):
    with pytest.raises(ConfigError, match="blank after its dash; write '- 1024', '- 256', one"):
        make_stack(sizes)


def test_stack_from_a_single_negative_number_shows_the_right_yaml():
    with pytest.raises(ConfigError, match=r"a list such as .*, not -1024\..*write '- 1024'"):
        make_stack(-1024)


@pytest.mark.parametrize(
    "sizes", ["abc", None, 5, [4, 2.5], [4, None], [4, True], [4, 0], [4, "2"]]
)
def test_stack_with_other_wrong_sizes_raises_without_speaking_of_dashes(sizes):
    with pytest.raises(ComponentError, match="make_stack: the sizes must be") as caught:
        make_stack(sizes)
    assert "dash" not in str(caught.value)


@pytest.mark.parametrize("sizes", [[], [784]])
def test_stack_with_fewer_than_two_sizes_raises(sizes):
    with pytest.raises(ComponentError, match="at least two sizes"):
        make_stack(sizes)


# Stochastic layers: the contract of all distributions


@pytest.mark.parametrize("batch", [(), (7,), (2, 7)])
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_stochastic_linear_features_are_the_event(name, batch):
    layer = StochasticLinear(6, 4, name)
    distribution = layer(torch.randn(*batch, 6))
    sample = distribution.rsample()
    assert distribution.batch_shape == batch
    assert distribution.event_shape == (4,)
    assert sample.shape == distribution.mean.shape == distribution.mode.shape == (*batch, 4)
    assert distribution.log_prob(sample).shape == batch
    assert distribution.sample((3,)).shape == (3, *batch, 4)


@pytest.mark.parametrize("batch", [(), (7,)])
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_stochastic_2d_image_is_the_event(name, batch):
    layer = StochasticLinear2D(6, 4, name)
    distribution = layer(torch.randn(*batch, 6, 5, 3))
    sample = distribution.rsample()
    assert distribution.batch_shape == batch
    assert distribution.event_shape == (4, 5, 3)
    assert sample.shape == distribution.mean.shape == distribution.mode.shape == (*batch, 4, 5, 3)
    assert distribution.log_prob(sample).shape == distribution.entropy().shape == batch
    assert distribution.rsample((2,)).shape == (2, *batch, 4, 5, 3)
    assert distribution.sample((2,)).shape == (2, *batch, 4, 5, 3)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_stochastic_2d_by_1x1_is_the_linear_layer_at_each_position(name):
    linear, conv = StochasticLinear(6, 4, name), StochasticLinear2D(6, 4, name)
    with torch.no_grad():
        conv.projection.weight.copy_(linear.projection.weight[:, :, None, None])
        conv.projection.bias.copy_(linear.projection.bias)
    x = torch.randn(2, 6, 5, 3)
    flat, image = linear(x.permute(0, 2, 3, 1)), conv(x)
    value = flat.sample()

    torch.testing.assert_close(image.mean, flat.mean.permute(0, 3, 1, 2))
    torch.testing.assert_close(image.variance, flat.variance.permute(0, 3, 1, 2))
    torch.testing.assert_close(image.mode, flat.mode.permute(0, 3, 1, 2))
    torch.testing.assert_close(image.entropy(), flat.entropy().sum((1, 2)))
    if name != "Delta":  # the two products differ in the last bit, which a point does not forgive
        expected = flat.log_prob(value).sum((1, 2))
        torch.testing.assert_close(image.log_prob(value.permute(0, 3, 1, 2)), expected)


@pytest.mark.parametrize(
    ("options", "size"),
    [
        ({"kernel_size": 3}, (3, 1)),
        ({"kernel_size": 3, "padding": "same"}, (5, 3)),
        ({"kernel_size": (3, 1), "stride": 2, "padding": (1, 0)}, (3, 2)),
    ],
)
def test_stochastic_2d_kernel_decides_the_size_of_the_image(options, size):
    layer = StochasticLinear2D(2, 4, "Normal", **options)
    assert layer(torch.randn(7, 2, 5, 3)).event_shape == (4, *size)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
@pytest.mark.parametrize("kind", [StochasticLinear, StochasticLinear2D])
def test_stochastic_rsample_passes_gradients_to_weights_and_input(kind, name):
    layer = kind(6, 4, name)
    x = torch.randn((7, 6) if kind is StochasticLinear else (7, 6, 3, 2), requires_grad=True)
    distribution = layer(x)
    assert distribution.has_rsample
    sample = distribution.rsample()
    (sample * torch.randn_like(sample)).sum().backward()
    for tensor in (x, *layer.parameters()):
        assert tensor.grad.isfinite().all()
        assert tensor.grad.abs().max() > 0


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_stochastic_sample_has_no_gradient(name):
    assert not StochasticLinear(6, 4, name)(torch.randn(7, 6)).sample().requires_grad


@pytest.mark.parametrize("name", ["Normal", "Beta", "Categorical", "Bernoulli"])
def test_stochastic_log_prob_gradients_are_right(name):
    layer = StochasticLinear(3, 2, name).double()
    x = torch.randn(4, 3, dtype=torch.double, requires_grad=True)
    value = layer(x).sample()
    assert torch.autograd.gradcheck(lambda x: layer(x).log_prob(value), x)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_stochastic_layer_in_float64_stays_in_float64(name):
    layer = StochasticLinear(6, 4, name).double()
    distribution = layer(torch.randn(7, 6, dtype=torch.double))
    sample = distribution.rsample()
    assert sample.dtype == distribution.mean.dtype == torch.double
    assert distribution.log_prob(sample).dtype == torch.double


@pytest.mark.parametrize("name", DISTRIBUTIONS)
@pytest.mark.parametrize("kind", [StochasticLinear, StochasticLinear2D])
def test_stochastic_layer_moves_to_a_device_as_a_whole(kind, name, monkeypatch):
    # The meta device exists everywhere, but holds no values that could be validated.
    monkeypatch.setattr(Distribution, "_validate_args", False)
    layer = kind(6, 4, name).to("meta")
    shape = (7, 6) if kind is StochasticLinear else (7, 6, 3, 2)
    distribution = layer(torch.zeros(shape, device="meta"))
    assert distribution.mean.device.type == distribution.variance.device.type == "meta"


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_stochastic_layer_is_the_same_in_train_and_eval_mode(name):
    layer = StochasticLinear(6, 4, name)
    x = torch.randn(7, 6)
    trained = layer.train()(x).mean
    assert torch.equal(layer.eval()(x).mean, trained)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
@pytest.mark.parametrize("kind", [StochasticLinear, StochasticLinear2D])
def test_stochastic_state_survives_saving_under_stable_names(kind, name):
    layer, other = kind(6, 4, name), kind(6, 4, name)
    buffer = io.BytesIO()
    torch.save(layer.state_dict(), buffer)
    buffer.seek(0)
    other.load_state_dict(torch.load(buffer, weights_only=True))
    x = torch.randn((7, 6) if kind is StochasticLinear else (7, 6, 3, 2))
    assert list(layer.state_dict()) == ["projection.weight", "projection.bias"]
    assert torch.equal(layer(x).mean, other(x).mean)


def test_stochastic_layer_can_be_copied():
    layer = StochasticLinear(6, 4, "Normal", scale=0.5)
    x = torch.randn(7, 6)
    assert torch.equal(copy.deepcopy(layer)(x).mean, layer(x).mean)


@pytest.mark.parametrize("kind", [StochasticLinear, StochasticLinear2D])
def test_stochastic_layer_shows_sizes_and_distribution(kind):
    assert "6, 4, NormalFamily(validate_args=None, scale=0.5" in repr(kind(6, 4, scale=0.5))


@pytest.mark.parametrize("name", ["Normal", "Beta", "Categorical", "Bernoulli"])
@pytest.mark.parametrize("raw", [-1e4, -50.0, 50.0, 1e4])
def test_stochastic_extreme_outputs_give_finite_losses_and_gradients(name, raw):
    num_outputs = {"Normal": 4, "Beta": 4, "Categorical": 2, "Bernoulli": 2}[name]
    layer = constant_layer([raw, -raw] * (num_outputs // 2), 2, name)
    distribution = layer(torch.ones(5, 1))
    log_prob = distribution.log_prob(distribution.rsample())
    log_prob.sum().backward()
    assert log_prob.isfinite().all()
    assert layer.projection.bias.grad.isfinite().all()


@pytest.mark.parametrize("name", ["Normal", "Beta", "Categorical", "Bernoulli"])
def test_stochastic_moments_match_samples(name):
    layer = StochasticLinear(3, 2, name)
    distribution = layer(torch.randn(3))
    samples = distribution.sample((20_000,))
    torch.testing.assert_close(samples.mean(0), distribution.mean, atol=0.03, rtol=0)
    torch.testing.assert_close(samples.var(0), distribution.variance, atol=0.03, rtol=0.03)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
@pytest.mark.parametrize("kind", [StochasticLinear, StochasticLinear2D])
def test_stochastic_divergence_from_itself_is_zero_for_each_sample(kind, name):
    distribution = kind(6, 4, name)(
        torch.randn((7, 6) if kind is StochasticLinear else (7, 6, 3, 2))
    )
    torch.testing.assert_close(kl_divergence(distribution, distribution), torch.zeros(7))


@pytest.mark.parametrize("name", DISTRIBUTIONS)
@pytest.mark.parametrize("kind", [StochasticLinear, StochasticLinear2D])
def test_stochastic_distribution_can_be_expanded(kind, name):
    distribution = kind(6, 4, name)(torch.randn((6,) if kind is StochasticLinear else (6, 3, 2)))
    expanded = distribution.expand((5,))
    assert expanded.rsample().shape == (5, *distribution.event_shape)
    assert torch.equal(expanded.mean[3], distribution.mean)
    assert expanded.has_rsample


# Stochastic layers: each distribution


def test_normal_log_prob_is_that_of_its_location_and_softplus_scale():
    layer = constant_layer([1.0, 2.0, 0.0, -1.0], 2, "Normal")
    log_prob = layer(torch.ones(1, 1)).log_prob(torch.tensor([[0.5, 3.0]]))
    expected = 0.0
    for loc, raw, value in [(1.0, 0.0, 0.5), (2.0, -1.0, 3.0)]:
        scale = softplus(raw) + 1e-4
        expected -= 0.5 * ((value - loc) / scale) ** 2 + math.log(scale * math.sqrt(2 * math.pi))
    assert log_prob.item() == pytest.approx(expected, rel=1e-5)


def test_normal_with_a_fixed_scale_learns_only_the_location():
    layer = constant_layer([1.0, 2.0], 2, "Normal", scale=0.5)
    distribution = layer(torch.ones(3, 1))
    assert layer.projection.out_features == 2
    assert torch.equal(distribution.mean[0], torch.tensor([1.0, 2.0]))
    assert torch.equal(distribution.stddev, torch.full((3, 2), 0.5))


def test_normal_scale_never_falls_below_its_floor():
    layer = constant_layer([0.0, -1e6], 1, "Normal", min_scale=0.25)
    assert layer(torch.ones(1, 1)).stddev.item() == 0.25


def test_beta_log_prob_is_that_of_its_softplus_concentrations():
    layer = constant_layer([0.0, 1.0], 1, "Beta")
    alpha, beta = softplus(0.0) + 1e-2, softplus(1.0) + 1e-2
    expected = (alpha - 1) * math.log(0.3) + (beta - 1) * math.log(0.7)
    expected -= math.lgamma(alpha) + math.lgamma(beta) - math.lgamma(alpha + beta)
    log_prob = layer(torch.ones(1, 1)).log_prob(torch.tensor([[0.3]]))
    assert log_prob.item() == pytest.approx(expected, rel=1e-5)


def test_beta_concentrations_never_fall_below_their_floor():
    base = constant_layer([-1e6, -1e6], 1, "Beta", min_concentration=0.5)(
        torch.ones(1, 1)
    ).base_dist
    assert isinstance(base, Beta)
    assert base.concentration1.item() == base.concentration0.item() == 0.5


def test_bernoulli_log_prob_is_that_of_its_logits():
    layer = constant_layer([1.0, -2.0], 2, "Bernoulli")
    log_prob = layer(torch.ones(1, 1)).log_prob(torch.tensor([[1.0, 0.0]]))
    assert log_prob.item() == pytest.approx(-softplus(-1.0) - softplus(-2.0), rel=1e-5)


def test_bernoulli_rsample_is_exact_and_has_the_gradient_of_the_mean():
    layer = constant_layer([0.3, -0.2], 2, "Bernoulli")
    distribution = layer(torch.ones(1, 1))
    sample = distribution.rsample((50,))
    assert set(sample.unique().tolist()) == {0.0, 1.0}
    (gradient,) = torch.autograd.grad(
        sample.mean(0).sum(), layer.projection.bias, retain_graph=True
    )
    (expected,) = torch.autograd.grad(distribution.mean.sum(), layer.projection.bias)
    torch.testing.assert_close(gradient, expected)


def test_bernoulli_checks_the_support_unless_told_not_to():
    grey = torch.tensor([[0.25, 0.5]])
    with pytest.raises(ValueError, match="support"):
        constant_layer([0.3, -0.2], 2, "Bernoulli")(torch.ones(1, 1)).log_prob(grey)
    lenient = constant_layer([0.3, -0.2], 2, "Bernoulli", validate_args=False)
    expected = -functional.binary_cross_entropy_with_logits(
        torch.tensor([[0.3, -0.2]]), grey, reduction="sum"
    )
    torch.testing.assert_close(lenient(torch.ones(1, 1)).log_prob(grey).sum(), expected)


def test_categorical_log_prob_is_that_of_its_logits():
    layer = constant_layer([1.0, 2.0, 0.5], 3, "Categorical")
    log_prob = layer(torch.ones(1, 1)).log_prob(torch.tensor([[0.0, 0.0, 1.0]]))
    expected = 0.5 - math.log(math.exp(1.0) + math.exp(2.0) + math.exp(0.5))
    assert log_prob.item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("name", "raw", "value"),
    [("Categorical", [0.0, -200.0], [0.0, 1.0]), ("Bernoulli", [-200.0], [1.0])],
)
def test_discrete_log_prob_of_the_improbable_is_exact(name, raw, value):
    layer = constant_layer(raw, len(raw), name)
    assert layer(torch.ones(1, 1)).log_prob(torch.tensor([value])).item() == -200.0


def test_categorical_rsample_is_one_hot_and_has_the_gradient_of_the_mean():
    layer = constant_layer([0.3, -0.2, 0.1], 3, "Categorical")
    distribution = layer(torch.ones(1, 1))
    assert isinstance(distribution, OneHotCategorical)
    sample = distribution.rsample((50,))
    assert torch.equal(sample.sum(-1), torch.ones(50, 1))
    assert set(sample.unique().tolist()) == {0.0, 1.0}
    weight = torch.tensor([1.0, 2.0, 3.0])
    (gradient,) = torch.autograd.grad(
        (sample.mean(0) * weight).sum(), layer.projection.bias, retain_graph=True
    )
    (expected,) = torch.autograd.grad((distribution.mean * weight).sum(), layer.projection.bias)
    torch.testing.assert_close(gradient, expected)


def test_categorical_2d_samples_are_one_hot_along_the_channels():
    distribution = StochasticLinear2D(6, 4, "Categorical")(torch.randn(7, 6, 3, 2))
    sample = distribution.rsample()
    assert torch.equal(sample.sum(1), torch.ones(7, 3, 2))
    assert set(sample.unique().tolist()) == {0.0, 1.0}
    torch.testing.assert_close(distribution.mean.sum(1), torch.ones(7, 3, 2))
    assert repr(distribution).startswith("ChannelsFirst(Independent(OneHotCategorical")


def test_categorical_2d_value_outside_the_support_raises():
    distribution = StochasticLinear2D(6, 4, "Categorical")(torch.randn(7, 6, 3, 2))
    with pytest.raises(ValueError, match="support"):
        distribution.log_prob(torch.ones(7, 4, 3, 2))


def test_stochastic_not_finite_output_raises_by_default():
    with pytest.raises(ValueError, match="loc"):
        constant_layer([math.nan, 0.0], 1, "Normal")(torch.ones(1, 1))
    constant_layer([math.nan, 0.0], 1, "Normal", validate_args=False)(torch.ones(1, 1))


# Stochastic layers: what is refused


@pytest.mark.parametrize("kind", [StochasticLinear, StochasticLinear2D])
def test_stochastic_unknown_distribution_suggests_one(kind):
    with pytest.raises(ConfigError) as caught:
        kind(6, 4, "normal")
    assert str(caught.value) == (
        f"{kind.__name__}: no distribution 'normal'. Did you mean 'Normal'?"
        " Known: Bernoulli, Beta, Categorical, Delta, Normal."
    )


@pytest.mark.parametrize("distribution", [None, ["Normal"], Normal, 3])
def test_stochastic_distribution_that_is_no_name_raises(distribution):
    with pytest.raises(ConfigError, match="no distribution"):
        StochasticLinear(6, 4, distribution)


def test_stochastic_unknown_option_suggests_one():
    with pytest.raises(ConfigError, match=r"Normal has no option 'sclae'. Did you mean 'scale'"):
        StochasticLinear(6, 4, "Normal", sclae=0.1)
    with pytest.raises(ConfigError, match=r"Delta has no option 'scale'. Known: validate_args."):
        StochasticLinear(6, 4, "Delta", scale=0.1)


@pytest.mark.parametrize("value", [0, -1.0, math.inf, math.nan, "0.1", True])
@pytest.mark.parametrize(
    ("name", "option"),
    [("Normal", "scale"), ("Normal", "min_scale"), ("Beta", "min_concentration")],
)
def test_stochastic_option_out_of_range_raises(name, option, value):
    with pytest.raises(
        ConfigError, match=f"{name}: {option} must be a positive finite number, not"
    ):
        StochasticLinear(6, 4, name, **{option: value})


def test_stochastic_wrong_size_names_the_argument():
    with pytest.raises(ConfigError, match=r"StochasticLinear: out_features must be .* not '64'"):
        StochasticLinear(6, "64")
    with pytest.raises(ConfigError, match=r"StochasticLinear2D: in_channels must be .* not 0"):
        StochasticLinear2D(0, 4)


# Delta


def test_delta_log_prob_is_its_log_density_at_the_point_only():
    delta = Delta(torch.tensor([1.0, 2.0]), log_density=0.5)
    assert delta.log_prob(torch.tensor([1.0, 2.5])).tolist() == [0.5, -math.inf]


def test_delta_moments_are_those_of_a_point():
    loc = torch.tensor([1.0, 2.0])
    delta = Delta(loc, log_density=0.5)
    assert torch.equal(delta.mean, loc)
    assert torch.equal(delta.mode, loc)
    assert torch.equal(delta.variance, torch.zeros(2))
    assert torch.equal(delta.entropy(), torch.full((2,), -0.5))
    assert torch.equal(delta.sample((3,)), loc.expand(3, 2))


def test_delta_of_numbers_is_a_scalar():
    assert Delta(1.5).sample().item() == 1.5


def test_delta_rsample_passes_the_gradient_unchanged():
    loc = torch.randn(3, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(lambda loc: Delta(loc).rsample((2,)), loc)
    assert not Delta(loc).sample().requires_grad


def test_delta_log_density_receives_gradient():
    density = torch.zeros(2, requires_grad=True)
    Delta(torch.ones(2), density).log_prob(torch.tensor([1.0, 3.0])).exp().sum().backward()
    assert density.grad.tolist() == [1.0, 0.0]


def test_delta_sample_changed_in_place_leaves_the_distribution_alone():
    delta = Delta(torch.ones(2))
    delta.sample().add_(1)
    delta.rsample().add_(1)
    assert torch.equal(delta.mean, torch.ones(2))


def test_delta_expands_point_and_density():
    delta = Delta(torch.tensor([1.0, 2.0]), torch.tensor([0.5, 0.25]), validate_args=False)
    expanded = delta.expand((4, 2))
    assert isinstance(expanded, Delta)
    assert expanded.batch_shape == expanded.rsample().shape == (4, 2)
    assert expanded.log_prob(torch.tensor([1.0, 2.0]))[3].tolist() == [0.5, 0.25]
    assert expanded.log_prob(torch.tensor(math.nan)).shape == (4, 2)  # still not validated


def test_delta_refuses_not_a_number_unless_told_not_to():
    with pytest.raises(ValueError, match="loc"):
        Delta(torch.tensor(math.nan))
    with pytest.raises(ValueError, match="support"):
        Delta(torch.zeros(2)).log_prob(torch.tensor(math.nan))
    Delta(torch.tensor(math.nan), validate_args=False)


def test_delta_divergence_from_another_point_is_infinite():
    p, q = Delta(torch.tensor([1.0, 2.0]), 0.5), Delta(torch.tensor([1.0, 3.0]), 0.25)
    assert kl_divergence(p, q).tolist() == [0.25, math.inf]


def test_delta_divergence_from_a_density_is_its_single_term():
    loc = torch.randn(4, 3)
    prior = Independent(Normal(torch.zeros(4, 3), 1.0), 1)
    divergence = kl_divergence(Independent(Delta(loc), 1), prior)
    torch.testing.assert_close(divergence, -prior.log_prob(loc))


def test_delta_divergence_from_vectors_is_not_defined():
    with pytest.raises(NotImplementedError):
        kl_divergence(Delta(torch.zeros(2)), Independent(Normal(torch.zeros(2), 1.0), 1))


# Masked losses


def squared():
    return MaskedLoss(nn.MSELoss(reduction="none"))


def test_masked_loss_is_the_mean_of_the_kept_elements():
    prediction, target = torch.tensor([1.0, 2.0, 3.0]), torch.zeros(3)
    assert squared()(prediction, target, torch.tensor([True, False, True])).item() == 5.0


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int64, torch.float32])
def test_masked_loss_takes_masks_of_any_type(dtype):
    keep = torch.tensor([1, 0, 1], dtype=dtype)
    assert squared()(torch.tensor([1.0, 2.0, 3.0]), torch.zeros(3), keep).item() == 5.0


def test_masked_loss_with_nothing_masked_is_the_plain_mean():
    prediction, target = torch.randn(5, 3), torch.randn(5, 3)
    expected = functional.mse_loss(prediction, target)
    torch.testing.assert_close(squared()(prediction, target, torch.ones(5, 3)), expected)


def test_masked_loss_mask_covers_the_trailing_dimensions():
    prediction, target = torch.randn(4, 5, 3), torch.randn(4, 5, 3)
    keep = torch.rand(4, 5) > 0.5
    keep[0], keep[1] = True, False
    expected = functional.mse_loss(prediction[keep], target[keep])
    torch.testing.assert_close(squared()(prediction, target, keep), expected)


@pytest.mark.parametrize("poison", [math.nan, math.inf])
def test_masked_loss_masked_elements_have_zero_gradient_whatever_they_hold(poison):
    prediction = torch.tensor([1.0, poison, 3.0], requires_grad=True)
    target = torch.tensor([0.0, poison, 0.0])
    loss = squared()(prediction, target, torch.tensor([True, False, True]))
    loss.backward()
    assert loss.item() == 5.0
    assert prediction.grad.tolist() == [1.0, 0.0, 3.0]


@pytest.mark.parametrize("size", [3, 0])
def test_masked_loss_of_nothing_is_zero_with_zero_gradient(size):
    prediction = torch.randn(size, requires_grad=True)
    loss = squared()(prediction, torch.zeros(size), torch.zeros(size))
    loss.backward()
    assert loss.item() == 0.0
    assert torch.equal(prediction.grad, torch.zeros(size))


def test_masked_loss_gradients_are_right():
    prediction = torch.randn(4, 3, dtype=torch.double, requires_grad=True)
    target, keep = torch.randn(4, 3, dtype=torch.double), torch.tensor([1, 0, 1, 1])
    assert torch.autograd.gradcheck(lambda x: squared()(x, target, keep), prediction)


def test_masked_loss_wraps_a_loss_with_one_value_for_each_row():
    loss = MaskedLoss(nn.CrossEntropyLoss(reduction="none"))
    logits, target = torch.randn(4, 3), torch.tensor([0, 1, 2, -7])
    expected = functional.cross_entropy(logits[:3], target[:3])
    torch.testing.assert_close(loss(logits, target, torch.tensor([1, 1, 1, 0])), expected)


def test_masked_loss_that_averages_already_is_refused():
    with pytest.raises(
        ComponentError, match="MSELoss has reduction='mean'; it must have reduction='none'"
    ):
        MaskedLoss(nn.MSELoss())
    with pytest.raises(TrainingError, match=r"mask of shape \[3\].*shape \[\].*reduction='none'"):
        MaskedLoss(functional.mse_loss)(torch.ones(3), torch.ones(3), torch.ones(3))


def test_masked_loss_with_a_mask_of_another_shape_names_both():
    with pytest.raises(TrainingError, match=r"mask of shape \[4\] does not fit .* shape \[3, 2\]"):
        squared()(torch.ones(3, 2), torch.ones(3, 2), torch.ones(4))


@pytest.mark.parametrize("positions", [(), (5,), (5, 2)])
def test_masked_cross_entropy_is_the_mean_of_the_kept_positions(positions):
    logits = torch.randn(4, 3, *positions)
    target = torch.randint(3, (4, *positions))
    keep = torch.rand(4, *positions) > 0.4
    keep[0], keep[1] = True, False
    expected = functional.cross_entropy(logits.movedim(1, -1)[keep], target[keep])
    torch.testing.assert_close(MaskedCrossEntropy()(logits, target, keep), expected)


def test_masked_cross_entropy_ignores_what_is_masked():
    logits = torch.randn(2, 3, 4)
    logits[:, :, 2] = math.nan
    logits.requires_grad_()
    target, keep = torch.zeros(2, 4, dtype=torch.long), torch.ones(2, 4, dtype=torch.bool)
    target[:, 2], keep[:, 2] = 99, False
    loss = MaskedCrossEntropy()(logits, target, keep)
    loss.backward()
    assert loss.isfinite()
    assert torch.equal(logits.grad[:, :, 2], torch.zeros(2, 3))
    assert (logits.grad[:, :, [0, 1, 3]] != 0).all()


def test_masked_cross_entropy_of_nothing_is_zero():
    logits = torch.randn(2, 3, requires_grad=True)
    loss = MaskedCrossEntropy()(logits, torch.tensor([99, -100]), torch.zeros(2))
    loss.backward()
    assert loss.item() == 0.0
    assert torch.equal(logits.grad, torch.zeros(2, 3))
