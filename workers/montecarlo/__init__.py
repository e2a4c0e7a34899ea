"""Monte-Carlo workers: batches of samples from a cloud's recorded history."""
