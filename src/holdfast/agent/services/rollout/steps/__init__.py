"""The performers of rollout steps, by noun: each is a dict {type of the step: function(progress, step)}."""
