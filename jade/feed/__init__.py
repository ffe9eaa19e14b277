"""Feed training with batches, from any batch of an epoch on, whatever loader makes them."""

from jade.feed.feeds import Feed, make_feed

__all__ = ["Feed", "make_feed"]
