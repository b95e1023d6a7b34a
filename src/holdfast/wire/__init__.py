"""What travels between a hub and who asks it: messages and failures, encoded here and nowhere else."""
